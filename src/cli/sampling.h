// SPDX-License-Identifier: MIT
// Turns the command line's sampling options into the library's parameters.
#ifndef HEARTH_CLI_SAMPLING_H
#define HEARTH_CLI_SAMPLING_H

#include "cli/options.h"
#include "hearth.h"

// The parameters and the arrays they point to. Call hearth_cli_sampling_free() once the samplers are open.
struct hearth_sampling {
    struct hearth_sampler_params params;
    struct hearth_logit_bias *biases;
    char samplers[512]; // names of the samplers, if letters were given
};

// Fills *s. --ignore-eos becomes a bias against every token that ends a text. Prints any error
// and returns an exit status.
int hearth_cli_sampling(struct hearth_sampling *s, const struct hearth_options *o,
                        const struct hearth_model *model, int n_ctx);
// Checks the names of samplers and the form of biases, which needs no model. Prints any error and returns an
// exit status.
int hearth_cli_check_sampling(const struct hearth_options *o);
void hearth_cli_sampling_free(struct hearth_sampling *s);

#endif
