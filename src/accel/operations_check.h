// SPDX-License-Identifier: MIT
// Operations of a device beside the C reference: on random numbers, bit by bit.
#ifndef HEARTH_ACCEL_OPERATIONS_CHECK_H
#define HEARTH_ACCEL_OPERATIONS_CHECK_H

#include "accel/experts.h"

// Filled with zeros but for `a`; hearth_check_begin() makes it ready, hearth_check_end() frees what it took.
struct hearth_check {
    struct hearth_accel *a;
    struct hearth_kernels c; // the reference
    uint32_t seed;
    char differs[96]; // the first operation whose bits differ, and how; "": none
    bool no_memory;
    void *taken[32]; // of the case that is being checked
    struct hearth_accel_memory memory[24];
    int n_taken, n_memory;
};

void hearth_check_begin(struct hearth_check *c, struct hearth_accel *a, uint32_t seed);
// HEARTH_E_UNSUPPORTED where the device gave other bits or failed, HEARTH_E_MEMORY.
int hearth_check_end(struct hearth_check *c, struct hearth_error *err);

// A case each. Sizes are free but for what the formats ask.
void hearth_check_product(struct hearth_check *c, uint32_t type, size_t k, size_t n, size_t n_tokens,
                          bool is_prompt);
// Several products of the same tokens at once, [CHECK_PRODUCTS] types and numbers of rows.
#define CHECK_PRODUCTS 4
void hearth_check_products(struct hearth_check *c, const uint32_t *types, size_t k, const size_t *n,
                           size_t n_tokens, bool is_prompt);
// Tokens of different matrices, with a bias of each: tokens 0 and every third through the first of three, and so on.
void hearth_check_products_of(struct hearth_check *c, uint32_t type, size_t k, size_t n, size_t n_tokens,
                              bool is_prompt);
// What two adapters of these ranks add to a product of n rows; plain numbers.
void hearth_check_changes(struct hearth_check *c, uint32_t type, size_t k, const size_t ranks[2], size_t n,
                          size_t n_tokens, bool is_prompt);
void hearth_check_down(struct hearth_check *c, uint32_t type, size_t neurons, size_t columns, size_t cluster,
                       size_t n_tokens);
void hearth_check_rows(struct hearth_check *c, size_t n, size_t n_rows); // norms, sums, quantised activations
void hearth_check_heads(struct hearth_check *c, size_t n_heads, size_t dim,
                        size_t n_rows); // what is done with these
void hearth_check_rope(struct hearth_check *c, size_t n_heads, size_t dim, size_t n_rot, bool neox,
                       size_t n_rows);
void hearth_check_activations(struct hearth_check *c, size_t n, size_t n_rows);

struct hearth_check_attention {
    uint32_t type_k, type_v;
    size_t n_heads, n_heads_kv, dim, window, n_rows;
    int pos; // of the first row; the others follow
    bool sinks, split;
    size_t n_rot; // 0: nothing is rotated
    bool neox;
    size_t dim_v; // 0: dim
    bool chunked;
    float cap;    // 0: none
    bool bent;    // by distance
    bool in_keys; // values are beginnings of keys; dim_v is less than dim
};
void hearth_check_attend(struct hearth_check *c, const struct hearth_check_attention *x);

// experts_check.c: a router of n experts, and what comes of them.
struct hearth_check_router {
    size_t n, n_used, n_rows;
    enum hearth_accel_gating gating;
    float by, scale;
    bool bias, choice, scales, softmax_choice, normalises;
    size_t n_groups, n_groups_used;
    bool odd; // some products are equal, and some are no numbers
};
void hearth_check_router(struct hearth_check *c, const struct hearth_check_router *x);
// Lists of rows' experts, their products of weights of this type [n x k], and their sum; kind: which of its forms.
void hearth_check_experts(struct hearth_check *c, uint32_t type, size_t k, size_t n, size_t n_experts,
                          size_t n_used, size_t n_rows, bool is_prompt, int kind);

// What latent attention does beside that.
struct hearth_check_latent {
    uint32_t type; // of matrices; rank and, unless joint, `still` are whole blocks of it
    size_t n_heads, rank, still, n_rot, value, n_rows;
    bool joint, neox, is_prompt;
};
void hearth_check_latent(struct hearth_check *c, const struct hearth_check_latent *x);

#endif
