// SPDX-License-Identifier: MIT
// From the command line's sampling options to the library's parameters.
#ifndef HEARTH_CLI_SAMPLING_H
#define HEARTH_CLI_SAMPLING_H

#include "cli/options.h"
#include "hearth.h"

// What the parameters point to; freed by hearth_cli_sampling_free() once the samplers are open.
struct hearth_sampling {
    struct hearth_sampler_params params;
    struct hearth_logit_bias *biases;
    char samplers[512]; // names, where letters were given
};

// Fills *s; --ignore-eos becomes a bias against every token that ends a text. Returns an exit status, having
// printed any error.
int hearth_cli_sampling(struct hearth_sampling *s, const struct hearth_options *o,
                        const struct hearth_model *model, int n_ctx);
void hearth_cli_sampling_free(struct hearth_sampling *s);

#endif
