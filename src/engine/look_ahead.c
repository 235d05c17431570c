// SPDX-License-Identifier: MIT
// Looking ahead: see look_ahead.h.
#include "engine/look_ahead.h"

#include <string.h>

#include "engine/streaming.h"
#include "sparse/cache.h"

bool hearth_look_ahead_begin(struct hearth_neurons *n, int layer, int n_rows, struct hearth_product *product)
{
    struct hearth_look_ahead *a = &n->look;
    const struct hearth_session *s = n->s;
    const int next = layer + 1;
    // Experts are chosen by the layer itself; weights that stream are not there yet.
    if (s->model->load.overlap != HEARTH_OVERLAP_ALL || n->experts > 1 || next >= s->model->hp.n_layer ||
        !s->streaming->runs.runs[next].resident)
        return false;
    a->space = (uint32_t)next;
    a->fc2 = s->weights.layers[next].pred_fc2;
    a->n_rows = n_rows;
    *product = (struct hearth_product){.w = s->weights.layers[next].pred_fc1, .out = a->rank, .n = n_rows};
    return true;
}

void hearth_look_ahead_prepare(struct hearth_neurons *n, int row)
{
    struct hearth_look_ahead *a = &n->look;
    const struct hearth_kernels *kernels = &n->s->model->kernels;
    const size_t rank = a->fc2.k;
    float *x = a->rank + (size_t)row * rank;
    kernels->activate(x, rank, HEARTH_ACT_RELU);
    kernels->quantize_acts(a->acts + (size_t)row * hearth_acts_bytes(rank), x, rank);
}

// Of a cluster's rows, the share from which on a product with all of them is faster than one by one.
#define ALL_ROWS 0.4f

void hearth_look_ahead_choose(struct hearth_neurons *n, size_t cluster, int worker)
{
    struct hearth_look_ahead *a = &n->look;
    const struct hearth_session *s = n->s;
    const struct hearth_worker *me = &s->work.workers[worker];
    const size_t size = hearth_cluster_size(n->n_neurons), first = cluster * size;
    const size_t end = first + size < n->n_neurons ? first + size : n->n_neurons;
    uint32_t *list = me->sparse.list;
    float *out = me->sparse.picked;
    size_t count = 0;
    memset(a->wanted + first, 0, end - first);
    for (size_t j = first > n->resident[a->space] ? first : n->resident[a->space]; j < end; j++) {
        list[count] = (uint32_t)j;
        count += hearth_cache_state(n->cache, a->space, (uint32_t)j) == HEARTH_CACHE_ABSENT;
    }
    const bool all = (float)count >= ALL_ROWS * (float)(end - first);
    for (size_t i = 0; i < count && !all; i++)
        me->sparse.rows[i] = hearth_space_row(&a->fc2, list[i]);
    for (int t = 0; t < a->n_rows && count; t++) {
        const struct hearth_operand o = hearth_operand_of(&a->fc2, a->rank, a->acts, t);
        if (all)
            s->model->kernels.step[a->fc2.type](out, end - first, hearth_space_row(&a->fc2, first),
                                                a->fc2.stride, a->fc2.k, end - first, o.x, o.x_stride, 1,
                                                me->matmul);
        else
            s->model->kernels.dot_rows[a->fc2.type](out, me->sparse.rows, count, a->fc2.k, o.x, o.x_stride, 1,
                                                    me->matmul);
        for (size_t i = 0; i < count; i++)
            a->wanted[list[i]] |= out[all ? list[i] - first : i] >= s->predict_threshold;
    }
}

void hearth_look_ahead_end(struct hearth_neurons *n)
{
    const struct hearth_look_ahead *a = &n->look;
    n->ahead_space = a->space;
    for (uint32_t j = 0; j < n->n_neurons; j++) {
        n->ahead[n->n_ahead] = j;
        n->n_ahead += a->wanted[j];
    }
}
