// SPDX-License-Identifier: MIT
// A feed-forward part in experts: a router scores them for each token, the best few are computed, and their
// outputs are added with the router's weights.
//
// Tokens are grouped by expert, so that an expert's matrices are read once for all of its tokens. That
// changes no result: every element of an expert's output has its own canonical reduction
// (src/kernels/kernels.h), and a token's outputs are added in ascending order of expert.
#include "engine/matmul.h"
#include "engine/sparse.h"
#include "engine/streaming.h"

#include <string.h>

struct job {
    struct hearth_session *s;
    int first;    // slot that task 0 stands for
    size_t at, n; // neurons
};

// Keeps the U best of X scores in `ids`, best first; of equal ones the lower number.
static void choose_best(const float *scores, int n_expert, int *ids, int n_used)
{
    for (int e = 0, n = 0; e < n_expert; e++) {
        if (n == n_used && !(scores[e] > scores[ids[n - 1]]))
            continue;
        int at = n < n_used ? n++ : n - 1;
        for (; at > 0 && scores[e] > scores[ids[at - 1]]; at--)
            ids[at] = ids[at - 1];
        ids[at] = e;
    }
}

static void sort(int *ids, int n)
{
    for (int i = 1; i < n; i++) {
        int id = ids[i], at = i;
        for (; at > 0 && ids[at - 1] > id; at--)
            ids[at] = ids[at - 1];
        ids[at] = id;
    }
}

// Experts and weights of one token. A weight is exp(score - best) over the sum of all (the softmax), or over
// the sum of the chosen ones in ascending order of expert.
static void choose_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_hparams *hp = &j->s->model->hp;
    struct hearth_expert_work *x = &j->s->work.experts;
    float *scores = hearth_row_of(x->scores, task, hp->n_expert);
    float *weights = hearth_row_of(x->weights, task, hp->n_expert_used);
    int *ids = x->ids + (size_t)task * (size_t)hp->n_expert_used;

    choose_best(scores, hp->n_expert, ids, hp->n_expert_used);
    sort(ids, hp->n_expert_used);
    float total;
    j->s->model->kernels.softmax_tile(scores, (size_t)hp->n_expert, 1.0f, &total);
    if (hp->expert_renorm) {
        total = 0;
        for (int i = 0; i < hp->n_expert_used; i++)
            total += scores[ids[i]];
    }
    for (int i = 0; i < hp->n_expert_used; i++)
        weights[i] = scores[ids[i]] / total;
}

// Counts each expert's tokens and lists those that have any, ascending. Returns how many.
static int list_used(struct hearth_expert_work *x, int n_expert, size_t n_slots)
{
    memset(x->counts, 0, (size_t)n_expert * sizeof *x->counts);
    for (size_t i = 0; i < n_slots; i++)
        x->counts[x->ids[i]]++;
    int n = 0;
    for (int e = 0; e < n_expert; e++)
        if (x->counts[e])
            x->order[n++] = e;
    return n;
}

// Gives each (token, expert) pair its slot, in the order of experts.
static void assign_slots(struct hearth_expert_work *x, int n_used, size_t n_slots)
{
    for (int i = 0, first = 0; i < n_used; i++) {
        const int e = x->order[i];
        x->units[i] = (struct hearth_expert_unit){.expert = e, .first = first, .n = x->counts[e]};
        x->next[e] = first;
        first += x->counts[e];
    }
    for (size_t i = 0; i < n_slots; i++)
        x->slots[i] = x->next[x->ids[i]]++;
}

// What a unit's weights are; where they are follows from `all` unless the experts stream.
static struct hearth_weight weight_of(const struct hearth_weight *all, int expert)
{
    return all->data ? hearth_expert(all, expert) : *all;
}

static void point_units(const struct hearth_layer *w, struct hearth_expert_unit *units, int n)
{
    for (int i = 0; i < n; i++) {
        struct hearth_expert_unit *u = &units[i];
        u->gate = weight_of(&w->ffn_gate_exps, u->expert);
        u->up = weight_of(&w->ffn_up_exps, u->expert);
        u->down = weight_of(w->ffn_down_t_exps.data ? &w->ffn_down_t_exps : &w->ffn_down_exps, u->expert);
    }
}

static void gather_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_hparams *hp = &j->s->model->hp;
    const struct hearth_expert_work *x = &j->s->work.experts;
    const int *slots = x->slots + (size_t)task * (size_t)hp->n_expert_used;
    const float *from = hearth_row_of(j->s->work.h, task, hp->n_embd);
    for (int i = 0; i < hp->n_expert_used; i++)
        memcpy(hearth_row_of(x->rows, slots[i], hp->n_embd), from, (size_t)hp->n_embd * sizeof *from);
}

// What the experts' predictors look at, when that is not what goes into them.
static void gather_seen_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_hparams *hp = &j->s->model->hp;
    const int *slots = j->s->work.experts.slots + (size_t)task * (size_t)hp->n_expert_used;
    const float *from = hearth_row_of(j->s->work.x, task, hp->n_embd);
    for (int i = 0; i < hp->n_expert_used; i++)
        memcpy(hearth_row_of(j->s->work.sparse.seen, slots[i], hp->n_embd), from,
               (size_t)hp->n_embd * sizeof *from);
}

static void activate_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_hparams *hp = &j->s->model->hp;
    float *gate = hearth_row_of(j->s->work.gate, j->first + task, hp->n_ff_exp) + j->at;
    j->s->model->kernels.glu(gate, gate, hearth_row_of(j->s->work.up, j->first + task, hp->n_ff_exp) + j->at,
                             j->n, hp->activation);
}

// h = the weighted sum of the token's experts: fma(weight, output, h) from 0, ascending.
static void combine_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_hparams *hp = &j->s->model->hp;
    const struct hearth_expert_work *x = &j->s->work.experts;
    const size_t used = (size_t)hp->n_expert_used, width = (size_t)hp->n_embd;
    const int *slots = x->slots + (size_t)task * used;
    float *h = hearth_row_of(j->s->work.h, task, hp->n_embd);
    memset(h, 0, width * sizeof *h);
    for (size_t i = 0; i < used; i++)
        j->s->model->kernels.axpy[HEARTH_TYPE_F32](h, hearth_row_of(x->rows, slots[i], hp->n_embd),
                                                   width * sizeof *h, width, 1,
                                                   &x->weights[(size_t)task * used + i]);
}

static void tell(const struct hearth_session *s, int layer, int n)
{
    const struct hearth_expert_work *x = &s->work.experts;
    const size_t used = (size_t)s->model->hp.n_expert_used;
    for (int i = 0; i < n; i++)
        s->on_experts(s->on_experts_arg, layer, s->work.rows[i], x->ids + (size_t)i * used,
                      x->weights + (size_t)i * used, (int)used);
}

static void tell_neurons(const struct hearth_session *s, int layer, int n)
{
    const struct hearth_expert_work *x = &s->work.experts;
    const int used = s->model->hp.n_expert_used, n_ff = s->model->hp.n_ff_exp;
    for (int i = 0; s->on_neurons && i < n * used; i++)
        s->on_neurons(s->on_neurons_arg, layer, x->ids[i], s->work.rows[i / used],
                      hearth_row_of(s->work.gate, x->slots[i], n_ff));
}

static void tell_gates(const struct hearth_session *s, int layer, int n)
{
    const struct hearth_expert_work *x = &s->work.experts;
    const int used = s->model->hp.n_expert_used, n_ff = s->model->hp.n_ff_exp;
    for (int i = 0; s->on_gates && s->sparsity_threshold > 0.0f && i < n * used; i++)
        s->on_gates(s->on_gates_arg, layer, s->work.rows[i / used],
                    hearth_row_of(s->work.up, x->slots[i], n_ff));
}

// Rows of a step for which the next layer's experts are guessed; more would want most of them.
#define GUESS_ROWS 8

// What the next layer will probably want. A prompt wants nearly all; of a step, its router is asked with the
// stream as it is before this layer's feed-forward part. Uses what assigning slots and gathering fill.
static void guess_next(struct hearth_session *s, enum hearth_phase phase, int layer, int n)
{
    struct hearth_expert_stream *stream = hearth_streaming_experts(s);
    const struct hearth_hparams *hp = &s->model->hp;
    struct hearth_expert_work *x = &s->work.experts;
    if (!hearth_expert_stream_looks_ahead(stream))
        return;
    if (phase == HEARTH_PHASE_PROMPT) {
        for (int e = 0; e < hp->n_expert && n * hp->n_expert_used >= 2 * hp->n_expert; e++)
            hearth_expert_stream_guess(stream, e);
        return;
    }
    if (n > GUESS_ROWS || hp->layer_norm)
        return;
    const struct hearth_layer *next = &s->weights.layers[layer + 1];
    for (int i = 0; i < n; i++)
        s->model->kernels.rms_norm(hearth_row_of(x->rows, i, hp->n_embd),
                                   hearth_row_of(s->work.x, i, hp->n_embd), next->ffn_norm.data,
                                   (size_t)hp->n_embd, hp->norm_eps);
    struct hearth_product router = {.w = next->ffn_router, .out = x->scores, .n = n};
    hearth_matmul(s, phase, &router, 1, x->rows, n);
    for (int i = 0; i < n; i++) {
        choose_best(hearth_row_of(x->scores, i, hp->n_expert), hp->n_expert, x->next, hp->n_expert_used);
        for (int k = 0; k < hp->n_expert_used; k++)
            hearth_expert_stream_guess(stream, x->next[k]);
    }
}

// The units of an evaluation, or some consecutive ones that are in memory.
struct group {
    struct hearth_session *s;
    enum hearth_phase phase;
    int layer;
};

// What goes down, work.gate, to x->rows.
static void compute_down(const struct group *g, const struct hearth_expert_unit *units, int n)
{
    struct hearth_session *s = g->s;
    struct hearth_expert_work *x = &s->work.experts;
    const size_t width = (size_t)s->model->hp.n_ff_exp, embd = (size_t)s->model->hp.n_embd;
    const int begin = units[0].first, end = units[n - 1].first + units[n - 1].n;
    const bool by_neuron = s->weights.layers[g->layer].ffn_down_t_exps.data != NULL;
    for (int i = 0; i < n; i++)
        x->tasks[i] = (struct hearth_product){.w = units[i].down,
                                              .out = x->rows + (size_t)units[i].first * embd,
                                              .first = units[i].first - begin,
                                              .n = units[i].n};
    const float *act = s->work.gate + (size_t)begin * width;
    if (by_neuron)
        hearth_prompt_down(s, x->tasks, n, act, width, false);
    else
        hearth_matmul(s, g->phase, x->tasks, n, act, end - begin);
}

// Their slots, x->rows to x->rows.
static void compute_dense(void *arg, const struct hearth_expert_unit *units, int n)
{
    const struct group *g = arg;
    struct hearth_session *s = g->s;
    struct hearth_expert_work *x = &s->work.experts;
    const size_t width = (size_t)s->model->hp.n_ff_exp, embd = (size_t)s->model->hp.n_embd;
    const int begin = units[0].first, end = units[n - 1].first + units[n - 1].n;
    for (int i = 0; i < n; i++) {
        const struct hearth_expert_unit *u = &units[i];
        const struct hearth_product into = {.first = u->first - begin, .n = u->n};
        x->tasks[i] = x->tasks[n + i] = into;
        x->tasks[i].w = u->gate;
        x->tasks[i].out = s->work.gate + (size_t)u->first * width;
        x->tasks[n + i].w = u->up;
        x->tasks[n + i].out = s->work.up + (size_t)u->first * width;
    }
    hearth_matmul(s, g->phase, x->tasks, 2 * n, x->rows + (size_t)begin * embd, end - begin);
    struct job j = {.s = s, .first = begin, .n = width};
    hearth_run(s, activate_task, &j, end - begin);
    compute_down(g, units, n);
}

// The same of a prompt, where the neurons are not all in memory: expert by expert, piece by piece.
static void compute_in_pieces(struct hearth_session *s, int layer, const struct hearth_expert_unit *units,
                              int n, int n_slots)
{
    struct hearth_expert_work *x = &s->work.experts;
    const size_t width = (size_t)s->model->hp.n_ff_exp, embd = (size_t)s->model->hp.n_embd;
    for (int i = 0; i < n; i++) {
        const int first = units[i].first, count = units[i].n;
        const uint32_t space = (uint32_t)(layer * s->model->hp.n_expert + units[i].expert);
        const float *rows = x->rows + (size_t)first * embd;
        float *gate = s->work.gate + (size_t)first * width, *up = s->work.up + (size_t)first * width;
        struct hearth_neuron_piece piece = {0};
        while (hearth_neurons_next(hearth_streaming_neurons(s), space, piece.at + piece.n, &piece)) {
            struct hearth_product into[] = {
                {.w = piece.gate, .out = gate + piece.at, .n = count, .out_stride = width},
                {.w = piece.up, .out = up + piece.at, .n = count, .out_stride = width}};
            hearth_matmul(s, HEARTH_PHASE_PROMPT, into, 2, rows, count);
            struct job j = {.s = s, .first = first, .at = piece.at, .n = piece.n};
            hearth_run(s, activate_task, &j, count);
            struct hearth_product down = {
                .w = piece.down_t, .out = s->work.down + (size_t)first * embd, .n = count};
            hearth_prompt_down(s, &down, 1, gate + piece.at, width, piece.at > 0);
        }
    }
    memcpy(x->rows, s->work.down, (size_t)n_slots * embd * sizeof(float));
}

static void compute_by_neuron(void *arg, const struct hearth_expert_unit *units, int n)
{
    const struct group *g = arg;
    struct hearth_session *s = g->s;
    struct hearth_expert_work *x = &s->work.experts;
    struct hearth_sparse_part *parts = s->work.sparse.all;
    const size_t width = (size_t)s->model->hp.n_ff_exp, embd = (size_t)s->model->hp.n_embd;
    const int begin = units[0].first;
    for (int i = 0; i < n; i++) {
        const struct hearth_expert_unit *u = &units[i];
        parts[i] = hearth_sparse_part_of(s, g->layer, u->expert);
        parts[i].first = u->first - begin;
        parts[i].n = u->n;
        if (hearth_streaming_neurons(s))
            continue;
        parts[i].space.gate.data = u->gate.data;
        parts[i].space.up.data = u->up.data;
        parts[i].space.down_t.data = parts[i].space.down_t.data ? u->down.data : NULL;
    }
    float *rows = x->rows + (size_t)begin * embd;
    const float *seen = s->work.sparse.seen ? s->work.sparse.seen + (size_t)begin * embd : rows;
    hearth_sparse_run(s, g->layer, parts, n, rows, seen, rows, s->work.gate + (size_t)begin * width,
                      s->on_gates ? s->work.up + (size_t)begin * width : NULL);
    if (!parts[0].space.down_t.data)
        compute_down(g, units, n);
}

void hearth_ffn_experts(struct hearth_session *s, enum hearth_phase phase, int layer, int n)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_layer *w = &s->weights.layers[layer];
    struct hearth_work *work = &s->work;
    struct hearth_expert_work *x = &work->experts;
    const int n_slots = n * hp->n_expert_used;
    struct job j = {.s = s};

    struct hearth_product router = {.w = w->ffn_router, .out = x->scores, .n = n};
    hearth_matmul(s, phase, &router, 1, work->h, n);
    hearth_run(s, choose_task, &j, n);
    if (s->on_experts)
        tell(s, layer, n);
    const int n_units = list_used(x, hp->n_expert, (size_t)n_slots);
    struct hearth_expert_stream *stream = hearth_streaming_experts(s);
    if (stream) {
        hearth_expert_stream_begin(stream, phase, layer, x->counts, n, x->order, n_units);
        guess_next(s, phase, layer, n);
    }
    assign_slots(x, n_units, (size_t)n_slots);
    point_units(w, x->units, n_units);

    hearth_run(s, gather_task, &j, n);
    const bool by_neuron = phase == HEARTH_PHASE_STEP && hearth_sparse_layer(s, layer);
    if (by_neuron && work->sparse.seen)
        hearth_run(s, gather_seen_task, &j, n);
    struct group g = {s, phase, layer};
    if (stream)
        hearth_expert_stream_run(stream, x->units, by_neuron ? compute_by_neuron : compute_dense, &g);
    else if (by_neuron)
        compute_by_neuron(&g, x->units, n_units);
    else if (hearth_streaming_neurons(s))
        compute_in_pieces(s, layer, x->units, n_units, n_slots);
    else
        compute_dense(&g, x->units, n_units);
    tell_neurons(s, layer, n);
    if (by_neuron)
        tell_gates(s, layer, n);
    hearth_run(s, combine_task, &j, n);
}
