// SPDX-License-Identifier: MIT
// Looking ahead: see look_ahead.h.
#include "engine/look_ahead.h"

#include <string.h>

bool hearth_look_ahead_begin(struct hearth_look_ahead *w, const struct hearth_sources *s, int layer,
                             int n_rows, struct hearth_product *product)
{
    const int next = layer + 1;
    // Experts are chosen by the layer itself.
    if (w->c->hp->n_expert || next >= w->c->hp->n_layer || !hearth_sources_has_stage(s, next) ||
        !s->ffn.ops->takes_hints(s->ffn.state, next, HEARTH_PHASE_STEP))
        return false;
    const struct hearth_layer *l = &w->c->weights->layers[next];
    w->source = &s->ffn;
    w->space = (uint32_t)next;
    w->fc2 = l->pred_fc2;
    w->n_rows = n_rows;
    *product = (struct hearth_product){.w = l->pred_fc1, .out = w->rank, .n = n_rows};
    return true;
}

void hearth_look_ahead_prepare(struct hearth_look_ahead *w, int row)
{
    const struct hearth_kernels *kernels = w->c->kernels;
    const size_t rank = w->fc2.k;
    float *x = w->rank + (size_t)row * rank;
    kernels->activate(x, rank, HEARTH_ACT_RELU);
    kernels->quantize_acts(w->acts + (size_t)row * hearth_acts_bytes(rank), x, rank);
}

// Of a cluster's rows, the share from which on a product with all of them is faster than one by one.
#define ALL_ROWS 0.4f

void hearth_look_ahead_choose(struct hearth_look_ahead *w, size_t cluster, int worker)
{
    const struct hearth_kernels *kernels = w->c->kernels;
    const struct hearth_look_ahead_worker *me = &w->workers[worker];
    const size_t n_neurons = w->fc2.n, size = hearth_cluster_size(n_neurons), first = cluster * size;
    const size_t end = first + size < n_neurons ? first + size : n_neurons;
    uint32_t *list = me->list;
    float *out = me->scores;
    memset(w->wanted + first, 0, end - first);
    const size_t count = w->source->ops->absent(w->source->state, w->space, first, end, list);
    const bool all = (float)count >= ALL_ROWS * (float)(end - first);
    for (size_t i = 0; i < count && !all; i++)
        me->rows[i] = hearth_space_row(&w->fc2, list[i]);
    for (int t = 0; t < w->n_rows && count; t++) {
        const struct hearth_operand o = hearth_operand_of(&w->fc2, w->rank, w->acts, t);
        if (all)
            kernels->step[w->fc2.type](out, end - first, hearth_space_row(&w->fc2, first), w->fc2.stride,
                                       w->fc2.k, end - first, o.x, o.x_stride, 1, w->matmul->scratch[worker]);
        else
            kernels->dot_rows[w->fc2.type](out, me->rows, count, w->fc2.k, o.x, o.x_stride, 1,
                                           w->matmul->scratch[worker]);
        for (size_t i = 0; i < count; i++)
            w->wanted[list[i]] |= out[all ? list[i] - first : i] >= w->threshold;
    }
}

void hearth_look_ahead_take(struct hearth_look_ahead *w, size_t cluster, const uint8_t *wanted, int worker)
{
    uint32_t *list = w->workers[worker].list;
    const size_t n_neurons = w->fc2.n, size = hearth_cluster_size(n_neurons), first = cluster * size;
    const size_t end = first + size < n_neurons ? first + size : n_neurons;
    memset(w->wanted + first, 0, end - first);
    const size_t count = w->source->ops->absent(w->source->state, w->space, first, end, list);
    for (size_t i = 0; i < count; i++)
        w->wanted[list[i]] = wanted[list[i] - first];
}

void hearth_look_ahead_end(struct hearth_look_ahead *w)
{
    uint32_t count = 0;
    for (uint32_t j = 0; j < w->fc2.n; j++) {
        w->ids[count] = j;
        count += w->wanted[j];
    }
    w->source->ops->hint(w->source->state, w->space, w->ids, count);
}

void hearth_look_ahead_lay_out(struct hearth_look_ahead *w, size_t rows, size_t rank, size_t n_neurons,
                               struct hearth_arena *a)
{
    const size_t cluster = hearth_cluster_size(n_neurons);
    const int n_workers = hearth_pool_size(w->c->pool);
    w->rank = hearth_arena_take(a, rows, rank * sizeof *w->rank);
    w->acts = hearth_arena_take(a, rows, hearth_acts_bytes(rank));
    w->wanted = hearth_arena_take(a, 1, n_neurons);
    w->ids = hearth_arena_take(a, n_neurons, sizeof *w->ids);
    w->workers = hearth_arena_take(a, (size_t)n_workers, sizeof *w->workers);
    for (int i = 0; i < n_workers; i++) {
        struct hearth_look_ahead_worker worker;
        worker.list = hearth_arena_take(a, cluster, sizeof *worker.list);
        worker.rows = hearth_arena_take(a, cluster, sizeof *worker.rows);
        worker.scores = hearth_arena_take(a, cluster, sizeof *worker.scores);
        if (w->workers)
            w->workers[i] = worker;
    }
}
