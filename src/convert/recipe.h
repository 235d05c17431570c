// SPDX-License-Identifier: MIT
// A recipe gives each tensor of a model its number format. `hearth quantize` takes recipes by name.
//
// The recipes are those of llama.cpp's quantiser, without an importance matrix: they spend more bits where
// they matter most, and the files of both programs have the same types, tensor by tensor. Pure, a recipe
// gives all matrices one format.
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
    bool mixed;    // formats of blocks: the head at least may get another one
};

// The choice for one tensor.
struct hearth_recipe_choice {
    uint32_t type, wanted; // wanted: what the recipe says
    bool kept; // copied as it is: a vector, a router, a trained predictor, or a format that cannot be decoded
    bool unreadable; // it is a matrix, and kept because its format cannot be decoded
    bool fallback;   // its rows do not fit the blocks of the recipe's format
};

// A format for the matrix of this name (".weight" may be left out), or where there is none, for those that have this
// in their names.
struct hearth_recipe_wish {
    const char *part; // "attn_v", not zero-terminated
    size_t n;         // bytes of it
    uint32_t type;    // enum hearth_type; one that can be encoded
};

// The recipe of a name, case-insensitive, or of an alias (Q4_K: Q4_K_M); NULL: none. Static storage.
const struct hearth_recipe *hearth_recipe_by_name(const char *name);
// Recipe i; NULL after the last.
const struct hearth_recipe *hearth_recipe_at(size_t i);

// What a recipe needs to know about a model.
struct hearth_recipe_model {
    struct hearth_str arch;
    int64_t n_layers, n_experts, n_heads, n_kv_heads;
    const struct hearth_gguf_tensor *tensors; // names, shapes, and the types that they have now
    uint64_t n_tensors;
};

// Fills choices[m->n_tensors], in the model's order of tensors. HEARTH_E_MEMORY.
int hearth_recipe_choose_for(const struct hearth_recipe *recipe, bool pure,
                             const struct hearth_recipe_model *m, struct hearth_recipe_choice *choices,
                             struct hearth_error *err);
// The same for a model in a file. HEARTH_E_FORMAT: a key of the model that counts layers, heads or experts is
// not a number; HEARTH_E_UNSUPPORTED: it differs by layer.
int hearth_recipe_choose(const struct hearth_recipe *recipe, bool pure, const struct hearth_gguf *g,
                         struct hearth_recipe_choice *choices, struct hearth_error *err);

// Changes what was chosen for the tensors of a model to what is wished: of several wishes that fit a name the first
// counts. What is kept stays so. HEARTH_E_INVALID: a wish fits no matrix.
int hearth_recipe_grant(const struct hearth_recipe_wish *wishes, size_t n_wishes, const struct hearth_gguf *g,
                        struct hearth_recipe_choice *choices, struct hearth_error *err);

#endif
