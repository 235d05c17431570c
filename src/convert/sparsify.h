// SPDX-License-Identifier: MIT
// Makes a model with SiLU or GELU one whose neurons are mostly off, without training: docs/sparse.md.
#ifndef HEARTH_CONVERT_SPARSIFY_H
#define HEARTH_CONVERT_SPARSIFY_H

#include "hearth.h"

struct hearth_sparsify_params {
    double density;                           // share of neurons that a token is to use, 0..1
    int n_ctx;                                // tokens of a window of text; 0: 512
    int n_samples;                            // tokens of the text that are looked at, at most; 0: 4096
    int n_threads, n_ubatch;                  // 0: one per physical core; 512
    bool (*progress)(void *arg, float share); // 0..1; false stops. May be NULL
    void *progress_arg;
};

// Of fewer tokens nothing can be learned.
#define HEARTH_SPARSIFY_LEAST_TOKENS 512

// Takes the text through the model, layer by layer, as hearth_profile() does, and writes the model in its sparse form
// to the file `out`: gates and ups are scaled, and written as they were where that is F32, F16 or BF16, else as Q8_0;
// ffn_gate.bias and ffn_linear (Q8_0, or F16 where the width is no multiple of 32) are new; the rest is copied.
// The same call gives the same bytes, whatever the number of threads and the CPU. HEARTH_E_INVALID: a density or a
// text that will not do, a pack, a model of the ReLU family; HEARTH_E_UNSUPPORTED: experts, another activation than SiLU or GELU,
// an architecture that has no place for the new tensors; others of files and sessions.
int hearth_sparsify(const struct hearth_model *model, const hearth_token *tokens, size_t n_tokens,
                    const struct hearth_sparsify_params *params, const char *out, struct hearth_error *err);

#endif
