// SPDX-License-Identifier: MIT
// Mixtures of experts: a router scores the experts of a layer for each token, the best few are computed, and
// their outputs are added with the router's weights.
#ifndef HEARTH_ENGINE_MOE_H
#define HEARTH_ENGINE_MOE_H

#include "engine/matmul.h"
#include "model/ffn.h"
#include "weights/source.h"

// Workspace. Each of T tokens has U = n_expert_used of X experts; a slot is one (expert, token) pair. Each
// class has slots of its own, numbered from 0: an expert's tokens are consecutive ones, in their order.
struct hearth_moe_work {
    const struct hearth_context *c;
    struct hearth_matmul_work *matmul;
    float *scores;  // [T x X]
    float *choices; // [T x X] what decides, where that is not the score
    float *
        normed; // [T x E] what routers read, where they have a norm of their own; of guesses, where experts read less
    int *ids;       // [T x U] chosen experts, ascending
    float *weights; // [T x U] theirs
    int *slots;     // [T x U] theirs
    int *owners;    // [T x U] by slot, class by class: its expert
    int *counts;    // [2 x X] by class: tokens of each expert,
    int *firsts;    // and where its slots begin
    int *next;      // [X] slot for its next token, while they are being assigned
    int *guess;     // [max(X, 8 U)] of the next layer, probably
    float *rows;    // [T x U x M] by slot, class by class: the expert's input, later its output
    float *seen;    // [slots x E] what the experts' predictors look at, where that is not their input
};

// Where a class has its part.
static inline int *hearth_moe_ids(const struct hearth_moe_work *w, struct hearth_rows rows)
{
    return w->ids + (size_t)rows.first * (size_t)w->c->hp->n_expert_used;
}
static inline int *hearth_moe_slots(const struct hearth_moe_work *w, struct hearth_rows rows)
{
    return w->slots + (size_t)rows.first * (size_t)w->c->hp->n_expert_used;
}
static inline int *hearth_moe_owners(const struct hearth_moe_work *w, struct hearth_rows rows)
{
    return w->owners + (size_t)rows.first * (size_t)w->c->hp->n_expert_used;
}
static inline int *hearth_moe_counts(const struct hearth_moe_work *w, struct hearth_rows rows)
{
    return w->counts + (size_t)rows.phase * (size_t)w->c->hp->n_expert;
}
static inline int *hearth_moe_firsts(const struct hearth_moe_work *w, struct hearth_rows rows)
{
    return w->firsts + (size_t)rows.phase * (size_t)w->c->hp->n_expert;
}
static inline float *hearth_moe_rows(const struct hearth_moe_work *w, struct hearth_rows rows)
{
    return hearth_row_of(w->rows, rows.first * w->c->hp->n_expert_used, hearth_ffn_width(w->c->hp));
}

// The caller sets c and matmul. seen: experts' predictors look at the stream, in steps.
void hearth_moe_lay_out(struct hearth_moe_work *w, int max_rows, int max_steps, bool seen,
                        struct hearth_arena *a);

// Chooses the experts of each row of a class: from h [T x E] of the batch, or from the stream x [T x E] where
// the router has a norm of its own. Fills the class's counts.
void hearth_moe_choose(struct hearth_moe_work *w, struct hearth_rows rows, int layer, const float *h,
                       const float *x);

// The experts that a layer behind this one will probably want for these rows, from x [T x E], the stream
// as it is before this layer's feed-forward part: guess[0..result), some of them more than once. Before
// the rows of this class are gathered.
int hearth_moe_guess(struct hearth_moe_work *w, struct hearth_rows rows, int behind, const float *x);

// Gives each (token, expert) pair its slot, in the order of the wants' experts (none twice): the slots of an
// expert begin behind those of the experts before it. Fills the class's firsts.
void hearth_moe_assign(struct hearth_moe_work *w, struct hearth_rows rows, const struct hearth_want *wants,
                       uint32_t n);

// Copies each of the class's rows of h [T x M] to its slots in `rows`, and of x, unless it is NULL, to those in `seen`.
void hearth_moe_gather(struct hearth_moe_work *w, struct hearth_rows rows, const float *h, const float *x);

// h [T x M] = the weighted sum of each row's slots, to which the experts' biases are added before.
void hearth_moe_combine(struct hearth_moe_work *w, struct hearth_rows rows, int layer, float *h);

#endif
