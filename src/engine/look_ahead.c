// SPDX-License-Identifier: MIT
// Looking ahead: see look_ahead.h.
#include "engine/look_ahead.h"

#include <string.h>

#include "base/poison.h"
#include "model/ffn.h"

static bool begin(struct hearth_look_ahead *w, const struct hearth_sources *s, int layer,
                  enum hearth_guess_when when)
{
    w->source = &s->ffn;
    w->n_spaces = w->n_rows = 0;
    return s->ffn.ops->takes_hints(s->ffn.state, layer, HEARTH_PHASE_STEP, when);
}

int hearth_look_ahead_begin(struct hearth_look_ahead *w, const struct hearth_sources *s, int layer,
                            int n_rows, enum hearth_guess_when when, struct hearth_product *products)
{
    if (w->c->hp->n_expert || !begin(w, s, layer, when))
        return 0;
    const struct hearth_layer *l = &w->c->weights->layers[layer];
    w->spaces[w->n_spaces++] =
        (struct hearth_look_space){.id = (uint32_t)layer, .fc2 = l->pred_fc2, .n = n_rows};
    w->n_rows = n_rows;
    w->r = l->pred_fc1.n;
    for (int i = 0; i < n_rows; i++)
        w->from[i] = i;
    *products = hearth_inner_product(&l->pred_fc1, &l->pred_fc2, w->inner);
    products->n = n_rows;
    return 1;
}

// Adds a space for an expert that some rows will probably use, and a product for each of them.
static void add_expert(struct hearth_look_ahead *w, int layer, int expert,
                       const struct hearth_look_guess *guess, struct hearth_product *products)
{
    const struct hearth_layer *l = &w->c->weights->layers[layer];
    const int used = w->c->hp->n_expert_used;
    struct hearth_look_space space = {.id = (uint32_t)(layer * w->c->hp->n_expert + expert),
                                      .fc2 = hearth_expert(&l->pred_fc2_exps, expert),
                                      .first = w->n_rows};
    const struct hearth_weight fc1 = hearth_expert(&l->pred_fc1_exps, expert);
    w->r = fc1.n;
    for (int i = 0; i < guess->n_rows * used; i++) {
        if (guess->ids[i] != expert)
            continue;
        float *inner = w->inner + (size_t)(space.first + space.n++) * space.fc2.k;
        products[w->n_rows] = hearth_inner_product(&fc1, &space.fc2, inner);
        products[w->n_rows].n = 1;
        w->from[w->n_rows] = products[w->n_rows].first = guess->slots[i / used * used];
        w->n_rows++;
    }
    if (space.n)
        w->spaces[w->n_spaces++] = space;
}

int hearth_look_ahead_begin_experts(struct hearth_look_ahead *w, const struct hearth_sources *s, int layer,
                                    const struct hearth_look_guess *guess, struct hearth_product *products)
{
    const int used = w->c->hp->n_expert_used;
    if (!guess->n_rows || guess->n_rows * used > w->max_spaces || !begin(w, s, layer, HEARTH_GUESS_EARLY))
        return 0;
    for (int expert = 0; expert < w->c->hp->n_expert; expert++)
        add_expert(w, layer, expert, guess, products);
    return w->n_rows;
}

void hearth_inner_prepare(const struct hearth_kernels *kernels, float *inner, void *acts, size_t k, size_t r,
                          const float *seen)
{
    memcpy(inner, seen, (k - r) * sizeof *inner);
    kernels->activate(inner + (k - r), r, HEARTH_ACT_RELU);
    kernels->quantize_acts(acts, inner, k);
}

void hearth_look_ahead_prepare(struct hearth_look_ahead *w, int row, const float *seen)
{
    const size_t k = w->spaces[0].fc2.k;
    hearth_inner_prepare(w->c->kernels, w->inner + (size_t)row * k,
                         w->acts + (size_t)row * hearth_acts_bytes(k), k, w->r,
                         seen + (size_t)w->from[row] * (size_t)w->c->hp->n_embd);
}

// Of a cluster's rows, the share from which on a product with all of them is faster than one by one.
#define ALL_ROWS 0.4f

// Neurons [first, end) of a space of the next layer: a cluster of it.
struct range {
    const struct hearth_look_space *space;
    size_t first, end;
    uint8_t *wanted; // [F] of the space
};

static size_t clusters_of(const struct hearth_look_ahead *w)
{
    return hearth_cluster_count(w->spaces[0].fc2.n);
}

size_t hearth_look_ahead_tasks(const struct hearth_look_ahead *w)
{
    return (size_t)w->n_spaces * clusters_of(w);
}

static bool is_elsewhere(const struct hearth_look_ahead *w, size_t task)
{
    return task % clusters_of(w) < w->n_elsewhere;
}

static struct range range_of(const struct hearth_look_ahead *w, size_t task)
{
    const size_t number = task / clusters_of(w), n = w->spaces[number].fc2.n, size = hearth_cluster_size(n);
    const size_t first = task % clusters_of(w) * size;
    return (struct range){.space = &w->spaces[number],
                          .first = first,
                          .end = first + size < n ? first + size : n,
                          .wanted = w->wanted + number * n};
}

void hearth_look_ahead_choose(struct hearth_look_ahead *w, size_t task, int worker)
{
    const struct hearth_kernels *kernels = w->c->kernels;
    const struct hearth_look_ahead_worker *me = &w->workers[worker];
    const struct range r = range_of(w, task);
    const struct hearth_weight *fc2 = &r.space->fc2;
    const size_t n = r.end - r.first;
    uint32_t *list = me->list;
    float *out = me->scores;
    memset(r.wanted + r.first, 0, n);
    if (is_elsewhere(w, task))
        return;
    const size_t count = w->source->ops->absent(w->source->state, r.space->id, r.first, r.end, list);
    const bool all = (float)count >= ALL_ROWS * (float)n;
    for (size_t i = 0; i < count && !all; i++)
        me->rows[i] = hearth_space_row(fc2, list[i]);
    HEARTH_ABOUT_TO_READ(hearth_space_row(fc2, r.first), n, fc2->stride,
                         hearth_type_bytes(fc2->type, fc2->k));
    for (int t = r.space->first; t < r.space->first + r.space->n && count; t++) {
        const struct hearth_operand o = hearth_operand_of(fc2, w->inner, w->acts, t);
        if (all)
            kernels->step[fc2->type](out, n, hearth_space_row(fc2, r.first), fc2->stride, fc2->k, n, o.x,
                                     o.x_stride, 1, w->matmul->scratch[worker]);
        else
            kernels->dot_rows[fc2->type](out, me->rows, count, fc2->k, o.x, o.x_stride, 1,
                                         w->matmul->scratch[worker]);
        for (size_t i = 0; i < count; i++)
            r.wanted[list[i]] |= out[all ? list[i] - r.first : i] >= w->threshold;
    }
}

void hearth_look_ahead_take(struct hearth_look_ahead *w, size_t cluster, const uint8_t *wanted, int worker)
{
    uint32_t *list = w->workers[worker].list;
    const struct range r = range_of(w, cluster);
    memset(r.wanted + r.first, 0, r.end - r.first);
    if (is_elsewhere(w, cluster))
        return;
    const size_t count = w->source->ops->absent(w->source->state, r.space->id, r.first, r.end, list);
    for (size_t i = 0; i < count; i++)
        r.wanted[list[i]] = wanted[list[i] - r.first];
}

void hearth_look_ahead_end(struct hearth_look_ahead *w)
{
    struct hearth_hint hints[HEARTH_STEP_ROWS];
    for (int i = 0; i < w->n_spaces; i++) {
        const size_t n = w->spaces[i].fc2.n, at = (size_t)i * n;
        uint32_t count = 0, *ids = w->ids + at;
        for (uint32_t j = 0; j < n; j++) {
            ids[count] = j;
            count += w->wanted[at + j];
        }
        hints[i] = (struct hearth_hint){.space = w->spaces[i].id, .ids = ids, .n = count};
    }
    w->source->ops->hint(w->source->state, hints, (uint32_t)w->n_spaces);
}

void hearth_look_ahead_lay_out(struct hearth_look_ahead *w, size_t max_rows, size_t inner,
                               struct hearth_arena *a)
{
    const size_t rows = HEARTH_STEP_ROWS, n_neurons = (size_t)hearth_ffn_neurons(w->c->hp);
    const size_t cluster = hearth_largest_cluster(w->c->hp);
    const size_t spaces = !w->c->hp->n_expert ? 1 : max_rows < rows ? max_rows : rows;
    const int n_workers = hearth_pool_size(w->c->pool);
    w->max_spaces = (int)spaces;
    w->inner = hearth_arena_take(a, rows, inner * sizeof *w->inner);
    w->acts = hearth_arena_take(a, rows, hearth_acts_bytes(inner));
    w->wanted = hearth_arena_take(a, spaces, n_neurons);
    w->ids = hearth_arena_take(a, spaces * n_neurons, sizeof *w->ids);
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
