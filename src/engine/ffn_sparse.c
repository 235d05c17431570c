// SPDX-License-Identifier: MIT
// Steps by neuron. A space is cut into clusters; one task takes a cluster of a part from the predictor's
// second matrix to its share of the output, with no barrier between gate, up and down. What it leaves out
// follows from the file and the token alone; how it computes the rest (row by row, or all rows of the cluster
// at once) is a free choice, because every product is the canonical one. The clusters' sums are then added in
// ascending order.
#include "engine/ffn_sparse.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/os.h"
#include "base/poison.h"
#include "engine/gates.h"
#include "model/ffn.h"
#include "model/pack.h"

// Columns that one task adds up.
#define SUM_COLUMNS 1024
// Share of a cluster's neurons from which on its dense product is taken, unless the file says another.
#define CROSSOVER 0.6f

// One pass: at most HEARTH_STEP_ROWS rows.
struct pass {
    struct hearth_sparse_work *work;
    int layer;
    const struct hearth_sparse_part *parts; // first is relative to the pass
    int n_rows;
    size_t n_clusters, cluster; // of each part; neurons of one
    const float *x, *seen;
    float *out, *act;
    float *gates;                       // activated, for on_gates; or NULL
    const struct hearth_source *source; // where single neurons come; else NULL
    float *inner;                       // the predictor's inner layer, [n_rows x K],
    void *inner_acts;                   // and its acts blocks
    uint8_t *masks;                     // [n_rows x F] where single neurons come
    bool asks;                          // the predictor; false: there is none, or it was asked a layer ago
    const float *scores;                // [n_rows x F] of it, where the device has it; or NULL
    int looks;                          // ahead: for so many rows of the next layer; 0: not at all
    size_t n_look_tasks;                // before a hint
    _Atomic size_t n_looks, n_looked;   // taken, done
    bool hinted;
    const struct hearth_look_guess *guess; // of the next layer's experts, or NULL
    struct hearth_hot *hot;                // of the layer; or NULL
    size_t n_hot;                          // clusters that its device computes, the first ones,
    bool is_hot_done;                      // and it has
    size_t from, end;                      // those that are the CPU's now
    const struct pass *next; // the same rows in the next layer, when its predictor is asked now; or NULL
};

// ---- one cluster

// The cluster in the hands of one worker: n_t tokens, neurons [at, at + n).
struct cluster {
    const struct pass *p;
    const struct hearth_sparse_part *part;
    struct hearth_sparse_worker *scratch;
    void *matmul;
    size_t at, n, n_t;
    uint8_t *mask; // [n_t x n] neurons that each token computes
};

// All rows of the cluster: out[t * n + i].
static void product_all(const struct cluster *c, const struct hearth_operand *o, float *out)
{
    const struct hearth_weight *w = o->w;
    HEARTH_ABOUT_TO_READ(hearth_space_row(w, c->at), c->n, w->stride, hearth_type_bytes(w->type, w->k));
    c->p->work->c->kernels->step[w->type](out, c->n, hearth_space_row(w, c->at), w->stride, w->k, c->n, o->x,
                                          o->x_stride, c->n_t, c->matmul);
}

// A store to a mask may change anything in the compiler's eyes, so the loops below keep what they need in
// locals: only then are they vectorised.

// The neurons that one token's mask names, ascending: their places in the cluster. Returns how many. Bytes
// of a mask are 0 or 1, and few are 1, so eight are looked at together.
static size_t list_marked(const uint8_t *mask, size_t n, uint32_t *list)
{
    size_t count = 0, i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t eight = 0;
        for (unsigned b = 0; b < 8; b++)
            eight |= (uint64_t)mask[i + b] << 8 * b;
        for (; eight; eight &= eight - 1)
            list[count++] = (uint32_t)i + (uint32_t)__builtin_ctzll(eight) / 8;
    }
    for (; i < n; i++)
        if (mask[i])
            list[count++] = (uint32_t)i;
    return count;
}

// How many neurons the tokens' masks name one by one, and (*all) how many of them are different ones.
static size_t count_marked(const struct cluster *c, size_t *all)
{
    const uint8_t *mask = c->mask;
    uint8_t *any = c->scratch->any;
    const size_t n = c->n, count = c->n_t * n;
    size_t sum = 0, different = 0;
    memcpy(any, mask, n);
    for (size_t t = 1; t < c->n_t; t++)
        for (size_t i = 0; i < n; i++)
            any[i] |= mask[t * n + i];
    for (size_t i = 0; i < count; i++)
        sum += mask[i];
    for (size_t i = 0; i < n; i++)
        different += any[i];
    *all = different;
    return sum;
}

// Whether gates are matrices of their own, which say what is needed of the rest.
static bool gates_decide(const struct cluster *c)
{
    const struct hearth_pack *pack = c->p->work->model->pack;
    return pack && pack->gates_apart && !hearth_has(&c->part->fc2);
}

// Whether all rows of a part lie in a matrix, although single neurons come from the source.
static bool is_apart(const struct cluster *c, enum hearth_part part)
{
    return part == HEARTH_PART_GATE && c->p->work->model->pack && c->p->work->model->pack->gates_apart;
}

// The row of the neuron in the cluster's place i, for a kernel.
static const void *row_of(const struct cluster *c, enum hearth_part part, const struct hearth_weight *w,
                          size_t i)
{
    const void *row = c->at + i < c->part->space.resident || is_apart(c, part)
                          ? hearth_space_row(w, c->at + i)
                          : c->scratch->bundles[i] + c->p->work->model->pack->layers[c->p->layer].at[part];
    HEARTH_ABOUT_TO_READ(row, 1, 0, hearth_type_bytes(w->type, w->k));
    return row;
}

// Whether the whole cluster lies in matrices.
static bool is_resident(const struct cluster *c)
{
    return c->at + c->n <= c->part->space.resident;
}

// out[t * n + i] for the neurons i that token t's mask names (and for others it may be anything). Returns the
// rows read. Each token has a list of its own: rows that several name come from the L2 cache then, and
// no product is made that nobody asked for.
static size_t product_some(const struct cluster *c, enum hearth_part part, const struct hearth_operand *o,
                           float *out)
{
    struct hearth_sparse_worker *w = c->scratch;
    size_t all;
    const size_t marked = count_marked(c, &all);
    if (!marked)
        return 0;
    if ((float)marked >= c->part->crossover * (float)(c->n * c->n_t) &&
        (is_resident(c) || is_apart(c, part))) {
        product_all(c, o, out);
        return c->n;
    }
    for (size_t t = 0; t < c->n_t; t++) {
        const size_t count = list_marked(c->mask + t * c->n, c->n, w->list);
        for (size_t i = 0; i < count; i++)
            w->rows[i] = row_of(c, part, o->w, w->list[i]);
        if (count)
            c->p->work->c->kernels->dot_rows[o->w->type](w->picked, w->rows, count, o->w->k,
                                                         o->x + t * o->x_stride, o->x_stride, 1, c->matmul);
        for (size_t i = 0; i < count; i++)
            out[t * c->n + w->list[i]] = w->picked[i];
    }
    return all;
}

// For the cache: the predictor's best score of each neuron among the tokens.
static void keep_scores(const struct cluster *c, const float *scores)
{
    const struct hearth_source *source = c->p->source;
    float *best = source->ops->scores(source->state, c->part->space_id) + c->at;
    memcpy(best, scores, c->n * sizeof *best);
    for (size_t t = 1; t < c->n_t; t++)
        for (size_t i = 0; i < c->n; i++)
            best[i] = scores[t * c->n + i] > best[i] ? scores[t * c->n + i] : best[i];
}

static void add_bias(const struct cluster *c, const struct hearth_weight *bias, float *x);
static void drop_idle(const struct cluster *c, const float *gate);

// Of all neurons in the mask, keeps those whose gate is on, before any bundle is wanted. Computing them later
// takes the gates of those anew, with the same bits.
static void choose_by_gate(const struct cluster *c)
{
    const struct hearth_weight *w = &c->part->space.gate;
    struct hearth_sparse_worker *me = c->scratch;
    const struct hearth_operand gate =
        hearth_operand_of(w, c->p->x, c->p->work->matmul->acts, c->part->first);
    product_all(c, &gate, me->gate);
    me->gate_bytes += c->n * w->stride;
    add_bias(c, &c->p->work->c->weights->layers[c->p->layer].ffn_gate_b, me->gate);
    keep_scores(c, me->gate);
    drop_idle(c, me->gate);
}

// The predictor's scores, to scratch->up. Returns the predictor's rows read.
static size_t score(const struct cluster *c)
{
    const float *all = c->p->scores;
    if (!all) {
        const struct hearth_operand fc2 =
            hearth_operand_of(&c->part->fc2, c->p->inner, c->p->inner_acts, c->part->first);
        product_all(c, &fc2, c->scratch->up);
        return c->n;
    }
    for (size_t t = 0; t < c->n_t; t++)
        memcpy(c->scratch->up + t * c->n, all + ((size_t)c->part->first + t) * c->part->space.n + c->at,
               c->n * sizeof *all);
    return 0;
}

// mask = 1 for the neurons that each token computes. Returns the predictor's rows read.
static size_t choose(const struct cluster *c)
{
    const struct hearth_sparse_work *work = c->p->work;
    uint8_t *mask = c->mask;
    if (!hearth_has(&c->part->fc2)) {
        memset(mask, 1, c->n_t * c->n);
        if (c->p->source && gates_decide(c))
            choose_by_gate(c);
        return 0;
    }
    const size_t read = score(c);
    if (c->p->source)
        keep_scores(c, c->scratch->up);
    const float *scores = c->scratch->up, least = work->mode->predict_threshold;
    const size_t n = c->n, count = c->n_t * n;
    for (size_t i = 0; i < count; i++)
        mask[i] = scores[i] >= least;
    if (c->at < c->part->always)
        for (size_t t = 0; t < c->n_t; t++)
            memset(mask + t * n, 1, c->part->always - c->at < n ? c->part->always - c->at : n);
    return read;
}

// Adds a bias of the layer to all tokens' values.
static void add_bias(const struct cluster *c, const struct hearth_weight *all, float *x)
{
    const float *bias = hearth_bias_of(all, (int)c->part->expert);
    for (size_t t = 0; bias && t < c->n_t; t++)
        c->p->work->c->kernels->add(x + t * c->n, bias + c->at, c->n);
}

// Of the neurons in the mask, keeps those whose activated gate is not nothing. `gate` gets activated for that
// where a magnitude decides, so a copy is used.
static void drop_idle(const struct cluster *c, const float *gate)
{
    const struct hearth_sparse_mode *mode = c->p->work->mode;
    const enum hearth_activation act = c->p->work->c->hp->activation;
    uint8_t *mask = c->mask;
    const size_t count = c->n_t * c->n;
    if (mode->sparsity == HEARTH_SPARSITY_OFF)
        return;
    if (hearth_act_is_relu(act))
        for (size_t i = 0; i < count; i++)
            mask[i] &= !(gate[i] <= 0.0f);
    if (mode->sparsity_threshold <= 0.0f)
        return;
    float *size = c->scratch->picked;
    memcpy(size, gate, count * sizeof *size);
    c->p->work->c->kernels->activate(size, count, act);
    for (size_t t = 0; c->p->gates && t < c->n_t; t++)
        memcpy(c->p->gates + ((size_t)c->part->first + t) * c->part->space.n + c->at, size + t * c->n,
               c->n * sizeof *size);
    const float least = hearth_sparse_mode_threshold(mode, c->p->layer);
    for (size_t i = 0; i < count; i++)
        mask[i] &= !(fabsf(size[i]) < least);
}

// What goes down: scratch->gate holds it afterwards, 0 where the mask says so.
static void activate(const struct cluster *c, bool gated)
{
    const struct hearth_context *ctx = c->p->work->c;
    struct hearth_sparse_worker *w = c->scratch;
    const size_t count = c->n_t * c->n;
    const uint8_t *mask = c->mask;
    float *out = w->gate;
    if (gated)
        hearth_glu_within(ctx->kernels, out, w->up, count, ctx->hp->activation,
                          hearth_limit_of(ctx->hp, c->p->layer, ctx->hp->n_expert != 0));
    else
        ctx->kernels->activate(out, count, ctx->hp->activation);
    for (size_t i = 0; i < count; i++)
        out[i] = mask[i] ? out[i] : 0.0f;
}

// The cluster's share of the output, per token from zero.
static size_t down(const struct cluster *c, size_t index)
{
    const struct pass *p = c->p;
    const struct hearth_weight *w = &c->part->space.down_t;
    struct hearth_sparse_work *work = p->work;
    struct hearth_sparse_worker *scratch = c->scratch;
    uint8_t *mask = c->mask;
    const float *act = scratch->gate;
    const size_t marks = c->n_t * c->n;
    size_t all;
    for (size_t i = 0; i < marks; i++)
        mask[i] = act[i] != 0.0f;
    count_marked(c, &all);
    for (size_t t = 0; t < c->n_t; t++) {
        const size_t row = ((size_t)c->part->first + t) * p->n_clusters + index;
        const size_t count = list_marked(mask + t * c->n, c->n, scratch->list);
        work->used[row] = count > 0;
        if (!count)
            continue;
        for (size_t i = 0; i < count; i++) {
            scratch->rows[i] = row_of(c, HEARTH_PART_DOWN, w, scratch->list[i]);
            scratch->picked[i] = scratch->gate[t * c->n + scratch->list[i]];
        }
        memset(work->partials + row * w->k, 0, w->k * sizeof *work->partials);
        p->work->c->kernels->axpy_rows[w->type](work->partials + row * w->k, scratch->rows, count, w->k,
                                                scratch->picked);
    }
    return all;
}

// Where a trace wants the cluster's neurons marked; or NULL.
static uint8_t *marks_of(const struct cluster *c)
{
    uint8_t *marks = c->p->work->c->probes->marks;
    return marks ? marks + (size_t)c->part->expert * c->part->space.n + c->at : NULL;
}

// Marks for the trace the neurons that some token's mask names, or whose activation is not 0.
static void mark_computed(const struct cluster *c)
{
    uint8_t *marks = marks_of(c);
    if (!marks || !hearth_has(&c->part->fc2))
        return;
    for (size_t t = 0; t < c->n_t; t++)
        for (size_t i = 0; i < c->n; i++)
            marks[i] |= c->mask[t * c->n + i];
}

// The same of those whose gate is on, where that is what is needed of a pack.
static void mark_on(const struct cluster *c)
{
    uint8_t *marks = marks_of(c);
    if (!marks || !gates_decide(c))
        return;
    for (size_t t = 0; t < c->n_t; t++)
        for (size_t i = 0; i < c->n; i++)
            marks[i] |= c->mask[t * c->n + i];
}

static void mark_active(const struct cluster *c)
{
    uint8_t *marks = marks_of(c);
    if (!marks || hearth_has(&c->part->fc2) || gates_decide(c))
        return;
    for (size_t t = 0; t < c->n_t; t++)
        for (size_t i = 0; i < c->n; i++)
            marks[i] |= c->scratch->gate[t * c->n + i] != 0.0f;
}

// Where cluster number `index` of the pass lies: clusters are numbered part by part.
static struct cluster cluster_of(const struct pass *p, int index, int worker)
{
    struct hearth_sparse_worker *me = &p->work->workers[worker];
    struct cluster c = {.p = p, .part = &p->parts[(size_t)index / p->n_clusters], .scratch = me};
    c.matmul = p->work->matmul->scratch[worker];
    c.at = (size_t)index % p->n_clusters * p->cluster;
    c.n = c.part->space.n - c.at < p->cluster ? c.part->space.n - c.at : p->cluster;
    c.n_t = (size_t)c.part->n;
    c.mask = p->source ? p->masks + (size_t)c.part->first * c.part->space.n + c.n_t * c.at : me->mask;
    return c;
}

// From the mask to the cluster's share of the output.
static void compute(const struct cluster *c, size_t index)
{
    const struct pass *p = c->p;
    const struct hearth_ffn ffn = hearth_ffn_of(p->work->c->hp, &p->work->c->weights->layers[p->layer]);
    const struct hearth_space *space = &c->part->space;
    struct hearth_sparse_worker *me = c->scratch;
    const bool gated = hearth_has(&space->gate);
    const struct hearth_operand gate =
        hearth_operand_of(gated ? &space->gate : &space->up, p->x, p->work->matmul->acts, c->part->first);
    const size_t gates = product_some(c, gated ? HEARTH_PART_GATE : HEARTH_PART_UP, &gate, me->gate);
    const bool chosen = p->source && gates_decide(c); // by these very gates
    *(gated ? &me->gate_bytes : &me->up_bytes) += chosen ? 0 : gates * gate.w->stride;
    add_bias(c, gated ? ffn.gate_b : ffn.up_b, me->gate);
    if (!chosen)
        drop_idle(c, me->gate);
    mark_on(c);
    if (gated) {
        const struct hearth_operand up =
            hearth_operand_of(&space->up, p->x, p->work->matmul->acts, c->part->first);
        me->up_bytes += product_some(c, HEARTH_PART_UP, &up, me->up) * up.w->stride;
        add_bias(c, ffn.up_b, me->up);
    }
    activate(c, gated);
    mark_active(c);
    if (hearth_has(&space->down_t))
        me->down_bytes += down(c, index) * space->down_t.stride;
    if (!hearth_has(&space->down_t) || p->work->c->probes->on_neurons)
        for (size_t t = 0; t < c->n_t; t++)
            memcpy(p->act + ((size_t)c->part->first + t) * space->n + c->at, me->gate + t * c->n,
                   c->n * sizeof(float));
}

static void cluster_task(void *arg, int task, int worker)
{
    const struct pass *p = arg;
    const struct cluster c = cluster_of(p, task, worker);
    c.scratch->predictor_bytes += choose(&c) * c.part->fc2.stride;
    mark_computed(&c);
    compute(&c, (size_t)task % p->n_clusters);
}

// ---- single neurons: the same in two steps, between which they come into memory

// What the device computes of a cluster, where it looks for that.
static void mark_hot(const struct cluster *c)
{
    struct hearth_hot *hot = c->p->hot;
    const size_t neurons = c->p->n_hot * c->p->cluster;
    for (size_t t = 0; t < c->n_t; t++)
        memcpy(hot->masks + t * neurons + c->at, c->mask + t * c->n, c->n);
}

// Chooses for a cluster of the device, where that is not done for all.
static void hot_task(void *arg, int task, int worker)
{
    const struct pass *p = arg;
    const struct cluster c = cluster_of(p, task, worker);
    c.scratch->predictor_bytes += choose(&c) * c.part->fc2.stride;
    mark_hot(&c);
}

static void begin_hot(const struct pass *p)
{
    if (p->n_hot && !p->scores)
        hearth_hot_begin(p->hot, p->layer, p->n_hot, p->x, p->n_rows);
}

// Chooses, unless that was done a layer ago, and wants what any token has chosen.
static void choose_task(void *arg, int task, int worker)
{
    const struct pass *p = arg;
    const struct cluster c = cluster_of(p, task, worker);
    if (p->asks || !hearth_has(&c.part->fc2))
        c.scratch->predictor_bytes += choose(&c) * c.part->fc2.stride;
    mark_computed(&c);
    size_t all;
    uint32_t *ids = p->work->ids + (size_t)c.part->first * c.part->space.n + c.at;
    count_marked(&c, &all);
    const size_t n = list_marked(c.scratch->any, c.n, ids);
    for (size_t i = 0; i < n; i++)
        ids[i] += (uint32_t)c.at;
    p->work->wants[task] = (struct hearth_want){.space = c.part->space_id,
                                                .at = (uint32_t)c.at,
                                                .n = (uint32_t)c.n,
                                                .ids = ids,
                                                .n_ids = (uint32_t)n,
                                                .n_rows = c.part->n};
    if ((size_t)task < p->n_hot) { // nothing of it is to be read
        p->work->wants[task].n_ids = 0;
        if (!p->scores)
            mark_hot(&c);
    }
}

// After the device has failed: of its clusters all is wanted that was chosen, of the others nothing more.
static void want_again_task(void *arg, int task, int worker)
{
    const struct pass *p = arg;
    const struct cluster c = cluster_of(p, task, worker);
    struct hearth_want *want = &p->work->wants[task];
    size_t all;
    want->n_ids = 0;
    if ((size_t)task >= p->end)
        return;
    count_marked(&c, &all);
    want->n_ids = (uint32_t)list_marked(c.scratch->any, c.n, p->work->ids + c.at);
    for (size_t i = 0; i < want->n_ids; i++)
        p->work->ids[c.at + i] += (uint32_t)c.at;
}

// Chooses for the next layer, and finds out what of that is not in memory.
static void choose_ahead(const struct pass *p, size_t cluster, int worker)
{
    const struct cluster c = cluster_of(p->next, (int)cluster, worker);
    size_t all;
    c.scratch->predictor_bytes += choose(&c) * c.part->fc2.stride;
    count_marked(&c, &all);
    hearth_look_ahead_take(&p->work->look, cluster, c.scratch->any, worker);
}

// Finds out what the next layer will want of one of its clusters. False: that has been done for all.
static bool look(struct pass *p, int worker)
{
    if (!p->looks || atomic_load_explicit(&p->n_looks, memory_order_relaxed) >= p->n_look_tasks)
        return false;
    const size_t task = atomic_fetch_add_explicit(&p->n_looks, 1, memory_order_relaxed);
    if (task >= p->n_look_tasks)
        return false;
    if (p->next)
        choose_ahead(p, task, worker);
    else
        hearth_look_ahead_choose(&p->work->look, task, worker);
    atomic_fetch_add_explicit(&p->n_looked, 1, memory_order_release);
    return true;
}

// Once that is known: has it read, while the other threads compute.
static void hint(struct pass *p)
{
    if (!p->looks || p->hinted || atomic_load_explicit(&p->n_looked, memory_order_acquire) < p->n_look_tasks)
        return;
    p->hinted = true;
    hearth_look_ahead_end(&p->work->look);
}

static void compute_want(const struct pass *p, const struct hearth_want *want, int worker)
{
    const int index = (int)(want - p->work->wants);
    if ((size_t)index % p->n_clusters < p->from || (size_t)index % p->n_clusters >= p->end)
        return;
    const struct cluster c = cluster_of(p, index, worker);
    p->source->ops->locate(p->source->state, want, c.scratch->bundles);
    compute(&c, (size_t)index % p->n_clusters);
}

// What each thread does until all wants of the wave are computed. Worker 0 first has the source ask.
static void work_task(void *arg, int task, int worker)
{
    (void)task;
    struct pass *p = arg;
    const struct hearth_source *source = p->source;
    unsigned waits = 0;
    for (bool looks = worker != 0;; looks = true) {
        if (!looks || !look(p, worker)) {
            uint32_t n;
            bool wait;
            const struct hearth_want *want = source->ops->next(source->state, worker, &n, &wait);
            if (want) {
                compute_want(p, want, worker);
            } else if (!wait && looks) {
                break;
            } else if (wait && worker != 0) {
                hearth_pool_relax(&waits);
                continue;
            }
        }
        waits = 0;
        if (worker == 0)
            hint(p);
    }
    if (worker == 0)
        hint(p);
}

static void settle(void *arg)
{
    const struct hearth_source *source = arg;
    source->ops->settle(source->state);
}

// Before lists are written anew: what the last pass has left to settle is named by them.
static void settle_now(const struct pass *p)
{
    p->source->ops->settle(p->source->state);
}

// Has the pass's wants computed as their neurons come into memory.
static void run_wants(struct pass *p, int n_wants)
{
    const struct hearth_context *ctx = p->work->c;
    const struct hearth_source *source = p->source;
    const struct hearth_request request = {.phase = HEARTH_PHASE_STEP,
                                           .layer = p->layer,
                                           .n_tokens = p->n_rows,
                                           .wants = p->work->wants,
                                           .n = (uint32_t)n_wants};
    source->ops->request(source->state, &request);
    do // one task for each thread: while reads are awaited no task ends, so worker 0 gets one
        hearth_parallel(ctx, work_task, p, hearth_pool_size(ctx->pool));
    while (source->ops->more(source->state));
    *ctx->deferred = (struct hearth_deferred){settle, &p->work->sources->ffn};
}

// ---- around the clusters

// What the next layer's predictor gets: where predictors look at the layer before, this layer's own input.
static const float *seen_ahead(const struct pass *p)
{
    return p->work->c->hp->predictor_input == HEARTH_PREDICTOR_PREVIOUS ? p->x : p->seen;
}

// Whether the CPU asks the predictor.
static bool asks_itself(const struct pass *p)
{
    return p->asks && !p->scores;
}

// Quantises a row of x (tasks below n_rows), or makes a row of the predictor's inner layer ready.
static void prepare_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct pass *p = arg;
    const struct hearth_kernels *kernels = p->work->c->kernels;
    const size_t width = (size_t)p->work->c->hp->n_embd, inner = p->parts[0].fc2.k;
    const int ahead = task - (1 + asks_itself(p)) * p->n_rows;
    const size_t row = (size_t)(task % p->n_rows);
    if (task < p->n_rows) {
        kernels->quantize_acts(p->work->matmul->acts + row * hearth_acts_bytes(width), p->x + row * width,
                               width);
        return;
    }
    if (ahead >= 0) {
        hearth_look_ahead_prepare(&p->work->look, ahead, seen_ahead(p));
        return;
    }
    hearth_inner_prepare(kernels, p->inner + row * inner,
                         (uint8_t *)p->inner_acts + row * hearth_acts_bytes(inner), inner, p->parts[0].fc1.n,
                         p->seen + row * width);
}

static void sum_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct pass *p = arg;
    const struct hearth_sparse_work *work = p->work;
    const size_t width = (size_t)work->c->hp->n_embd, chunks = (width + SUM_COLUMNS - 1) / SUM_COLUMNS;
    const size_t row = (size_t)task / chunks, first = (size_t)task % chunks * SUM_COLUMNS;
    const size_t n = width - first < SUM_COLUMNS ? width - first : SUM_COLUMNS;
    float *out = p->out + row * width + first;
    if (p->is_hot_done)
        memcpy(out, p->hot->sum + row * width + first, n * sizeof *out);
    else
        memset(out, 0, n * sizeof *out);
    for (size_t c = row * p->n_clusters + (p->is_hot_done ? p->n_hot : 0); c < (row + 1) * p->n_clusters; c++)
        if (work->used[c])
            p->work->c->kernels->add(out, work->partials + c * width + first, n);
}

// Begins to look ahead, where the next layer is in memory: `products` are to be evaluated then. Returns how
// many.
static int begin_to_look(struct pass *p, struct hearth_product *products)
{
    struct hearth_sparse_work *work = p->work;
    const int next = p->layer + 1;
    int n = 0;
    if (!hearth_is_here(work->c, next) || !hearth_sources_has_stage(work->sources, next))
        return 0;
    if (p->guess)
        n = hearth_look_ahead_begin_experts(&work->look, work->sources, next, p->guess, products);
    else if (p->asks || p->next)
        n = hearth_look_ahead_begin(&work->look, work->sources, next, p->n_rows, HEARTH_GUESS_EARLY,
                                    products);
    work->look.n_elsewhere = hearth_hot_clusters(hearth_hot_of(work->hot, next), next);
    p->n_look_tasks = n ? hearth_look_ahead_tasks(&work->look) : 0;
    p->looks = n ? work->look.n_rows : 0;
    return n;
}

// First products of predictors: this layer's, and the next one's when that is asked or guessed at. They have
// one input, except where the next layer's predictor looks at this layer and this one's at the layer before.
static void ask_predictors(struct pass *p, int n_parts)
{
    struct hearth_sparse_work *work = p->work;
    struct hearth_product *products = work->products;
    int n = 0;
    for (; asks_itself(p) && n < n_parts; n++) {
        const struct hearth_sparse_part *part = &p->parts[n];
        work->workers[0].predictor_bytes += part->fc1.n * part->fc1.stride;
        products[n] =
            hearth_inner_product(&part->fc1, &part->fc2, p->inner + (size_t)part->first * part->fc2.k);
        products[n].first = part->first;
        products[n].n = part->n;
    }
    const int more = p->source ? begin_to_look(p, products + n) : 0;
    if (more && p->next)
        work->workers[0].predictor_bytes += products[n].w.n * products[n].w.stride;
    const float *ahead = seen_ahead(p);
    const int together = ahead == p->seen ? more : 0;
    if (n + together)
        hearth_matmul(work->matmul, HEARTH_PHASE_STEP, products, n + together, p->seen, p->n_rows);
    if (more > together)
        hearth_matmul(work->matmul, HEARTH_PHASE_STEP, products + n, more, ahead, p->n_rows);
}

// A cluster behind the device's, or one of these after it has failed.
static void rest_task(void *arg, int task, int worker)
{
    const struct pass *p = arg;
    cluster_task(arg, task + (int)p->from, worker);
}

// Waits for the device; where it has failed, its clusters are computed here.
static void end_hot(struct pass *p, int n_units)
{
    const uint64_t began = hearth_now_ns();
    p->is_hot_done = hearth_hot_end(p->hot);
    p->hot->share.wait_ns += hearth_now_ns() - began;
    if (p->is_hot_done)
        return;
    p->from = 0;
    p->end = p->n_hot;
    if (!p->source) {
        hearth_parallel(p->work->c, rest_task, p, (int)p->end);
        return;
    }
    settle_now(p);
    hearth_parallel(p->work->c, want_again_task, p, n_units);
    run_wants(p, n_units);
}

// The clusters' shares of the output, whoever computes them.
static void run_clusters(struct pass *p, int n_units)
{
    const struct hearth_context *ctx = p->work->c;
    p->from = p->n_hot;
    p->end = p->n_clusters;
    if (p->source) {
        settle_now(p);
        hearth_parallel(ctx, choose_task, p, n_units);
        begin_hot(p);
        run_wants(p, n_units);
    } else if (p->n_hot) {
        if (!p->scores)
            hearth_parallel(ctx, hot_task, p, (int)p->n_hot);
        begin_hot(p);
        hearth_parallel(ctx, rest_task, p, (int)(p->end - p->from));
    } else {
        hearth_parallel(ctx, cluster_task, p, n_units);
    }
    if (p->n_hot)
        end_hot(p, n_units);
}

// Has the device ask the layer's predictor, where it has that and computes some of the layer.
static void ask_device(struct pass *p)
{
    if (!p->n_hot || !p->asks || !hearth_hot_asks(p->hot, p->layer))
        return;
    hearth_hot_ask(p->hot, p->layer, p->n_hot, p->x, p->seen, p->n_rows);
    p->scores = p->hot->host_scores;
}

// Waits for what it says. Where it has failed, the CPU asks, and computes all clusters.
static void await_scores(struct pass *p)
{
    struct hearth_product product;
    const struct hearth_sparse_part *part = &p->parts[0];
    if (!p->scores || hearth_hot_scores(p->hot))
        return;
    p->scores = NULL;
    p->n_hot = 0;
    product = hearth_inner_product(&part->fc1, &part->fc2, p->inner);
    product.n = p->n_rows;
    hearth_matmul(p->work->matmul, HEARTH_PHASE_STEP, &product, 1, p->seen, p->n_rows);
    hearth_parallel(p->work->c, prepare_task, p, 2 * p->n_rows); // those of x were overwritten
}

static void run_pass(struct pass *p, int n_parts)
{
    const struct hearth_context *ctx = p->work->c;
    const int n_units = n_parts * (int)p->n_clusters;
    const bool shared = hearth_hot_clusters(p->hot, p->layer) != 0;
    const uint64_t began = shared ? hearth_now_ns() : 0;
    ask_device(p);
    ask_predictors(p, n_parts);
    hearth_parallel(ctx, prepare_task, p, (1 + asks_itself(p)) * p->n_rows + p->looks);
    await_scores(p);
    run_clusters(p, n_units);
    if (shared)
        p->hot->share.all_ns += hearth_now_ns() - began;
    if (hearth_has(&p->parts[0].space.down_t)) {
        const int chunks = (ctx->hp->n_embd + SUM_COLUMNS - 1) / SUM_COLUMNS;
        hearth_parallel(ctx, sum_task, p, p->n_rows * chunks);
    }
}

// Where the masks of a layer are, from row `base` of the step on. Those that are made a layer ahead lie beside
// those in use.
static uint8_t *masks_of(const struct hearth_sparse_work *w, int layer, int base)
{
    const size_t row = w->max_early ? (size_t)(layer % 2) * w->max_early + (size_t)base : 0;
    return w->masks + row * (size_t)hearth_ffn_neurons(w->c->hp);
}

// Takes the next rows of the parts, as many as a pass has. Returns how many parts these are of; *part is the
// first that has rows left.
static int take_rows(struct pass *p, const struct hearth_sparse_part *parts, int n_parts, int base, int *part)
{
    struct hearth_sparse_part *now = p->work->parts;
    int n = 0;
    while (*part < n_parts && p->n_rows < HEARTH_STEP_ROWS) {
        const int from = base + p->n_rows, left = parts[*part].first + parts[*part].n - from;
        const int room = HEARTH_STEP_ROWS - p->n_rows;
        now[n] = parts[*part];
        now[n].first = p->n_rows;
        now[n].n = left < room ? left : room;
        p->n_rows += now[n++].n;
        *part += left <= room;
    }
    return n;
}

// The same rows in the next layer, of whose pass only the choice is made.
static struct pass next_of(const struct pass *p, struct hearth_sparse_part *part, int base)
{
    struct pass next = *p;
    *part = hearth_sparse_part_of(p->work, p->layer + 1, 0);
    part->n = p->n_rows;
    next.layer = p->layer + 1;
    next.parts = part;
    next.inner = p->work->look.inner;
    next.inner_acts = p->work->look.acts;
    next.masks = masks_of(p->work, next.layer, base);
    return next;
}

// How many clusters are the device's. Of those that it has, all, where the CPU would have to read them.
static size_t count_hot(const struct hearth_hot *hot, int layer, int n_rows, bool streams)
{
    return streams ? hearth_hot_clusters(hot, layer) : hearth_hot_share(hot, layer, n_rows);
}

void hearth_sparse_run(struct hearth_sparse_work *w, int layer, const struct hearth_sparse_part *parts,
                       int n_parts, const float *x, const float *seen, float *out, float *act, float *gates)
{
    const struct hearth_probes *probes = w->c->probes;
    const size_t f = parts[0].space.n, width = (size_t)w->c->hp->n_embd;
    const int end = parts[n_parts - 1].first + parts[n_parts - 1].n;
    const bool known = w->max_early && w->known == layer;
    struct hearth_hot *hot = hearth_hot_of(w->hot, layer);
    const size_t n_hot = count_hot(hot, layer, end, w->sources->ffn.ops->gives_neurons);
    bool looked = true;
    for (int base = 0, part = 0; base < end;) {
        struct pass next, p = {.work = w,
                               .layer = layer,
                               .parts = w->parts,
                               .n_clusters = hearth_cluster_count(f),
                               .cluster = hearth_cluster_size(f),
                               .x = x + (size_t)base * width,
                               .seen = seen + (size_t)base * width,
                               .out = out + (size_t)base * width,
                               .act = act ? act + (size_t)base * f : NULL,
                               .gates = gates ? gates + (size_t)base * f : NULL,
                               .source = w->sources->ffn.ops->gives_neurons ? &w->sources->ffn : NULL,
                               .inner = w->inner,
                               .inner_acts = w->inner_acts,
                               .masks = masks_of(w, layer, base),
                               .asks = hearth_has(&parts[0].fc1) && !known,
                               .hot = hot,
                               .n_hot = hearth_probes_see_neurons(probes) ? 0 : n_hot,
                               .guess = w->guess.n_rows && end <= HEARTH_STEP_ROWS ? &w->guess : NULL};
        struct hearth_sparse_part next_part;
        const int n = take_rows(&p, parts, n_parts, base, &part);
        if (p.source && w->max_early && hearth_is_here(w->c, layer + 1)) {
            next = next_of(&p, &next_part, base);
            p.next = &next;
        }
        run_pass(&p, n);
        looked &= p.looks > 0;
        base += p.n_rows;
    }
    w->known = looked ? layer + 1 : -1;
    for (int i = 0; probes->on_marks && i < n_parts; i++)
        probes->on_marks(probes->on_marks_arg, layer, parts[i].expert,
                         probes->marks + (size_t)parts[i].expert * f);
}

struct look {
    struct hearth_look_ahead *ahead;
    const float *seen;
};

static void prepare_look_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct look *look = arg;
    hearth_look_ahead_prepare(look->ahead, task, look->seen);
}

static void look_task(void *arg, int task, int worker)
{
    hearth_look_ahead_choose(arg, (size_t)task, worker);
}

bool hearth_sparse_looks(const struct hearth_sparse_work *w, int layer)
{
    const struct hearth_source *source = &w->sources->ffn;
    if (!source->ops->gives_neurons || !w->look.inner || w->c->hp->n_expert)
        return false;
    const bool early = layer && hearth_is_here(w->c, layer - 1) &&
                       hearth_sources_has_stage(w->sources, layer) &&
                       source->ops->takes_hints(source->state, layer, HEARTH_PHASE_STEP, HEARTH_GUESS_EARLY);
    return !early && source->ops->takes_hints(source->state, layer, HEARTH_PHASE_STEP, HEARTH_GUESS_LATE);
}

void hearth_sparse_look(struct hearth_sparse_work *w, int layer, const float *seen, int n_rows)
{
    struct hearth_product product;
    struct look look = {&w->look, seen};
    w->look.n_elsewhere = hearth_hot_clusters(hearth_hot_of(w->hot, layer), layer);
    if (n_rows > HEARTH_STEP_ROWS ||
        !hearth_look_ahead_begin(&w->look, w->sources, layer, n_rows, HEARTH_GUESS_LATE, &product))
        return;
    hearth_matmul(w->matmul, HEARTH_PHASE_STEP, &product, 1, seen, n_rows);
    hearth_parallel(w->c, prepare_look_task, &look, n_rows);
    hearth_parallel(w->c, look_task, &w->look, (int)hearth_look_ahead_tasks(&w->look));
    hearth_look_ahead_end(&w->look);
}

struct hearth_sparse_part hearth_sparse_part_of(const struct hearth_sparse_work *w, int layer, int expert)
{
    const struct hearth_hparams *hp = w->c->hp;
    const struct hearth_layer *l = &w->c->weights->layers[layer];
    const size_t space = (size_t)layer * (size_t)hearth_ffn_experts(hp) + (size_t)expert;
    const struct hearth_ffn f = hearth_ffn_of(hp, l);
    const struct hearth_source *source = &w->sources->ffn;
    struct hearth_sparse_part part = {
        .space = source->ops->gives_neurons ? source->ops->space(source->state, (uint32_t)space)
                                            : hearth_space_of(hp, l, expert),
        .always = w->model->always ? w->model->always[space] : 0,
        .crossover = w->model->crossover ? w->model->crossover[space] : CROSSOVER,
        .expert = expert,
        .space_id = (uint32_t)space};
    if (w->mode->sparsity == HEARTH_SPARSITY_PREDICT) {
        part.fc1 = hearth_expert(f.fc1, expert);
        part.fc2 = hearth_expert(f.fc2, expert);
    }
    return part;
}

// ---- opening

static struct hearth_sparse_worker lay_out_worker(size_t cluster, bool streams, struct hearth_arena *a)
{
    const size_t rows = HEARTH_STEP_ROWS, f32 = sizeof(float);
    struct hearth_sparse_worker w = {0};
    w.gate = hearth_arena_take(a, rows, cluster * f32);
    w.up = hearth_arena_take(a, rows, cluster * f32);
    w.picked = hearth_arena_take(a, rows, cluster * f32);
    w.mask = hearth_arena_take(a, rows, cluster);
    w.any = hearth_arena_take(a, 1, cluster);
    w.list = hearth_arena_take(a, cluster, sizeof *w.list);
    w.rows = hearth_arena_take(a, cluster, sizeof *w.rows);
    w.bundles = hearth_arena_take(a, streams ? cluster : 0, sizeof *w.bundles);
    return w;
}

void hearth_sparse_lay_out(struct hearth_sparse_work *w, bool streams, size_t max_steps,
                           struct hearth_arena *a)
{
    const struct hearth_hparams *hp = w->c->hp;
    const size_t rows = HEARTH_STEP_ROWS, e = (size_t)hp->n_embd, f32 = sizeof(float);
    const size_t f = (size_t)hearth_ffn_neurons(hp), clusters = hearth_most_clusters(hp);
    const size_t inner = hearth_sparse_mode_inner(w->mode, w->model);
    const int n_workers = hearth_pool_size(w->c->pool);
    if (!hearth_sparse_mode_any(w->mode, w->model))
        return;
    // A layer's clusters ask for the next one's, so both are to have as many.
    const bool early = streams && inner && hp->predictor_input == HEARTH_PREDICTOR_PREVIOUS &&
                       !hp->n_expert && !hearth_widths_differ(hp);
    w->max_early = early ? max_steps : 0;
    w->known = -1;
    w->parts = hearth_arena_take(a, rows, sizeof *w->parts);
    w->products = hearth_arena_take(a, 2 * rows, sizeof *w->products);
    w->inner = hearth_arena_take(a, rows, inner * f32);
    w->inner_acts = hearth_arena_take(a, rows, hearth_acts_bytes(inner));
    w->partials = hearth_arena_take(a, rows * clusters, e * f32);
    w->used = hearth_arena_take(a, rows, clusters);
    w->workers = hearth_arena_take(a, (size_t)n_workers, sizeof *w->workers);
    for (int i = 0; i < n_workers; i++) {
        const struct hearth_sparse_worker worker = lay_out_worker(hearth_largest_cluster(hp), streams, a);
        if (w->workers)
            w->workers[i] = worker;
    }
    w->wants = hearth_arena_take(a, streams ? rows * clusters : 0, sizeof *w->wants);
    w->masks = hearth_arena_take(a, early ? 2 * max_steps : streams ? rows : 0, f);
    w->ids = hearth_arena_take(a, streams ? rows : 0, f * sizeof *w->ids);
    w->look.c = w->c;
    w->look.matmul = w->matmul;
    w->look.threshold = w->mode->predict_threshold;
    if (streams && inner)
        hearth_look_ahead_lay_out(&w->look, max_steps * (size_t)hearth_ffn_used(hp), inner, a);
}
