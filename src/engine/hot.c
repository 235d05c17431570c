// SPDX-License-Identifier: MIT
// Hot neurons on a device: see hot.h.
#include "engine/hot.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "engine/device_predictor.h"
#include "engine/offload_weights.h"
#include "engine/session.h"
#include "model/ffn.h"

// ---- hot path

// Of the layer's neurons the first n.
static struct hearth_hot_layer first_of(const struct hearth_hot_layer *all, size_t n)
{
    struct hearth_hot_layer l = *all;
    struct hearth_accel_weight *const rows[] = {&l.gate, &l.up, &l.down}, *const biases[] = {&l.gate_b,
                                                                                             &l.up_b};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        rows[i]->n = rows[i]->n ? n : 0;
    for (size_t i = 0; i < sizeof biases / sizeof *biases; i++)
        biases[i]->k = n;
    return l;
}

// The neurons that the mask has, of the layer's first clusters, which l has, and their sum, to h->out.
static void compute(struct hearth_hot *h, int layer, const struct hearth_hot_layer *l, size_t rows)
{
    const struct hearth_hparams *hp = &h->s->model->hp;
    const struct hearth_sparse_mode *mode = &h->s->mode;
    const size_t embd = (size_t)hp->n_embd, n = l->up.n;
    const bool gated = l->gate.n != 0;
    const struct hearth_accel_input in = {&h->x, &h->acts};
    hearth_accel_quantize(h->a, &h->acts, &h->x, embd, rows);
    hearth_accel_product(h->a, false, &h->gate, gated ? &l->gate : &l->up, in, rows, &h->mask);
    hearth_accel_add_bias(h->a, &h->gate, gated ? &l->gate_b : &l->up_b, rows);
    if (mode->sparsity != HEARTH_SPARSITY_OFF)
        hearth_accel_mask_gates(
            h->a, &h->mask, &h->gate, hp->activation,
            mode->sparsity_threshold > 0.0f ? hearth_sparse_mode_threshold(mode, layer) : 0.0f, n, rows);
    if (gated) {
        hearth_accel_product(h->a, false, &h->up, &l->up, in, rows, &h->mask);
        hearth_accel_add_bias(h->a, &h->up, &l->up_b, rows);
    }
    hearth_accel_activate(h->a, &h->gate, gated ? &h->up : NULL, &h->mask, hp->activation, n, rows);
    hearth_accel_clusters(h->a, &h->out, &h->parts, &l->down, &h->gate,
                          hearth_cluster_size((size_t)hearth_ffn_neurons(hp)), rows);
}

static void fetch_sum(struct hearth_hot *h, size_t rows)
{
    const size_t bytes = rows * (size_t)h->s->model->hp.n_embd * sizeof *h->sum;
    h->event = hearth_accel_begin_read(h->a, &h->out, 0, h->sum, bytes);
    hearth_accel_flush(h->a);
}

static struct hearth_hot_layer clusters_of(const struct hearth_hot *h, int layer, size_t clusters)
{
    const size_t cluster = hearth_cluster_size((size_t)hearth_ffn_neurons(&h->s->model->hp));
    return first_of(&h->layers[layer], clusters * cluster);
}

void hearth_hot_begin(struct hearth_hot *h, int layer, size_t clusters, const float *x, int n_rows)
{
    const struct hearth_hot_layer l = clusters_of(h, layer, clusters);
    const size_t rows = (size_t)n_rows;
    hearth_accel_write(h->a, &h->x, 0, x, rows * (size_t)h->s->model->hp.n_embd * sizeof *x);
    hearth_accel_write(h->a, &h->mask, 0, h->masks, rows * l.up.n);
    hearth_accel_begin_list(h->a);
    compute(h, layer, &l, rows);
    hearth_accel_end_list(h->a);
    fetch_sum(h, rows);
}

// The mask of the first neurons, whose scores begin each row of all scores.
static void mask_first(struct hearth_hot *h, int layer, size_t n, size_t rows)
{
    const size_t first = n * sizeof(float),
                 all = (size_t)hearth_ffn_neurons(&h->s->model->hp) * sizeof(float);
    const uint32_t *always = h->s->model->always;
    for (size_t i = 0; rows > 1 && i < rows; i++)
        hearth_accel_copy(h->a, &h->first_scores, i * first, &h->scores, i * all, first);
    hearth_accel_mask_scores(h->a, &h->mask, rows > 1 ? &h->first_scores : &h->scores,
                             h->s->mode.predict_threshold, always ? always[layer] : 0, n, rows);
}

void hearth_hot_ask(struct hearth_hot *h, int layer, size_t clusters, const float *x, const float *seen,
                    int n_rows)
{
    const struct hearth_hparams *hp = &h->s->model->hp;
    const struct hearth_hot_layer l = clusters_of(h, layer, clusters);
    const size_t rows = (size_t)n_rows, bytes = rows * (size_t)hp->n_embd * sizeof *x;
    const struct hearth_device_predictor p = {&l.fc1, &l.fc2, &h->acts, &h->hidden, &h->inner, &h->scores};
    hearth_accel_write(h->a, &h->x, 0, x, bytes);
    if (seen != x)
        hearth_accel_write(h->a, &h->seen, 0, seen, bytes);
    hearth_accel_begin_list(h->a);
    hearth_device_predict(h->a, &p, seen != x ? &h->seen : &h->x, rows);
    hearth_accel_end_list(h->a);
    h->scores_event = hearth_accel_begin_read(h->a, &h->scores, 0, h->host_scores,
                                              rows * (size_t)hearth_ffn_neurons(hp) * sizeof *h->host_scores);
    hearth_accel_begin_list(h->a);
    mask_first(h, layer, l.up.n, rows);
    compute(h, layer, &l, rows);
    hearth_accel_end_list(h->a);
    fetch_sum(h, rows);
}

// Whether the device has not failed; else that is said, once.
static bool settle(struct hearth_hot *h)
{
    struct hearth_error err = {0};
    if (!hearth_accel_take(h->a, &err))
        return true;
    *h->works = false;
    hearth_log(HEARTH_LOG_WARNING, "%s; the CPU goes on with its neurons", err.message);
    return false;
}

bool hearth_hot_scores(struct hearth_hot *h)
{
    hearth_accel_wait(h->a, h->scores_event);
    h->scores_event = NULL;
    if (!hearth_accel_has_failed(h->a))
        return true;
    hearth_accel_wait(h->a, h->event);
    h->event = NULL;
    return settle(h);
}

bool hearth_hot_end(struct hearth_hot *h)
{
    hearth_accel_wait(h->a, h->event);
    h->event = NULL;
    return settle(h);
}

// ---- opening

// Bytes that a neuron of the layer takes; 0: the layer has none for a device.
static uint64_t neuron_bytes(const struct hearth_session *s, int layer)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_layer *l = &s->model->weights.layers[layer];
    const struct hearth_weight *const parts[] = {&l->ffn_gate, &l->ffn_up, &l->ffn_down_t};
    uint64_t bytes = 2 * sizeof(float); // biases
    if (hp->n_expert || hearth_widths_differ(hp) || !hearth_has(&l->ffn_down_t) ||
        !hearth_sparse_mode_layer(&s->mode, hp, l))
        return 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const uint64_t own =
            hearth_has(parts[i]) ? hearth_accel_weight_bytes(parts[i]->type, parts[i]->k, 1) : 0;
        if (hearth_has(parts[i]) && !own)
            return 0;
        bytes += own;
    }
    return bytes;
}

// The predictor's bytes; 0: there is none, or devices do not know it.
static uint64_t predictor_bytes(const struct hearth_session *s, int layer)
{
    const struct hearth_weight *fc1 = &s->model->weights.layers[layer].pred_fc1,
                               *fc2 = &s->model->weights.layers[layer].pred_fc2;
    // Where single neurons come, those that look at the layer before are asked by the CPU, a layer ahead.
    const bool early = s->model->load.ram && s->model->hp.predictor_input == HEARTH_PREDICTOR_PREVIOUS;
    if (s->mode.sparsity != HEARTH_SPARSITY_PREDICT || early || !hearth_has(fc1) || !neuron_bytes(s, layer))
        return 0;
    const uint64_t first = hearth_accel_weight_bytes(fc1->type, fc1->k, fc1->n),
                   second = hearth_accel_weight_bytes(fc2->type, fc2->k, fc2->n);
    return first && second ? first + second : 0;
}

// Of predictors, for the rows of a pass.
static uint64_t predictor_workspace(const struct hearth_session *s, size_t neurons)
{
    const uint64_t rows = HEARTH_STEP_ROWS, embd = (uint64_t)s->model->hp.n_embd,
                   inner = hearth_sparse_mode_inner(&s->mode, s->model),
                   ff = (uint64_t)hearth_ffn_neurons(&s->model->hp);
    return rows * ((embd + 2 * inner + ff + neurons) * sizeof(float) + hearth_acts_bytes((size_t)inner));
}

// What all predictors of layers [first, end) take, where they go there: they have a half of the room at most.
static uint64_t bytes_for_predictors(const struct hearth_session *s, int first, int end, uint64_t room)
{
    uint64_t bytes = 0;
    for (int i = first; i < end; i++)
        bytes += predictor_bytes(s, i);
    bytes += bytes ? predictor_workspace(s, (size_t)hearth_ffn_neurons(&s->model->hp)) : 0;
    return bytes <= room / 2 ? bytes : 0;
}

static void take_predictor_workspace(struct hearth_hot *h, size_t neurons)
{
    const struct hearth_session *s = h->s;
    const size_t rows = HEARTH_STEP_ROWS, f32 = sizeof(float), ff = (size_t)hearth_ffn_neurons(&s->model->hp),
                 inner = hearth_sparse_mode_inner(&s->mode, s->model);
    h->seen = hearth_accel_alloc(h->a, rows * (size_t)s->model->hp.n_embd * f32);
    h->hidden = hearth_accel_alloc(h->a, rows * inner * f32);
    h->inner = hearth_accel_alloc(h->a, rows * inner * f32);
    h->scores = hearth_accel_alloc(h->a, rows * ff * f32);
    h->first_scores = hearth_accel_alloc(h->a, rows * neurons * f32);
    h->host_scores = hearth_accel_alloc_host(h->a, rows * ff * f32);
}

static void take_workspace(struct hearth_hot *h, size_t neurons, bool asks)
{
    const size_t rows = HEARTH_STEP_ROWS, f32 = sizeof(float), embd = (size_t)h->s->model->hp.n_embd;
    const size_t inner = asks ? hearth_sparse_mode_inner(&h->s->mode, h->s->model) : 0;
    h->x = hearth_accel_alloc(h->a, rows * embd * f32);
    h->acts = hearth_accel_alloc(h->a, rows * hearth_acts_bytes(embd > inner ? embd : inner));
    h->mask = hearth_accel_alloc(h->a, rows * neurons);
    h->gate = hearth_accel_alloc(h->a, rows * neurons * f32);
    h->up = hearth_accel_alloc(h->a, rows * neurons * f32);
    h->parts = hearth_accel_alloc(h->a, rows * HEARTH_CLUSTERS * embd * f32);
    h->out = hearth_accel_alloc(h->a, rows * embd * f32);
}

static uint64_t workspace_bytes(const struct hearth_session *s, size_t neurons)
{
    const uint64_t rows = HEARTH_STEP_ROWS, f32 = sizeof(float), embd = (uint64_t)s->model->hp.n_embd;
    return rows *
           (embd * f32 * (2 + HEARTH_CLUSTERS) + hearth_acts_bytes((size_t)embd) + neurons * (1 + 2 * f32));
}

static void close_layer(struct hearth_accel *a, struct hearth_hot_layer *l)
{
    struct hearth_accel_weight *const parts[] = {&l->gate, &l->up,  &l->down, &l->gate_b,
                                                 &l->up_b, &l->fc1, &l->fc2};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hearth_accel_weight_close(a, parts[i]);
    l->clusters = l->neurons = 0;
}

// The beginning of a bias.
static int send_bias(struct hearth_hot *h, struct hearth_accel_weight *to, const struct hearth_weight *bias,
                     size_t n, struct hearth_error *err)
{
    return bias->data
               ? hearth_accel_weight_open(h->a, to, HEARTH_TYPE_F32, n, 1, bias->data, n * sizeof(float), err)
               : HEARTH_OK;
}

static int open_predictor(struct hearth_hot *h, int layer, struct hearth_error *err)
{
    const struct hearth_model *m = h->s->model;
    const struct hearth_layer *w = &m->weights.layers[layer], *now = &h->s->context.weights->layers[layer];
    struct hearth_hot_layer *l = &h->layers[layer];
    const int rc = hearth_offload_send(h->a, m, &l->fc1, &w->pred_fc1, &now->pred_fc1, w->pred_fc1.n, err);
    return rc ? rc : hearth_offload_send(h->a, m, &l->fc2, &w->pred_fc2, &now->pred_fc2, w->pred_fc2.n, err);
}

static int open_layer(struct hearth_hot *h, int layer, size_t clusters, struct hearth_error *err)
{
    const struct hearth_model *m = h->s->model;
    const struct hearth_layer *w = &m->weights.layers[layer], *now = &h->s->context.weights->layers[layer];
    struct hearth_hot_layer *l = &h->layers[layer];
    l->neurons = clusters * hearth_cluster_size(w->ffn_up.n);
    int rc = HEARTH_OK;
    if (hearth_has(&w->ffn_gate))
        rc = hearth_offload_send(h->a, m, &l->gate, &w->ffn_gate, &now->ffn_gate, l->neurons, err);
    if (!rc)
        rc = hearth_offload_send(h->a, m, &l->up, &w->ffn_up, &now->ffn_up, l->neurons, err);
    if (!rc)
        rc = hearth_offload_send(h->a, m, &l->down, &w->ffn_down_t, &now->ffn_down_t, l->neurons, err);
    if (!rc)
        rc = send_bias(h, &l->gate_b, &now->ffn_gate_b, l->neurons, err);
    if (!rc)
        rc = send_bias(h, &l->up_b, &now->ffn_up_b, l->neurons, err);
    l->clusters = clusters;
    return rc;
}

static int open_layers(struct hearth_hot *h, size_t clusters, bool asks, struct hearth_error *err)
{
    const size_t neurons = clusters * hearth_cluster_size((size_t)hearth_ffn_neurons(&h->s->model->hp));
    const size_t rows = HEARTH_STEP_ROWS;
    int rc = HEARTH_OK;
    h->layers = hearth_calloc((size_t)h->end, sizeof *h->layers);
    h->masks = hearth_calloc(rows, neurons);
    h->sum = hearth_accel_alloc_host(h->a, rows * (size_t)h->s->model->hp.n_embd * sizeof *h->sum);
    if (!h->layers || !h->masks || !h->sum)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for hot neurons");
    take_workspace(h, neurons, asks);
    if (asks) {
        take_predictor_workspace(h, neurons);
        if (!h->host_scores)
            return hearth_fail(err, HEARTH_E_MEMORY, "no memory for hot neurons");
    }
    for (int i = h->first; i < h->end && !rc && !hearth_accel_has_failed(h->a); i++) {
        if (!neuron_bytes(h->s, i))
            continue;
        rc = open_layer(h, i, clusters, err);
        if (!rc && asks && predictor_bytes(h->s, i))
            rc = open_predictor(h, i, err);
        if (rc || hearth_accel_has_failed(h->a)) // its memory is full
            close_layer(h->a, &h->layers[i]);
        h->neurons += h->layers[i].neurons;
    }
    return rc;
}

// Clusters of each of layers [first, end) that there is room for. The last one stays with the CPU, which would only wait.
static size_t clusters_within(const struct hearth_session *s, int first, int end, uint64_t room)
{
    const size_t ff = (size_t)hearth_ffn_neurons(&s->model->hp);
    const size_t size = hearth_cluster_size(ff), most = hearth_cluster_count(ff) - 1;
    const uint64_t workspace = workspace_bytes(s, most * size) + bytes_for_predictors(s, first, end, room);
    uint64_t bytes = 0;
    for (int i = first; i < end; i++)
        bytes += neuron_bytes(s, i) * size; // of a cluster of each layer
    const uint64_t fit = bytes && room > workspace ? (room - workspace) / bytes : 0;
    return fit < most ? (size_t)fit : most;
}

bool hearth_hot_knows(const struct hearth_session *s)
{
    bool knows = true;
    for (int i = 0; i < s->model->hp.n_layer && knows; i++)
        knows = neuron_bytes(s, i) > 0;
    return knows;
}

uint64_t hearth_hot_count(const struct hearth_session *s, int end, uint64_t room)
{
    const size_t size = hearth_cluster_size((size_t)hearth_ffn_neurons(&s->model->hp));
    const size_t clusters = clusters_within(s, 0, end, room);
    uint64_t n = 0;
    for (int i = 0; i < end; i++)
        n += neuron_bytes(s, i) ? clusters * size : 0;
    return n;
}

int hearth_hot_open(struct hearth_hot **out, const struct hearth_session *s, struct hearth_accel *a,
                    bool *works, int first, int end, uint64_t room, struct hearth_error *err)
{
    const size_t clusters = clusters_within(s, first, end, room);
    *out = NULL;
    if (!clusters)
        return HEARTH_OK;
    struct hearth_hot *h = hearth_calloc(1, sizeof *h);
    if (!h)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for hot neurons");
    *h = (struct hearth_hot){.a = a, .s = s, .works = works, .first = first, .end = end};
    hearth_share_init(&h->share);
    *out = h;
    return open_layers(h, clusters, bytes_for_predictors(s, first, end, room) > 0, err);
}

void hearth_hot_close(struct hearth_hot **hot)
{
    struct hearth_hot *h = *hot;
    if (!h)
        return;
    for (int i = 0; h->layers && i < h->end; i++)
        close_layer(h->a, &h->layers[i]);
    struct hearth_accel_memory *const memory[] = {&h->x,      &h->acts,  &h->mask,   &h->gate,
                                                  &h->up,     &h->parts, &h->out,    &h->seen,
                                                  &h->hidden, &h->inner, &h->scores, &h->first_scores};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        hearth_accel_free(h->a, memory[i]);
    free(h->layers);
    free(h->masks);
    hearth_accel_free_host(h->a, h->sum);
    hearth_accel_free_host(h->a, h->host_scores);
    free(h);
    *hot = NULL;
}
