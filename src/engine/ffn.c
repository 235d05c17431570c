// SPDX-License-Identifier: MIT
// Feed-forward parts: expert by expert all neurons, or steps by neuron (ffn_sparse.c). Which experts a token
// uses: moe.c.
#include "engine/ffn.h"

#include <math.h>
#include <string.h>

#include "base/os.h"
#include "engine/gates.h"
#include "model/ffn.h"

// One class of an evaluation. A slot is a row of an expert's input; of a dense part, a row of the class.
struct pass {
    struct hearth_ffn_work *work;
    struct hearth_hot_experts *hot; // of the layer; or NULL
    struct hearth_rows rows;
    int layer, n_slots;
    bool gated, down_by_neuron;
    bool by_neuron, single; // steps by neuron; which come one by one
    float *gate, *up;       // [n_slots x F] its part of the workspace
    float *down;            // [n_slots x E] the same
    float *in;              // [n_slots x E] the experts' input, later their output
    int first_elsewhere;    // slots from here on are of experts that a device computes
    const float *seen;      // [n_slots x E] what predictors look at
};

// What predictors of the layer behind this one look at where they look at this one's input: [max_steps x E].
static float *inputs_of(const struct hearth_ffn_work *w, int layer)
{
    return w->inputs + (size_t)(layer % 2) * w->max_steps * (size_t)w->c->hp->n_embd;
}

struct activate_job {
    const struct pass *p;
    int first;    // slot that task 0 stands for
    size_t at, n; // neurons
};

// The same as glu(), but `up` becomes the activated gates, for on_gates.
static void glu_and_keep(const struct hearth_context *c, float *gate, float *up, size_t n,
                         struct hearth_limit limit)
{
    float gates[256];
    for (size_t at = 0; at < n; at += sizeof gates / sizeof *gates) {
        const size_t left = n - at,
                     count = left < sizeof gates / sizeof *gates ? left : sizeof gates / sizeof *gates;
        memcpy(gates, gate + at, count * sizeof *gates);
        if (limit.before)
            hearth_activate_within(c->kernels, gates, count, c->hp->activation, limit);
        else
            c->kernels->activate(gates, count, c->hp->activation);
        hearth_glu_within(c->kernels, gate + at, up + at, count, c->hp->activation, limit);
        memcpy(up + at, gates, count * sizeof *gates);
    }
}

// Activations with numbers of the layer's own (struct hearth_xielu).
static void activate_xielu(float *up, size_t n, const struct hearth_xielu *by)
{
    for (size_t i = 0; i < n; i++) {
        const float x = up[i], cut = x < by->eps ? x : by->eps;
        up[i] = x > 0 ? x * fmaf(by->a, x, by->b) : fmaf(hearth_exp(cut) - 1.0f - x, by->n, by->b * x);
    }
}

// Biases and activation of one slot and some neurons, leaving in `gate` (in `up` without a gate) what goes
// down.
static void activate_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct activate_job *j = arg;
    const struct hearth_context *c = j->p->work->c;
    const struct hearth_ffn f = hearth_ffn_of(c->hp, &c->weights->layers[j->p->layer]);
    const int width = hearth_ffn_neurons_of(c->hp, j->p->layer);
    const int expert = c->hp->n_expert ? hearth_moe_owners(&j->p->work->moe, j->p->rows)[j->first + task] : 0;
    const float *gate_b = hearth_bias_of(f.gate_b, expert), *up_b = hearth_bias_of(f.up_b, expert);
    float *gate = hearth_row_of(j->p->gate, j->first + task, width) + j->at,
          *up = hearth_row_of(j->p->up, j->first + task, width) + j->at;
    if (up_b)
        c->kernels->add(up, up_b + j->at, j->n);
    if (!j->p->gated && c->xielu) {
        activate_xielu(up, j->n, &c->xielu[j->p->layer]);
        return;
    }
    if (!j->p->gated) {
        c->kernels->activate(up, j->n, c->hp->activation);
        return;
    }
    if (gate_b)
        c->kernels->add(gate, gate_b + j->at, j->n);
    if (hearth_cuts_gates(c->hp, j->p->layer)) // such models have no packs: there are all
        hearth_cut_gates(gate, j->n, c->hp->gate_cut);
    const struct hearth_limit limit = hearth_limit_of(c->hp, j->p->layer, c->hp->n_expert != 0);
    if (c->probes->on_gates)
        glu_and_keep(c, gate, up, j->n, limit);
    else
        hearth_glu_within(c->kernels, gate, up, j->n, c->hp->activation, limit);
    const struct hearth_weight *inner = &c->weights->layers[j->p->layer].ffn_inner_norm;
    if (inner->data) // such models have no packs: there are all
        c->kernels->rms_norm(gate, gate, hearth_vector_of(inner), j->n, c->hp->norm_eps);
}

// What goes down, by slot.
static float *act_of(const struct pass *p)
{
    return p->gated ? p->gate : p->up;
}

// Slots of some wants side by side.
static int slots_of(const struct hearth_want *wants, uint32_t n)
{
    return wants[n - 1].first + wants[n - 1].n_rows - wants[0].first;
}

static int expert_of(const struct pass *p, const struct hearth_want *want)
{
    return (int)want->space % hearth_ffn_experts(p->work->c->hp);
}

// What goes down of some wants side by side, to their slots.
static void compute_down(const struct pass *p, const struct hearth_want *wants, uint32_t n, const float *act)
{
    struct hearth_ffn_work *w = p->work;
    const size_t width = (size_t)hearth_ffn_neurons_of(w->c->hp, p->layer),
                 embd = (size_t)hearth_ffn_width(w->c->hp);
    const int begin = wants[0].first;
    for (uint32_t i = 0; i < n; i++)
        w->products[i] = (struct hearth_product){.w = wants[i].down,
                                                 .out = p->in + (size_t)wants[i].first * embd,
                                                 .first = wants[i].first - begin,
                                                 .n = wants[i].n_rows,
                                                 .expert = expert_of(p, &wants[i])};
    act += (size_t)begin * width;
    if (p->down_by_neuron) // what is not a prompt goes by neuron then
        hearth_prompt_down(w->matmul, w->products, (int)n, act, width, false);
    else
        hearth_matmul(w->matmul, p->rows.phase, w->products, (int)n, act, slots_of(wants, n));
}

// Gate and up of some wants side by side, activated: neurons [from, from + count) of each.
static void compute_gates(const struct pass *p, const struct hearth_want *wants, uint32_t n)
{
    struct hearth_ffn_work *w = p->work;
    const size_t width = (size_t)hearth_ffn_neurons_of(w->c->hp, p->layer),
                 embd = (size_t)hearth_ffn_width(w->c->hp);
    const int begin = wants[0].first, n_slots = slots_of(wants, n);
    int n_products = 0;
    for (int gate = p->gated; gate >= 0; gate--)
        for (uint32_t i = 0; i < n; i++)
            w->products[n_products++] = (struct hearth_product){
                .w = gate ? wants[i].gate : wants[i].up,
                .out = (gate ? p->gate : p->up) + (size_t)wants[i].first * width + wants[i].from,
                .first = wants[i].first - begin,
                .n = wants[i].n_rows,
                .out_stride = width,
                .expert = expert_of(p, &wants[i])};
    hearth_matmul(w->matmul, p->rows.phase, w->products, n_products, p->in + (size_t)begin * embd, n_slots);
    struct activate_job j = {p, begin, wants[0].from, wants[0].count};
    hearth_parallel(w->c, activate_task, &j, n_slots);
}

// A chunk of a want, of a prompt. The input is read until the last one, so the sums grow elsewhere.
static void compute_chunk(const struct pass *p, const struct hearth_want *want)
{
    struct hearth_ffn_work *w = p->work;
    const size_t width = (size_t)hearth_ffn_neurons_of(w->c->hp, p->layer),
                 embd = (size_t)hearth_ffn_width(w->c->hp);
    const size_t first = (size_t)want->first, n = (size_t)want->n_rows;
    compute_gates(p, want, 1);
    struct hearth_product down = {.w = want->down, .out = p->down + first * embd, .n = want->n_rows};
    hearth_prompt_down(w->matmul, &down, 1, act_of(p) + first * width + want->from, width, want->from > 0);
    if (want->from + want->count == want->n)
        memcpy(p->in + first * embd, p->down + first * embd, n * embd * sizeof(float));
}

// All neurons of some wants side by side, or a chunk of one.
static void compute_all(const struct pass *p, const struct hearth_want *wants, uint32_t n)
{
    if (wants->count < wants->n) {
        compute_chunk(p, wants);
        return;
    }
    compute_gates(p, wants, n);
    compute_down(p, wants, n, act_of(p));
}

// By neuron; the wants' matrices count where single neurons do not come.
static void compute_by_neuron(const struct pass *p, const struct hearth_want *wants, uint32_t n)
{
    struct hearth_ffn_work *w = p->work;
    struct hearth_sparse_part *parts = w->parts;
    const size_t width = (size_t)hearth_ffn_neurons_of(w->c->hp, p->layer),
                 embd = (size_t)hearth_ffn_width(w->c->hp);
    const size_t begin = (size_t)wants[0].first;
    for (uint32_t i = 0; i < n; i++) {
        const struct hearth_want *want = &wants[i];
        parts[i] =
            hearth_sparse_part_of(&w->sparse, p->layer, (int)want->space % hearth_ffn_experts(w->c->hp));
        parts[i].first = want->first - (int)begin;
        parts[i].n = want->n_rows;
        if (p->single)
            continue;
        parts[i].space.gate.data = want->gate.data;
        parts[i].space.up.data = want->up.data;
        parts[i].space.down_t.data = p->down_by_neuron ? want->down.data : NULL;
    }
    float *in = p->in + begin * embd;
    hearth_sparse_run(&w->sparse, p->layer, parts, (int)n, in, p->seen + begin * embd, in,
                      p->gate + begin * width, w->c->probes->on_gates ? p->up + begin * width : NULL);
    if (!p->down_by_neuron)
        compute_down(p, wants, n, p->gate); // with a gate or without one, there it is
}

// ---- callbacks

static void report_inputs(const struct hearth_ffn_work *w, struct hearth_rows rows, int layer, const float *h,
                          const float *x)
{
    const struct hearth_probes *probes = w->c->probes;
    const size_t width = (size_t)w->c->hp->n_embd;
    for (int i = rows.first; probes->on_ffn && i < rows.first + rows.n; i++)
        probes->on_ffn(probes->on_ffn_arg, rows.phase, layer, w->c->rows[i], h + (size_t)i * width,
                       x + (size_t)i * width);
}

static void report_neurons(const struct pass *p, const float *act, bool gates)
{
    const struct hearth_ffn_work *w = p->work;
    const struct hearth_probes *probes = w->c->probes;
    const struct hearth_hparams *hp = w->c->hp;
    const int used = hearth_ffn_used(hp);
    const size_t width = (size_t)hearth_ffn_neurons_of(hp, p->layer);
    for (int i = 0; i < p->n_slots; i++) {
        const struct hearth_row row = w->c->rows[p->rows.first + i / used];
        const size_t slot = (size_t)(hp->n_expert ? hearth_moe_slots(&w->moe, p->rows)[i] : i);
        const int expert = hp->n_expert ? hearth_moe_ids(&w->moe, p->rows)[i] : 0;
        if (gates)
            probes->on_gates(probes->on_gates_arg, p->layer, expert, row, p->up + slot * width);
        else
            probes->on_neurons(probes->on_neurons_arg, p->layer, expert, row, act + slot * width);
    }
}

// ---- one layer

// Rows of the class that go through an expert.
static int rows_of(const struct pass *p, int expert)
{
    return p->work->c->hp->n_expert ? hearth_moe_counts(&p->work->moe, p->rows)[expert] : p->rows.n;
}

// Who computes what: a want for each expert that some class uses, of all its neurons. Returns how many.
static uint32_t list_wants(const struct pass *passes, int n_passes)
{
    struct hearth_ffn_work *w = passes[0].work;
    const struct hearth_hparams *hp = w->c->hp;
    const int n_experts = hearth_ffn_experts(hp);
    uint32_t n = 0;
    for (int e = 0; e < n_experts; e++) {
        int n_rows = 0;
        for (int k = 0; k < n_passes; k++)
            n_rows += rows_of(&passes[k], e);
        if (n_rows)
            w->wants[n++] = (struct hearth_want){.space = (uint32_t)(passes[0].layer * n_experts + e),
                                                 .n = (uint32_t)hearth_ffn_neurons_of(hp, passes[0].layer),
                                                 .n_rows = n_rows};
    }
    return n;
}

// Guesses which experts the next layer that has some will want for a class, where its router is in memory. Returns how
// many.
static int guess_experts(const struct pass *p, const float *x)
{
    struct hearth_ffn_work *w = p->work;
    const struct hearth_source *source = &w->sources->ffn;
    const int next = hearth_experts_behind(w->c->hp, p->layer);
    if (!w->c->hp->n_expert || !source->ops->takes_hints || !hearth_is_here(w->c, next) ||
        !hearth_sources_has_stage(w->sources, next) ||
        !source->ops->takes_hints(source->state, next, p->rows.phase, HEARTH_GUESS_EARLY))
        return 0;
    return hearth_moe_guess(&w->moe, p->rows, next, x);
}

// Tells which they are.
static void hint_experts(const struct pass *passes, int n_passes, const float *x)
{
    struct hearth_ffn_work *w = passes[0].work;
    const struct hearth_hparams *hp = w->c->hp;
    const struct hearth_source *source = &w->sources->ffn;
    const int next = hearth_experts_behind(hp, passes[0].layer);
    const struct hearth_hot_experts *hot = hearth_hot_experts_of(w->experts, next);
    for (int k = 0, n = 0; k < n_passes && n < hp->n_expert; k++) {
        n = guess_experts(&passes[k], x);
        for (int i = 0; i < n; i++)
            if (hearth_hot_experts_place(hot, next, w->moe.guess[i]) < 0)
                source->ops->hint(
                    source->state,
                    &(struct hearth_hint){.space = (uint32_t)(next * hp->n_expert + w->moe.guess[i])}, 1);
    }
}

// Of experts whose neurons come one by one, their predictors say more, once their inputs are gathered.
static void guess_neurons(const struct pass *p, const float *x)
{
    struct hearth_ffn_work *w = p->work;
    w->sparse.guess = (struct hearth_look_guess){.n_rows = guess_experts(p, x) ? p->rows.n : 0,
                                                 .ids = w->moe.guess,
                                                 .slots = hearth_moe_slots(&w->moe, p->rows)};
}

static void request(const struct pass *passes, int n_passes, struct hearth_want *wants, uint32_t n)
{
    const struct hearth_source *source = &passes[0].work->sources->ffn;
    struct hearth_request r = {
        .phase = passes[0].rows.phase, .layer = passes[0].layer, .wants = wants, .n = n};
    for (int k = 0; k < n_passes; k++)
        r.n_tokens += passes[k].rows.n;
    source->ops->request(source->state, &r);
}

// What predictors look at, for each row of the class; h: the input itself.
static const float *seen_of(const struct pass *p, const float *h, const float *x)
{
    const enum hearth_predictor_input input = p->work->c->hp->predictor_input;
    const size_t begin = (size_t)p->rows.first * (size_t)hearth_ffn_width(p->work->c->hp);
    if (!p->by_neuron || input == HEARTH_PREDICTOR_NORMED)
        return h + begin;
    if (input != HEARTH_PREDICTOR_PREVIOUS)
        return x + begin;
    return p->layer && p->work->inputs ? inputs_of(p->work, p->layer - 1) : h + begin;
}

// Where inputs and outputs are: of a dense part where they were, else side by side by expert, in the order of
// the wants.
static void place_slots(struct pass *p, uint32_t n, float *h, const float *x)
{
    struct hearth_ffn_work *w = p->work;
    const struct hearth_hparams *hp = w->c->hp;
    const float *in = h + (size_t)p->rows.first * (size_t)hearth_ffn_width(hp), *looked_at = seen_of(p, h, x);
    p->n_slots = p->rows.n * hearth_ffn_used(hp);
    if (!hp->n_expert) {
        p->in = hearth_row_of(h, p->rows.first, hp->n_embd);
        p->seen = looked_at;
        return;
    }
    hearth_moe_assign(&w->moe, p->rows, w->wants, n);
    const bool seen = looked_at != in && w->moe.seen;
    hearth_moe_gather(&w->moe, p->rows, in, seen ? looked_at : NULL);
    p->in = hearth_moe_rows(&w->moe, p->rows);
    p->seen = seen ? w->moe.seen : p->in;
}

// Those of some wants side by side that the class has rows for. Returns how many.
static uint32_t list_own(const struct pass *p, const struct hearth_want *wants, uint32_t n)
{
    struct hearth_ffn_work *w = p->work;
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        const int expert = expert_of(p, &wants[i]), n_rows = rows_of(p, expert);
        if (!n_rows)
            continue;
        w->own[count] = wants[i];
        w->own[count].n_rows = n_rows;
        w->own[count++].first = w->c->hp->n_expert ? hearth_moe_firsts(&w->moe, p->rows)[expert] : 0;
    }
    return count;
}

static void compute_wants(const struct pass *p, const struct hearth_want *wants, uint32_t n)
{
    const uint32_t count = list_own(p, wants, n);
    if (!count)
        return;
    if (p->by_neuron)
        compute_by_neuron(p, p->work->own, count);
    else
        compute_all(p, p->work->own, count);
}

static void compute_for_all(const struct pass *passes, int n_passes, const struct hearth_want *wants,
                            uint32_t n)
{
    for (int k = 0; k < n_passes; k++)
        compute_wants(&passes[k], wants, n);
}

// ---- experts that pass through a device

// Whether experts of the layer do, in a prompt that is alone, and whose neurons nobody wants to see.
static bool is_passing(const struct pass *passes, int n_passes)
{
    return n_passes == 1 && !hearth_probes_see_neurons(passes[0].work->c->probes) &&
           passes[0].rows.phase == HEARTH_PHASE_PROMPT &&
           hearth_through_experts_is_on(passes[0].work->through, passes[0].layer);
}

static bool goes_through(const struct pass *passes, int n_passes, const struct hearth_want *want)
{
    return is_passing(passes, n_passes) && !hearth_given_up(passes[0].work->c, HEARTH_PHASE_PROMPT) &&
           hearth_through_experts_takes(passes[0].work->through, passes[0].layer, want->n_rows);
}

// Puts wants that go through the device before the others: it computes them beside these.
static void put_passing_first(const struct pass *passes, int n_passes, struct hearth_want *wants, uint32_t n)
{
    struct hearth_want *own = passes[0].work->own;
    uint32_t first = 0, others = 0;
    for (uint32_t i = 0; i < n; i++)
        if (goes_through(passes, n_passes, &wants[i]))
            wants[first++] = wants[i];
        else
            own[others++] = wants[i];
    memcpy(wants + first, own, others * sizeof *wants);
}

// Of wants that are in memory, has the device begin with those that go through it, which are marked.
static void pass_wants(const struct pass *passes, int n_passes, struct hearth_want *wants, uint32_t n)
{
    const struct pass *p = &passes[0];
    struct hearth_through_experts *through = p->work->through;
    for (uint32_t i = 0; i < n; i++) {
        struct hearth_want *want = &wants[i];
        if (want->count < want->n || !goes_through(passes, n_passes, want))
            continue;
        const int slot = hearth_moe_firsts(&p->work->moe, p->rows)[expert_of(p, want)];
        want->first = hearth_through_experts_add(
            through, p->layer, want, hearth_row_of(p->in, slot, hearth_ffn_width(p->work->c->hp)));
    }
    hearth_through_experts_run(through);
}

// Wants that are in memory, here or there.
static void compute_or_pass(const struct pass *passes, int n_passes, struct hearth_want *wants, uint32_t n)
{
    if (!is_passing(passes, n_passes)) {
        compute_for_all(passes, n_passes, wants, n);
        return;
    }
    pass_wants(passes, n_passes, wants, n);
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && !wants[end].first; end++)
            ;
        if (end > i)
            compute_for_all(passes, n_passes, wants + i, end - i);
        for (; end < n && wants[end].first; end++)
            ;
    }
}

// Computes the n wants as they come into memory, each for all classes.
static void compute(const struct pass *passes, int n_passes, struct hearth_want *wants, uint32_t n)
{
    const struct hearth_source *source = &passes[0].work->sources->ffn;
    bool wait;
    if (!source->ops->next) {
        compute_or_pass(passes, n_passes, wants, n);
        return;
    }
    while ((wants = source->ops->next(source->state, 0, &n, &wait))) {
        compute_or_pass(passes, n_passes, wants, n);
        if (source->ops->done)
            source->ops->done(source->state, wants, n);
    }
}

// Waits for those that went through the device; where it has failed, they are computed here, one by one.
static void end_passing(const struct pass *passes, int n_passes)
{
    struct hearth_want *wants;
    const uint32_t n = hearth_through_experts_end(passes[0].work->through, &wants);
    for (uint32_t i = 0; i < n; i++) {
        request(passes, n_passes, wants + i, 1);
        compute(passes, n_passes, wants + i, 1);
    }
}

// ---- experts of a device

// Whether it has the expert, and room for so many rows beside those of the experts before; then these are counted.
static bool goes_elsewhere(const struct pass *passes, int n_passes, int expert, size_t rows[2])
{
    const struct hearth_hot_experts *hot = passes[0].hot;
    if (hearth_hot_experts_place(hot, passes[0].layer, expert) < 0)
        return false;
    for (int k = 0; k < n_passes; k++) {
        const bool step = passes[k].rows.phase == HEARTH_PHASE_STEP;
        if (rows[step] + (size_t)rows_of(&passes[k], expert) > hot->rows[step].cap)
            return false;
    }
    for (int k = 0; k < n_passes; k++)
        rows[passes[k].rows.phase == HEARTH_PHASE_STEP] += (size_t)rows_of(&passes[k], expert);
    return true;
}

// Puts the wants of experts that a device computes behind the others. Returns how many these are.
static uint32_t part_wants(const struct pass *passes, int n_passes, uint32_t n)
{
    struct hearth_ffn_work *w = passes[0].work;
    struct hearth_hot_experts *hot = passes[0].hot;
    size_t rows[2] = {0};
    uint32_t here = 0, there = 0, most = 0;
    if (!hot || hearth_probes_see_neurons(w->c->probes))
        return n;
    for (int k = 0; k < n_passes; k++)
        hearth_hot_experts_count(hot, passes[k].layer, hearth_moe_counts(&w->moe, passes[k].rows),
                                 passes[k].rows.n);
    for (uint32_t i = 0; i < n; i++)
        most += hearth_hot_experts_place(hot, passes[0].layer, expert_of(&passes[0], &w->wants[i])) >= 0;
    if (n_passes == 1 && !is_passing(passes, n_passes)) // else it gets all that it has
        most = hearth_hot_experts_share(hot, passes[0].rows.phase, passes[0].rows.n, most);
    for (uint32_t i = 0; i < n; i++)
        if (there < most && goes_elsewhere(passes, n_passes, expert_of(&passes[0], &w->wants[i]), rows))
            w->own[there++] = w->wants[i];
        else
            w->wants[here++] = w->wants[i];
    memcpy(w->wants + here, w->own, there * sizeof *w->wants);
    return here;
}

// Has the device begin with its wants.
static void begin_elsewhere(struct pass *p, const struct hearth_want *wants, uint32_t n)
{
    struct hearth_hot_experts *hot = p->hot;
    const int *firsts = hearth_moe_firsts(&p->work->moe, p->rows);
    p->first_elsewhere = p->n_slots;
    for (uint32_t i = 0; i < n; i++) {
        const int expert = expert_of(p, &wants[i]), n_rows = rows_of(p, expert);
        if (!n_rows)
            continue;
        if (p->first_elsewhere == p->n_slots)
            p->first_elsewhere = firsts[expert];
        hearth_hot_experts_add(hot, p->layer, p->rows.phase, expert, n_rows);
    }
    hearth_hot_experts_begin(hot, p->layer, p->rows.phase,
                             p->in + (size_t)p->first_elsewhere * (size_t)hearth_ffn_width(p->work->c->hp));
}

// Waits for its wants; where it has failed, they are computed here, one by one.
static void end_elsewhere(const struct pass *passes, int n_passes, struct hearth_want *wants, uint32_t n)
{
    struct hearth_hot_experts *hot = passes[0].hot;
    const size_t width = (size_t)hearth_ffn_width(passes[0].work->c->hp);
    const uint64_t began = hearth_now_ns();
    const bool works = hearth_hot_experts_end(hot);
    hot->shares[passes[0].rows.phase == HEARTH_PHASE_STEP].wait_ns += hearth_now_ns() - began;
    if (!works) {
        for (uint32_t i = 0; i < n; i++) {
            request(passes, n_passes, wants + i, 1);
            compute(passes, n_passes, wants + i, 1);
        }
        return;
    }
    for (int k = 0; k < n_passes; k++) {
        const struct pass *p = &passes[k];
        memcpy(p->in + (size_t)p->first_elsewhere * width, hot->rows[p->rows.phase == HEARTH_PHASE_STEP].got,
               (size_t)(p->n_slots - p->first_elsewhere) * width * sizeof *p->in);
    }
}

// Classes that ask for the same: all, but for one whose neurons come one by one.
static void run(struct pass *passes, int n_passes, float *h, const float *x)
{
    struct hearth_want *wants = passes[0].work->wants;
    const uint32_t n = list_wants(passes, n_passes), n_here = part_wants(passes, n_passes, n);
    const bool passing = is_passing(passes, n_passes);
    if (passing)
        put_passing_first(passes, n_passes, wants, n_here);
    if (passes[0].single) {
        guess_neurons(&passes[0], x);
    } else if (n_here) {
        request(passes, n_passes, wants, n_here);
        if (!passes[0].work->sources->ffn.ops->gives_neurons)
            hint_experts(passes, n_passes, x);
    }
    struct hearth_hot_experts *hot = passes[0].hot;
    struct hearth_through_experts *through = passes[0].work->through;
    const uint64_t began = hot || through ? hearth_now_ns() : 0;
    for (int k = 0; k < n_passes; k++) {
        place_slots(&passes[k], n, h, x);
        if (n_here < n)
            begin_elsewhere(&passes[k], wants + n_here, n - n_here);
    }
    if (passes[0].single) // clusters of neurons are asked for once it is known which
        compute_wants(&passes[0], wants, n);
    else if (n_here)
        compute(passes, n_passes, wants, n_here);
    if (n_here < n)
        end_elsewhere(passes, n_passes, wants + n_here, n - n_here);
    if (passing)
        end_passing(passes, n_passes);
    if (through)
        hearth_through_experts_note(through, passes[0].layer, hearth_now_ns() - began);
    if (hot)
        hot->shares[passes[0].rows.phase == HEARTH_PHASE_STEP].all_ns += hearth_now_ns() - began;
}

static struct pass begin(struct hearth_ffn_work *w, struct hearth_rows rows, int layer, const float *h,
                         const float *x)
{
    const struct hearth_context *c = w->c;
    const struct hearth_layer *l = &c->weights->layers[layer];
    const struct hearth_ffn f = hearth_ffn_of(c->hp, l);
    const int slot = rows.first * hearth_ffn_used(c->hp), width = hearth_ffn_neurons_of(c->hp, layer);
    struct pass p = {.work = w,
                     .hot = hearth_hot_experts_of(w->experts, layer),
                     .rows = rows,
                     .layer = layer,
                     .gated = hearth_has(f.gate),
                     .down_by_neuron = hearth_has(f.down_t),
                     .by_neuron = rows.phase == HEARTH_PHASE_STEP &&
                                  hearth_sparse_mode_layer(w->sparse.mode, c->hp, l),
                     .gate = hearth_row_of(w->gate, slot, width),
                     .up = hearth_row_of(w->up, slot, width),
                     .down = w->down ? hearth_row_of(w->down, slot, hearth_ffn_width(c->hp)) : NULL};
    p.single = p.by_neuron && w->sources->ffn.ops->gives_neurons;
    if (w->inputs && rows.phase == HEARTH_PHASE_STEP)
        memcpy(inputs_of(w, layer), h + (size_t)rows.first * (size_t)c->hp->n_embd,
               (size_t)rows.n * (size_t)c->hp->n_embd * sizeof *h);
    if (c->hp->n_expert && !c->hp->early_router)
        hearth_moe_choose(&w->moe, rows, layer, h, x);
    return p;
}

static void end(const struct pass *p, float *h)
{
    struct hearth_ffn_work *w = p->work;
    const struct hearth_context *c = w->c;
    if (c->probes->on_neurons)
        report_neurons(p, p->by_neuron ? p->gate : act_of(p), false);
    // A step by neuron has gates only where they decide.
    if (c->probes->on_gates && (!p->by_neuron || w->sparse.mode->sparsity_threshold > 0.0f))
        report_neurons(p, NULL, true);
    if (c->hp->n_expert)
        hearth_moe_combine(&w->moe, p->rows, p->layer, h);
}

// ---- what all tokens go through: the shared expert, or a layer without experts in a model that has them; or what
//      replaces the neurons that are off

struct glu_job {
    const struct hearth_context *c;
    float *gate, *up; // [T x S]; gate: NULL where there is none
    int width;        // S
    struct hearth_limit limit;
    const struct hearth_ffn_work *work;
    const struct hearth_weight *router; // or none
    const float *h;                     // [T x E]
    float *weights;                     // [T]
};

// What goes down is in `gate`, or in `up` where there is no gate.
static void glu_task(void *arg, int task, int worker)
{
    const struct glu_job *j = arg;
    float *up = hearth_row_of(j->up, task, j->width), *weight = &j->weights[task];
    if (j->gate) {
        float *gate = hearth_row_of(j->gate, task, j->width);
        hearth_glu_within(j->c->kernels, gate, up, (size_t)j->width, j->c->hp->activation, j->limit);
    } else {
        j->c->kernels->activate(up, (size_t)j->width, j->c->hp->activation);
    }
    if (!j->router->data)
        return;
    const size_t k = j->router->k;
    j->c->kernels->step[HEARTH_TYPE_F32](weight, 1, hearth_vector_of(j->router), j->router->stride, k, 1,
                                         j->h + (size_t)task * k, k * sizeof(float), 1,
                                         j->work->matmul->scratch[worker]);
    *weight = 1.0f / (1.0f + hearth_exp(-*weight));
}

// What replaces neurons that are off, of h [T x E], to work.shared [T x E].
static void compute_linear(struct hearth_ffn_work *w, struct hearth_rows rows, int layer, const float *h)
{
    const int embd = w->c->hp->n_embd;
    struct hearth_product out = {.w = w->c->weights->layers[layer].ffn_linear,
                                 .out = hearth_row_of(w->shared, rows.first, embd),
                                 .n = rows.n};
    hearth_matmul(w->matmul, rows.phase, &out, 1, h + (size_t)rows.first * (size_t)embd, rows.n);
}

// Of h [T x E] to work.shared [T x E].
static void compute_shared(struct hearth_ffn_work *w, struct hearth_rows rows, int layer, const float *h)
{
    const struct hearth_layer *l = &w->c->weights->layers[layer];
    const bool experts = hearth_has_experts(w->c->hp, layer);
    const struct hearth_weight *down = experts ? &l->ffn_down_shared : &l->ffn_down;
    const struct hearth_weight *gate = experts ? &l->ffn_gate_shared : &l->ffn_gate;
    const bool gated = hearth_has(gate);
    const int embd = w->c->hp->n_embd, width = (int)down->k;
    struct glu_job j = {w->c,
                        gated ? hearth_row_of(w->shared_gate, rows.first, width) : NULL,
                        hearth_row_of(w->shared_up, rows.first, width),
                        width,
                        hearth_limit_of(w->c->hp, layer, false),
                        w,
                        &l->ffn_router_shared,
                        h + (size_t)rows.first * (size_t)embd,
                        w->shared_weights + rows.first};
    struct hearth_product in[] = {{.w = experts ? l->ffn_up_shared : l->ffn_up, .out = j.up, .n = rows.n},
                                  {.w = *gate, .out = j.gate, .n = rows.n}};
    struct hearth_product out = {.w = *down, .out = hearth_row_of(w->shared, rows.first, embd), .n = rows.n};
    hearth_matmul(w->matmul, rows.phase, in, gated ? 2 : 1, h + (size_t)rows.first * (size_t)embd, rows.n);
    hearth_parallel(w->c, glu_task, &j, rows.n);
    hearth_matmul(w->matmul, rows.phase, &out, 1, gated ? j.gate : j.up, rows.n);
}

struct shared_job {
    const struct hearth_ffn_work *work;
    int first;
    float *h;
    bool alone;
    bool weighed;
    const struct hearth_layer *layer;
    const float *x; // [T x E]
};

static void norm_in_place(const struct hearth_context *c, float *x, const struct hearth_weight *w)
{
    if (hearth_has(w))
        c->kernels->rms_norm(x, x, hearth_vector_of(w), (size_t)c->hp->n_embd, c->hp->norm_eps);
}

// h = norm(x), of a row that goes into experts
static void norm_exps_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct shared_job *j = arg;
    const struct hearth_context *c = j->work->c;
    const size_t width = (size_t)c->hp->n_embd, at = (size_t)(j->first + task) * width;
    c->kernels->rms_norm(j->h + at, j->x + at, hearth_vector_of(&j->layer->ffn_norm_exps), width,
                         c->hp->norm_eps);
}

// h = shared, or h += shared, or h += weight * shared, and maybe times a number; both normed before where they have norms
static void add_shared_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct shared_job *j = arg;
    const struct hearth_context *c = j->work->c;
    const int row = j->first + task, embd = c->hp->n_embd;
    float *shared = hearth_row_of(j->work->shared, row, embd);
    norm_in_place(c, shared, &j->layer->ffn_post_norm_shared);
    if (!j->alone)
        norm_in_place(c, hearth_row_of(j->h, row, embd), &j->layer->ffn_post_norm_exps);
    if (j->alone)
        memcpy(hearth_row_of(j->h, row, embd), shared, (size_t)embd * sizeof *shared);
    else if (j->weighed)
        c->kernels->scale_add(hearth_row_of(j->h, row, embd), 1.0f, shared, j->work->shared_weights[row],
                              (size_t)embd);
    else
        c->kernels->add(hearth_row_of(j->h, row, embd), shared, (size_t)embd);
    float *h = hearth_row_of(j->h, row, embd);
    for (int i = 0; c->hp->n_ff_shared && c->hp->shared_scale != 1.0f && !j->alone && i < embd; i++)
        h[i] *= c->hp->shared_scale;
}

static void add_shared(struct hearth_ffn_work *w, struct hearth_rows rows, int layer, float *h)
{
    const struct hearth_layer *l = &w->c->weights->layers[layer];
    struct shared_job j = {w,
                           rows.first,
                           h,
                           w->c->hp->n_expert && !hearth_has_experts(w->c->hp, layer),
                           l->ffn_router_shared.data != NULL,
                           l,
                           NULL};
    hearth_parallel(w->c, add_shared_task, &j, rows.n);
}

// Waits for the expert that a device computes for all tokens; where it has failed, that is computed here.
static void end_shared(struct hearth_ffn_work *w, const struct hearth_rows *classes, int n_classes, int layer,
                       const float *h)
{
    size_t n_rows = 0;
    for (int k = 0; k < n_classes; k++)
        n_rows += (size_t)classes[k].n;
    if (hearth_device_shared_end(w->elsewhere, w->shared, n_rows, (size_t)w->c->hp->n_embd))
        return;
    for (int k = 0; k < n_classes; k++)
        compute_shared(w, classes[k], layer, h);
}

// A class's rows of h [T x E] to those of work.small [T x M], or the other way.
static void project_experts(struct hearth_ffn_work *w, struct hearth_rows rows, int layer, float *h, bool in)
{
    const struct hearth_layer *l = &w->c->weights->layers[layer];
    const int embd = w->c->hp->n_embd, small = hearth_ffn_width(w->c->hp);
    float *whole = hearth_row_of(h, rows.first, embd), *part = hearth_row_of(w->small, rows.first, small);
    struct hearth_product product = {
        .w = in ? l->ffn_exps_in : l->ffn_exps_out, .out = in ? part : whole, .n = rows.n};
    hearth_matmul(w->matmul, rows.phase, &product, 1, in ? whole : part, rows.n);
}

void hearth_ffn(struct hearth_ffn_work *w, const struct hearth_rows *classes, int n_classes, int layer,
                float *h, const float *x)
{
    struct pass passes[2];
    const struct hearth_hparams *hp = w->c->hp;
    const struct hearth_layer *l = &w->c->weights->layers[layer];
    const bool alone =
        hp->n_expert && !hearth_has_experts(hp, layer); // without experts where others have them
    const bool linear = hearth_has(&l->ffn_linear), shared = alone || hp->n_ff_shared || linear;
    const bool elsewhere = w->elsewhere && w->elsewhere->layer == layer, small = hearth_has(&l->ffn_exps_in);
    float *of_experts = small ? w->small : h; // what they read, later what they give
    bool single = false;                      // of steps, which are the last class
    for (int k = 0; k < n_classes; k++) {
        struct shared_job own = {.work = w, .first = classes[k].first, .h = h, .layer = l, .x = x};
        if (linear)
            compute_linear(w, classes[k], layer, h);
        else if (shared && !elsewhere)
            compute_shared(w, classes[k], layer, h);
        if (hearth_has(&l->ffn_norm_exps))
            hearth_parallel(w->c, norm_exps_task, &own, classes[k].n);
        report_inputs(w, classes[k], layer, h, x);
        if (alone) {
            add_shared(w, classes[k], layer, h);
            continue;
        }
        passes[k] = begin(w, classes[k], layer, h, x);
        single = passes[k].single;
        if (small)
            project_experts(w, classes[k], layer, h, true);
    }
    if (alone)
        return;
    const int together = single ? 1 : n_classes;
    for (int k = 0; k < n_classes; k += together)
        run(&passes[k], together, of_experts, x);
    if (elsewhere)
        end_shared(w, classes, n_classes, layer, h);
    for (int k = 0; k < n_classes; k++) {
        end(&passes[k], of_experts);
        if (small)
            project_experts(w, classes[k], layer, h, false);
        if (shared)
            add_shared(w, classes[k], layer, h);
    }
}

// ---- before attention

bool hearth_ffn_looks(const struct hearth_ffn_work *w, struct hearth_rows rows, int layer)
{
    return rows.phase == HEARTH_PHASE_STEP && hearth_sparse_looks(&w->sparse, layer);
}

void hearth_ffn_look(struct hearth_ffn_work *w, struct hearth_rows rows, int layer, const float *h,
                     const float *x)
{
    const struct pass p = {.work = w, .rows = rows, .layer = layer, .by_neuron = true};
    hearth_sparse_look(&w->sparse, layer, seen_of(&p, h, x), rows.n);
}

float *hearth_ffn_previous(const struct hearth_ffn_work *w, int layer)
{
    return layer && w->inputs ? inputs_of(w, layer - 1) : NULL;
}

// ---- opening

void hearth_ffn_lay_out(struct hearth_ffn_work *w, const struct hearth_ffn_sizes *sizes,
                        struct hearth_arena *a)
{
    const struct hearth_hparams *hp = w->c->hp;
    const size_t used = (size_t)hearth_ffn_used(hp), f32 = sizeof(float);
    const size_t slots = (size_t)sizes->max_rows * used, steps = (size_t)sizes->max_steps * used;
    const size_t f = (size_t)hearth_ffn_neurons(hp), x = (size_t)hearth_ffn_experts(hp);
    const bool predicts = hearth_sparse_mode_inner(w->sparse.mode, w->sparse.model) > 0;
    const bool seen = predicts && hp->predictor_input != HEARTH_PREDICTOR_NORMED;
    const bool previous = predicts && hp->predictor_input == HEARTH_PREDICTOR_PREVIOUS;
    w->max_steps = (size_t)sizes->max_steps;
    w->inputs = previous ? hearth_arena_take(a, 2 * w->max_steps, (size_t)hp->n_embd * f32) : NULL;
    w->gate = hearth_arena_take_rows(a, slots, steps, f * f32);
    w->up = hearth_arena_take_rows(a, slots, steps, f * f32);
    w->down = hearth_arena_take_rows(a, sizes->neurons_stream ? slots : 0, steps,
                                     (size_t)hearth_ffn_width(hp) * f32);
    w->small = hearth_arena_take_rows(a, hp->n_embd_exp ? (size_t)sizes->max_rows : 0,
                                      (size_t)sizes->max_steps, (size_t)hp->n_embd_exp * f32);
    const size_t t = (size_t)sizes->max_rows, shared = hearth_ffn_shared(hp);
    w->shared_gate = hearth_arena_take_rows(a, shared ? t : 0, (size_t)sizes->max_steps, shared * f32);
    w->shared_up = hearth_arena_take_rows(a, shared ? t : 0, (size_t)sizes->max_steps, shared * f32);
    w->shared = hearth_arena_take_rows(a, shared || hp->has_linear ? t : 0, (size_t)sizes->max_steps,
                                       (size_t)hp->n_embd * f32);
    w->shared_weights = hearth_arena_take(a, shared ? t : 0, f32);
    w->wants = hearth_arena_take(a, x, sizeof *w->wants);
    w->own = hearth_arena_take(a, x, sizeof *w->own);
    w->parts = hearth_arena_take(a, x, sizeof *w->parts);
    w->products = hearth_arena_take(a, 2 * x, sizeof *w->products);
    if (hp->n_expert)
        hearth_moe_lay_out(&w->moe, sizes->max_rows, sizes->max_steps, seen, a);
    hearth_sparse_lay_out(&w->sparse, sizes->streams, w->max_steps, a);
}
