// SPDX-License-Identifier: MIT
// Rewriting a model in other number formats.
#ifndef HEARTH_CONVERT_QUANTIZE_H
#define HEARTH_CONVERT_QUANTIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "convert/recipe.h"

struct hearth_quantize_params {
    const struct hearth_recipe *recipe;
    int n_threads;                            // 0: one per physical core
    bool (*progress)(void *arg, float share); // called now and then, 0..1; returning false stops. May be NULL
    void *progress_arg;
};

struct hearth_quantize_result {
    uint64_t bytes_in, bytes_out;         // of tensor data
    uint64_t n_matrices[HEARTH_TYPE_END]; // by format, in the new file
    uint64_t n_fallback; // matrices whose rows do not fit the recipe's blocks: now in a finer format
    uint64_t n_kept;     // vectors, routers and number formats that cannot be decoded: copied
};

// Reads the GGUF at `in` (all parts of a split one) and writes `out`, which appears only when complete. Every
// matrix named "*.weight" is converted row by row to the format that the recipe chooses, but for expert
// routers and the like; metadata is copied and general.file_type set. Memory use is a few rows. *result may
// be NULL.
int hearth_quantize(const char *in, const char *out, const struct hearth_quantize_params *params,
                    struct hearth_quantize_result *result, struct hearth_error *err);

#endif
