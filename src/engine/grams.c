// SPDX-License-Identifier: MIT
// n-grams: see grams.h. The order of operations is part of the numeric law (docs/architecture.md).
#include "engine/grams.h"

#include <math.h>
#include <string.h>

#include "model/ffn.h"

#define LEAST_PRODUCT 1e-6f // of a key and a stream, before the root

struct job {
    struct hearth_grams_work *work;
    const struct hearth_batch *batch;
    const struct hearth_layer *layer;
    float *x;
};

static float *wide_row(const struct hearth_grams_work *w, float *base, int row)
{
    return hearth_row_of(base, row, hearth_stream_width(w->c->hp));
}

// ---- rows of the table

// The token so many positions before a row's; -1: there is none.
static int token_before(const struct job *j, int row, int back)
{
    const struct hearth_grams_work *w = j->work;
    const struct hearth_row at = j->batch->rows[row];
    const int seq = j->batch->index[at.seq], first = j->batch->changes[seq].pos, pos = at.pos - back;
    if (pos < 0)
        return -1;
    return pos < first ? hearth_kv_token(w->kv, at.seq, pos)
                       : j->batch->tokens[j->batch->sorted[j->batch->firsts[seq] + pos - first]];
}

// The table's row for an n-gram of `size` tokens, the row's last.
static uint32_t hash(const struct job *j, int row, int size, int head)
{
    const struct hearth_grams *g = &j->work->c->hp->grams;
    uint64_t mixed = (uint64_t)j->batch->tokens[row] * g->by[0];
    bool cut = false;
    for (int back = 1; back < size; back++) {
        const int token = cut ? -1 : token_before(j, row, back);
        cut |= token < 0 || token == g->eos;
        mixed ^= (uint64_t)(cut ? g->eos : token) * g->by[back];
    }
    return g->first[head] + (uint32_t)(mixed % g->count[head]);
}

// One row of a token's.
static void row_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    const struct hearth_grams_work *w = j->work;
    const struct hearth_grams *g = &w->c->hp->grams;
    const struct hearth_weight *table = &w->c->weights->gram_table;
    const int row = task / g->n, head = task % g->n;
    const uint32_t i = hash(j, row, head / g->heads + 2, head);
    float *out = hearth_row_of(w->rows, row, g->n * g->dim) + (size_t)head * (size_t)g->dim;
    if (table->data) {
        hearth_type_info(table->type)
            ->decode((const uint8_t *)table->data + (size_t)i * table->stride, out, table->k);
        return;
    }
    const struct hearth_source *stages = &(*w->sources)->stages;
    stages->ops->embed(stages->state, table, (int)i, w->row[worker], out);
}

// ---- gates

static void norm_streams(const struct hearth_grams_work *w, float *out, const float *x,
                         const struct hearth_weight *by)
{
    const struct hearth_hparams *hp = w->c->hp;
    for (int g = 0; g < hp->streams.n; g++)
        w->c->kernels->rms_norm(hearth_row_of(out, g, hp->n_embd), x + (size_t)g * (size_t)hp->n_embd,
                                hearth_vector_of(by) + (size_t)g * (size_t)hp->n_embd, (size_t)hp->n_embd,
                                hp->norm_eps);
}

// What a stream's gate makes of the product of its key and itself.
static float gate_of(const struct hearth_grams_work *w, const float *key, const float *stream, int worker)
{
    const size_t width = (size_t)w->c->hp->n_embd;
    float product;
    w->c->kernels->step[HEARTH_TYPE_F32](&product, 1, key, width * sizeof *key, width, 1, stream,
                                         width * sizeof *stream, 1, w->matmul->scratch[worker]);
    product /= sqrtf((float)width);
    const float size = fabsf(product), root = sqrtf(size > LEAST_PRODUCT ? size : LEAST_PRODUCT);
    return product > 0 ? root : product < 0 ? -root : 0.0f;
}

// A row's gated values, over its keys, and the convolution's inputs.
static void gate_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    const struct hearth_grams_work *w = j->work;
    const int n = w->c->hp->streams.n, width = w->c->hp->n_embd;
    float *keys = wide_row(w, w->keys, task), *inputs = wide_row(w, w->inputs, task);
    const float *values = hearth_row_of(w->values, task, width);
    norm_streams(w, keys, keys, &j->layer->gram_key_norm);
    norm_streams(w, inputs, wide_row(w, j->x, task), &j->layer->gram_query_norm);
    for (int g = 0; g < n; g++) {
        float *key = hearth_row_of(keys, g, width);
        const float gate = gate_of(w, key, hearth_row_of(inputs, g, width), worker),
                    by = 1.0f / (1.0f + hearth_exp(-gate));
        for (int i = 0; i < width; i++)
            key[i] = values[i] * by;
    }
    norm_streams(w, inputs, keys, &j->layer->gram_conv_norm);
}

// ---- the convolution

// The convolution's input at a position of a sequence, counted from the batch's first one of it; NULL: zeros.
static const float *input_at(const struct job *j, int seq, int i)
{
    const struct hearth_grams_work *w = j->work;
    const struct hearth_states *states = &w->kv->states;
    const int from = states->seqs[j->batch->seqs[seq]].from;
    if (i >= 0)
        return wide_row(w, w->inputs, j->batch->sorted[j->batch->firsts[seq] + i]);
    return from < 0 ? NULL
                    : wide_row(w, hearth_state_grams(states, from), i + hearth_grams_kept(&w->c->hp->grams));
}

// A row's sum of the taps' products from the oldest on, each product and each sum rounded, activated, and
// with what it is made of to the streams.
static void convolve_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_grams_work *w = j->work;
    const struct hearth_grams *g = &w->c->hp->grams;
    const struct hearth_row at = j->batch->rows[task];
    const int seq = j->batch->index[at.seq], i = at.pos - j->batch->changes[seq].pos;
    const size_t width = (size_t)hearth_stream_width(w->c->hp), taps = (size_t)g->n_taps;
    const float *by = j->layer->gram_conv.data;
    float *sums = wide_row(w, w->sums, task);
    memset(sums, 0, width * sizeof *sums);
    for (size_t tap = 0; tap < taps; tap++) {
        const float *in = input_at(j, seq, i - (int)(taps - 1 - tap) * g->apart);
        for (size_t k = 0; k < width && in; k++)
            sums[k] += in[k] * by[k * taps + tap];
    }
    w->c->kernels->activate(sums, width, HEARTH_ACT_SILU);
    w->c->kernels->add(sums, wide_row(w, w->keys, task), width);
    w->c->kernels->add(wide_row(w, j->x, task), sums, width);
}

// The last inputs of a sequence, oldest first. Where they go over what was there, none is written before it
// is read.
static void keep_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_grams_work *w = j->work;
    const struct hearth_states *states = &w->kv->states;
    const int kept = hearth_grams_kept(&w->c->hp->grams), count = j->batch->counts[task];
    const size_t width = (size_t)hearth_stream_width(w->c->hp);
    float *to = hearth_state_grams(states, states->seqs[j->batch->seqs[task]].to);
    for (int i = 0; i < kept; i++) {
        const float *in = input_at(j, task, count + i - kept);
        if (in)
            memmove(wide_row(w, to, i), in, width * sizeof *to);
        else
            memset(wide_row(w, to, i), 0, width * sizeof *to);
    }
}

void hearth_grams_add(struct hearth_grams_work *w, const struct hearth_batch *b, float *x)
{
    const struct hearth_grams *g = &w->c->hp->grams;
    struct job j = {w, b, &w->c->weights->layers[g->layer], x};
    hearth_parallel(w->c, row_task, &j, b->n * g->n);
    for (int i = 0; i < b->n_classes; i++) {
        const struct hearth_rows rows = b->classes[i];
        struct hearth_product products[] = {
            {.w = j.layer->gram_key, .out = wide_row(w, w->keys, rows.first), .n = rows.n},
            {.w = j.layer->gram_value,
             .out = hearth_row_of(w->values, rows.first, w->c->hp->n_embd),
             .n = rows.n}};
        hearth_matmul(w->matmul, rows.phase, products, 2, hearth_row_of(w->rows, rows.first, g->n * g->dim),
                      rows.n);
    }
    hearth_parallel(w->c, gate_task, &j, b->n);
    for (int i = 0; i < b->n_classes && b->keeps; i++)
        if (b->classes[i].phase == HEARTH_PHASE_STEP)
            memcpy(w->kept, wide_row(w, w->inputs, b->classes[i].first),
                   (size_t)b->classes[i].n * (size_t)hearth_stream_width(w->c->hp) * sizeof *w->kept);
    hearth_parallel(w->c, convolve_task, &j, b->n);
    hearth_parallel(w->c, keep_task, &j, b->n_seqs);
}

void hearth_grams_again(struct hearth_grams_work *w, const struct hearth_batch *b)
{
    struct job j = {.work = w, .batch = b};
    memcpy(w->inputs, wide_row(w, w->kept, b->kept),
           (size_t)b->n * (size_t)hearth_stream_width(w->c->hp) * sizeof *w->kept);
    hearth_parallel(w->c, keep_task, &j, b->n_seqs);
}

void hearth_grams_lay_out(struct hearth_grams_work *w, int max_rows, int max_steps, int max_seqs,
                          struct hearth_arena *a)
{
    const struct hearth_hparams *hp = w->c->hp;
    const struct hearth_grams *g = &hp->grams;
    const size_t t = (size_t)max_rows, steps = (size_t)max_steps, f32 = sizeof(float),
                 wide = (size_t)hearth_stream_width(hp) * f32;
    const int n_workers = hearth_pool_size(w->c->pool);
    if (!g->size)
        return;
    w->rows = hearth_arena_take_rows(a, t, steps, (size_t)g->n * (size_t)g->dim * f32);
    w->keys = hearth_arena_take_rows(a, t, steps, wide);
    w->values = hearth_arena_take_rows(a, t, steps, (size_t)hp->n_embd * f32);
    w->inputs = hearth_arena_take_rows(a, t, steps, wide);
    w->sums = hearth_arena_take_rows(a, t, steps, wide);
    w->kept = hearth_arena_take(a, max_steps > max_seqs ? steps : 0, wide);
    w->row = hearth_arena_take(a, (size_t)n_workers, sizeof *w->row);
    for (int i = 0; i < n_workers; i++) {
        uint8_t *row = hearth_arena_take(a, 1, hearth_type_bytes(HEARTH_TYPE_F32, (uint64_t)g->dim));
        if (w->row)
            w->row[i] = row;
    }
}
