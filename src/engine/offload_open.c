// SPDX-License-Identifier: MIT
// Which layers go to a device, and bringing them there: workspace first, then layers from the last one on, each with
// its part of the cache, then the head, as far as the memory goes.
#include <stdlib.h>
#include <string.h>

#include "base/free_memory.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/offload.h"
#include "model/ffn.h"

// Rows that the head takes together, at most.
#define HEAD_ROWS 16
// Rows of a prompt together, at most: a dimension of grids.
#define MAX_ROWS 16384
// Prompts pass through the device where the CPU has one layer of so many, or more.
#define LEAST_SHARE 4

// ---- which layers

static const size_t roles[] = {
#define ROLE(name) offsetof(struct hearth_layer, name) / sizeof(struct hearth_weight)
    ROLE(attn_norm),  ROLE(attn_norm_b), ROLE(attn_q),     ROLE(attn_k),         ROLE(attn_v),
    ROLE(attn_q_b),   ROLE(attn_k_b),    ROLE(attn_v_b),   ROLE(attn_q_norm),    ROLE(attn_k_norm),
    ROLE(attn_sinks), ROLE(attn_out),    ROLE(attn_out_b), ROLE(attn_post_norm), ROLE(ffn_post_norm),
    ROLE(ffn_norm),   ROLE(ffn_norm_b),  ROLE(ffn_gate),   ROLE(ffn_up),         ROLE(ffn_down),
    ROLE(ffn_gate_b), ROLE(ffn_up_b),    ROLE(ffn_down_b), ROLE(ffn_down_t),
#undef ROLE
};

#define N_ROLES (sizeof roles / sizeof *roles)

static const size_t predictor_roles[] = {
    offsetof(struct hearth_layer, pred_fc1) / sizeof(struct hearth_weight),
    offsetof(struct hearth_layer, pred_fc2) / sizeof(struct hearth_weight),
};

// The layer's weights that a device has: places in struct hearth_layer. Returns how many.
static size_t list_roles(const struct hearth_session *s, size_t *out)
{
    size_t n = N_ROLES;
    memcpy(out, roles, sizeof roles);
    for (size_t i = 0; s->mode.sparsity == HEARTH_SPARSITY_PREDICT && i < 2; i++)
        out[n++] = predictor_roles[i];
    return n;
}

static const struct hearth_weight *weight_of(const struct hearth_session *s, int layer, size_t role)
{
    return (const struct hearth_weight *)(const void *)&s->model->weights.layers[layer] + role;
}

// Whether devices know all that the model's layers keep and do.
static bool knows_model(const struct hearth_session *s)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_kv *kv = &s->kv;
    return !hp->n_expert && !hp->attn_gated && !hp->value_norm && !hp->recurrence.n_layers &&
           !hp->latent.rank && hp->head_dim == hp->value_dim && hp->head_dim <= HEARTH_ACCEL_MAX_DIM &&
           (kv->type_k == HEARTH_TYPE_F16 || kv->type_k == HEARTH_TYPE_F32) &&
           (kv->type_v == HEARTH_TYPE_F16 || kv->type_v == HEARTH_TYPE_F32);
}

static uint64_t cache_bytes(const struct hearth_session *s)
{
    return (uint64_t)s->kv.n_pages * (uint64_t)s->kv.heads[0].n * s->kv.heads[0].bytes;
}

// A layer's part of the cache, without its pages.
static struct hearth_accel_cache empty_cache(const struct hearth_session *s)
{
    const struct hearth_hparams *hp = &s->model->hp;
    return (struct hearth_accel_cache){.type_k = s->kv.type_k,
                                       .type_v = s->kv.type_v,
                                       .n_heads = (size_t)hp->n_head,
                                       .n_heads_kv = (size_t)hp->n_head_kv,
                                       .dim = (size_t)hp->head_dim};
}

// Of a device's memory, with the layer's part of the cache; 0: devices do not know a weight of it.
static uint64_t layer_bytes(const struct hearth_session *s, int layer)
{
    size_t list[N_ROLES + 2], n = list_roles(s, list);
    uint64_t bytes = cache_bytes(s);
    for (size_t i = 0; i < n; i++) {
        const struct hearth_weight *w = weight_of(s, layer, list[i]);
        const uint64_t own = hearth_has(w) ? hearth_accel_weight_bytes(w->type, w->k, w->n) : 0;
        if (hearth_has(w) && !own)
            return 0;
        bytes += own;
    }
    return bytes;
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
    l->cache = empty_cache(s);
    l->cache.pages = hearth_accel_alloc(o->a, (size_t)cache_bytes(s));
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

static void each_rows_buffer(struct hearth_offload *o, struct hearth_offload_rows *r, uint64_t n,
                             buffer_fn fn, void *arg)
{
    const struct hearth_hparams *hp = &o->s->model->hp;
    const uint64_t f32 = sizeof(float), embd = (uint64_t)hp->n_embd * f32, rot = (uint64_t)hp->n_rot * f32;
    fn(arg, &r->x, n * embd);
    fn(arg, &r->q, n * (uint64_t)(hp->n_head * hp->head_dim) * f32);
    fn(arg, &r->branch, hp->parallel ? n * embd : 0);
    fn(arg, &r->cos_sin, n * rot);
    fn(arg, &r->cos_sin_window, hp->rope_theta_window > 0 ? n * rot : 0);
    fn(arg, &r->places, n * 2 * sizeof(int32_t));
    fn(arg, &r->copy, n * o->copy_row);
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
    const uint64_t embd = (uint64_t)hp->n_embd, ff = (uint64_t)hearth_ffn_neurons(hp);
    const uint64_t q = (uint64_t)hp->n_head * (uint64_t)hp->head_dim,
                   kv = (uint64_t)hp->n_head_kv * (uint64_t)hp->head_dim;
    const uint64_t rank = hearth_sparse_mode_rank(&s->mode, s->model);
    const uint64_t widest = larger(larger(embd, ff), larger(q, rank));
    const uint64_t span = HEARTH_KV_TILE * HEARTH_ATTN_RANGE, ranges = ((uint64_t)s->n_ctx + span - 1) / span;
    const bool previous = rank && hp->predictor_input == HEARTH_PREDICTOR_PREVIOUS;
    each_rows_buffer(o, &o->rows[0], cap, fn, arg);
    each_rows_buffer(o, &o->rows[1], steps, fn, arg);
    fn(arg, &o->h, n * embd * f32);
    fn(arg, &o->acts, n * hearth_acts_bytes((size_t)widest));
    fn(arg, &o->k, n * kv * f32);
    fn(arg, &o->v, n * kv * f32);
    fn(arg, &o->out, n * q * f32);
    fn(arg, &o->gate, n * ff * f32);
    fn(arg, &o->up, n * ff * f32);
    fn(arg, &o->mask, steps * ff);
    fn(arg, &o->rank, steps * rank * f32);
    fn(arg, &o->parts, steps * hearth_cluster_count((size_t)ff) * embd * f32);
    fn(arg, &o->shares,
       ranges > 1 ? steps * ranges * (uint64_t)hp->n_head * (uint64_t)(hp->head_dim + 2) * f32 : 0);
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
    o->places = hearth_calloc(rows, 2 * sizeof *o->places);
    o->page_numbers = hearth_calloc(o->max_pages, sizeof *o->page_numbers);
    o->births = hearth_calloc(pages, sizeof *o->births);
    o->known = hearth_calloc(pages, sizeof *o->known);
    return o->copy[0] && o->copy[1] && o->places && o->page_numbers && o->births && o->known
               ? HEARTH_OK
               : hearth_fail(err, HEARTH_E_MEMORY, "no memory for a device's tables");
}

// ---- placing

static int place_layers(struct hearth_offload *o, uint64_t room, int most, struct hearth_error *err)
{
    const int n_layer = o->s->model->hp.n_layer;
    o->layers = hearth_calloc((size_t)n_layer, sizeof *o->layers);
    if (!o->layers)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a device's layers");
    int first = n_layer;
    for (uint64_t bytes; first > 0 && (most == HEARTH_OFFLOAD_ALL || n_layer - first < most); first--) {
        bytes = layer_bytes(o->s, first - 1);
        if (!bytes || bytes > room || cache_bytes(o->s) > o->largest)
            break;
        room -= bytes;
    }
    // From the last one on, so that where the device has less memory than it says those behind stay.
    o->first = n_layer;
    for (int layer = n_layer; layer-- > first;) {
        int rc = open_layer(o, &o->layers[layer - first], layer, err);
        if (rc)
            return rc;
        if (hearth_accel_has_failed(o->a)) {
            const size_t kept = (size_t)(n_layer - layer - 1);
            close_layer(o, &o->layers[layer - first]);
            memmove(o->layers, o->layers + (layer + 1 - first), kept * sizeof *o->layers);
            memset(o->layers + kept, 0, ((size_t)n_layer - kept) * sizeof *o->layers); // closed once
            break;
        }
        o->first = layer;
    }
    return HEARTH_OK;
}

// Layers of the last `most` that `room` is enough for; *left: bytes that are not used then.
static int count_layers(const struct hearth_offload *o, uint64_t room, int most, uint64_t *left)
{
    const int n_layer = o->s->model->hp.n_layer;
    int n = 0;
    for (uint64_t bytes; n < most && cache_bytes(o->s) <= o->largest; n++) {
        bytes = layer_bytes(o->s, n_layer - n - 1);
        if (!bytes || bytes > room)
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
    return (struct hearth_through_setup){.roles = roles,
                                         .n_roles = N_ROLES,
                                         .max_pages = o->max_pages,
                                         .cache = empty_cache(o->s),
                                         .cache_bytes = cache_bytes(o->s),
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
    const int n = count_layers(o, room, most, &left);
    const uint64_t bytes = hearth_through_bytes(o->s, &setup, o->largest);
    if (p->prompts == HEARTH_DEVICE_PROMPTS_NEVER)
        return 0;
    if (most < n_layer)
        return n == most && bytes <= left ? bytes : 0;
    return bytes <= room && (n_layer - n) * LEAST_SHARE >= n_layer ? bytes : 0;
}

// Layers, and what prompts pass through beside them.
static int place_all_layers(struct hearth_offload *o, const struct hearth_offload_params *p, uint64_t room,
                            struct hearth_error *err)
{
    const uint64_t bytes = room_for_through(o, p, room);
    const int rc = place_layers(o, room - bytes, p->layers, err);
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

static int place(struct hearth_offload *o, const struct hearth_offload_params *p, uint64_t vram,
                 struct hearth_error *err)
{
    const struct hearth_session *s = o->s;
    const int n_layer = s->model->hp.n_layer;
    int rc = HEARTH_OK;
    o->first = n_layer;
    if (s->model->adapters) { // which devices do not know
        hearth_log(HEARTH_LOG_WARNING, "with adapters the CPU computes everything, and the device nothing");
        return HEARTH_OK;
    }
    const uint64_t workspace = knows_model(s) ? size_workspace(o, vram) : 0;
    o->first = n_layer;
    if (workspace && p->layers != 0) {
        rc = take_tables(o, err);
        if (!rc)
            each_buffer(o, (uint64_t)o->rows[0].cap, take_buffer, o);
        if (!rc)
            rc = place_all_layers(o, p, vram - workspace, err);
        if (o->first == n_layer && !o->through) // the head and hot neurons can use the room
            close_workspace(o);
    }
    const uint64_t head = head_bytes(s), used = hearth_accel_stats(o->a).bytes;
    const bool wanted = p->layers == HEARTH_OFFLOAD_ALL || p->layers > n_layer;
    if (!rc && !hearth_accel_has_failed(o->a) && wanted && head && used + head <= vram)
        rc = place_head(o, err);
    // What is left is for the hot neurons of the other layers, or for hot experts, unless a number of layers was asked for.
    if (!rc && !hearth_accel_has_failed(o->a) && (p->layers == HEARTH_OFFLOAD_ALL || p->vram))
        rc = hearth_hot_open(&o->hot, s, o->a, &o->works, o->first, vram - hearth_accel_stats(o->a).bytes,
                             err);
    if (!rc && !hearth_accel_has_failed(o->a) && (p->layers == HEARTH_OFFLOAD_ALL || p->vram))
        rc = hearth_hot_experts_open(&o->experts, s, o->a, &o->works, vram - hearth_accel_stats(o->a).bytes,
                                     err);
    // What it has no memory for stays with the CPU.
    struct hearth_error full;
    if (!rc && hearth_accel_take(o->a, &full))
        hearth_log(HEARTH_LOG_WARNING, "%s: fewer layers go there", full.message);
    return rc;
}

uint64_t hearth_offload_vram(const struct hearth_accel_info *device, uint64_t unused, uint64_t ram)
{
    const uint64_t bytes = unused / 10 * 9;
    return device->shares_memory && ram / 2 < bytes ? ram / 2 : bytes;
}

// Of the device's memory, where nobody says how much. The session's budget is claimed by now.
static uint64_t choose_vram(const struct hearth_accel *a)
{
    return hearth_offload_vram(hearth_accel_describe(a), hearth_accel_free_memory(a),
                               hearth_free_memory("", true).bytes);
}

// What follows from the session and the device.
static struct hearth_offload begin(const struct hearth_session *s, const struct hearth_accel_info *info)
{
    return (struct hearth_offload){
        .s = s,
        .largest = info->largest,
        .rows = {{.is_prompt = true}},
        .copy_row = (size_t)s->kv.heads[0].n * (s->kv.heads[0].row_k + s->kv.heads[0].row_v),
        .max_pages = (size_t)s->limits.max_seqs * (size_t)s->kv.pages_per_seq,
    };
}

int hearth_offload_find(struct hearth_offload **out, const struct hearth_session *s,
                        const struct hearth_offload_params *params, struct hearth_error *err)
{
    struct hearth_offload *o = hearth_calloc(1, sizeof *o);
    *out = o;
    if (!o)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a device");
    o->s = s;
    o->first = s->model->hp.n_layer;
    struct hearth_accel *a;
    const int rc = hearth_accel_open(&a, &params->device, err);
    if (rc) {
        hearth_offload_close(out);
        return rc;
    }
    *o = begin(s, hearth_accel_describe(a));
    o->a = a;
    o->first = s->model->hp.n_layer;
    o->works = true;
    return HEARTH_OK;
}

int hearth_offload_place(struct hearth_offload *o, const struct hearth_offload_params *params,
                         struct hearth_error *err)
{
    const uint64_t all = hearth_accel_describe(o->a)->memory;
    const uint64_t vram = params->vram ? params->vram : choose_vram(o->a);
    return place(o, params, vram < all ? vram : all, err);
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

// The same decisions as place()'s.
static void foresee(struct hearth_offload *o, const struct hearth_offload_params *p, uint64_t vram,
                    struct hearth_placement *out)
{
    const struct hearth_session *s = o->s;
    const int n_layer = s->model->hp.n_layer;
    const uint64_t workspace = !s->model->adapters && knows_model(s) ? size_workspace(o, vram) : 0;
    out->vram = vram;
    if (s->model->adapters)
        return;
    if (workspace && p->layers != 0) {
        const uint64_t room = vram - workspace, through = room_for_through(o, p, room);
        uint64_t left;
        out->layers = count_layers(o, room - through, most_layers(o, p), &left);
        out->through = through && out->layers < n_layer;
        out->bytes = out->layers || out->through ? vram - left - (out->through ? 0 : through) : 0;
    }
    const uint64_t head = head_bytes(s);
    out->head = (p->layers == HEARTH_OFFLOAD_ALL || p->layers > n_layer) && head && out->bytes + head <= vram;
    out->bytes += out->head ? head : 0;
    if (p->layers == HEARTH_OFFLOAD_ALL || p->vram)
        out->neurons = hearth_hot_count(s, n_layer - out->layers, vram - out->bytes);
}

// Nine tenths of what is free; where that is the system's memory, who knows what will be.
static bool foresee_within(struct hearth_offload *o, const struct hearth_offload_params *p,
                           const struct hearth_accel_info *info, uint64_t unused,
                           struct hearth_placement *out)
{
    const uint64_t ram = info->shares_memory && !p->vram ? hearth_free_memory("", true).bytes : UINT64_MAX;
    const uint64_t vram = p->vram ? p->vram : hearth_offload_vram(info, unused, ram);
    *out = (struct hearth_placement){0};
    memcpy(out->device, info->name, sizeof out->device);
    foresee(o, p, vram < info->memory ? vram : info->memory, out);
    return p->vram || !info->shares_memory;
}

bool hearth_offload_foresee(const struct hearth_offload *o, const struct hearth_offload_params *params,
                            struct hearth_placement *out)
{
    const struct hearth_accel_info *info = hearth_accel_describe(o->a);
    struct hearth_offload same = begin(o->s, info);
    return foresee_within(&same, params, info, hearth_accel_free_memory(o->a), out);
}

bool hearth_offload_guess(struct hearth_placement *out, const struct hearth_session *s,
                          const struct hearth_offload_params *params)
{
    struct hearth_accel_info info;
    *out = (struct hearth_placement){0};
    if (!hearth_accel_find(&info, params->device.device))
        return false;
    struct hearth_offload o = begin(s, &info);
    return foresee_within(&o, params, &info, info.memory, out);
}

// ---- closing

void hearth_offload_close(struct hearth_offload **offload)
{
    struct hearth_offload *o = *offload;
    if (!o)
        return;
    if (o->a) {
        hearth_through_close(&o->through);
        hearth_hot_close(&o->hot);
        hearth_hot_experts_close(&o->experts);
        for (int i = 0; o->layers && i < o->s->model->hp.n_layer; i++)
            close_layer(o, &o->layers[i]);
        close_workspace(o);
        close_head(o);
        hearth_accel_close(&o->a);
    }
    free(o->layers);
    free(o->places);
    free(o->page_numbers);
    free(o->births);
    free(o->known);
    free(o);
    *offload = NULL;
}
