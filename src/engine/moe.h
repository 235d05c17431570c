// SPDX-License-Identifier: MIT
// Mixtures of experts: a router scores the experts of a layer for each token, the best few are computed, and
// their outputs are added with the router's weights.
#ifndef HEARTH_ENGINE_MOE_H
#define HEARTH_ENGINE_MOE_H

#include "engine/matmul.h"

// Workspace. Each of T tokens has U = n_expert_used of X experts; a slot is one (expert, token) pair. An
// expert's tokens are consecutive slots, in their order.
struct hearth_moe_work {
    const struct hearth_context *c;
    struct hearth_matmul_work *matmul;
    float *scores;  // [T x X]
    int *ids;       // [T x U] chosen experts, ascending
    float *weights; // [T x U] theirs
    int *slots;     // [T x U] theirs
    int *counts;    // [X] tokens of each expert
    int *next;      // [X] slot for its next token, while they are being assigned
    int *order;     // [X] the experts that are used, in the order of their slots
    int *guess;     // [max(X, 8 U)] of the next layer, probably
    float *rows;    // [T x U x E] by slot: the expert's input, later its output
    float *seen;    // [slots x E] what the experts' predictors look at, where that is not their input
};

// The caller sets c and matmul. seen_rows: tokens whose experts' predictors look at the stream; 0: none.
void hearth_moe_lay_out(struct hearth_moe_work *w, int max_rows, int seen_rows, struct hearth_arena *a);

// Chooses the experts of each row: h is [T x E] of the batch. Fills counts, and order with those that are
// used, ascending; returns how many they are.
int hearth_moe_choose(struct hearth_moe_work *w, struct hearth_rows rows, int layer, const float *h);

// The experts that the layer behind this one will probably want for these rows, from x [T x E], the stream
// as it is before this layer's feed-forward part: guess[0..result), some of them more than once. Before
// slots are assigned.
int hearth_moe_guess(struct hearth_moe_work *w, struct hearth_rows rows, int layer, const float *x);

// Gives each (token, expert) pair its slot, in the order of order[n_used], which may have been changed: the
// slots of an expert begin behind those of the experts before it.
void hearth_moe_assign(struct hearth_moe_work *w, struct hearth_rows rows, int n_used);

// Copies each row of h [T x E] to its slots in `rows`, and of x, unless it is NULL, to those in `seen`.
void hearth_moe_gather(struct hearth_moe_work *w, struct hearth_rows rows, const float *h, const float *x);

// h = the weighted sum of each row's slots.
void hearth_moe_combine(struct hearth_moe_work *w, struct hearth_rows rows, float *h);

#endif
