// SPDX-License-Identifier: MIT
// Causal attention over KV pages. A page is a tile: scores, softmax and weighted values are computed tile by
// tile and merged in ascending order, so the result does not depend on who computes what, and no score row is
// ever longer than a tile.
#include "engine/session.h"

#include <math.h>
#include <string.h>

struct job {
    struct hearth_session *s;
    int layer, n;
    int block; // tokens of a task
    int n_blocks;
    float scale;
};

// The part of a tile that a token attends to.
struct span {
    int tile;
    int from, n;   // slots [from, from + n) of it; n <= 0: none
    bool is_first; // of the token's spans
};

static struct span span_of(const struct job *j, int token, int tile)
{
    const int pos = j->s->work.rows[token].pos, window = j->s->model->hp.window;
    const int oldest = window && pos >= window ? pos - window + 1 : 0;
    const int start = tile * HEARTH_KV_TILE;
    const int from = oldest > start ? oldest - start : 0;
    const int end = pos + 1 - start < HEARTH_KV_TILE ? pos + 1 - start : HEARTH_KV_TILE;
    return (struct span){tile, from, end - from, tile == oldest / HEARTH_KV_TILE};
}

// Adds one head's values of a span, weighted with the softmax of its scores p, to what the spans before it
// gave.
static void merge(const struct job *j, struct hearth_worker *w, struct span at, const uint8_t *values,
                  float *p, float *out, int state)
{
    const struct hearth_kernels *kernels = &j->s->model->kernels;
    const struct hearth_kv *kv = &j->s->kv;
    const size_t dim = (size_t)kv->head_dim, n = (size_t)at.n;
    float *max = &w->max[state], *sum = &w->sum[state], tile_sum;
    const float tile_max = kernels->softmax_tile(p, n, j->scale, &tile_sum);
    float *to = at.is_first ? out : w->tile_out;
    memset(to, 0, dim * sizeof *to);
    kernels->axpy[kv->type_v](to, values, kv->row_v, dim, n, p);
    if (at.is_first) {
        *max = tile_max;
        *sum = tile_sum;
        return;
    }
    const float top = *max > tile_max ? *max : tile_max;
    const float a = hearth_exp(*max - top), b = hearth_exp(tile_max - top);
    kernels->scale_add(out, a, to, b, dim);
    *sum = fmaf(tile_sum, b, *sum * a);
    *max = top;
}

// One token's query heads of group g against one span; `state` indexes the worker's running max and sum.
static void attend_span(const struct job *j, struct hearth_worker *w, int token, int g, struct span at,
                        int state)
{
    const struct hearth_session *s = j->s;
    const struct hearth_kv *kv = &s->kv;
    const int group = s->model->hp.n_head / kv->n_head_kv;
    const size_t dim = (size_t)kv->head_dim, from = (size_t)at.from;
    const size_t q_at = ((size_t)token * (size_t)s->model->hp.n_head + (size_t)g * (size_t)group) * dim;
    const int page = kv->seqs[s->work.rows[token].seq].pages[at.tile];
    const uint8_t *keys = hearth_kv_keys(kv, page, j->layer, g) + from * kv->row_k;
    const uint8_t *values = hearth_kv_values(kv, page, j->layer, g) + from * kv->row_v;

    const bool block = hearth_type_info(kv->type_k)->unit_elems != 0;
    const void *x = block ? (const void *)((uint8_t *)w->q_acts + (size_t)state * hearth_acts_bytes(dim))
                          : (const void *)(s->work.q + q_at);
    s->model->kernels.step[kv->type_k](w->scores, HEARTH_KV_TILE, keys, kv->row_k, dim, (size_t)at.n, x,
                                       block ? hearth_acts_bytes(dim) : dim * sizeof(float), (size_t)group,
                                       w->matmul);
    for (int h = 0; h < group; h++)
        merge(j, w, at, values, w->scores + h * HEARTH_KV_TILE, s->work.att + q_at + (size_t)h * dim,
              state + h);
}

// Quantises the queries of group g of tokens [first, last) for keys in a block format.
static void quantize_queries(const struct job *j, struct hearth_worker *w, int g, int first, int last)
{
    struct hearth_session *s = j->s;
    const int n_head = s->model->hp.n_head, group = n_head / s->kv.n_head_kv;
    const size_t dim = (size_t)s->kv.head_dim;
    for (int t = first; t < last; t++)
        for (int h = 0; h < group; h++)
            s->model->kernels.quantize_acts(
                (uint8_t *)w->q_acts + (size_t)((t - first) * group + h) * hearth_acts_bytes(dim),
                hearth_row_of(s->work.q, t, n_head * s->kv.head_dim) + (size_t)(g * group + h) * dim, dim);
}

static void attend(void *arg, int task, int worker)
{
    const struct job *j = arg;
    struct hearth_session *s = j->s;
    struct hearth_worker *w = &s->work.workers[worker];
    const int n_head = s->model->hp.n_head, group = n_head / s->kv.n_head_kv, dim = s->kv.head_dim;
    const int g = task / j->n_blocks, first = task % j->n_blocks * j->block;
    const int last = first + j->block < j->n ? first + j->block : j->n;

    if (hearth_type_info(s->kv.type_k)->unit_elems)
        quantize_queries(j, w, g, first, last);
    // The rows of a block are of one sequence at rising positions (or there is one).
    const int window = s->model->hp.window, oldest = window ? s->work.rows[first].pos - window + 1 : 0;
    const int n_tiles = s->work.rows[last - 1].pos / HEARTH_KV_TILE + 1;
    for (int tile = oldest > 0 ? oldest / HEARTH_KV_TILE : 0; tile < n_tiles; tile++)
        for (int t = first; t < last; t++) {
            struct span at = span_of(j, t, tile);
            if (at.n > 0)
                attend_span(j, w, t, g, at, (t - first) * group);
        }
    for (int t = first; t < last; t++)
        for (int h = 0; h < group; h++) {
            float *out = hearth_row_of(s->work.att, t, n_head * dim) + (size_t)(g * group + h) * (size_t)dim;
            float inverse = 1.0f / w->sum[(t - first) * group + h];
            for (int i = 0; i < dim; i++)
                out[i] *= inverse;
        }
}

void hearth_attention(struct hearth_session *s, enum hearth_phase phase, int layer, int n)
{
    // A prompt's rows are consecutive positions of one sequence; a step's rows share no tile.
    int block = phase == HEARTH_PHASE_PROMPT ? HEARTH_ATTN_BLOCK : 1;
    struct job j = {.s = s,
                    .layer = layer,
                    .n = n,
                    .block = block,
                    .n_blocks = (n + block - 1) / block,
                    .scale = 1.0f / sqrtf((float)s->kv.head_dim)};
    hearth_run(s, attend, &j, s->kv.n_head_kv * j.n_blocks);
}
