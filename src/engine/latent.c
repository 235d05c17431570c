// SPDX-License-Identifier: MIT
// Latent attention: each head's share of the matrices that make keys and values, a task for some tokens of a
// head. Every element is one canonical sum (kernels/kernels.h), however they are cut.
#include "engine/latent.h"

#include <assert.h>
#include <string.h>

#include "base/poison.h"
#include "model/ffn.h"

// Tokens of a task.
#define BLOCK 32

struct job {
    struct hearth_latent_work *work;
    struct hearth_rows rows;
    int layer;
    int n_blocks;
    float *q;         // [T x heads x (rank + n_rot)]
    const float *out; // [T x heads x rank]
};

// A matrix times a head's part of some tokens: from and to are the first one's.
struct part {
    const uint8_t *w;
    uint32_t type;
    size_t stride, k, n; // of w: bytes from row to row, its elements, and rows
    const float *from;
    float *to;
    size_t from_stride, to_stride; // floats from token to token
    size_t tokens;
};

static int query_width(const struct hearth_hparams *hp)
{
    return hp->latent.still + hp->n_rot;
}

// Rows of w are outputs.
static void multiply(const struct job *j, const struct part *p, int worker)
{
    const struct hearth_kernels *kernels = j->work->c->kernels;
    const bool block = hearth_type_info(p->type)->unit_elems != 0;
    const size_t x_stride = block ? hearth_acts_bytes(p->k) : p->k * sizeof(float);
    uint8_t *x = j->work->scratch[worker];
    for (size_t t = 0; t < p->tokens; t++) {
        if (block)
            kernels->quantize_acts(x + t * x_stride, p->from + t * p->from_stride, p->k);
        else
            memcpy(x + t * x_stride, p->from + t * p->from_stride, x_stride);
    }
    HEARTH_ABOUT_TO_READ(p->w, p->n, p->stride, hearth_type_bytes(p->type, p->k));
    (j->rows.phase == HEARTH_PHASE_STEP ? kernels->step : kernels->prompt)[p->type](
        p->to, p->to_stride, p->w, p->stride, p->k, p->n, x, x_stride, p->tokens,
        j->work->matmul->scratch[worker]);
}

// Rows of w are inputs: each output is the sum over them.
static void multiply_turned(const struct job *j, const struct part *p, int worker)
{
    const struct hearth_kernels *kernels = j->work->c->kernels;
    HEARTH_ABOUT_TO_READ(p->w, p->n, p->stride, hearth_type_bytes(p->type, p->k));
    for (size_t t = 0; t < p->tokens; t++) {
        memset(p->to + t * p->to_stride, 0, p->k * sizeof *p->to);
        if (j->rows.phase == HEARTH_PHASE_STEP)
            kernels->axpy[p->type](p->to + t * p->to_stride, p->w, p->stride, p->k, p->n,
                                   p->from + t * p->from_stride);
    }
    for (size_t at = 0; j->rows.phase == HEARTH_PHASE_PROMPT && at < p->k; at += HEARTH_COLUMNS)
        kernels->prompt_t[p->type](p->to + at, p->to_stride, p->w, p->stride, at,
                                   p->k - at < HEARTH_COLUMNS ? p->k - at : HEARTH_COLUMNS, p->n, p->from,
                                   p->from_stride, p->tokens, j->work->matmul->scratch[worker]);
}

// From row `row` on of all heads' rows.
static void use_rows(struct part *p, const struct hearth_weight *w, size_t row)
{
    p->w = (const uint8_t *)w->data + row * w->stride;
    p->type = w->type;
    p->stride = w->stride;
    p->k = w->k;
}

// What a task does of all heads: `in` and `out` elements of each, before and after.
static struct part part_of(const struct job *j, int task, const float *from, size_t in, float *to, size_t out)
{
    const int done = task % j->n_blocks * BLOCK, n = j->rows.n - done;
    const size_t first = (size_t)(j->rows.first + done), head = (size_t)(task / j->n_blocks),
                 heads = (size_t)j->work->c->hp->n_head;
    return (struct part){.from = from + (first * heads + head) * in,
                         .to = to + (first * heads + head) * out,
                         .from_stride = heads * in,
                         .to_stride = heads * out,
                         .tokens = (size_t)(n < BLOCK ? n : BLOCK)};
}

static void query_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    const struct hearth_hparams *hp = j->work->c->hp;
    const struct hearth_latent *l = &hp->latent;
    const struct hearth_layer *w = &j->work->c->weights->layers[j->layer];
    if (hearth_given_up(j->work->c, j->rows.phase))
        return;
    const int head = task / j->n_blocks;
    struct part p = part_of(j, task, j->work->heads, (size_t)query_width(hp), j->q, (size_t)hp->head_dim);
    if (l->joint) {
        use_rows(&p, &w->attn_kv_up, (size_t)head * (size_t)(l->still + l->value));
        p.n = (size_t)l->still;
        multiply_turned(j, &p, worker);
    } else {
        use_rows(&p, &w->attn_k_up, (size_t)head * (size_t)l->rank);
        p.n = (size_t)l->rank;
        multiply(j, &p, worker);
    }
    for (size_t t = 0; t < p.tokens; t++)
        memcpy(p.to + t * p.to_stride + l->rank, p.from + t * p.from_stride + l->still,
               (size_t)hp->n_rot * sizeof *p.to);
}

static void value_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    const struct hearth_hparams *hp = j->work->c->hp;
    const struct hearth_latent *l = &hp->latent;
    const struct hearth_layer *w = &j->work->c->weights->layers[j->layer];
    if (hearth_given_up(j->work->c, j->rows.phase))
        return;
    const int head = task / j->n_blocks;
    struct part p = part_of(j, task, j->out, (size_t)l->rank, j->work->heads, (size_t)l->value);
    p.n = (size_t)l->value;
    if (l->joint)
        use_rows(&p, &w->attn_kv_up, (size_t)head * (size_t)(l->still + l->value) + (size_t)l->still);
    else
        use_rows(&p, &w->attn_v_up, (size_t)head * (size_t)l->value);
    multiply(j, &p, worker);
}

static struct job job_of(struct hearth_latent_work *w, struct hearth_rows rows, int layer)
{
    return (struct job){.work = w, .rows = rows, .layer = layer, .n_blocks = (rows.n + BLOCK - 1) / BLOCK};
}

struct hearth_product hearth_latent_first(const struct hearth_latent_work *w, struct hearth_rows rows,
                                          int layer)
{
    const struct hearth_hparams *hp = w->c->hp;
    const struct hearth_layer *l = &w->c->weights->layers[layer];
    const int width = hp->n_head * query_width(hp);
    return hp->latent.q_rank
               ? (struct hearth_product){.w = l->attn_q_a,
                                         .out = hearth_row_of(w->low, rows.first, hp->latent.q_rank),
                                         .n = rows.n}
               : (struct hearth_product){
                     .w = l->attn_q, .out = hearth_row_of(w->heads, rows.first, width), .n = rows.n};
}

static void norm_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_hparams *hp = j->work->c->hp;
    float *low = hearth_row_of(j->work->low, j->rows.first + task, hp->latent.q_rank);
    const struct hearth_weight *w = &j->work->c->weights->layers[j->layer].attn_q_a_norm;
    j->work->c->kernels->rms_norm(low, low, hearth_vector_of(w), (size_t)hp->latent.q_rank, hp->latent.eps);
}

void hearth_latent_second(struct hearth_latent_work *w, struct hearth_rows rows, int layer,
                          const struct hearth_product *more, int n)
{
    const struct hearth_hparams *hp = w->c->hp;
    struct job j = job_of(w, rows, layer);
    if (!hp->latent.q_rank)
        return;
    hearth_parallel(w->c, norm_task, &j, rows.n);
    struct hearth_product p[2] = {{.w = w->c->weights->layers[layer].attn_q_up,
                                   .out = hearth_row_of(w->heads, rows.first, hp->n_head * query_width(hp)),
                                   .n = rows.n}};
    assert(n <= 1);
    if (n)
        p[1] = *more;
    hearth_matmul(w->matmul, rows.phase, p, 1 + n, hearth_row_of(w->low, rows.first, hp->latent.q_rank),
                  rows.n);
}

void hearth_latent_place(struct hearth_latent_work *w, int row, int layer, float *k, const float *cos_sin)
{
    const struct hearth_hparams *hp = w->c->hp;
    const struct hearth_kernels *kernels = w->c->kernels;
    const size_t rank = (size_t)hp->latent.rank, still = (size_t)hp->latent.still, n_rot = (size_t)hp->n_rot;
    const int width = query_width(hp);
    kernels->rms_norm(k, k, hearth_vector_of(&w->c->weights->layers[layer].attn_kv_a_norm), rank,
                      hp->latent.eps);
    if (!cos_sin)
        return;
    const bool neox = hp->positions == HEARTH_POS_ROPE_NEOX;
    kernels->rope(k + rank, cos_sin, 1, n_rot, n_rot, neox);
    kernels->rope(hearth_row_of(w->heads, row, hp->n_head * width) + still, cos_sin, (size_t)hp->n_head,
                  (size_t)width, n_rot, neox);
}

void hearth_latent_queries(struct hearth_latent_work *w, struct hearth_rows rows, int layer, float *q)
{
    struct job j = job_of(w, rows, layer);
    j.q = q;
    hearth_parallel(w->c, query_task, &j, w->c->hp->n_head * j.n_blocks);
}

void hearth_latent_values(struct hearth_latent_work *w, struct hearth_rows rows, int layer, const float *out)
{
    struct job j = job_of(w, rows, layer);
    j.out = out;
    hearth_parallel(w->c, value_task, &j, w->c->hp->n_head * j.n_blocks);
}

// ---- opening

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

// What a head's matrices take, at most.
static size_t inside_of(const struct hearth_hparams *hp)
{
    return larger((size_t)hp->latent.rank, (size_t)hp->latent.still);
}

size_t hearth_latent_widest(const struct hearth_hparams *hp)
{
    return larger(larger((size_t)(hp->n_head * hp->latent.value), (size_t)hp->latent.q_rank), inside_of(hp));
}

void hearth_latent_lay_out(struct hearth_latent_work *w, int max_rows, int max_steps, struct hearth_arena *a)
{
    const struct hearth_hparams *hp = w->c->hp;
    const struct hearth_latent *l = &hp->latent;
    if (!l->rank)
        return;
    const size_t t = (size_t)max_rows, steps = (size_t)max_steps, f32 = sizeof(float);
    const size_t width = larger((size_t)query_width(hp), (size_t)l->value) * (size_t)hp->n_head;
    const size_t inside = inside_of(hp);
    const size_t row = larger(hearth_acts_bytes(inside), inside * f32);
    const int n_workers = hearth_pool_size(w->c->pool);
    w->low = hearth_arena_take_rows(a, l->q_rank ? t : 0, l->q_rank ? steps : 0, (size_t)l->q_rank * f32);
    w->heads = hearth_arena_take_rows(a, t, steps, width * f32);
    w->scratch = hearth_arena_take(a, (size_t)n_workers, sizeof *w->scratch);
    for (int i = 0; i < n_workers; i++) {
        void *scratch = hearth_arena_take(a, BLOCK, row);
        if (w->scratch)
            w->scratch[i] = scratch;
    }
}
