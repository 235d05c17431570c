// SPDX-License-Identifier: MIT
// Rewrites a model in other number formats.
#ifndef HEARTH_CONVERT_QUANTIZE_H
#define HEARTH_CONVERT_QUANTIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "convert/recipe.h"

struct hearth_quantize_params {
    const struct hearth_recipe *recipe;
    bool pure;                               // all matrices in the recipe's format
    const struct hearth_recipe_wish *wishes; // other formats, by name
    size_t n_wishes;
    int n_threads;                            // 0: one per physical core
    bool (*progress)(void *arg, float share); // called now and then with 0..1; false stops. May be NULL
    void *progress_arg;
};

// A matrix whose rows do not fit the recipe's blocks.
struct hearth_fallback {
    char name[64];
    uint32_t type, wanted; // the format that it got, and the recipe's
    uint64_t n;            // elements of a row
};

struct hearth_quantize_result {
    uint64_t bytes_in, bytes_out;         // bytes of tensor data
    uint64_t n_matrices[HEARTH_TYPE_END]; // matrices by format, in the new file
    uint64_t n_fallback; // matrices whose rows do not fit the recipe's blocks; they got a finer format
    struct hearth_fallback fallback; // the first of them
    uint64_t n_again;                // matrices that were quantised already
    uint64_t n_changed;              // matrices that got another format
    uint64_t n_kept;                 // tensors copied: vectors, routers, and formats that cannot be decoded
};

// Reads the GGUF at `in` (all shards of a split model) and writes `out`, which appears only when complete.
// Converts every matrix named "*.weight" row by row to the format that the recipe chooses, except expert
// routers and the like. Copies metadata and sets general.file_type. Memory use is a few rows. *result may be
// NULL. Errors name the file. HEARTH_E_UNSUPPORTED: a matrix is in a format that cannot be decoded;
// HEARTH_E_INVALID: a wish fits no matrix.
int hearth_quantize(const char *in, const char *out, const struct hearth_quantize_params *params,
                    struct hearth_quantize_result *result, struct hearth_error *err);

// Counts a matrix whose rows, of n elements, do not fit the recipe's blocks.
void hearth_count_fallback(struct hearth_quantize_result *result, const char *name, uint64_t n,
                           const struct hearth_recipe_choice *choice);

#endif
