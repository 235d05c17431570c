// SPDX-License-Identifier: MIT
// Latent attention's operations as kernels: a head's product is one of several matrices, as an expert's is.
#include "accel/latent.h"

#include "accel/run.h"
#include "accel/weight.h"

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t hearth_accel_latent_by_head(const struct hearth_accel_latent *l)
{
    return larger(l->rank, l->joint ? l->still + l->value : l->value);
}

size_t hearth_accel_latent_tiles(struct hearth_accel_tile *tiles, bool is_prompt, size_t n_heads,
                                 size_t n_rows)
{
    const size_t most = is_prompt ? HEARTH_ACCEL_PROMPT_TILE : HEARTH_ACCEL_STEP_TILE;
    size_t n = 0;
    for (size_t head = 0; head < n_heads; head++)
        for (size_t at = 0; at < n_rows; at += most, n++)
            if (tiles)
                tiles[n] = (struct hearth_accel_tile){(int32_t)(head * n_rows + at),
                                                      (int32_t)(n_rows - at < most ? n_rows - at : most),
                                                      (int32_t)head};
    return n;
}

void hearth_accel_latent_place(struct hearth_accel *a, const struct hearth_accel_latent *l,
                               const struct hearth_accel_memory *k, const struct hearth_accel_memory *q,
                               const struct hearth_accel_weight *norm, struct hearth_accel_rotation rotation,
                               size_t n_rows)
{
    const bool rotates = rotation.cos_sin != NULL;
    RUN(a, HEARTH_ACCEL_place_latent, l->n_heads + 1, n_rows, 1, M(k), M(q), M(&norm->q), I(l->rank),
        F(l->eps), M(rotates ? rotation.cos_sin : &none), I(l->n_heads), I(l->still), I(l->n_rot),
        I(rotation.neox), I(rotates));
}

// Each head's product of n of the `width` elements that x has of it with its own `n_out` rows, to work->by_head.
static void multiply(struct hearth_accel *a, bool is_prompt, const struct hearth_accel_latent *l,
                     const struct hearth_accel_memory *x, size_t n, size_t width,
                     const struct hearth_accel_weight *w, size_t n_out,
                     const struct hearth_accel_latent_work *work, size_t n_rows)
{
    const bool blocks = hearth_accel_form_of(w->type).bits != 0;
    const size_t padded = hearth_acts_padded(n);
    RUN(a, HEARTH_ACCEL_gather_heads, groups(padded / FEW, GROUP), l->n_heads, n_rows,
        M(blocks ? &none : work->plain), M(blocks ? work->acts : &none), M(x), I(n), I(width), I(l->n_heads),
        I(n_rows), I(padded), I(hearth_acts_bytes(n)), I(blocks));
    hearth_accel_products_of(a, is_prompt, work->by_head, w, n_out,
                             (struct hearth_accel_input){work->plain, work->acts}, work->tiles,
                             work->n_tiles);
}

void hearth_accel_latent_queries(struct hearth_accel *a, bool is_prompt, const struct hearth_accel_latent *l,
                                 const struct hearth_accel_memory *out, const struct hearth_accel_memory *q,
                                 const struct hearth_accel_weight *w,
                                 const struct hearth_accel_latent_work *work, size_t n_rows)
{
    const size_t width = l->still + l->n_rot;
    const struct hearth_accel_form f = hearth_accel_form_of(w->type);
    if (l->joint)
        RUN(a, HEARTH_ACCEL_sum_rows_of_heads, groups(w->k, GROUP), l->n_heads, n_rows, M(work->by_head),
            M(q), I(width), M(&w->q), M(&w->scales), M(&w->minima), I(f.bits), I(f.unit), I(f.scales_half),
            I(f.has_min), I(f.base), I(f.plain), I(w->k), I(l->still + l->value), I(l->still), I(l->n_heads),
            I(n_rows), I(is_prompt));
    else
        multiply(a, is_prompt, l, q, l->still, width, w, l->rank, work, n_rows);
    RUN(a, HEARTH_ACCEL_spread_heads, groups(l->rank + l->n_rot, GROUP), l->n_heads, n_rows, M(out),
        M(work->by_head), I(l->rank), I(l->rank), I(0), M(q), I(l->n_rot), I(width), I(l->n_heads),
        I(n_rows));
}

void hearth_accel_latent_values(struct hearth_accel *a, bool is_prompt, const struct hearth_accel_latent *l,
                                const struct hearth_accel_memory *out, const struct hearth_accel_memory *x,
                                const struct hearth_accel_weight *w,
                                const struct hearth_accel_latent_work *work, size_t n_rows)
{
    const size_t from = l->joint ? l->still : 0, width = from + l->value;
    multiply(a, is_prompt, l, x, l->rank, l->rank, w, width, work, n_rows);
    RUN(a, HEARTH_ACCEL_spread_heads, groups(l->value, GROUP), l->n_heads, n_rows, M(out), M(work->by_head),
        I(l->value), I(width), I(from), M(&none), I(0), I(1), I(l->n_heads), I(n_rows));
}
