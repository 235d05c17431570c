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

// Gives each (token, expert) pair of n tokens its slot.
static void assign_slots(struct hearth_expert_work *x, int n_expert, int n_used, int n)
{
    const size_t n_slots = (size_t)n * (size_t)n_used;
    memset(x->first, 0, ((size_t)n_expert + 1) * sizeof *x->first);
    for (size_t i = 0; i < n_slots; i++)
        x->first[x->ids[i] + 1]++;
    for (int e = 0; e < n_expert; e++)
        x->first[e + 1] += x->first[e];
    // Each expert's counter runs from its first slot to its end, which is the next one's first: put back
    // after.
    for (size_t i = 0; i < n_slots; i++)
        x->slots[i] = x->first[x->ids[i]]++;
    memmove(x->first + 1, x->first, (size_t)n_expert * sizeof *x->first);
    x->first[0] = 0;
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

// The used experts' products of one matrix: slots' rows to slots' rows of `out`.
static int list_products(struct hearth_session *s, const struct hearth_weight *all, float *out,
                         struct hearth_product *to)
{
    const struct hearth_expert_work *x = &s->work.experts;
    int n = 0;
    for (int e = 0; e < s->model->hp.n_expert; e++) {
        const int first = x->first[e], count = x->first[e + 1] - first;
        if (count)
            to[n++] = (struct hearth_product){
                .w = hearth_expert(all, e), .out = out + (size_t)first * all->n, .first = first, .n = count};
    }
    return n;
}

// The same for down by neuron, whose output is as wide as its rows.
static int list_down_by_neuron(struct hearth_session *s, const struct hearth_weight *all,
                               struct hearth_product *to)
{
    const int n = list_products(s, all, s->work.experts.rows, to);
    for (int i = 0; i < n; i++)
        to[i].out = s->work.experts.rows + (size_t)to[i].first * all->k;
    return n;
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

// The used experts' slots, x->rows to x->rows.
static void compute_dense(struct hearth_session *s, enum hearth_phase phase, int layer, int n, int n_slots)
{
    const struct hearth_layer *w = &s->weights.layers[layer];
    struct hearth_expert_work *x = &s->work.experts;
    struct job j = {.s = s, .n = (size_t)s->model->hp.n_ff_exp};
    int count = list_products(s, &w->ffn_gate_exps, s->work.gate, x->tasks);
    count += list_products(s, &w->ffn_up_exps, s->work.up, x->tasks + count);
    hearth_matmul(s, phase, x->tasks, count, x->rows, n_slots);
    hearth_run(s, activate_task, &j, n_slots);
    tell_neurons(s, layer, n);
    if (w->ffn_down_t_exps.data) { // a prompt: steps go by neuron then
        count = list_down_by_neuron(s, &w->ffn_down_t_exps, x->tasks);
        hearth_prompt_down(s, x->tasks, count, s->work.gate, w->ffn_down_t_exps.n, false);
        return;
    }
    count = list_products(s, &w->ffn_down_exps, x->rows, x->tasks);
    hearth_matmul(s, phase, x->tasks, count, s->work.gate, n_slots);
}

// The same of a prompt, where the neurons are not all in memory: expert by expert, piece by piece.
static void compute_in_pieces(struct hearth_session *s, int layer, int n, int n_slots)
{
    struct hearth_expert_work *x = &s->work.experts;
    const size_t width = (size_t)s->model->hp.n_ff_exp, embd = (size_t)s->model->hp.n_embd;
    for (int e = 0; e < s->model->hp.n_expert; e++) {
        const int first = x->first[e], count = x->first[e + 1] - first;
        const uint32_t space = (uint32_t)(layer * s->model->hp.n_expert + e);
        const float *rows = x->rows + (size_t)first * embd;
        float *gate = s->work.gate + (size_t)first * width, *up = s->work.up + (size_t)first * width;
        struct hearth_neuron_piece piece = {0};
        while (count && hearth_neurons_next(hearth_streaming_neurons(s), space, piece.at + piece.n, &piece)) {
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
    tell_neurons(s, layer, n);
    memcpy(x->rows, s->work.down, (size_t)n_slots * embd * sizeof(float));
}

static void compute_by_neuron(struct hearth_session *s, int layer, int n, int n_slots)
{
    const struct hearth_layer *w = &s->weights.layers[layer];
    struct hearth_expert_work *x = &s->work.experts;
    struct hearth_sparse_part *parts = s->work.sparse.all;
    struct job j = {.s = s};
    int n_parts = 0;
    for (int e = 0; e < s->model->hp.n_expert; e++) {
        if (x->first[e + 1] == x->first[e])
            continue;
        parts[n_parts] = hearth_sparse_part_of(s, layer, e);
        parts[n_parts].first = x->first[e];
        parts[n_parts++].n = x->first[e + 1] - x->first[e];
    }
    if (s->work.sparse.seen)
        hearth_run(s, gather_seen_task, &j, n);
    hearth_sparse_run(s, layer, parts, n_parts, x->rows, s->work.sparse.seen ? s->work.sparse.seen : x->rows,
                      x->rows, s->work.gate);
    tell_neurons(s, layer, n);
    tell_gates(s, layer, n);
    if (w->ffn_down_t_exps.data)
        return;
    int count = list_products(s, &w->ffn_down_exps, x->rows, x->tasks);
    hearth_matmul(s, HEARTH_PHASE_STEP, x->tasks, count, s->work.gate, n_slots);
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
    assign_slots(x, hp->n_expert, hp->n_expert_used, n);

    hearth_run(s, gather_task, &j, n);
    if (phase == HEARTH_PHASE_STEP && hearth_sparse_layer(s, layer))
        compute_by_neuron(s, layer, n, n_slots);
    else if (hearth_streaming_neurons(s))
        compute_in_pieces(s, layer, n, n_slots);
    else
        compute_dense(s, phase, layer, n, n_slots);
    hearth_run(s, combine_task, &j, n);
}
