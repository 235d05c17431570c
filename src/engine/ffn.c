// SPDX-License-Identifier: MIT
// The feed-forward part of a layer: with or without a gate. Experts: experts.c; steps by neuron:
// ffn_sparse.c.
#include "engine/matmul.h"
#include "engine/sparse.h"
#include "engine/streaming.h"

#include <string.h>

struct job {
    struct hearth_session *s;
    const struct hearth_layer *w;
    size_t at, n; // neurons
};

// Biases and activation of one token and some neurons, leaving in `gate` (in `up` without a gate) what goes
// down.
static void activate_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_hparams *hp = &j->s->model->hp;
    const struct hearth_kernels *kernels = &j->s->model->kernels;
    const size_t width = j->n;
    float *gate = hearth_row_of(j->s->work.gate, task, hp->n_ff) + j->at,
          *up = hearth_row_of(j->s->work.up, task, hp->n_ff) + j->at;
    if (j->w->ffn_up_b.data)
        kernels->add(up, (const float *)j->w->ffn_up_b.data + j->at, width);
    if (!j->w->ffn_gate.data) {
        kernels->activate(up, width, hp->activation);
        return;
    }
    if (j->w->ffn_gate_b.data)
        kernels->add(gate, (const float *)j->w->ffn_gate_b.data + j->at, width);
    kernels->glu(gate, gate, up, width, hp->activation);
}

static void tell_neurons(const struct hearth_session *s, int layer, int n, const float *act)
{
    for (int i = 0; s->on_neurons && i < n; i++)
        s->on_neurons(s->on_neurons_arg, layer, 0, s->work.rows[i],
                      act + (size_t)i * (size_t)s->model->hp.n_ff);
}

static void tell_gates(const struct hearth_session *s, int layer, int n)
{
    for (int i = 0; s->on_gates && s->sparsity_threshold > 0.0f && i < n; i++)
        s->on_gates(s->on_gates_arg, layer, s->work.rows[i],
                    s->work.up + (size_t)i * (size_t)s->model->hp.n_ff);
}

static void ffn_dense(struct hearth_session *s, enum hearth_phase phase, int layer, int n)
{
    const struct hearth_layer *w = &s->weights.layers[layer];
    const bool gated = w->ffn_gate.data != NULL;
    struct hearth_product into[] = {{.w = w->ffn_up, .out = s->work.up, .n = n},
                                    {.w = w->ffn_gate, .out = s->work.gate, .n = n}};
    hearth_matmul(s, phase, into, gated ? 2 : 1, s->work.h, n);
    struct job j = {s, w, 0, (size_t)s->model->hp.n_ff};
    hearth_run(s, activate_task, &j, n);
    struct hearth_product down = {
        .w = w->ffn_down_t.data ? w->ffn_down_t : w->ffn_down, .out = s->work.h, .n = n};
    const float *act = gated ? s->work.gate : s->work.up;
    tell_neurons(s, layer, n, act);
    if (w->ffn_down_t.data) // steps go by neuron then
        hearth_prompt_down(s, &down, 1, act, w->ffn_down_t.n, false);
    else
        hearth_matmul(s, phase, &down, 1, act, n);
}

// The same of a prompt, where the neurons are not all in memory: piece by piece.
static void ffn_in_pieces(struct hearth_session *s, int layer, int n)
{
    const struct hearth_layer *w = &s->weights.layers[layer];
    const bool gated = w->ffn_gate.data != NULL;
    const size_t width = (size_t)s->model->hp.n_ff;
    float *act = gated ? s->work.gate : s->work.up;
    struct hearth_neuron_piece piece = {0};
    while (hearth_neurons_next(hearth_streaming_neurons(s), (uint32_t)layer, piece.at + piece.n, &piece)) {
        struct hearth_product into[] = {
            {.w = piece.up, .out = s->work.up + piece.at, .n = n, .out_stride = width},
            {.w = piece.gate, .out = s->work.gate + piece.at, .n = n, .out_stride = width}};
        hearth_matmul(s, HEARTH_PHASE_PROMPT, into, gated ? 2 : 1, s->work.h, n);
        struct job j = {s, w, piece.at, piece.n};
        hearth_run(s, activate_task, &j, n);
        // h is read until the last piece, so the sums grow elsewhere.
        struct hearth_product down = {.w = piece.down_t, .out = s->work.down, .n = n};
        hearth_prompt_down(s, &down, 1, act + piece.at, width, piece.at > 0);
    }
    tell_neurons(s, layer, n, act);
    memcpy(s->work.h, s->work.down, (size_t)n * (size_t)s->model->hp.n_embd * sizeof(float));
}

static void ffn_by_neuron(struct hearth_session *s, int layer, int n)
{
    const struct hearth_layer *w = &s->weights.layers[layer];
    struct hearth_sparse_part part = hearth_sparse_part_of(s, layer, 0);
    part.n = n;
    const bool stream = s->model->hp.predictor_input != HEARTH_PREDICTOR_NORMED;
    hearth_sparse_run(s, layer, &part, 1, s->work.h, stream ? s->work.x : s->work.h, s->work.h, s->work.gate,
                      s->on_gates ? s->work.up : NULL);
    tell_neurons(s, layer, n, s->work.gate);
    tell_gates(s, layer, n);
    struct hearth_product down = {.w = w->ffn_down, .out = s->work.h, .n = n};
    if (!w->ffn_down_t.data)
        hearth_matmul(s, HEARTH_PHASE_STEP, &down, 1, s->work.gate, n);
}

static void tell(const struct hearth_session *s, enum hearth_phase phase, int layer, int n)
{
    const int width = s->model->hp.n_embd;
    for (int i = 0; i < n; i++)
        s->on_ffn(s->on_ffn_arg, phase, layer, s->work.rows[i], hearth_row_of(s->work.h, i, width),
                  hearth_row_of(s->work.x, i, width));
}

void hearth_ffn(struct hearth_session *s, enum hearth_phase phase, int layer, int n)
{
    if (s->on_ffn)
        tell(s, phase, layer, n);
    if (s->model->hp.n_expert)
        hearth_ffn_experts(s, phase, layer, n);
    else if (phase == HEARTH_PHASE_STEP && hearth_sparse_layer(s, layer))
        ffn_by_neuron(s, layer, n);
    else if (hearth_streaming_neurons(s))
        ffn_in_pieces(s, layer, n);
    else
        ffn_dense(s, phase, layer, n);
}
