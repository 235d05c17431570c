// SPDX-License-Identifier: MIT
// Experts on a device, as the engine has them (engine/moe.c): with the bits of that. Rows lie side by side.
#ifndef HEARTH_ACCEL_EXPERTS_H
#define HEARTH_ACCEL_EXPERTS_H

#include "accel/operations.h"

// Experts of a layer, those that a token uses and groups of them, at most.
#define HEARTH_ACCEL_MOST_EXPERTS 1024
#define HEARTH_ACCEL_MOST_USED    64
#define HEARTH_ACCEL_MOST_GROUPS  256
// Ids that are counted while they are listed: more are counted before.
#define HEARTH_ACCEL_FEW_IDS 512

// What scores become weights by: kernels/experts.cl has these numbers.
enum hearth_accel_gating { HEARTH_ACCEL_OF_SOFTMAX, HEARTH_ACCEL_OF_SIGMOID, HEARTH_ACCEL_OF_NEAR };

// A layer's router, whose products [rows x n] are there: hearth_moe_choose() says what becomes of them.
struct hearth_accel_router {
    size_t n, n_used; // experts, and those that a token uses
    enum hearth_accel_gating gating;
    float by;                                                 // products are multiplied by it
    const struct hearth_accel_weight *bias, *choice, *scales; // [n] each; they may have no rows
    bool softmax_choice;
    size_t n_groups, n_groups_used; // 0: there are none
    bool normalises;                // chosen experts' weights add up to 1,
    float scale;                    // and are multiplied by it then
};
// ids and weights [rows x n_used]: each row's experts, ascending, and their weights.
void hearth_accel_choose_experts(struct hearth_accel *a, const struct hearth_accel_router *r,
                                 const struct hearth_accel_memory *products,
                                 const struct hearth_accel_memory *ids,
                                 const struct hearth_accel_memory *weights, size_t n_rows);

// Who goes through which expert. A slot is one (row, expert) pair; those of an expert are side by side, in
// the rows' order. 32 bits each.
struct hearth_accel_slots {
    struct hearth_accel_memory tiles;  // struct hearth_accel_tile, hearth_accel_most_tiles() of them
    struct hearth_accel_memory slots;  // [ids] the slot of each id
    struct hearth_accel_memory from;   // [slots] the other way round
    struct hearth_accel_memory which;  // [slots] the expert of each
    struct hearth_accel_memory counts; // [experts] where there are more than HEARTH_ACCEL_FEW_IDS
};
// As many tiles as n_ids ids of n experts need, at most.
size_t hearth_accel_most_tiles(bool is_prompt, size_t n, size_t n_ids);
// Makes the lists of n_ids ids. Tiles that are not needed are empty.
void hearth_accel_list_experts(struct hearth_accel *a, bool is_prompt, const struct hearth_accel_slots *s,
                               const struct hearth_accel_memory *ids, size_t n, size_t n_ids);

// Rows of k numbers of x to their slots: acts, and plain numbers unless that is NULL. weights [ids]: rows are
// multiplied by them; NULL: they are not.
void hearth_accel_gather(struct hearth_accel *a, const struct hearth_accel_slots *s,
                         const struct hearth_accel_memory *acts, const struct hearth_accel_memory *plain,
                         const struct hearth_accel_memory *x, const struct hearth_accel_memory *weights,
                         size_t n_used, size_t k, size_t n_slots);

// x [slots x n] times by[the slot's expert]
void hearth_accel_scale_experts(struct hearth_accel *a, const struct hearth_accel_slots *s,
                                const struct hearth_accel_memory *x, const struct hearth_accel_memory *by,
                                size_t n, size_t n_slots);

// What experts give, and what comes to it.
struct hearth_accel_experts_sum {
    const struct hearth_accel_memory *outputs;         // [slots x n]
    const struct hearth_accel_memory *ids;             // [rows x n_used]
    const struct hearth_accel_memory *weights;         // the same; NULL: inputs had them
    const struct hearth_accel_weight *bias;            // of n, a row for each expert; it may have no rows
    const struct hearth_accel_memory *shared;          // [rows x n] what all tokens use, or NULL;
    const struct hearth_accel_memory *shared_products; // [rows] times the sigmoid of these, or NULL
    float scale;                                       // of all
    size_t n, n_used;
};
// out = the sum, or out += the sum
void hearth_accel_sum_experts(struct hearth_accel *a, const struct hearth_accel_slots *s,
                              const struct hearth_accel_memory *out, const struct hearth_accel_experts_sum *x,
                              bool adds, size_t n_rows);

#endif
