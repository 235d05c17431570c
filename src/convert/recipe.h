// SPDX-License-Identifier: MIT
// A recipe gives each tensor of a model its number format. `hearth quantize` takes recipes by name.
//
// A plain recipe (Q8_0, Q4_K, ...) gives every matrix the same format. A mixed one (Q4_K_M,
// Q5_K_M) spends more bits where they matter most, tensor by tensor as in llama.cpp: the files of
// both programs have the same types.
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

// The choice for one tensor.
struct hearth_recipe_choice {
    uint32_t type;
    bool kept;     // copied as it is: a vector, a router, or a format that cannot be decoded
    bool fallback; // its rows do not fit the blocks of the recipe's format
};

// The recipe of a name, case-insensitive; NULL: none. Static storage.
const struct hearth_recipe *hearth_recipe_by_name(const char *name);
// Recipe i; NULL after the last.
const struct hearth_recipe *hearth_recipe_at(size_t i);

// Fills choices[number of tensors of g], in the model's order of tensors. HEARTH_E_MEMORY, or
// HEARTH_E_FORMAT: a key of the model that counts layers, heads or experts is not a number.
int hearth_recipe_choose(const struct hearth_recipe *recipe, const struct hearth_gguf *g,
                         struct hearth_recipe_choice *choices, struct hearth_error *err);

#endif
