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

// One token's query heads of group g against one tile; `state` indexes the worker's running max and sum.
static void attend_tile(const struct job *j, struct hearth_worker *w, int token, int g, int tile, int n,
                        int state)
{
    const struct hearth_session *s = j->s;
    const struct hearth_kernels *kernels = &s->model->kernels;
    const struct hearth_kv *kv = &s->kv;
    const int group = s->model->hp.n_head / kv->n_head_kv;
    const size_t dim = (size_t)kv->head_dim;
    const size_t q_at = ((size_t)token * (size_t)s->model->hp.n_head + (size_t)g * (size_t)group) * dim;
    const int page = kv->seqs[s->work.rows[token].seq].pages[tile];
    const uint8_t *values = hearth_kv_values(kv, page, j->layer, g);

    const bool block = hearth_type_info(kv->type_k)->unit_elems != 0;
    const void *x = block ? (const void *)((uint8_t *)w->q_acts + (size_t)state * hearth_acts_bytes(dim))
                          : (const void *)(s->work.q + q_at);
    kernels->step[kv->type_k](w->scores, HEARTH_KV_TILE, hearth_kv_keys(kv, page, j->layer, g), kv->row_k,
                              dim, (size_t)n, x, block ? hearth_acts_bytes(dim) : dim * sizeof(float),
                              (size_t)group, w->matmul);

    for (int h = 0; h < group; h++) {
        float *p = w->scores + h * HEARTH_KV_TILE;
        float *out = s->work.att + q_at + (size_t)h * dim;
        float *max = &w->max[state + h], *sum = &w->sum[state + h];
        float tile_sum;
        float tile_max = kernels->softmax_tile(p, (size_t)n, j->scale, &tile_sum);
        float *to = tile ? w->tile_out : out;
        memset(to, 0, dim * sizeof *to);
        kernels->axpy[kv->type_v](to, values, kv->row_v, dim, (size_t)n, p);
        if (!tile) {
            *max = tile_max;
            *sum = tile_sum;
            continue;
        }
        float top = *max > tile_max ? *max : tile_max;
        float a = hearth_exp(*max - top), b = hearth_exp(tile_max - top);
        kernels->scale_add(out, a, to, b, dim);
        *sum = fmaf(tile_sum, b, *sum * a);
        *max = top;
    }
}

static void attend(void *arg, int task, int worker)
{
    const struct job *j = arg;
    struct hearth_session *s = j->s;
    struct hearth_worker *w = &s->work.workers[worker];
    const struct hearth_kv *kv = &s->kv;
    const int group = s->model->hp.n_head / kv->n_head_kv;
    const size_t dim = (size_t)kv->head_dim;
    const int g = task / j->n_blocks, first = task % j->n_blocks * j->block;
    const int last = first + j->block < j->n ? first + j->block : j->n;

    int n_tiles = 0;
    for (int t = first; t < last; t++) {
        int tiles = s->work.rows[t].pos / HEARTH_KV_TILE + 1;
        n_tiles = tiles > n_tiles ? tiles : n_tiles;
        if (hearth_type_info(kv->type_k)->unit_elems)
            for (int h = 0; h < group; h++)
                s->model->kernels.quantize_acts(
                    (uint8_t *)w->q_acts + (size_t)((t - first) * group + h) * hearth_acts_bytes(dim),
                    s->work.q + ((size_t)t * (size_t)s->model->hp.n_head + (size_t)(g * group + h)) * dim,
                    dim);
    }
    for (int tile = 0; tile < n_tiles; tile++)
        for (int t = first; t < last; t++) {
            int n = s->work.rows[t].pos + 1 - tile * HEARTH_KV_TILE;
            if (n > 0)
                attend_tile(j, w, t, g, tile, n < HEARTH_KV_TILE ? n : HEARTH_KV_TILE, (t - first) * group);
        }
    for (int t = first; t < last; t++)
        for (int h = 0; h < group; h++) {
            float *out =
                s->work.att + ((size_t)t * (size_t)s->model->hp.n_head + (size_t)(g * group + h)) * dim;
            float inverse = 1.0f / w->sum[(t - first) * group + h];
            for (size_t i = 0; i < dim; i++)
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
