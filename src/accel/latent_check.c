// SPDX-License-Identifier: MIT
// Latent attention's operations beside the C reference, which is that of engine/latent.c.
#include "accel/check_case.h"
#include "accel/latent.h"

// A head's product of k numbers with its n rows of the matrix.
static void multiply_head(struct hearth_check *c, const struct hearth_check_latent *x, const uint8_t *rows,
                          size_t k, size_t n, const float *from, float *to, uint8_t *acts, void *scratch)
{
    const bool block = hearth_type_info(x->type)->unit_elems != 0;
    if (block)
        c->c.quantize_acts(acts, from, k);
    (x->is_prompt ? c->c.prompt : c->c.step)[x->type](to, n, rows, hearth_type_bytes(x->type, k), k, n,
                                                      block ? (const void *)acts : from, 0, 1, scratch);
}

// Its rows of keys' shares, each times one of as many numbers.
static void sum_head(struct hearth_check *c, const struct hearth_check_latent *x, const uint8_t *rows,
                     const float *from, float *to, void *scratch)
{
    const size_t row = hearth_type_bytes(x->type, x->rank);
    memset(to, 0, x->rank * sizeof *to);
    if (x->is_prompt)
        c->c.prompt_t[x->type](to, x->rank, rows, row, 0, x->rank, x->still, from, x->still, 1, scratch);
    else
        c->c.axpy[x->type](to, rows, row, x->rank, x->still, from);
}

void hearth_check_latent(struct hearth_check *c, const struct hearth_check_latent *x)
{
    begin_case(c);
    const struct hearth_accel_latent l = {x->n_heads, x->rank, x->still, x->n_rot, x->value, x->joint, 1e-5f};
    const size_t n = x->n_rows, heads = x->n_heads, f32 = sizeof(float), dim = x->rank + x->n_rot,
                 width = x->still + x->n_rot, rows = x->joint ? x->still + x->value : x->value,
                 inside = x->rank > x->still ? x->rank : x->still, row = hearth_type_bytes(x->type, x->rank),
                 row_turned = hearth_type_bytes(x->type, x->still),
                 n_tiles = hearth_accel_latent_tiles(NULL, x->is_prompt, heads, n);
    uint8_t *shares = random_rows(c, x->type, x->rank, heads * rows),
            *turned = x->joint ? NULL : random_rows(c, x->type, x->still, heads * x->rank);
    float *k = numbers(c, n * dim), *q = numbers(c, n * heads * width), *norm = numbers(c, x->rank),
          *turns = numbers(c, n * x->n_rot), *right = take(c, n * heads * dim * f32),
          *given = numbers(c, n * heads * x->rank), *values = take(c, n * heads * x->value * f32);
    uint8_t *acts = take(c, hearth_acts_bytes(inside) + 64);
    void *scratch = take(c, hearth_kernels_scratch(&c->c, inside));
    struct hearth_accel_tile *tiles = take(c, n_tiles * sizeof *tiles);
    if (c->no_memory || !shares || (!x->joint && !turned))
        return;
    hearth_accel_latent_tiles(tiles, x->is_prompt, heads, n);
    q[0] = q[heads * width - 1] = 0.0f;
    const struct hearth_accel_memory *k_there = place(c, k, n * dim * f32),
                                     *q_there = place(c, q, n * heads * width * f32),
                                     *turns_there = place(c, turns, n * x->n_rot * f32),
                                     *given_there = place(c, given, n * heads * x->rank * f32),
                                     *out = place(c, NULL, n * heads * dim * f32),
                                     *out_values = place(c, NULL, n * heads * x->value * f32);
    const struct hearth_accel_weight norm_there = vector_of(c, norm, x->rank);
    for (size_t r = 0; r < n; r++) {
        float *key = k + r * dim, *query = q + r * heads * width;
        c->c.rms_norm(key, key, norm, x->rank, 1e-5f);
        c->c.rope(key + x->rank, turns + r * x->n_rot, 1, x->n_rot, x->n_rot, x->neox);
        c->c.rope(query + x->still, turns + r * x->n_rot, heads, width, x->n_rot, x->neox);
        for (size_t h = 0; h < heads; h++) {
            const uint8_t *own = shares + h * rows * row;
            float *to = right + (r * heads + h) * dim;
            if (x->joint)
                sum_head(c, x, own, query + h * width, to, scratch);
            else
                multiply_head(c, x, turned + h * x->rank * row_turned, x->still, x->rank, query + h * width,
                              to, acts, scratch);
            memcpy(to + x->rank, query + h * width + x->still, x->n_rot * f32);
            multiply_head(c, x, own + (x->joint ? x->still * row : 0), x->rank, x->value,
                          given + (r * heads + h) * x->rank, values + (r * heads + h) * x->value, acts,
                          scratch);
        }
    }
    struct hearth_accel_weight w = {0}, w_turned = {0};
    struct hearth_error err;
    if (hearth_accel_weight_open(c->a, &w, x->type, x->rank, heads * rows, shares, row, &err) ||
        (!x->joint && hearth_accel_weight_open(c->a, &w_turned, x->type, x->still, heads * x->rank, turned,
                                               row_turned, &err)))
        c->no_memory = true;
    const struct hearth_accel_latent_work work = {
        place(c, NULL, n * heads * inside * f32), place(c, NULL, n * heads * hearth_acts_bytes(inside)),
        place(c, NULL, n * heads * hearth_accel_latent_by_head(&l) * f32),
        place(c, tiles, n_tiles * sizeof *tiles), n_tiles};
    hearth_accel_latent_place(c->a, &l, k_there, q_there, &norm_there,
                              (struct hearth_accel_rotation){turns_there, x->n_rot, x->neox}, n);
    compare(c, "latent vectors", k_there, k, n * dim);
    compare(c, "queries of latent attention", q_there, q, n * heads * width);
    hearth_accel_latent_queries(c->a, x->is_prompt, &l, out, q_there, x->joint ? &w : &w_turned, &work, n);
    compare(c, label(c, "queries for latent vectors", x->type), out, right, n * heads * dim);
    hearth_accel_latent_values(c->a, x->is_prompt, &l, out_values, given_there, &w, &work, n);
    compare(c, label(c, "values of latent attention", x->type), out_values, values, n * heads * x->value);
    hearth_accel_weight_close(c->a, &w);
    hearth_accel_weight_close(c->a, &w_turned);
}
