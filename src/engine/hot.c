// SPDX-License-Identifier: MIT
// Hot neurons on a device: see hot.h.
#include "engine/hot.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
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

void hearth_hot_begin(struct hearth_hot *h, int layer, size_t clusters, const float *x, int n_rows)
{
    const struct hearth_hparams *hp = &h->s->model->hp;
    const struct hearth_sparse_mode *mode = &h->s->mode;
    const size_t cluster = hearth_cluster_size((size_t)hearth_ffn_neurons(hp)), n = clusters * cluster;
    const struct hearth_hot_layer own = first_of(&h->layers[layer], n), *const l = &own;
    const size_t rows = (size_t)n_rows, embd = (size_t)hp->n_embd, bytes = rows * embd * sizeof *x;
    const bool gated = l->gate.n != 0;
    const struct hearth_accel_input in = {&h->x, &h->acts};
    hearth_accel_write(h->a, &h->x, 0, x, bytes);
    hearth_accel_write(h->a, &h->mask, 0, h->masks, rows * n);
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
    hearth_accel_clusters(h->a, &h->out, &h->parts, &l->down, &h->gate, cluster, rows);
    h->event = hearth_accel_begin_read(h->a, &h->out, 0, h->sum, bytes);
    hearth_accel_flush(h->a);
}

bool hearth_hot_end(struct hearth_hot *h)
{
    struct hearth_error err = {0};
    hearth_accel_wait(h->a, h->event);
    h->event = NULL;
    if (!hearth_accel_take(h->a, &err))
        return true;
    *h->works = false;
    hearth_log(HEARTH_LOG_WARNING, "%s; the CPU goes on with its neurons", err.message);
    return false;
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

static void take_workspace(struct hearth_hot *h, size_t neurons)
{
    const size_t rows = HEARTH_STEP_ROWS, f32 = sizeof(float), embd = (size_t)h->s->model->hp.n_embd;
    h->x = hearth_accel_alloc(h->a, rows * embd * f32);
    h->acts = hearth_accel_alloc(h->a, rows * hearth_acts_bytes(embd));
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
    struct hearth_accel_weight *const parts[] = {&l->gate, &l->up, &l->down, &l->gate_b, &l->up_b};
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

static int open_layers(struct hearth_hot *h, size_t clusters, struct hearth_error *err)
{
    const size_t neurons = clusters * hearth_cluster_size((size_t)hearth_ffn_neurons(&h->s->model->hp));
    const size_t rows = HEARTH_STEP_ROWS;
    int rc = HEARTH_OK;
    h->layers = hearth_calloc((size_t)h->end, sizeof *h->layers);
    h->masks = hearth_calloc(rows, neurons);
    h->sum = hearth_accel_alloc_host(h->a, rows * (size_t)h->s->model->hp.n_embd * sizeof *h->sum);
    if (!h->layers || !h->masks || !h->sum)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for hot neurons");
    take_workspace(h, neurons);
    for (int i = h->first; i < h->end && !rc && !hearth_accel_has_failed(h->a); i++) {
        if (!neuron_bytes(h->s, i))
            continue;
        rc = open_layer(h, i, clusters, err);
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
    const uint64_t workspace = workspace_bytes(s, most * size);
    uint64_t bytes = 0;
    for (int i = first; i < end; i++)
        bytes += neuron_bytes(s, i) * size; // of a cluster of each layer
    const uint64_t fit = bytes && room > workspace ? (room - workspace) / bytes : 0;
    return fit < most ? (size_t)fit : most;
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
    return open_layers(h, clusters, err);
}

void hearth_hot_close(struct hearth_hot **hot)
{
    struct hearth_hot *h = *hot;
    if (!h)
        return;
    for (int i = 0; h->layers && i < h->end; i++)
        close_layer(h->a, &h->layers[i]);
    struct hearth_accel_memory *const memory[] = {&h->x,  &h->acts,  &h->mask, &h->gate,
                                                  &h->up, &h->parts, &h->out};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        hearth_accel_free(h->a, memory[i]);
    free(h->layers);
    free(h->masks);
    hearth_accel_free_host(h->a, h->sum);
    free(h);
    *hot = NULL;
}
