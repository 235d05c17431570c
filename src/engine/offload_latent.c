// SPDX-License-Identifier: MIT
// A layer's latent attention on a device. Its heads' products are those of as many matrices side by side.
#include "engine/offload_latent.h"

#include <stdlib.h>

#include "accel/latent.h"
#include "engine/heads.h"
#include "engine/latent.h"
#include "engine/offload.h"

#define W(l, role) HEARTH_OFFLOAD_WEIGHT(l, role)

static struct hearth_accel_latent shape_of(const struct hearth_hparams *hp)
{
    return (struct hearth_accel_latent){.n_heads = (size_t)hp->n_head,
                                        .rank = (size_t)hp->latent.rank,
                                        .still = (size_t)hp->latent.still,
                                        .n_rot = (size_t)hp->n_rot,
                                        .value = (size_t)hp->latent.value,
                                        .joint = hp->latent.joint,
                                        .eps = hp->latent.eps};
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// ---- workspace

void hearth_offload_latent_rows_buffers(struct hearth_offload *o, struct hearth_offload_rows *rows,
                                        uint64_t n, hearth_offload_buffer_fn fn, void *arg)
{
    const struct hearth_accel_latent l = shape_of(&o->s->model->hp);
    const uint64_t tiles =
        l.rank ? hearth_accel_latent_tiles(NULL, rows->is_prompt, l.n_heads, (size_t)n) : 0;
    fn(arg, &rows->tiles, tiles * sizeof(struct hearth_accel_tile));
}

void hearth_offload_latent_buffers(struct hearth_offload *o, uint64_t n, hearth_offload_buffer_fn fn,
                                   void *arg)
{
    const struct hearth_hparams *hp = &o->s->model->hp;
    const struct hearth_accel_latent l = shape_of(hp);
    const uint64_t row = n * l.n_heads * sizeof(float);
    fn(arg, &o->latent_low, n * (uint64_t)hp->latent.q_rank * sizeof(float));
    fn(arg, &o->latent_heads, l.rank ? row * larger(l.still + l.n_rot, l.value) : 0);
    fn(arg, &o->latent_by_head, l.rank ? row * hearth_accel_latent_by_head(&l) : 0);
}

uint64_t hearth_offload_latent_widest(const struct hearth_hparams *hp)
{
    return hp->latent.rank ? (uint64_t)hearth_latent_widest(hp) : 0;
}

uint64_t hearth_offload_latent_inside(const struct hearth_hparams *hp)
{
    return hp->latent.rank ? larger((uint64_t)hp->latent.still, (uint64_t)hp->latent.rank) : 0;
}

// ---- a layer

void hearth_offload_latent_begin(struct hearth_offload *o, struct hearth_offload_rows *rows)
{
    const struct hearth_accel_latent l = shape_of(o->s->context.hp);
    if (!l.rank || rows->tiled == rows->n)
        return;
    rows->n_tiles = hearth_accel_latent_tiles(o->latent_tiles, rows->is_prompt, l.n_heads, (size_t)rows->n);
    hearth_accel_write(o->a, &rows->tiles, 0, o->latent_tiles, rows->n_tiles * sizeof *o->latent_tiles);
    rows->tiled = rows->n;
}

static struct hearth_accel_latent_work work_of(const struct hearth_offload *o,
                                               const struct hearth_offload_rows *rows,
                                               const struct hearth_accel_memory *plain)
{
    return (struct hearth_accel_latent_work){.plain = plain,
                                             .acts = &o->q_acts,
                                             .by_head = &o->latent_by_head,
                                             .tiles = &rows->tiles,
                                             .n_tiles = rows->n_tiles};
}

// What adapters add to the product of x with w.
static void add_changes(struct hearth_offload *o, const struct hearth_offload_rows *rows,
                        const struct hearth_accel_memory *out, const struct hearth_accel_weight *w,
                        const struct hearth_accel_memory *x)
{
    hearth_accel_add_changes(o->a, rows->is_prompt, out, w, x, (size_t)rows->n, &o->low, &o->high);
}

// The products of the layer's input, and queries of what these have as the first of two steps.
static void multiply(struct hearth_offload *o, const struct hearth_offload_rows *rows,
                     const struct hearth_offload_layer *l)
{
    const bool low = W(l, attn_q_a)->n != 0;
    const size_t n = (size_t)rows->n;
    struct hearth_accel_output out[3] = {
        {&o->k, W(l, attn_kv_a)},
        {low ? &o->latent_low : &o->latent_heads, low ? W(l, attn_q_a) : W(l, attn_q)}};
    int n_out = 2;
    if (W(l, attn_gate)->n)
        out[n_out++] = (struct hearth_accel_output){&rows->gate, W(l, attn_gate)};
    hearth_accel_products(o->a, rows->is_prompt, out, n_out, (struct hearth_accel_input){&o->h, &o->acts}, n);
    for (int i = 0; i < n_out; i++)
        add_changes(o, rows, out[i].out, out[i].w, &o->h);
    if (!low)
        return;
    hearth_accel_norm_quantize(o->a, &o->latent_low, &o->acts, &o->latent_low, W(l, attn_q_a_norm), NULL,
                               false, o->s->context.hp->latent.eps, n);
    hearth_accel_product(o->a, rows->is_prompt, &o->latent_heads, W(l, attn_q_up),
                         (struct hearth_accel_input){&o->latent_low, &o->acts}, n, NULL);
    add_changes(o, rows, &o->latent_heads, W(l, attn_q_up), &o->latent_low);
}

void hearth_offload_latent_project(struct hearth_offload *o, struct hearth_offload_rows *rows,
                                   const struct hearth_offload_layer *l, int layer,
                                   const struct hearth_accel_rotation *rotation)
{
    const struct hearth_hparams *hp = o->s->context.hp;
    const struct hearth_accel_latent shape = shape_of(hp);
    const struct hearth_accel_latent_work work = work_of(o, rows, &o->out);
    const size_t n = (size_t)rows->n;
    multiply(o, rows, l);
    hearth_accel_latent_place(o->a, &shape, &o->k, &o->latent_heads, W(l, attn_kv_a_norm), *rotation, n);
    if (hearth_heads_do_grow(hp, layer))
        hearth_accel_scale_rows(o->a, &o->latent_heads, &rows->growth,
                                shape.n_heads * (shape.still + shape.n_rot), n);
    hearth_accel_store(o->a, &l->cache, &rows->copy, rows->copy_at, &rows->q, &o->k, &o->k,
                       (struct hearth_accel_rotation){0},
                       (struct hearth_accel_places){&rows->places, &o->pages}, n);
    hearth_accel_latent_queries(o->a, rows->is_prompt, &shape, &rows->q, &o->latent_heads,
                                shape.joint ? W(l, attn_kv_up) : W(l, attn_k_up), &work, n);
}

const struct hearth_accel_memory *hearth_offload_latent_values(struct hearth_offload *o,
                                                               const struct hearth_offload_rows *rows,
                                                               const struct hearth_offload_layer *l)
{
    const struct hearth_accel_latent shape = shape_of(o->s->context.hp);
    const struct hearth_accel_latent_work work = work_of(o, rows, &rows->q); // queries are used
    const size_t n = (size_t)rows->n, width = shape.n_heads * shape.value;
    hearth_accel_latent_values(o->a, rows->is_prompt, &shape, &o->latent_heads, &o->out,
                               shape.joint ? W(l, attn_kv_up) : W(l, attn_v_up), &work, n);
    if (W(l, attn_gate)->n)
        hearth_accel_gate(o->a, &o->latent_heads, &rows->gate, width, width / W(l, attn_gate)->n, n);
    return &o->latent_heads;
}
