// SPDX-License-Identifier: MIT
// How figures of divergence are printed.
#ifndef HEARTH_CLI_DIVERGENCE_OUTPUT_H
#define HEARTH_CLI_DIVERGENCE_OUTPUT_H

#include <jansson.h>

#include "cli/divergence.h"

// The result as llama-perplexity prints it, on standard output.
void hearth_divergence_print(struct hearth_divergence *d);
// The same as an object, NULL without memory: each figure an array of its value and its standard error, percentiles as
// objects of share and value. Probabilities are shares, not percent.
json_t *hearth_divergence_json(struct hearth_divergence *d);

#endif
