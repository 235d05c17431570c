// SPDX-License-Identifier: MIT
// Experts as kernels: arguments and numbers of groups.
#include "accel/experts.h"

#include "accel/run.h"

// A vector that may have no rows.
static const struct hearth_accel_memory *vector_of(const struct hearth_accel_weight *w)
{
    return w->n ? &w->q : &none;
}

void hearth_accel_choose_experts(struct hearth_accel *a, const struct hearth_accel_router *r,
                                 const struct hearth_accel_memory *products,
                                 const struct hearth_accel_memory *ids,
                                 const struct hearth_accel_memory *weights, size_t n_rows)
{
    RUN(a, HEARTH_ACCEL_choose_experts, n_rows, 1, 1, M(products), I(r->n), I(r->n_used), I(r->gating),
        F(r->by), M(vector_of(r->bias)), I(r->bias->n != 0), M(vector_of(r->choice)), I(r->choice->n != 0),
        I(r->softmax_choice), I(r->n_groups), I(r->n_groups_used), I(r->normalises), F(r->scale),
        M(vector_of(r->scales)), I(r->scales->n != 0), M(ids), M(weights));
}

static size_t tile_of(bool is_prompt)
{
    return is_prompt ? HEARTH_ACCEL_PROMPT_TILE : HEARTH_ACCEL_STEP_TILE;
}

size_t hearth_accel_most_tiles(bool is_prompt, size_t n, size_t n_ids)
{
    const size_t tile = tile_of(is_prompt), used = n < n_ids ? n : n_ids;
    return (n_ids + used * (tile - 1)) / tile;
}

void hearth_accel_list_experts(struct hearth_accel *a, bool is_prompt, const struct hearth_accel_slots *s,
                               const struct hearth_accel_memory *ids, size_t n, size_t n_ids)
{
    const bool counts = n_ids > HEARTH_ACCEL_FEW_IDS;
    if (counts)
        RUN(a, HEARTH_ACCEL_count_experts, n, 1, 1, M(ids), I(n_ids), M(&s->counts));
    RUN(a, HEARTH_ACCEL_list_experts, n, 1, 1, M(ids), I(n_ids), I(n), M(counts ? &s->counts : &none),
        I(counts), I(tile_of(is_prompt)), M(&s->tiles), I(hearth_accel_most_tiles(is_prompt, n, n_ids)),
        M(&s->slots), M(&s->from), M(&s->which));
}

void hearth_accel_gather(struct hearth_accel *a, const struct hearth_accel_slots *s,
                         const struct hearth_accel_memory *acts, const struct hearth_accel_memory *plain,
                         const struct hearth_accel_memory *x, const struct hearth_accel_memory *weights,
                         size_t n_used, size_t k, size_t n_slots)
{
    const size_t padded = hearth_acts_padded(k);
    RUN(a, HEARTH_ACCEL_gather_rows, groups(padded / FEW, GROUP), n_slots, 1, M(acts),
        M(plain ? plain : &none), M(x), M(&s->from), M(weights ? weights : &none), I(n_used), I(k), I(padded),
        I(hearth_acts_bytes(k)), I(plain != NULL), I(weights != NULL));
}

void hearth_accel_scale_experts(struct hearth_accel *a, const struct hearth_accel_slots *s,
                                const struct hearth_accel_memory *x, const struct hearth_accel_memory *by,
                                size_t n, size_t n_slots)
{
    RUN(a, HEARTH_ACCEL_scale_which, groups(n, GROUP), n_slots, 1, M(x), I(n), M(by), M(&s->which));
}

void hearth_accel_sum_experts(struct hearth_accel *a, const struct hearth_accel_slots *s,
                              const struct hearth_accel_memory *out, const struct hearth_accel_experts_sum *x,
                              bool adds, size_t n_rows)
{
    const int shared_kind = !x->shared ? 0 : x->shared_products ? 2 : 1;
    RUN(a, HEARTH_ACCEL_sum_experts, groups(x->n, GROUP), n_rows, 1, M(out), M(x->outputs), I(x->n),
        I(x->n_used), M(&s->slots), M(x->ids), M(x->weights ? x->weights : &none), I(x->weights != NULL),
        M(vector_of(x->bias)), I(x->bias->n != 0), M(x->shared ? x->shared : &none),
        M(x->shared_products ? x->shared_products : &none), I(shared_kind), F(x->scale), I(adds));
}
