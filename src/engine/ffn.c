// SPDX-License-Identifier: MIT
// Feed-forward parts: expert by expert all neurons, or steps by neuron (ffn_sparse.c). Which experts a token
// uses: moe.c.
#include "engine/ffn.h"

#include <string.h>

#include "model/ffn.h"

// One evaluation. A slot is a row of an expert's input; of a dense part, a row of the batch.
struct pass {
    struct hearth_ffn_work *work;
    struct hearth_rows rows;
    int layer, n_slots;
    bool gated;
    float *in;         // [n_slots x E] the experts' input, later their output
    const float *seen; // [n_slots x E] what predictors look at
};

struct activate_job {
    const struct pass *p;
    int first;    // slot that task 0 stands for
    size_t at, n; // neurons
};

// Biases and activation of one slot and some neurons, leaving in `gate` (in `up` without a gate) what goes
// down.
static void activate_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct activate_job *j = arg;
    const struct hearth_context *c = j->p->work->c;
    const struct hearth_layer *l = &c->weights->layers[j->p->layer];
    const int width = hearth_ffn_neurons(c->hp);
    float *gate = hearth_row_of(j->p->work->gate, j->first + task, width) + j->at,
          *up = hearth_row_of(j->p->work->up, j->first + task, width) + j->at;
    if (l->ffn_up_b.data)
        c->kernels->add(up, (const float *)l->ffn_up_b.data + j->at, j->n);
    if (!j->p->gated) {
        c->kernels->activate(up, j->n, c->hp->activation);
        return;
    }
    if (l->ffn_gate_b.data)
        c->kernels->add(gate, (const float *)l->ffn_gate_b.data + j->at, j->n);
    c->kernels->glu(gate, gate, up, j->n, c->hp->activation);
}

// What goes down, by slot.
static float *act_of(const struct pass *p)
{
    return p->gated ? p->work->gate : p->work->up;
}

// What goes down of some consecutive units, to their slots.
static void compute_down(const struct pass *p, const struct hearth_expert_unit *units, int n)
{
    struct hearth_ffn_work *w = p->work;
    const size_t width = (size_t)hearth_ffn_neurons(w->c->hp), embd = (size_t)w->c->hp->n_embd;
    const int begin = units[0].first, end = units[n - 1].first + units[n - 1].n;
    const bool by_neuron = hearth_has(hearth_ffn_of(w->c->hp, &w->c->weights->layers[p->layer]).down_t);
    for (int i = 0; i < n; i++)
        w->products[i] = (struct hearth_product){.w = units[i].down,
                                                 .out = p->in + (size_t)units[i].first * embd,
                                                 .first = units[i].first - begin,
                                                 .n = units[i].n};
    const float *act = act_of(p) + (size_t)begin * width;
    if (by_neuron) // what is not a prompt goes by neuron then
        hearth_prompt_down(w->matmul, w->products, n, act, width, false);
    else
        hearth_matmul(w->matmul, p->rows.phase, w->products, n, act, end - begin);
}

// All neurons of some consecutive units that are in memory.
static void compute_dense(void *arg, const struct hearth_expert_unit *units, int n)
{
    const struct pass *p = arg;
    struct hearth_ffn_work *w = p->work;
    const size_t width = (size_t)hearth_ffn_neurons(w->c->hp), embd = (size_t)w->c->hp->n_embd;
    const int begin = units[0].first, end = units[n - 1].first + units[n - 1].n;
    int n_products = 0;
    for (int gate = p->gated; gate >= 0; gate--)
        for (int i = 0; i < n; i++)
            w->products[n_products++] =
                (struct hearth_product){.w = gate ? units[i].gate : units[i].up,
                                        .out = (gate ? w->gate : w->up) + (size_t)units[i].first * width,
                                        .first = units[i].first - begin,
                                        .n = units[i].n};
    hearth_matmul(w->matmul, p->rows.phase, w->products, n_products, p->in + (size_t)begin * embd,
                  end - begin);
    struct activate_job j = {p, begin, 0, width};
    hearth_parallel(w->c, activate_task, &j, end - begin);
    compute_down(p, units, n);
}

// The same of a prompt, where the neurons are not all in memory: piece by piece.
static void compute_in_pieces(const struct pass *p, const struct hearth_expert_unit *units, int n)
{
    struct hearth_ffn_work *w = p->work;
    const struct hearth_hparams *hp = w->c->hp;
    const size_t width = (size_t)hearth_ffn_neurons(hp), embd = (size_t)hp->n_embd;
    for (int i = 0; i < n; i++) {
        const int first = units[i].first, count = units[i].n;
        const uint32_t space = (uint32_t)(p->layer * hearth_ffn_experts(hp) + units[i].expert);
        float *gate = w->gate + (size_t)first * width, *up = w->up + (size_t)first * width;
        struct hearth_neuron_piece piece = {0};
        while (hearth_neurons_next(w->neurons, space, piece.at + piece.n, &piece)) {
            struct hearth_product into[] = {
                {.w = piece.up, .out = up + piece.at, .n = count, .out_stride = width},
                {.w = piece.gate, .out = gate + piece.at, .n = count, .out_stride = width}};
            hearth_matmul(w->matmul, HEARTH_PHASE_PROMPT, into, p->gated ? 2 : 1,
                          p->in + (size_t)first * embd, count);
            struct activate_job j = {p, first, piece.at, piece.n};
            hearth_parallel(w->c, activate_task, &j, count);
            // The input is read until the last piece, so the sums grow elsewhere.
            struct hearth_product down = {
                .w = piece.down_t, .out = w->down + (size_t)first * embd, .n = count};
            hearth_prompt_down(w->matmul, &down, 1, act_of(p) + (size_t)first * width + piece.at, width,
                               piece.at > 0);
        }
    }
    memcpy(p->in, w->down, (size_t)p->n_slots * embd * sizeof(float));
}

static void compute_by_neuron(void *arg, const struct hearth_expert_unit *units, int n)
{
    const struct pass *p = arg;
    struct hearth_ffn_work *w = p->work;
    struct hearth_sparse_part *parts = w->parts;
    const size_t width = (size_t)hearth_ffn_neurons(w->c->hp), embd = (size_t)w->c->hp->n_embd;
    const size_t begin = (size_t)units[0].first;
    for (int i = 0; i < n; i++) {
        const struct hearth_expert_unit *u = &units[i];
        parts[i] = hearth_sparse_part_of(&w->sparse, p->layer, u->expert);
        parts[i].first = u->first - (int)begin;
        parts[i].n = u->n;
        if (w->neurons)
            continue;
        parts[i].space.gate.data = u->gate.data;
        parts[i].space.up.data = u->up.data;
        parts[i].space.down_t.data = hearth_has(&parts[i].space.down_t) ? u->down.data : NULL;
    }
    float *in = p->in + begin * embd;
    hearth_sparse_run(&w->sparse, p->layer, parts, n, in, p->seen + begin * embd, in, w->gate + begin * width,
                      w->c->probes->on_gates ? w->up + begin * width : NULL);
    if (!hearth_has(&parts[0].space.down_t)) {
        const struct pass by_gate = {w, p->rows, p->layer, p->n_slots, true, p->in, p->seen};
        compute_down(&by_gate, units, n); // what goes down is in `gate`, with one or without
    }
}

// ---- callbacks

static void tell_inputs(const struct hearth_ffn_work *w, struct hearth_rows rows, int layer, const float *h,
                        const float *x)
{
    const struct hearth_probes *probes = w->c->probes;
    const size_t width = (size_t)w->c->hp->n_embd;
    for (int i = rows.first; probes->on_ffn && i < rows.first + rows.n; i++)
        probes->on_ffn(probes->on_ffn_arg, rows.phase, layer, w->c->rows[i], h + (size_t)i * width,
                       x + (size_t)i * width);
}

static void tell_neurons(const struct pass *p, const float *act, bool gates)
{
    const struct hearth_ffn_work *w = p->work;
    const struct hearth_probes *probes = w->c->probes;
    const struct hearth_hparams *hp = w->c->hp;
    const int used = hearth_ffn_used(hp);
    const size_t width = (size_t)hearth_ffn_neurons(hp);
    for (int i = 0; i < p->n_slots; i++) {
        const struct hearth_row row = w->c->rows[p->rows.first + i / used];
        const size_t slot = (size_t)(hp->n_expert ? w->moe.slots[i] : i);
        if (gates)
            probes->on_gates(probes->on_gates_arg, p->layer, row, w->up + slot * width);
        else
            probes->on_neurons(probes->on_neurons_arg, p->layer, hp->n_expert ? w->moe.ids[i] : 0, row,
                               act + slot * width);
    }
}

// ---- one layer

static struct hearth_expert_unit unit_of(const struct hearth_ffn *f, int expert, int first, int n)
{
    return (struct hearth_expert_unit){
        .expert = expert,
        .first = first,
        .n = n,
        .gate = hearth_expert(f->gate, expert),
        .up = hearth_expert(f->up, expert),
        .down = hearth_expert(hearth_has(f->down_t) ? f->down_t : f->down, expert)};
}

// Who computes what: fills the units, and the pass's slots.
static int route(struct pass *p, float *h, const float *x, bool by_neuron)
{
    struct hearth_ffn_work *w = p->work;
    const struct hearth_hparams *hp = w->c->hp;
    const struct hearth_ffn f = hearth_ffn_of(hp, &w->c->weights->layers[p->layer]);
    const bool stream_seen = by_neuron && hp->predictor_input != HEARTH_PREDICTOR_NORMED;
    p->gated = hearth_has(f.gate);
    p->n_slots = p->rows.n * hearth_ffn_used(hp);
    if (!hp->n_expert) {
        const size_t begin = (size_t)p->rows.first * (size_t)hp->n_embd;
        p->in = h + begin;
        p->seen = (stream_seen ? x : h) + begin;
        w->units[0] = unit_of(&f, 0, 0, p->rows.n);
        return 1;
    }
    const int n = hearth_moe_choose(&w->moe, p->rows, p->layer, h);
    if (w->experts) {
        hearth_expert_stream_begin(w->experts, p->rows.phase, p->layer, w->moe.counts, p->rows.n,
                                   w->moe.order, n);
        const int guesses = hearth_expert_stream_looks_ahead(w->experts)
                                ? hearth_moe_guess(&w->moe, p->rows, p->layer, x)
                                : 0;
        for (int i = 0; i < guesses; i++)
            hearth_expert_stream_guess(w->experts, w->moe.guess[i]);
    }
    hearth_moe_assign(&w->moe, p->rows, n);
    for (int i = 0, first = 0; i < n; i++) {
        const int expert = w->moe.order[i];
        w->units[i] = unit_of(&f, expert, first, w->moe.counts[expert]);
        first += w->moe.counts[expert];
    }
    const bool seen = stream_seen && w->moe.seen;
    hearth_moe_gather(&w->moe, p->rows, h, seen ? x : NULL);
    p->in = w->moe.rows;
    p->seen = seen ? w->moe.seen : w->moe.rows;
    return n;
}

void hearth_ffn(struct hearth_ffn_work *w, struct hearth_rows rows, int layer, float *h, const float *x)
{
    const struct hearth_context *c = w->c;
    struct pass p = {.work = w, .rows = rows, .layer = layer};
    const bool by_neuron = rows.phase == HEARTH_PHASE_STEP &&
                           hearth_sparse_mode_layer(w->sparse.mode, c->hp, &c->weights->layers[layer]);
    tell_inputs(w, rows, layer, h, x);
    const int n = route(&p, h, x, by_neuron);
    if (w->experts)
        hearth_expert_stream_run(w->experts, w->units, by_neuron ? compute_by_neuron : compute_dense, &p);
    else if (by_neuron)
        compute_by_neuron(&p, w->units, n);
    else if (w->neurons)
        compute_in_pieces(&p, w->units, n);
    else
        compute_dense(&p, w->units, n);
    if (c->probes->on_neurons)
        tell_neurons(&p, by_neuron ? w->gate : act_of(&p), false);
    if (c->probes->on_gates && by_neuron && w->sparse.mode->sparsity_threshold > 0.0f)
        tell_neurons(&p, NULL, true);
    if (c->hp->n_expert)
        hearth_moe_combine(&w->moe, rows, h);
}

// ---- opening

void hearth_ffn_lay_out(struct hearth_ffn_work *w, const struct hearth_ffn_sizes *sizes,
                        struct hearth_arena *a)
{
    const struct hearth_hparams *hp = w->c->hp;
    const size_t slots = (size_t)sizes->max_rows * (size_t)hearth_ffn_used(hp), f32 = sizeof(float);
    const size_t f = (size_t)hearth_ffn_neurons(hp), x = (size_t)hearth_ffn_experts(hp);
    const bool predicts = hearth_sparse_mode_rank(w->sparse.mode, w->sparse.model) > 0;
    const bool seen = predicts && hp->predictor_input != HEARTH_PREDICTOR_NORMED;
    w->gate = hearth_arena_take(a, slots, f * f32);
    w->up = hearth_arena_take(a, slots, f * f32);
    w->down = hearth_arena_take(a, sizes->neurons_stream ? slots : 0, (size_t)hp->n_embd * f32);
    w->units = hearth_arena_take(a, x, sizeof *w->units);
    w->parts = hearth_arena_take(a, x, sizeof *w->parts);
    w->products = hearth_arena_take(a, 2 * x, sizeof *w->products);
    if (hp->n_expert)
        hearth_moe_lay_out(&w->moe, sizes->max_rows, seen ? sizes->max_steps : 0, a);
    hearth_sparse_lay_out(&w->sparse, sizes->streams, a);
}
