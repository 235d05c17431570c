// SPDX-License-Identifier: MIT
// Prompts through a device: see offload_through.h.
#include "engine/offload_through.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/offload.h"
#include "model/ffn.h"

int hearth_through_from(struct hearth_through *t, int n_rows)
{
    return t->always ? 0 : hearth_through_choice_of(&t->choice, n_rows, t->n_layers);
}

// ---- a layer

// The stage's weight becomes one like w; its memory has room for any layer's.
static struct hearth_accel_weight *prepare(struct hearth_offload_layer *l, size_t role,
                                           const struct hearth_weight *w)
{
    struct hearth_accel_weight *to = &l->w[role];
    to->type = w->type;
    to->k = w->k;
    to->n = w->n;
    to->scale = w->scales;
    return to;
}

#define ROLE(name) (offsetof(struct hearth_layer, name) / sizeof(struct hearth_weight))

static bool is_matrix_of_ffn(size_t role)
{
    return role == ROLE(ffn_gate) || role == ROLE(ffn_up) || role == ROLE(ffn_down) ||
           role == ROLE(ffn_down_t);
}

// What is where the layer's weights point to.
static void bring_dense(struct hearth_through *t, struct hearth_offload_layer *l, int layer)
{
    const struct hearth_weight *own = hearth_layer_weights(&t->s->model->weights.layers[layer]);
    const struct hearth_weight *now = hearth_layer_weights(&t->s->context.weights->layers[layer]);
    for (size_t i = 0; i < t->n_roles; i++) {
        const size_t role = t->roles[i];
        const struct hearth_accel_weight *to = prepare(l, role, &own[role]);
        if (hearth_has(&own[role]) && !is_matrix_of_ffn(role))
            hearth_through_pieces_rows(&t->pieces, to, 0, &now[role]);
    }
}

// Neurons that are in memory now.
static void bring_neurons(struct hearth_through *t, struct hearth_offload_layer *l,
                          const struct hearth_want *want)
{
    const bool by_neuron = l->w[ROLE(ffn_down_t)].n != 0;
    if (l->w[ROLE(ffn_gate)].n)
        hearth_through_pieces_rows(&t->pieces, &l->w[ROLE(ffn_gate)], want->from, &want->gate);
    hearth_through_pieces_rows(&t->pieces, &l->w[ROLE(ffn_up)], want->from, &want->up);
    hearth_through_pieces_rows(&t->pieces, &l->w[by_neuron ? ROLE(ffn_down_t) : ROLE(ffn_down)],
                               by_neuron ? want->from : 0, &want->down);
}

static void bring_ffn(struct hearth_through *t, struct hearth_offload_layer *l, int layer, int n_rows)
{
    const struct hearth_source *source = &t->s->sources->ffn;
    struct hearth_want want = {.space = (uint32_t)layer,
                               .n = (uint32_t)hearth_ffn_neurons_of(t->s->context.hp, layer),
                               .n_rows = n_rows};
    const struct hearth_request request = {
        .phase = HEARTH_PHASE_PROMPT, .layer = layer, .n_tokens = n_rows, .wants = &want, .n = 1};
    source->ops->request(source->state, &request);
    if (!source->ops->next) {
        bring_neurons(t, l, &want);
        return;
    }
    struct hearth_want *wants;
    uint32_t n;
    bool wait;
    while ((wants = source->ops->next(source->state, 0, &n, &wait))) {
        for (uint32_t i = 0; i < n; i++)
            bring_neurons(t, l, &wants[i]);
        if (source->ops->done)
            source->ops->done(source->state, wants, n);
    }
}

// Keys and values of the positions before; the stage's part of the cache becomes the layer's.
static void bring_pages(struct hearth_through *t, struct hearth_offload_layer *l, int layer)
{
    const struct hearth_kv *kv = &t->s->kv;
    const struct hearth_kv_heads *heads = hearth_kv_heads_of(kv, layer);
    const struct hearth_accel_memory pages = l->cache.pages;
    const size_t size = (size_t)heads->n * heads->bytes;
    l->cache = hearth_offload_cache(t->s, layer);
    l->cache.pages = pages;
    for (size_t i = 0; i < t->n_before; i++) {
        uint8_t *bytes = hearth_kv_pin(kv, t->before[i]);
        hearth_through_pieces_bytes(&t->pieces, &l->cache.pages, (size_t)t->before[i] * size,
                                    hearth_kv_key(kv, bytes, layer, 0, 0), size);
        hearth_kv_unpin(kv, t->before[i]);
    }
}

bool hearth_through_bring(struct hearth_through *t, int layer, int n_rows)
{
    struct hearth_offload_layer *l = &t->stages[layer % 2];
    const struct hearth_fault *fault = t->s->context.fault;
    if (hearth_sources_acquire(t->s->sources, layer))
        return false;
    bring_dense(t, l, layer);
    bring_ffn(t, l, layer, n_rows);
    hearth_sources_release(t->s->sources, layer);
    bring_pages(t, l, layer);
    hearth_through_pieces_wait(&t->pieces);
    return !hearth_accel_has_failed(t->a) && !hearth_fault_is_raised(fault);
}

void hearth_through_forget_pages(struct hearth_through *t)
{
    t->n_before = 0;
}

void hearth_through_add_page(struct hearth_through *t, int page)
{
    t->before[t->n_before++] = page;
}

// ---- opening

// The most that a layer's weight of the role has of integers, scales and minima. False: devices do not know one.
static bool most_of_role(const struct hearth_session *s, size_t role, int n_layers,
                         size_t most[HEARTH_ACCEL_WEIGHT_PARTS])
{
    memset(most, 0, HEARTH_ACCEL_WEIGHT_PARTS * sizeof *most);
    for (int layer = 0; layer < n_layers; layer++) {
        const struct hearth_weight *w = &hearth_layer_weights(&s->model->weights.layers[layer])[role];
        size_t bytes[HEARTH_ACCEL_WEIGHT_PARTS];
        if (!hearth_has(w))
            continue;
        if (!hearth_accel_weight_parts(w->type, w->k, w->n, bytes))
            return false;
        for (int i = 0; i < HEARTH_ACCEL_WEIGHT_PARTS; i++)
            most[i] = bytes[i] > most[i] ? bytes[i] : most[i];
    }
    return true;
}

uint64_t hearth_through_bytes(const struct hearth_session *s, const struct hearth_through_setup *setup,
                              uint64_t largest)
{
    uint64_t bytes = setup->cache_bytes;
    if (setup->cache_bytes > largest)
        return 0;
    for (size_t i = 0; i < setup->n_roles; i++) {
        size_t most[HEARTH_ACCEL_WEIGHT_PARTS];
        if (!most_of_role(s, setup->roles[i], setup->n_layers, most))
            return 0;
        for (int k = 0; k < HEARTH_ACCEL_WEIGHT_PARTS; k++) {
            if (most[k] > largest)
                return 0;
            bytes += most[k];
        }
    }
    return 2 * bytes;
}

static void take_stage(struct hearth_through *t, struct hearth_offload_layer *l,
                       const struct hearth_through_setup *setup)
{
    l->cache.pages = hearth_accel_alloc(t->a, (size_t)setup->cache_bytes);
    for (size_t i = 0; i < setup->n_roles; i++) {
        size_t most[HEARTH_ACCEL_WEIGHT_PARTS];
        struct hearth_accel_weight *w = &l->w[setup->roles[i]];
        struct hearth_accel_memory *const parts[] = {&w->q, &w->scales, &w->minima};
        most_of_role(t->s, setup->roles[i], t->n_layers, most);
        for (int k = 0; k < HEARTH_ACCEL_WEIGHT_PARTS; k++)
            if (most[k])
                *parts[k] = hearth_accel_alloc(t->a, most[k]);
    }
}

// The longest row, and the most bytes of one.
static void measure_rows(const struct hearth_through *t, size_t *k, size_t *bytes)
{
    *k = *bytes = 0;
    for (int layer = 0; layer < t->n_layers; layer++)
        for (size_t i = 0; i < t->n_roles; i++) {
            const struct hearth_weight *w =
                &hearth_layer_weights(&t->s->model->weights.layers[layer])[t->roles[i]];
            const size_t row = hearth_has(w) ? hearth_accel_weight_bytes(w->type, w->k, 1) : 0;
            *k = row && w->k > *k ? w->k : *k;
            *bytes = row > *bytes ? row : *bytes;
        }
}

// The host's side of it.
static int take_tables(struct hearth_through *t, const struct hearth_through_setup *setup,
                       struct hearth_error *err)
{
    size_t longest, row;
    measure_rows(t, &longest, &row);
    t->stages = hearth_calloc(2, sizeof *t->stages);
    t->before = hearth_calloc(setup->max_pages, sizeof *t->before);
    if (!t->stages || !t->before)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for prompts through a device");
    return hearth_through_pieces_open(&t->pieces, t->a, &t->s->context, longest, row, err);
}

int hearth_through_open(struct hearth_through **out, struct hearth_accel *a, const struct hearth_session *s,
                        const struct hearth_through_setup *setup, struct hearth_error *err)
{
    struct hearth_through *t = *out = hearth_calloc(1, sizeof *t);
    if (!t)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for prompts through a device");
    *t = (struct hearth_through){.a = a,
                                 .s = s,
                                 .always = setup->always,
                                 .n_layers = setup->n_layers,
                                 .roles = setup->roles,
                                 .n_roles = setup->n_roles};
    hearth_through_choice_init(&t->choice);
    const int rc = take_tables(t, setup, err);
    for (int i = 0; i < 2 && !rc; i++)
        take_stage(t, &t->stages[i], setup);
    if (rc || hearth_accel_has_failed(a))
        hearth_through_close(out);
    return rc;
}

void hearth_through_close(struct hearth_through **through)
{
    struct hearth_through *t = *through;
    *through = NULL;
    if (!t)
        return;
    for (int i = 0; i < 2 && t->stages; i++) {
        for (size_t role = 0; role < HEARTH_LAYER_WEIGHTS; role++)
            hearth_accel_weight_close(t->a, &t->stages[i].w[role]);
        hearth_accel_free(t->a, &t->stages[i].cache.pages);
    }
    hearth_through_pieces_close(&t->pieces);
    free(t->stages);
    free(t->before);
    free(t);
}
