// SPDX-License-Identifier: MIT
// What the names that `hearth quantize` takes stand for: which number format each tensor of a model gets.
//
// A plain recipe (Q8_0, Q4_K, ...) gives every matrix one format. A mixed one (Q4_K_M, Q5_K_M) spends more
// bits where they matter most, tensor by tensor as llama.cpp does: the files of both programs have the same
// types.
#ifndef HEARTH_CONVERT_RECIPE_H
#define HEARTH_CONVERT_RECIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gguf/gguf.h"

struct hearth_recipe {
    const char *name;
    uint32_t type; // enum hearth_type of most matrices
    int file_type; // general.file_type, numbered as in GGUF files
    bool mixed;
};

// What is chosen for one tensor.
struct hearth_recipe_choice {
    uint32_t type;
    bool kept;     // a vector, a router, a format that cannot be decoded: as it is in the model
    bool fallback; // its rows do not fit the blocks of the format that it should have had
};

// By name, case-insensitive; NULL when there is none.
const struct hearth_recipe *hearth_recipe_by_name(const char *name);
// The i-th of all; NULL beyond the last.
const struct hearth_recipe *hearth_recipe_at(size_t i);

// Fills choices[number of tensors of g], in the model's order of tensors. Errors: no memory; a key of the
// model that counts layers, heads or experts has a type that is no number.
int hearth_recipe_choose(const struct hearth_recipe *recipe, const struct hearth_gguf *g,
                         struct hearth_recipe_choice *choices, struct hearth_error *err);

#endif
