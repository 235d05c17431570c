// SPDX-License-Identifier: MIT
// Which layers go to which device, and bringing them there: workspace first, then layers from the last one on, each with
// its part of the cache, then the head, as far as the memory goes. Of models with experts: the head, what experts pass
// through, then layers' attention with the cache, then hot experts.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/free_memory.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/offload.h"
#include "engine/offload_divide.h"
#include "model/ffn.h"

// Rows that the head takes together, at most.
#define HEAD_ROWS 16
// Rows of a prompt together, at most: a dimension of grids.
#define MAX_ROWS 16384
// Where a device may use less of its memory, how fast it is does not matter, and is not measured.
#define LEAST_TO_MEASURE ((uint64_t)64 << 20)
// Prompts pass through the device where the CPU has one layer of so many, or more.
#define LEAST_SHARE 4

// ---- which layers

// Those of attention come first.
#define ROLE(name) (offsetof(struct hearth_layer, name) / sizeof(struct hearth_weight))
static const size_t roles[] = {
    ROLE(attn_inner_norm), ROLE(attn_norm),     ROLE(attn_norm_b),    ROLE(attn_q),      ROLE(attn_k),
    ROLE(attn_v),          ROLE(attn_gate),     ROLE(attn_q_b),       ROLE(attn_k_b),    ROLE(attn_v_b),
    ROLE(attn_q_norm),     ROLE(attn_k_norm),   ROLE(attn_sinks),     ROLE(attn_out),    ROLE(attn_out_b),
    ROLE(attn_post_norm),  ROLE(ffn_post_norm), ROLE(ffn_norm),       ROLE(ffn_norm_b),  ROLE(ffn_gate),
    ROLE(ffn_up),          ROLE(ffn_down),      ROLE(ffn_gate_b),     ROLE(ffn_up_b),    ROLE(ffn_down_b),
    ROLE(ffn_down_t),      ROLE(ffn_linear),    ROLE(ffn_inner_norm), ROLE(output_scale)};

#define N_ROLES     (sizeof roles / sizeof *roles)
#define N_ATTENTION 16

static const size_t predictor_roles[] = {ROLE(pred_fc1), ROLE(pred_fc2)};

// Beside attention.
static const size_t shared_roles[] = {ROLE(ffn_norm), ROLE(ffn_norm_b), ROLE(ffn_gate_shared),
                                      ROLE(ffn_up_shared), ROLE(ffn_down_shared)};
#undef ROLE

// Whether devices that have a layer's attention have the expert that all tokens use, too: not one that a router weighs,
// nor one without gates or with limits of these.
static bool shares_expert(const struct hearth_session *s)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_layer *layers = s->model->weights.layers;
    bool shares = hp->n_expert && hp->n_ff_shared;
    for (int i = 0; i < hp->n_layer && shares; i++)
        shares = !hearth_has_experts(hp, i) ||
                 (hearth_has(&layers[i].ffn_gate_shared) && !hearth_has(&layers[i].ffn_router_shared) &&
                  hearth_limit_of(hp, i, false).at == 0.0f);
    return shares;
}

// The layer's weights that a device has: places in struct hearth_layer. Returns how many.
static size_t list_roles(const struct hearth_session *s, size_t *out)
{
    size_t n = s->model->hp.n_expert ? N_ATTENTION : N_ROLES;
    const bool shares = shares_expert(s);
    memcpy(out, roles, n * sizeof *roles);
    for (size_t i = 0; shares && i < sizeof shared_roles / sizeof *shared_roles; i++)
        out[n++] = shared_roles[i];
    if (s->model->hp.n_expert)
        return n;
    for (size_t i = 0; s->mode.sparsity == HEARTH_SPARSITY_PREDICT && i < 2; i++)
        out[n++] = predictor_roles[i];
    return n;
}

static const struct hearth_weight *weight_of(const struct hearth_session *s, int layer, size_t role)
{
    return (const struct hearth_weight *)(const void *)&s->model->weights.layers[layer] + role;
}

// Whether a device has nothing of the layer: of models with experts, attention alone is there.
static bool is_idle(const struct hearth_session *s, int layer)
{
    return s->model->hp.n_expert && !hearth_attends(&s->model->hp, layer);
}

// Of a device's memory, with the layer's part of the cache; 0 where it has nothing there. False: devices do not know it.
static bool layer_bytes(const struct hearth_session *s, int layer, uint64_t *bytes)
{
    size_t list[N_ROLES + 2], n = list_roles(s, list);
    *bytes = 0;
    if (!hearth_offload_knows(s, layer))
        return false;
    if (is_idle(s, layer))
        return true;
    *bytes = hearth_attends(&s->model->hp, layer) ? hearth_offload_cache_bytes(s, layer) : 0;
    for (size_t i = 0; i < n; i++) {
        const struct hearth_weight *w = weight_of(s, layer, list[i]);
        const uint64_t own = hearth_has(w) ? hearth_accel_weight_bytes(w->type, w->k, w->n) : 0;
        if (hearth_has(w) && !own)
            return false;
        *bytes += own;
    }
    return true;
}

// Whether each part of the weight is within one piece of the device's memory.
static bool is_within_piece(const struct hearth_offload *o, const struct hearth_weight *w)
{
    size_t parts[HEARTH_ACCEL_WEIGHT_PARTS];
    bool is = hearth_accel_weight_parts(w->type, w->k, w->n, parts);
    for (int i = 0; i < HEARTH_ACCEL_WEIGHT_PARTS && is; i++)
        is = parts[i] <= o->largest;
    return is;
}

// The same of all that a layer has there.
static bool is_layer_within(const struct hearth_offload *o, int layer)
{
    size_t list[N_ROLES + 2], n = list_roles(o->s, list);
    const bool attends = hearth_attends(&o->s->model->hp, layer);
    bool is = !attends || hearth_offload_cache_bytes(o->s, layer) <= o->largest;
    if (is_idle(o->s, layer))
        return true;
    for (size_t i = 0; i < n && is; i++) {
        const struct hearth_weight *w = weight_of(o->s, layer, list[i]);
        is = !hearth_has(w) || is_within_piece(o, w);
    }
    return is;
}

// ---- layers

static void close_layer(struct hearth_offload *o, struct hearth_offload_layer *l)
{
    for (size_t i = 0; i < HEARTH_LAYER_WEIGHTS; i++)
        hearth_accel_weight_close(o->a, &l->w[i]);
    hearth_accel_free(o->a, &l->cache.pages);
}

// HEARTH_OK with a device that has failed: its memory is full.
static int open_layer(struct hearth_offload *o, struct hearth_offload_layer *l, int layer,
                      struct hearth_error *err)
{
    const struct hearth_session *s = o->s;
    size_t list[N_ROLES + 2], n = list_roles(s, list);
    int rc = HEARTH_OK;
    if (is_idle(s, layer))
        return HEARTH_OK;
    l->cache = hearth_offload_cache(s, layer);
    if (hearth_attends(&s->model->hp, layer))
        l->cache.pages = hearth_accel_alloc(o->a, (size_t)hearth_offload_cache_bytes(s, layer));
    const struct hearth_weight *now = hearth_layer_weights(&s->context.weights->layers[layer]);
    for (size_t i = 0; i < n && !rc && !hearth_accel_has_failed(o->a); i++) {
        const struct hearth_weight *w = weight_of(s, layer, list[i]);
        if (hearth_has(w))
            rc = hearth_offload_send(o->a, s->model, &l->w[list[i]], w, &now[list[i]], w->n, err);
    }
    return rc;
}

// ---- workspace

// Buffers of the workspace and their bytes with `cap` rows of a prompt; a call for each.
typedef void (*buffer_fn)(void *arg, struct hearth_accel_memory *m, uint64_t bytes);

// Bytes of a step's keys and values: of all layers, where whole ones are there.
static size_t step_row(const struct hearth_offload *o)
{
    return o->copy_row * (o->attention ? 1 : (size_t)o->s->model->hp.n_layer);
}

static void each_rows_buffer(struct hearth_offload *o, struct hearth_offload_rows *r, uint64_t n,
                             buffer_fn fn, void *arg)
{
    const struct hearth_hparams *hp = &o->s->model->hp;
    const uint64_t f32 = sizeof(float), embd = (uint64_t)hp->n_embd * f32,
                   q = (uint64_t)hearth_q_most(hp) * f32;
    fn(arg, &r->x, n * embd);
    fn(arg, &r->q, n * q);
    fn(arg, &r->both, hp->attn_gated ? n * 2 * q : 0);
    fn(arg, &r->gate, hp->gates_apart ? n * q : 0);
    fn(arg, &r->growth, hp->q_growth != 0.0f ? n * f32 : 0);
    fn(arg, &r->branch, hp->parallel || hp->has_linear || shares_expert(o->s) ? n * embd : 0);
    fn(arg, &r->cos_sin, n * (uint64_t)hp->n_rot * f32);
    fn(arg, &r->cos_sin_window, hp->rope_theta_window > 0 ? n * (uint64_t)hp->n_rot_window * f32 : 0);
    fn(arg, &r->places, n * 2 * sizeof(int32_t));
    fn(arg, &r->copy, n * (r == &o->rows[1] ? step_row(o) : o->copy_row));
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void each_buffer(struct hearth_offload *o, uint64_t cap, buffer_fn fn, void *arg)
{
    const struct hearth_session *s = o->s;
    const struct hearth_hparams *hp = &s->model->hp;
    const uint64_t f32 = sizeof(float), steps = (uint64_t)s->limits.max_steps, n = larger(cap, steps);
    const uint64_t embd = (uint64_t)hp->n_embd,
                   ff = hp->n_expert ? (uint64_t)hp->n_ff_shared : (uint64_t)hearth_ffn_neurons(hp);
    const uint64_t dim = larger((uint64_t)hearth_head_dim_most(hp),
                                larger((uint64_t)hp->value_dim, (uint64_t)hp->value_dim_window));
    const uint64_t heads = (uint64_t)hearth_n_head_most(hp), q = heads * dim,
                   kv = larger((uint64_t)hp->n_head_kv, (uint64_t)hp->n_head_kv_window) * dim;
    const bool whole = !hp->n_expert;
    const uint64_t inner = whole ? hearth_sparse_mode_inner(&s->mode, s->model) : 0;
    const uint64_t widest = larger(larger(embd, ff), larger(q, inner));
    const uint64_t span = HEARTH_KV_TILE * HEARTH_ATTN_RANGE, ranges = ((uint64_t)s->n_ctx + span - 1) / span;
    const bool previous = inner && hp->predictor_input == HEARTH_PREDICTOR_PREVIOUS;
    each_rows_buffer(o, &o->rows[0], cap, fn, arg);
    each_rows_buffer(o, &o->rows[1], steps, fn, arg);
    fn(arg, &o->h, n * embd * f32);
    fn(arg, &o->acts, n * hearth_acts_bytes((size_t)widest));
    fn(arg, &o->k, n * kv * f32);
    fn(arg, &o->v, n * kv * f32);
    fn(arg, &o->out, n * q * f32);
    fn(arg, &o->gate, n * ff * f32);
    fn(arg, &o->up, n * ff * f32);
    fn(arg, &o->mask, whole ? steps * ff : 0);
    fn(arg, &o->fc1, steps * inner * f32);
    fn(arg, &o->inner, steps * inner * f32);
    fn(arg, &o->parts, whole ? steps * hearth_cluster_count((size_t)ff) * embd * f32 : 0);
    fn(arg, &o->shares, ranges > 1 ? steps * ranges * heads * (dim + 2) * f32 : 0);
    fn(arg, &o->q_acts,
       hearth_type_info(s->kv.type_k)->unit_elems ? n * heads * hearth_acts_bytes((size_t)dim) : 0);
    fn(arg, &o->ones, larger(embd, dim) * f32);
    fn(arg, &o->slopes, hp->alibi > 0 ? heads * f32 : 0);
    fn(arg, &o->pages, o->max_pages * sizeof(int32_t));
    for (int i = 0; i < 2; i++)
        fn(arg, &o->seen[i], previous ? steps * embd * f32 : 0);
}

struct sum {
    uint64_t bytes, largest;
};

static void add_bytes(void *arg, struct hearth_accel_memory *m, uint64_t bytes)
{
    (void)m;
    struct sum *sum = arg;
    sum->bytes += bytes;
    sum->largest = bytes > sum->largest ? bytes : sum->largest;
}

static void take_buffer(void *arg, struct hearth_accel_memory *m, uint64_t bytes)
{
    struct hearth_offload *o = arg;
    if (bytes)
        *m = hearth_accel_alloc(o->a, (size_t)bytes);
}

static void free_buffer(void *arg, struct hearth_accel_memory *m, uint64_t bytes)
{
    (void)bytes;
    struct hearth_offload *o = arg;
    hearth_accel_free(o->a, m);
}

static void close_workspace(struct hearth_offload *o)
{
    each_buffer(o, 0, free_buffer, o);
    for (int i = 0; i < 2; i++) {
        hearth_accel_free_host(o->a, o->copy[i]);
        o->copy[i] = NULL;
    }
    hearth_accel_free_host(o->a, o->step_copy);
    o->step_copy = NULL;
    hearth_accel_free_host(o->a, o->shared_copy);
    o->shared_copy = NULL;
}

// What lasts as long as the session does.
static int fill_constants(struct hearth_offload *o, struct hearth_error *err)
{
    const size_t n = o->ones.size / sizeof(float), heads = o->slopes.size / sizeof(float);
    float *numbers = hearth_calloc(larger(n, heads), sizeof *numbers);
    if (!numbers)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a device's tables");
    for (size_t i = 0; i < n; i++)
        numbers[i] = 1.0f;
    hearth_accel_write(o->a, &o->ones, 0, numbers, n * sizeof *numbers);
    if (heads) {
        hearth_attention_slopes(&o->s->model->hp, numbers);
        hearth_accel_write(o->a, &o->slopes, 0, numbers, heads * sizeof *numbers);
    }
    free(numbers);
    return HEARTH_OK;
}

// As many rows of a prompt as there is room for: a quarter of the memory at most. Returns the bytes of all; 0: there is
// no room.
static uint64_t size_workspace(struct hearth_offload *o, uint64_t vram)
{
    const uint64_t largest = o->largest;
    const int rows = o->s->limits.max_rows;
    for (int cap = rows < MAX_ROWS ? rows : MAX_ROWS; cap >= 1; cap = cap > 1 ? (cap + 1) / 2 : 0) {
        struct sum sum = {0};
        each_buffer(o, (uint64_t)cap, add_bytes, &sum);
        o->rows[0].cap = cap;
        o->rows[1].cap = o->s->limits.max_steps;
        if (sum.largest <= largest && sum.bytes <= vram / 4)
            return sum.bytes;
    }
    return 0;
}

// The host's side of it.
static int take_tables(struct hearth_offload *o, struct hearth_error *err)
{
    const size_t rows = (size_t)o->rows[0].cap + (size_t)o->rows[1].cap, pages = (size_t)o->s->kv.n_pages;
    o->copy[0] = hearth_accel_alloc_host(o->a, rows * o->copy_row);
    o->copy[1] = hearth_accel_alloc_host(o->a, rows * o->copy_row);
    if (!o->attention)
        o->step_copy = hearth_accel_alloc_host(o->a, (size_t)o->rows[1].cap * step_row(o));
    o->places = hearth_calloc(rows, 2 * sizeof *o->places);
    o->growth = hearth_calloc(rows, sizeof *o->growth);
    o->page_numbers = hearth_calloc(o->max_pages, sizeof *o->page_numbers);
    o->births = hearth_calloc(pages, sizeof *o->births);
    o->known = hearth_calloc(pages, sizeof *o->known);
    o->seen_copy =
        hearth_calloc((size_t)o->s->limits.max_steps, (size_t)o->s->model->hp.n_embd * sizeof *o->seen_copy);
    if (shares_expert(o->s))
        o->shared_copy = hearth_accel_alloc_host(o->a, (size_t)o->s->limits.max_rows *
                                                           (size_t)o->s->model->hp.n_embd * sizeof(float));
    return (o->step_copy || o->attention) && (o->shared_copy || !shares_expert(o->s)) && o->seen_copy &&
                   o->copy[0] && o->copy[1] && o->places && o->growth && o->page_numbers && o->births &&
                   o->known
               ? HEARTH_OK
               : hearth_fail(err, HEARTH_E_MEMORY, "no memory for a device's tables");
}

// ---- placing

// Layers of which nothing is here are neither the first nor the last one.
static void drop_idle(struct hearth_offload *o)
{
    int n = 0;
    while (o->end > o->first && is_idle(o->s, o->end - 1))
        o->end--;
    while (o->first + n < o->end && is_idle(o->s, o->first + n))
        n++;
    o->first += n;
    memmove(o->layers, o->layers + n, (size_t)(o->end - o->first) * sizeof *o->layers);
    memset(o->layers + (o->end - o->first), 0, (size_t)n * sizeof *o->layers); // closed once
}

int hearth_offload_attention(const struct hearth_offload *o)
{
    int n = 0;
    for (int layer = o->first; layer < o->end && o->attention; layer++)
        n += hearth_attends(&o->s->model->hp, layer);
    return n;
}

// Layers [from, o->end), as far as there is room: the last ones of them.
static int place_layers(struct hearth_offload *o, int from, uint64_t room, struct hearth_error *err)
{
    const int end = o->end;
    o->layers = hearth_calloc((size_t)end, sizeof *o->layers);
    if (!o->layers)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a device's layers");
    int first = end;
    for (uint64_t bytes; first > from; first--) {
        if (!layer_bytes(o->s, first - 1, &bytes) || bytes > room || !is_layer_within(o, first - 1))
            break;
        room -= bytes;
    }
    // From the last one on, so that where the device has less memory than it says those behind stay.
    for (int layer = end; layer-- > first;) {
        int rc = open_layer(o, &o->layers[layer - first], layer, err);
        if (rc)
            return rc;
        if (hearth_accel_has_failed(o->a)) {
            const size_t kept = (size_t)(end - layer - 1);
            close_layer(o, &o->layers[layer - first]);
            memmove(o->layers, o->layers + (layer + 1 - first), kept * sizeof *o->layers);
            memset(o->layers + kept, 0, ((size_t)end - kept) * sizeof *o->layers); // closed once
            break;
        }
        o->first = layer;
    }
    drop_idle(o);
    return HEARTH_OK;
}

// Layers of the last `most` that `room` is enough for; *left: bytes that are not used then.
static int count_layers(const struct hearth_offload *o, uint64_t room, int most, uint64_t *left)
{
    const int n_layer = o->s->model->hp.n_layer;
    int n = 0;
    for (uint64_t bytes; n < most && is_layer_within(o, n_layer - n - 1); n++) {
        if (!layer_bytes(o->s, n_layer - n - 1, &bytes) || bytes > room)
            break;
        room -= bytes;
    }
    *left = room;
    return n;
}

// The most that are wanted there.
static int most_layers(const struct hearth_offload *o, const struct hearth_offload_params *p)
{
    const int n_layer = o->s->model->hp.n_layer;
    return p->layers == HEARTH_OFFLOAD_ALL || p->layers > n_layer ? n_layer : p->layers;
}

static struct hearth_through_setup through_setup(const struct hearth_offload *o,
                                                 const struct hearth_offload_params *p)
{
    uint64_t bytes = 0;
    for (int layer = 0; layer < o->s->model->hp.n_layer; layer++)
        bytes = larger(bytes, hearth_offload_cache_bytes(o->s, layer));
    return (struct hearth_through_setup){.roles = roles,
                                         .n_roles = N_ROLES,
                                         .max_pages = o->max_pages,
                                         .cache_bytes = bytes,
                                         .n_layers = o->s->model->hp.n_layer,
                                         .always = p->prompts == HEARTH_DEVICE_PROMPTS_ALWAYS};
}

// What prompts through the device take of `room`, before its layers do. Where a number of layers is asked for, these come
// first. Else that is two layers fewer in steps, about, which is much where the CPU has few.
static uint64_t room_for_through(const struct hearth_offload *o, const struct hearth_offload_params *p,
                                 uint64_t room)
{
    const struct hearth_through_setup setup = through_setup(o, p);
    const int n_layer = o->s->model->hp.n_layer, most = most_layers(o, p);
    uint64_t left;
    bool knows = p->prompts != HEARTH_DEVICE_PROMPTS_NEVER && !o->attention && !o->s->model->hp.uneven;
    for (int layer = 0; layer < n_layer && knows; layer++)
        knows = hearth_offload_knows(o->s, layer) && hearth_attends(&o->s->model->hp, layer) &&
                hearth_feeds(&o->s->model->hp, layer);
    if (!knows)
        return 0;
    const int n = count_layers(o, room, most, &left);
    const uint64_t bytes = hearth_through_bytes(o->s, &setup, o->largest);
    if (most < n_layer)
        return n == most && bytes <= left ? bytes : 0;
    return bytes <= room && (n_layer - n) * LEAST_SHARE >= n_layer ? bytes : 0;
}

// Layers, and what prompts pass through beside them, where it is the only device.
static int place_all_layers(struct hearth_offload *o, const struct hearth_offload_params *p, bool is_alone,
                            int from, uint64_t room, struct hearth_error *err)
{
    const uint64_t bytes = is_alone ? room_for_through(o, p, room) : 0;
    const int rc = place_layers(o, from, room - bytes, err);
    struct hearth_through_setup setup = through_setup(o, p);
    setup.n_layers = o->first;
    if (rc || !bytes || !o->first || hearth_accel_has_failed(o->a))
        return rc;
    return hearth_through_open(&o->through, o->a, o->s, &setup, err);
}

static uint64_t head_bytes(const struct hearth_session *s)
{
    const struct hearth_weight *w = &s->model->weights.output;
    const uint64_t rows = (uint64_t)(s->limits.logit_rows < HEAD_ROWS ? s->limits.logit_rows : HEAD_ROWS);
    const uint64_t own = hearth_accel_weight_bytes(w->type, w->k, w->n);
    return own ? own + rows * (w->k * sizeof(float) + hearth_acts_bytes(w->k) + w->n * sizeof(float)) : 0;
}

static void close_head(struct hearth_offload *o)
{
    hearth_accel_weight_close(o->a, &o->output);
    hearth_accel_free(o->a, &o->head_h);
    hearth_accel_free(o->a, &o->head_acts);
    hearth_accel_free(o->a, &o->logits);
}

static int place_head(struct hearth_offload *o, struct hearth_error *err)
{
    const struct hearth_session *s = o->s;
    const struct hearth_weight *w = &s->model->weights.output;
    o->head_rows = s->limits.logit_rows < HEAD_ROWS ? s->limits.logit_rows : HEAD_ROWS;
    const size_t rows = (size_t)o->head_rows;
    o->head_h = hearth_accel_alloc(o->a, rows * w->k * sizeof(float));
    o->head_acts = hearth_accel_alloc(o->a, rows * hearth_acts_bytes(w->k));
    o->logits = hearth_accel_alloc(o->a, rows * w->n * sizeof(float));
    const int rc = hearth_offload_send(o->a, s->model, &o->output, w, &s->context.weights->output, w->n, err);
    o->head = !rc && !hearth_accel_has_failed(o->a);
    if (!o->head)
        close_head(o);
    return rc;
}

// ---- several devices

static uint64_t room_of(const struct hearth_offload *o)
{
    const uint64_t used = hearth_accel_stats(o->a).bytes;
    return used < o->vram && !hearth_accel_has_failed(o->a) ? o->vram - used : 0;
}

static bool wants_head(const struct hearth_session *s, const struct hearth_offload_params *p)
{
    return p->layers == HEARTH_OFFLOAD_ALL || p->layers > s->model->hp.n_layer;
}

// The first of the layers that devices may have: behind it, they know all of them.
static int least_layer(const struct hearth_session *s, int most)
{
    const int n_layer = s->model->hp.n_layer;
    int least = n_layer;
    uint64_t bytes;
    while (least > 0 && (most == HEARTH_OFFLOAD_ALL || n_layer - least < most) &&
           layer_bytes(s, least - 1, &bytes))
        least--;
    return least;
}

// Of a layer from `least` on, about; 0: they have nothing that could be there.
static uint64_t mean_bytes(const struct hearth_session *s, int least)
{
    uint64_t bytes = 0, own;
    for (int layer = least; layer < s->model->hp.n_layer; layer++)
        bytes += layer_bytes(s, layer, &own) ? own : 0;
    const uint64_t n = (uint64_t)(s->model->hp.n_layer - least);
    return (bytes + n - 1) / n;
}

// Devices [n], the one with the last layers last.
static int list_devices(struct hearth_offload *o, struct hearth_offload **out)
{
    int n = 0;
    for (; o; o = o->next)
        out[n++] = o;
    return n;
}

// The room for layers of each device, as if it had some; where all devices together have the room, the last one's
// without the head's.
static void size_sides(struct hearth_offload *const *devices, struct hearth_offload_side *sides, int n,
                       int wanted, uint64_t bytes, uint64_t head)
{
    uint64_t fit = 0;
    for (int i = 0; i < n; i++) {
        const uint64_t room = room_of(devices[i]), workspace = size_workspace(devices[i], room);
        sides[i].room = workspace ? room - workspace : 0;
        const uint64_t taken = i == n - 1 ? head : 0;
        fit += sides[i].room > taken ? (sides[i].room - taken) / bytes : 0;
    }
    if (fit >= (uint64_t)wanted && sides[n - 1].room > head)
        sides[n - 1].room -= head;
}

// How fast each is, where it matters.
static void measure_sides(struct hearth_offload *const *devices, struct hearth_offload_side *sides, int n)
{
    bool matters = n > 1;
    for (int i = 0; i < n; i++)
        matters &= devices[i]->vram >= LEAST_TO_MEASURE && sides[i].share <= 0;
    for (int i = 0; i < n && matters; i++)
        sides[i].speed = hearth_accel_speed(devices[i]->a);
}

static int divide_layers(struct hearth_offload *const *devices, int n, const struct hearth_offload_params *p,
                         struct hearth_error *err)
{
    const struct hearth_session *s = devices[0]->s;
    const int n_layer = s->model->hp.n_layer, least = least_layer(s, p->layers);
    struct hearth_offload_side sides[HEARTH_ACCEL_MOST] = {0};
    const uint64_t bytes = least < n_layer ? mean_bytes(s, least) : 0;
    if (!bytes)
        return HEARTH_OK;
    for (int i = 0; i < p->n_shares; i++)
        sides[i].share = p->shares[i];
    // With experts the head is there already.
    size_sides(devices, sides, n, n_layer - least, bytes,
               wants_head(s, p) && !s->model->hp.n_expert ? head_bytes(s) : 0);
    measure_sides(devices, sides, n);
    int rc = HEARTH_OK;
    for (int i = n - 1, end = n_layer; i >= 0 && !rc; end = devices[i--]->first) {
        struct hearth_offload *o = devices[i];
        const int from = hearth_offload_from(sides, n, i, least, n_layer, end, bytes);
        o->first = o->end = end;
        if (!sides[i].room || from == end)
            continue;
        rc = take_tables(o, err);
        if (!rc)
            each_buffer(o, (uint64_t)o->rows[0].cap, take_buffer, o);
        if (!rc)
            rc = fill_constants(o, err);
        if (!rc)
            rc = place_all_layers(o, p, n == 1, from, sides[i].room, err);
        if (o->first == o->end && !o->through) // the head and hot neurons can use the room
            close_workspace(o);
    }
    return rc;
}

// The head goes to the last device that has layers and room; else to the last one that has room.
static int place_head_somewhere(struct hearth_offload *const *devices, int n, struct hearth_error *err)
{
    const uint64_t bytes = head_bytes(devices[0]->s);
    for (int with_layers = 1; bytes && with_layers >= 0; with_layers--)
        for (int i = n - 1; i >= 0; i--) {
            struct hearth_offload *o = devices[i];
            if ((with_layers && o->first == o->end) || room_of(o) < bytes ||
                !is_within_piece(o, &o->s->model->weights.output))
                continue;
            const int rc = place_head(o, err);
            if (rc || o->head)
                return rc;
        }
    return HEARTH_OK;
}

static int hot_share(int percent)
{
    return percent ? (percent * HEARTH_SHARE_ALL + 50) / 100 : HEARTH_SHARE_BY_TIME;
}

// What is left is for the hot neurons of the layers before all devices', and for hot experts: each device has them of a
// part of the layers as large as its part of the room.
static int place_hot(struct hearth_offload *const *devices, int n, const struct hearth_offload_params *p,
                     struct hearth_error *err)
{
    const struct hearth_session *s = devices[0]->s;
    const int share = hot_share(p->hot_percent);
    double all = 0, before = 0;
    struct hearth_hot *next = NULL;
    struct hearth_hot_experts *next_experts = NULL;
    int rc = HEARTH_OK;
    for (int i = 0; i < n; i++)
        all += (double)room_of(devices[i]);
    for (int i = n - 1, end = devices[0]->first, end_experts = s->model->hp.n_layer; i >= 0 && !rc; i--) {
        struct hearth_offload *o = devices[i];
        const uint64_t room = room_of(o);
        if (!room)
            continue;
        before += (double)room;
        const double left = 1 - before / all;
        const int first = (int)(left * devices[0]->first + 0.5),
                  first_experts = (int)(left * s->model->hp.n_layer + 0.5);
        rc = hearth_hot_open(&o->hot, s, o->a, &o->works, first, end, room, err);
        if (!rc)
            rc = hearth_hot_experts_open(&o->experts, s, o->a, &o->works, first_experts, end_experts,
                                         &p->cpu_experts, room_of(o), err);
        end = first;
        end_experts = first_experts;
        if (o->hot) {
            hearth_share_fix(&o->hot->share, share);
            o->hot->next = next;
            next = o->hot;
        }
        if (o->experts) {
            hearth_share_fix(&o->experts->shares[0], share);
            hearth_share_fix(&o->experts->shares[1], share);
            o->experts->next = next_experts;
            next_experts = o->experts;
        }
    }
    return rc;
}

// Whether what layers and the head leave of a device's memory is for what the CPU's layers have most use for: not where a
// number of layers was asked for, unless it was said how much memory there is.
static bool uses_rest(const struct hearth_offload_params *p)
{
    return p->layers == HEARTH_OFFLOAD_ALL || p->vram || p->n_vrams;
}

static bool uses_hot(const struct hearth_offload_params *p)
{
    return uses_rest(p) && p->hot_percent >= 0;
}

// What attention of layers takes of a device's room, if it has all of that.
static uint64_t bytes_of_attention(struct hearth_offload *o, const struct hearth_offload_params *p,
                                   uint64_t room, int *layers)
{
    const bool knows = hearth_offload_knows(o->s, o->s->model->hp.n_layer - 1);
    const uint64_t workspace = knows ? size_workspace(o, room) : 0;
    uint64_t left;
    *layers = workspace ? count_layers(o, room - workspace, most_layers(o, p), &left) : 0;
    return *layers && left < room - workspace ? room - left : 0;
}

// What experts that pass through it take.
static uint64_t bytes_for_passing(struct hearth_offload *o, const struct hearth_offload_params *p,
                                  uint64_t room)
{
    int places, layers;
    size_t cap;
    return p->prompts == HEARTH_DEVICE_PROMPTS_NEVER
               ? 0
               : hearth_through_experts_bytes(o->s, p->prompts == HEARTH_DEVICE_PROMPTS_ALWAYS,
                                              &p->cpu_experts, room, bytes_of_attention(o, p, room, &layers),
                                              o->largest, &places, &cap);
}

// Room for experts that pass through the only device in prompts, before attention and hot ones get theirs.
static int place_passing(struct hearth_offload *o, const struct hearth_offload_params *p,
                         struct hearth_error *err)
{
    int layers;
    if (o->next || p->prompts == HEARTH_DEVICE_PROMPTS_NEVER)
        return HEARTH_OK;
    return hearth_through_experts_open(&o->passing, o->s, o->a, &o->works,
                                       p->prompts == HEARTH_DEVICE_PROMPTS_ALWAYS, &p->cpu_experts,
                                       room_of(o), bytes_of_attention(o, p, room_of(o), &layers), err);
}

static int place(struct hearth_offload *first, const struct hearth_offload_params *p,
                 struct hearth_error *err)
{
    struct hearth_offload *devices[HEARTH_ACCEL_MOST];
    const struct hearth_session *s = first->s;
    const int n = list_devices(first, devices);
    for (int i = 0; i < n; i++)
        devices[i]->first = devices[i]->end = s->model->hp.n_layer;
    if (s->model->adapters) { // which devices do not know
        hearth_log(HEARTH_LOG_WARNING, "with adapters the CPU computes everything, and the device nothing");
        return HEARTH_OK;
    }
    int rc = first->attention ? HEARTH_OK : divide_layers(devices, n, p, err);
    if (!rc && wants_head(s, p))
        rc = place_head_somewhere(devices, n, err);
    if (!rc && uses_rest(p))
        rc = place_passing(first, p, err);
    if (!rc && first->attention)
        rc = divide_layers(devices, n, p, err);
    if (!rc && uses_hot(p))
        rc = place_hot(devices, n, p, err);
    // What a device has no memory for is another's, or stays with the CPU.
    for (int i = 0; i < n && !rc; i++) {
        struct hearth_error full;
        if (hearth_accel_take(devices[i]->a, &full))
            hearth_log(HEARTH_LOG_WARNING, "%s: fewer layers go there", full.message);
    }
    return rc;
}

static size_t row_of(const struct hearth_kv_heads *heads)
{
    return (size_t)heads->n * (heads->row_k + heads->row_v);
}

// What follows from the session and the device.
static struct hearth_offload begin(const struct hearth_session *s, const struct hearth_accel_info *info)
{
    return (struct hearth_offload){
        .s = s,
        .largest = info->largest,
        .first = s->model->hp.n_layer,
        .end = s->model->hp.n_layer,
        .attention = s->model->hp.n_expert != 0,
        .rows = {{.is_prompt = true}},
        .copy_row = row_of(&s->kv.heads[0]) > row_of(&s->kv.heads[1]) ? row_of(&s->kv.heads[0])
                                                                      : row_of(&s->kv.heads[1]),
        .max_pages = (size_t)s->limits.max_seqs * (size_t)s->kv.pages_per_seq,
    };
}

static int open_device(struct hearth_offload **out, const struct hearth_session *s,
                       const struct hearth_accel_params *params, int number, struct hearth_error *err)
{
    struct hearth_accel_params own = *params;
    char text[16];
    struct hearth_offload *o = hearth_calloc(1, sizeof *o);
    *out = o;
    if (!o)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a device");
    snprintf(text, sizeof text, "%d", number);
    own.device = text;
    struct hearth_accel *a;
    const int rc = hearth_accel_open(&a, &own, err);
    if (rc)
        return rc;
    *o = begin(s, hearth_accel_describe(a));
    o->a = a;
    o->works = true;
    return HEARTH_OK;
}

static int check_params(const struct hearth_offload_params *p, int n, struct hearth_error *err)
{
    double shares = 0;
    if ((p->n_vrams && !p->vrams) || (p->n_shares && !p->shares))
        return hearth_fail(err, HEARTH_E_INVALID,
                           "there is a number of sizes or shares, but no list of them");
    if (p->n_vrams && p->n_vrams != n)
        return hearth_fail(err, HEARTH_E_INVALID,
                           "%d sizes of devices' memory for %d device%s: give one for each, or one for all",
                           p->n_vrams, n, n == 1 ? "" : "s");
    if (p->n_shares && p->n_shares != n)
        return hearth_fail(err, HEARTH_E_INVALID,
                           "%d shares of the layers for %d device%s: give one for each", p->n_shares, n,
                           n == 1 ? "" : "s");
    for (int i = 0; i < p->n_shares; i++) {
        if (!(p->shares[i] >= 0 && p->shares[i] <= 1e9f))
            return hearth_fail(err, HEARTH_E_INVALID, "a device's share of the layers is a number from 0");
        shares += (double)p->shares[i];
    }
    if (p->n_shares && shares <= 0)
        return hearth_fail(err, HEARTH_E_INVALID, "all devices' shares of the layers are 0");
    return HEARTH_OK;
}

int hearth_offload_find(struct hearth_offload **out, const struct hearth_session *s,
                        const struct hearth_offload_params *params, struct hearth_error *err)
{
    int numbers[HEARTH_ACCEL_MOST];
    *out = NULL;
    const int n = hearth_accel_choose(numbers, params->device.device, err);
    int rc = n < 0 ? n : check_params(params, n, err);
    struct hearth_offload **at = out;
    for (int i = 0; i < n && !rc; i++) {
        struct hearth_accel_params device = params->device;
        device.fail_at = i == params->fail_device ? device.fail_at : 0;
        for (int k = 0; k < i; k++)
            device.inexact |= numbers[k] == numbers[i]; // it has been checked
        rc = open_device(at, s, &device, numbers[i], err);
        if (!rc)
            at = &(*at)->next;
    }
    bool *elsewhere = rc ? NULL : hearth_calloc((size_t)s->model->hp.n_layer, sizeof *elsewhere);
    for (struct hearth_offload *o = *out; o; o = o->next) {
        o->elsewhere = elsewhere;
        o->shared = &(*out)->own_shared;
        o->shared->layer = -1;
    }
    if (!rc && !elsewhere)
        rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory for a device");
    if (rc)
        hearth_offload_close(out);
    return rc;
}

int hearth_offload_place(struct hearth_offload *o, const struct hearth_offload_params *params,
                         struct hearth_error *err)
{
    hearth_offload_choose_vram(o, params);
    return place(o, params, err);
}

int hearth_offload_open(struct hearth_offload **out, const struct hearth_session *s,
                        const struct hearth_offload_params *params, struct hearth_error *err)
{
    int rc = hearth_offload_find(out, s, params, err);
    if (!rc)
        rc = hearth_offload_place(*out, params, err);
    if (rc)
        hearth_offload_close(out);
    return rc;
}

// ---- foreseeing

// The same decisions as place()'s, with one device.
static void foresee(struct hearth_offload *o, const struct hearth_offload_params *p, uint64_t vram,
                    struct hearth_placement *out)
{
    const struct hearth_session *s = o->s;
    const int n_layer = s->model->hp.n_layer;
    out->vram = vram;
    if (s->model->adapters)
        return;
    const uint64_t workspace =
        !o->attention && hearth_offload_knows(s, n_layer - 1) ? size_workspace(o, vram) : 0;
    if (workspace && p->layers != 0) {
        const uint64_t room = vram - workspace, through = room_for_through(o, p, room);
        uint64_t left;
        out->layers = count_layers(o, room - through, most_layers(o, p), &left);
        out->through = through && out->layers < n_layer;
        out->bytes = out->layers || out->through ? vram - left - (out->through ? 0 : through) : 0;
    }
    const uint64_t head = head_bytes(s);
    out->head = wants_head(s, p) && head && out->bytes + head <= vram &&
                is_within_piece(o, &s->model->weights.output);
    out->bytes += out->head ? head : 0;
    if (uses_rest(p)) {
        const uint64_t passing = bytes_for_passing(o, p, vram - out->bytes);
        out->through |= passing > 0;
        out->bytes += passing;
    }
    if (o->attention) {
        int layers;
        out->bytes += bytes_of_attention(o, p, vram - out->bytes, &layers);
        for (int layer = n_layer - layers; layer < n_layer; layer++)
            out->attention += hearth_attends(&s->model->hp, layer);
    }
    out->hot = uses_hot(p);
    if (out->hot)
        out->neurons = hearth_hot_count(s, n_layer - out->layers, vram - out->bytes);
}

// Nine tenths of what is free; where that is the system's memory, who knows what will be.
static bool foresee_within(struct hearth_offload *o, const struct hearth_offload_params *p,
                           const struct hearth_accel_info *info, uint64_t unused,
                           struct hearth_placement *out)
{
    const uint64_t given = hearth_offload_given_vram(p, 0);
    const uint64_t ram = info->shares_memory && !given ? hearth_free_memory("", true).bytes : UINT64_MAX;
    const uint64_t vram = given ? given : hearth_offload_vram(info, unused, ram);
    *out = (struct hearth_placement){0};
    memcpy(out->device, info->name, sizeof out->device);
    foresee(o, p, vram < info->memory ? vram : info->memory, out);
    return given || !info->shares_memory;
}

bool hearth_offload_foresee(const struct hearth_offload *o, const struct hearth_offload_params *params,
                            struct hearth_placement *out)
{
    const struct hearth_accel_info *info = hearth_accel_describe(o->a);
    struct hearth_offload same = begin(o->s, info);
    return !o->next && foresee_within(&same, params, info, hearth_accel_free_memory(o->a), out);
}

bool hearth_offload_guess(struct hearth_placement *out, const struct hearth_session *s,
                          const struct hearth_offload_params *params)
{
    struct hearth_accel_info info;
    struct hearth_error ignored;
    int numbers[HEARTH_ACCEL_MOST];
    *out = (struct hearth_placement){0};
    if (hearth_accel_choose(numbers, params->device.device, &ignored) != 1 ||
        check_params(params, 1, &ignored) || !hearth_accel_at(&info, numbers[0]))
        return false;
    struct hearth_offload o = begin(s, &info);
    return foresee_within(&o, params, &info, info.memory, out);
}

// ---- closing

static void close_device(struct hearth_offload *o)
{
    if (o->a) {
        hearth_through_close(&o->through);
        hearth_hot_close(&o->hot);
        hearth_hot_experts_close(&o->experts);
        hearth_through_experts_close(&o->passing);
        for (int i = 0; o->layers && i < o->end; i++)
            close_layer(o, &o->layers[i]);
        close_workspace(o);
        close_head(o);
        hearth_accel_close(&o->a);
    }
    free(o->layers);
    free(o->places);
    free(o->growth);
    free(o->page_numbers);
    free(o->births);
    free(o->known);
    free(o->seen_copy);
    free(o);
}

void hearth_offload_close(struct hearth_offload **offload)
{
    struct hearth_offload *o = *offload;
    if (o)
        free(o->elsewhere);
    while (o) {
        struct hearth_offload *next = o->next;
        close_device(o);
        o = next;
    }
    *offload = NULL;
}
