// SPDX-License-Identifier: MIT
// Which layers go to which device, and bringing them there: workspace first, then layers from the last one on, each with
// its part of the cache, then the head, as far as the memory goes. So of models with experts, where all of the layers that
// are wanted has room. Else of these: the head, what experts pass through, then layers' attention with the cache, then hot
// experts. Layers of sparse models that have no room are divided: attention of all of them, then hot neurons.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/free_memory.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/offload.h"
#include "engine/offload_changes.h"
#include "engine/offload_divide.h"
#include "engine/offload_latent.h"
#include "engine/offload_parts.h"
#include "model/ffn.h"

// Rows that the head takes together, at most.
#define HEAD_ROWS 16
// Rows of a prompt together, at most: a dimension of grids.
#define MAX_ROWS 16384
// Where a device may use less of its memory, how fast it is does not matter, and is not measured.
#define LEAST_TO_MEASURE ((uint64_t)64 << 20)
// Prompts pass through the device where the CPU has one layer of so many, or more.
#define LEAST_SHARE 4
// With fewer rows of a prompt together (or all that there are) whole layers with experts gain nothing.
#define LEAST_ROWS 32
// Layers are divided where a device has room for fewer than so many of 8, and only if hot neurons are then a tenth of all.
#define DIVIDED_BELOW 7
#define LEAST_HOT     10

// ---- workspace

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// Bytes of a step's keys and values: of all layers, where whole ones are there.
static size_t step_row(const struct hearth_offload *o)
{
    return o->copy_row * (o->attention ? 1 : (size_t)o->s->model->hp.n_layer);
}

static void each_rows_buffer(struct hearth_offload *o, struct hearth_offload_rows *r, uint64_t n,
                             hearth_offload_buffer_fn fn, void *arg)
{
    const struct hearth_hparams *hp = &o->s->model->hp;
    const uint64_t f32 = sizeof(float), embd = (uint64_t)hp->n_embd * f32,
                   q = larger((uint64_t)hearth_q_most(hp), hearth_offload_latent_widest(hp)) * f32;
    fn(arg, &r->x, n * embd);
    fn(arg, &r->q, n * q);
    fn(arg, &r->both, hp->attn_gated ? n * 2 * q : 0);
    fn(arg, &r->gate, hp->gates_apart ? n * q : 0);
    fn(arg, &r->growth, hp->q_growth != 0.0f ? n * f32 : 0);
    const bool shares = o->attention ? hearth_offload_shares_expert(o->s) : hp->n_expert && hp->n_ff_shared;
    fn(arg, &r->branch, hp->parallel || hp->has_linear || shares ? n * embd : 0);
    fn(arg, &r->cos_sin, n * (uint64_t)hp->n_rot * f32);
    fn(arg, &r->cos_sin_window, hp->rope_theta_window > 0 ? n * (uint64_t)hp->n_rot_window * f32 : 0);
    fn(arg, &r->places, n * 2 * sizeof(int32_t));
    hearth_offload_latent_rows_buffers(o, r, n, fn, arg);
    fn(arg, &r->copy, n * (r == &o->rows[1] ? step_row(o) : o->copy_row));
}

// Buffers of the workspace and their bytes with `cap` rows of a prompt; a call for each.
static void each_buffer(struct hearth_offload *o, uint64_t cap, hearth_offload_buffer_fn fn, void *arg)
{
    const struct hearth_session *s = o->s;
    const struct hearth_hparams *hp = &s->model->hp;
    const uint64_t f32 = sizeof(float), steps = (uint64_t)s->limits.max_steps, n = larger(cap, steps);
    const uint64_t embd = (uint64_t)hp->n_embd, ff = o->attention && hp->n_expert ? (uint64_t)hp->n_ff_shared
                                                     : hp->n_expert ? (uint64_t)hearth_ffn_shared(hp)
                                                                    : (uint64_t)hearth_ffn_neurons(hp);
    const uint64_t dim = larger(larger((uint64_t)hearth_head_dim_most(hp), hearth_offload_latent_inside(hp)),
                                larger((uint64_t)hp->value_dim, (uint64_t)hp->value_dim_window));
    const uint64_t heads = (uint64_t)hearth_n_head_most(hp), q = heads * dim,
                   kv = larger((uint64_t)hp->n_head_kv, (uint64_t)hp->n_head_kv_window) * dim;
    const bool whole = !hp->n_expert;
    const uint64_t inner = whole ? hearth_sparse_mode_inner(&s->mode, s->model) : 0;
    const uint64_t widest =
        larger(larger(larger(embd, ff), larger(q, inner)), hearth_offload_latent_widest(hp));
    const uint64_t span = HEARTH_KV_TILE * HEARTH_ATTN_RANGE, ranges = ((uint64_t)s->n_ctx + span - 1) / span;
    const bool previous = inner && hp->predictor_input == HEARTH_PREDICTOR_PREVIOUS;
    uint64_t low, high;
    hearth_offload_changes_rows(s->model, &low, &high);
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
       hearth_type_info(s->kv.type_k)->unit_elems || hp->latent.rank
           ? n * heads * hearth_acts_bytes((size_t)dim)
           : 0);
    hearth_offload_latent_buffers(o, n, fn, arg);
    fn(arg, &o->ones, larger(embd, dim) * f32);
    fn(arg, &o->slopes, hp->alibi > 0 ? heads * f32 : 0);
    fn(arg, &o->low, n * low * f32);
    fn(arg, &o->high, n * high * f32);
    fn(arg, &o->pages, o->max_pages * sizeof(int32_t));
    for (int i = 0; i < 2; i++)
        fn(arg, &o->seen[i], previous ? steps * embd * f32 : 0);
    if (hp->n_expert && !o->attention)
        hearth_offload_each_moe_buffer(o, n, fn, arg);
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

// Rows of a prompt that the device takes together, at most.
static int most_rows(const struct hearth_offload *o)
{
    const struct hearth_hparams *hp = &o->s->model->hp;
    const int most = hp->n_expert && !o->attention ? HEARTH_EXPERT_ROWS_MOST / hp->n_expert_used : MAX_ROWS;
    return o->s->limits.max_rows < most ? o->s->limits.max_rows : most;
}

// As many rows of a prompt as `bytes` have room for. Returns the bytes of all; 0: there is no room.
static uint64_t size_workspace_within(struct hearth_offload *o, uint64_t bytes)
{
    for (int cap = most_rows(o); cap >= 1; cap = cap > 1 ? (cap + 1) / 2 : 0) {
        struct sum sum = {0};
        each_buffer(o, (uint64_t)cap, add_bytes, &sum);
        o->rows[0].cap = cap;
        o->rows[1].cap = o->s->limits.max_steps;
        if (sum.largest <= o->largest && sum.bytes <= bytes)
            return sum.bytes;
    }
    return 0;
}

// The same with a quarter of the memory, or of whole layers with experts what these leave, if that is less.
static uint64_t size_workspace(struct hearth_offload *o, uint64_t vram)
{
    const uint64_t left = vram > o->reserved ? vram - o->reserved : 0;
    return size_workspace_within(o, left < vram / 4 ? left : vram / 4);
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
    const bool shares = o->attention && hearth_offload_shares_expert(o->s);
    if (shares)
        o->shared_copy = hearth_accel_alloc_host(o->a, (size_t)o->s->limits.max_rows *
                                                           (size_t)o->s->model->hp.n_embd * sizeof(float));
    const size_t tiles = larger(o->rows[0].tiles.size, o->rows[1].tiles.size);
    o->latent_tiles = tiles ? hearth_calloc(tiles, 1) : NULL;
    return (o->latent_tiles || !tiles) && (o->step_copy || o->attention) && (o->shared_copy || !shares) &&
                   o->seen_copy && o->copy[0] && o->copy[1] && o->places && o->growth && o->page_numbers &&
                   o->births && o->known
               ? HEARTH_OK
               : hearth_fail(err, HEARTH_E_MEMORY, "no memory for a device's tables");
}

// ---- placing

// Layers of which nothing is here are neither the first nor the last one.
static void drop_idle(struct hearth_offload *o)
{
    int n = 0;
    while (o->end > o->first && hearth_offload_is_idle(o, o->end - 1))
        o->end--;
    while (o->first + n < o->end && hearth_offload_is_idle(o, o->first + n))
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

// The first of layers [from, end) that there is room for, with all behind it.
static int first_with_room(const struct hearth_offload *o, int from, int end, uint64_t room)
{
    int first = end;
    for (uint64_t bytes; first > from; first--) {
        if (!hearth_offload_layer_bytes(o, first - 1, &bytes) || bytes > room ||
            !hearth_offload_is_layer_within(o, first - 1))
            break;
        room -= bytes;
    }
    return first;
}

// Layers [from, o->end), as far as there is room: the last ones of them.
static int place_layers(struct hearth_offload *o, int from, uint64_t room, struct hearth_error *err)
{
    const int end = o->end;
    o->layers = hearth_calloc((size_t)end, sizeof *o->layers);
    if (!o->layers)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a device's layers");
    const int first = first_with_room(o, from, end, room);
    // From the last one on, so that where the device has less memory than it says those behind stay.
    for (int layer = end; layer-- > first;) {
        int rc = hearth_offload_open_layer(o, &o->layers[layer - first], layer, err);
        if (rc)
            return rc;
        if (hearth_accel_has_failed(o->a)) {
            const size_t kept = (size_t)(end - layer - 1);
            hearth_offload_close_layer(o, &o->layers[layer - first]);
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
    for (uint64_t bytes; n < most && hearth_offload_is_layer_within(o, n_layer - n - 1); n++) {
        if (!hearth_offload_layer_bytes(o, n_layer - n - 1, &bytes) || bytes > room)
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
    return (struct hearth_through_setup){.roles = hearth_offload_roles,
                                         .n_roles = HEARTH_OFFLOAD_ROLES,
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
    bool knows = p->prompts != HEARTH_DEVICE_PROMPTS_NEVER && !o->s->model->hp.n_expert &&
                 !o->s->model->hp.uneven && !o->s->model->adapters;
    for (int layer = 0; layer < n_layer && knows; layer++)
        knows = hearth_offload_knows(o->s, layer) && hearth_attends(&o->s->model->hp, layer) &&
                hearth_feeds(&o->s->model->hp, layer);
    if (!knows)
        return 0;
    const int n = count_layers(o, room, most, &left);
    const uint64_t bytes = hearth_through_bytes(o->s, &setup, o->largest);
    if (o->attention) // of what hot neurons would have
        return bytes <= (setup.always ? room : room / 2) ? bytes : 0;
    if (most < n_layer)
        return n == most && bytes <= left ? bytes : 0;
    return bytes <= room && (n_layer - n) * LEAST_SHARE >= n_layer ? bytes : 0;
}

// Layers, and what prompts pass through beside them, where it is the only device.
static int place_all_layers(struct hearth_offload *o, const struct hearth_offload_params *p, bool is_alone,
                            int from, uint64_t room, struct hearth_error *err)
{
    uint64_t left = room;
    if (o->attention) // what that leaves
        count_layers(o, room, most_layers(o, p), &left);
    const uint64_t bytes = is_alone ? room_for_through(o, p, left) : 0;
    const int rc = place_layers(o, from, room - bytes, err);
    struct hearth_through_setup setup = through_setup(o, p);
    setup.n_layers = o->attention ? o->s->model->hp.n_layer : o->first;
    if (rc || !bytes || !setup.n_layers || hearth_accel_has_failed(o->a))
        return rc;
    return hearth_through_open(&o->through, o->a, o->s, &setup, err);
}

static uint64_t head_bytes(const struct hearth_session *s)
{
    const struct hearth_weight *w = &s->model->weights.output;
    const uint64_t rows = (uint64_t)(s->limits.logit_rows < HEAD_ROWS ? s->limits.logit_rows : HEAD_ROWS);
    const uint64_t own = w->change ? 0 : hearth_accel_weight_bytes(w->type, w->k, w->n);
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
    const uint64_t used = o->a ? hearth_accel_stats(o->a).bytes : 0; // it may be one that is only asked about
    return used < o->vram && !(o->a && hearth_accel_has_failed(o->a)) ? o->vram - used : 0;
}

static bool wants_head(const struct hearth_session *s, const struct hearth_offload_params *p)
{
    return p->layers == HEARTH_OFFLOAD_ALL || p->layers > s->model->hp.n_layer;
}

// The first of the layers that devices may have: behind it, they know all of them.
static int least_layer(const struct hearth_offload *o, int most)
{
    const int n_layer = o->s->model->hp.n_layer;
    int least = n_layer;
    uint64_t bytes;
    while (least > 0 && (most == HEARTH_OFFLOAD_ALL || n_layer - least < most) &&
           hearth_offload_layer_bytes(o, least - 1, &bytes))
        least--;
    return least;
}

// Of a layer from `least` on, about; 0: they have nothing that could be there.
static uint64_t mean_bytes(const struct hearth_offload *o, int least)
{
    uint64_t bytes = 0, own;
    for (int layer = least; layer < o->s->model->hp.n_layer; layer++)
        bytes += hearth_offload_layer_bytes(o, layer, &own) ? own : 0;
    const uint64_t n = (uint64_t)(o->s->model->hp.n_layer - least);
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

// How fast each is, where it matters. It is measured once.
static void measure_sides(struct hearth_offload *const *devices, struct hearth_offload_side *sides, int n)
{
    bool matters = n > 1;
    for (int i = 0; i < n; i++)
        matters &= devices[i]->vram >= LEAST_TO_MEASURE && sides[i].share <= 0;
    for (int i = 0; i < n && matters; i++) {
        devices[i]->speed = devices[i]->speed > 0 ? devices[i]->speed : hearth_accel_speed(devices[i]->a);
        sides[i].speed = devices[i]->speed;
    }
}

// What devices have to divide, layers from `least` on.
struct division {
    struct hearth_offload_side sides[HEARTH_ACCEL_MOST];
    int n, least;
    uint64_t bytes; // of a layer, about; 0: there is nothing
};

static struct division begin_division(struct hearth_offload *const *devices, int n,
                                      const struct hearth_offload_params *p)
{
    const struct hearth_session *s = devices[0]->s;
    const int n_layer = s->model->hp.n_layer;
    struct division d = {.n = n, .least = least_layer(devices[0], p->layers)};
    d.bytes = d.least < n_layer ? mean_bytes(devices[0], d.least) : 0;
    if (!d.bytes)
        return d;
    for (int i = 0; i < p->n_shares; i++)
        d.sides[i].share = p->shares[i];
    // Where attention alone is there, the head is already.
    size_sides(devices, d.sides, n, n_layer - d.least, d.bytes,
               wants_head(s, p) && !devices[0]->attention ? head_bytes(s) : 0);
    measure_sides(devices, d.sides, n);
    return d;
}

// The first of the layers that device i is to have, of those before `end`.
static int from_of(const struct division *d, int i, int n_layer, int end)
{
    return hearth_offload_from(d->sides, d->n, i, d->least, n_layer, end, d->bytes);
}

static int divide_layers(struct hearth_offload *const *devices, int n, const struct hearth_offload_params *p,
                         struct hearth_error *err)
{
    const int n_layer = devices[0]->s->model->hp.n_layer;
    const struct division d = begin_division(devices, n, p);
    int rc = HEARTH_OK;
    for (int i = n - 1, end = n_layer; i >= 0 && !rc && d.bytes; end = devices[i--]->first) {
        struct hearth_offload *o = devices[i];
        const int from = from_of(&d, i, n_layer, end);
        o->first = o->end = end;
        if (!d.sides[i].room || from == end)
            continue;
        each_buffer(o, (uint64_t)o->rows[0].cap, take_buffer, o);
        rc = take_tables(o, err);
        if (!rc)
            rc = fill_constants(o, err);
        if (!rc)
            rc = place_all_layers(o, p, n == 1, from, d.sides[i].room, err);
        if (o->first == o->end && !o->through) // the head and hot neurons can use the room
            close_workspace(o);
    }
    return rc;
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

// What all layers that are wanted take of the only device, whole, with the head.
static uint64_t bytes_of_whole(const struct hearth_offload *o, const struct hearth_offload_params *p)
{
    uint64_t bytes = wants_head(o->s, p) ? head_bytes(o->s) : 0, own;
    for (int n_layer = o->s->model->hp.n_layer, layer = n_layer - most_layers(o, p); layer < n_layer; layer++)
        bytes += hearth_offload_layer_bytes(o, layer, &own) ? own : 0;
    return bytes;
}

// Of a model with experts, whether devices have all of the layers that are wanted there, experts with them: not where it
// was said how hot ones are divided, or that some are the CPU's, nor where some layer is not known to devices, or has no
// room. Else they have attention.
static bool choose_whole(struct hearth_offload *const *devices, int n, const struct hearth_offload_params *p)
{
    const struct hearth_hparams *hp = &devices[0]->s->model->hp;
    if (!hp->n_expert || p->hot_percent || !p->layers)
        return false;
    for (int layer = hp->n_layer - most_layers(devices[0], p); layer < hp->n_layer; layer++)
        if (hearth_has_experts(hp, layer) && hearth_are_cpu_experts(&p->cpu_experts, layer))
            return false;
    for (int i = 0; i < n; i++) {
        devices[i]->attention = false;
        devices[i]->reserved = n == 1 ? bytes_of_whole(devices[0], p) : 0;
    }
    const struct division d = begin_division(devices, n, p);
    bool fits = d.bytes && d.least == hp->n_layer - most_layers(devices[0], p);
    int first = hp->n_layer;
    for (int i = n - 1; i >= 0 && fits; i--) {
        const int from = from_of(&d, i, hp->n_layer, first), least_rows = most_rows(devices[i]), end = first;
        if (d.sides[i].room)
            first = first_with_room(devices[i], from, end, d.sides[i].room);
        fits = first == end || devices[i]->rows[0].cap >= (least_rows < LEAST_ROWS ? least_rows : LEAST_ROWS);
    }
    fits = fits && first == d.least;
    for (int i = 0; i < n && !fits; i++) {
        devices[i]->attention = true;
        devices[i]->reserved = 0;
    }
    return fits;
}

// Whether the budget has room for all weights, whatever a device has.
static bool is_in_memory(const struct hearth_session *s)
{
    struct hearth_sources_user user = s->user;
    struct hearth_fit fit = {.ram = s->model->load.ram};
    struct hearth_error err;
    user.layers_elsewhere = 0;
    user.head_elsewhere = false;
    return !s->model->load.ram || (s->model->load.ram_asked != HEARTH_RAM_LEAST &&
                                   !hearth_sources_fit(s->model, &user, s->model->load.ram, &fit, &err) &&
                                   fit.kind == HEARTH_FIT_WHOLE);
}

// Of a dense model in memory whose steps go by neuron: where some of its layers have no room, the only device has
// attention of all of them, their predictors and hot neurons, if it has room for many of these. What the CPU
// reads in a step is cold neurons alone then, few of which are active, in place of whole layers.
static void choose_divided(struct hearth_offload *o, const struct hearth_offload_params *p)
{
    const struct hearth_session *s = o->s;
    const struct hearth_hparams *hp = &s->model->hp;
    const uint64_t head = wants_head(s, p) ? head_bytes(s) : 0, neurons = (uint64_t)hearth_ffn_neurons(hp);
    uint64_t left;
    int layers;
    if (o->next || hp->n_expert || hp->parallel || s->mode.sparsity == HEARTH_SPARSITY_OFF ||
        p->layers != HEARTH_OFFLOAD_ALL || p->hot_percent < 0 || o->vram <= head || !hearth_hot_knows(s) ||
        !hearth_offload_knows(s, hp->n_layer - 1) || !is_in_memory(s))
        return;
    const uint64_t room = o->vram - head, workspace = size_workspace(o, o->vram);
    if (!workspace || workspace >= room ||
        count_layers(o, room - workspace, hp->n_layer, &left) * 8 >= hp->n_layer * DIVIDED_BELOW)
        return;
    o->attention = true;
    const uint64_t attention = bytes_of_attention(o, p, room, &layers),
                   through = room_for_through(o, p, room - attention);
    const uint64_t hot = hearth_hot_count(s, hp->n_layer, room - attention - through);
    const bool always = p->prompts == HEARTH_DEVICE_PROMPTS_ALWAYS; // before hot neurons, whatever it takes
    o->attention =
        layers == hp->n_layer && (always ? hot > 0 : hot * LEAST_HOT >= neurons * (uint64_t)hp->n_layer);
}

// The head goes to the last device that has layers and room; else to the last one that has room.
static int place_head_somewhere(struct hearth_offload *const *devices, int n, struct hearth_error *err)
{
    const uint64_t bytes = head_bytes(devices[0]->s);
    for (int with_layers = 1; bytes && with_layers >= 0; with_layers--)
        for (int i = n - 1; i >= 0; i--) {
            struct hearth_offload *o = devices[i];
            if ((with_layers && o->first == o->end) || room_of(o) < bytes ||
                !hearth_offload_is_within_piece(o, &o->s->model->weights.output))
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
    // With hot neurons or experts.
    const int layers = devices[0]->attention ? s->model->hp.n_layer : devices[0]->first;
    for (int i = n - 1, end = layers; i >= 0 && !rc; i--) {
        struct hearth_offload *o = devices[i];
        const uint64_t room = room_of(o);
        if (!room)
            continue;
        before += (double)room;
        const double left = 1 - before / all;
        const int first = (int)(left * layers + 0.5);
        rc = hearth_hot_open(&o->hot, s, o->a, &o->works, first, end, room, err);
        if (!rc)
            rc = hearth_hot_experts_open(&o->experts, s, o->a, &o->works, first, end, &p->cpu_experts,
                                         room_of(o), err);
        end = first;
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

// What experts that pass through it take.
static uint64_t bytes_for_passing(struct hearth_offload *o, const struct hearth_offload_params *p,
                                  uint64_t room)
{
    int places, layers;
    size_t cap;
    return p->prompts == HEARTH_DEVICE_PROMPTS_NEVER || !o->attention || hearth_offload_is_divided(o)
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
    if (o->next || !o->attention || hearth_offload_is_divided(o) || p->prompts == HEARTH_DEVICE_PROMPTS_NEVER)
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
    choose_whole(devices, n, p);
    choose_divided(first, p);
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

int hearth_offload_find(struct hearth_offload **out, const struct hearth_session *s,
                        const struct hearth_offload_params *params, struct hearth_error *err)
{
    int numbers[HEARTH_ACCEL_MOST];
    *out = NULL;
    const int n = hearth_accel_choose(numbers, params->device.device, err);
    int rc = n < 0 ? n : hearth_offload_check(params, n, err);
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
    o->vram = vram;
    choose_whole((struct hearth_offload *const[]){o}, 1, p);
    choose_divided(o, p);
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
                hearth_offload_is_within_piece(o, &s->model->weights.output);
    out->bytes += out->head ? head : 0;
    if (uses_rest(p)) {
        const uint64_t passing = bytes_for_passing(o, p, vram - out->bytes);
        out->through |= passing > 0;
        out->bytes += passing;
    }
    if (o->attention) {
        int layers;
        out->bytes += bytes_of_attention(o, p, vram - out->bytes, &layers);
        const uint64_t through = room_for_through(o, p, vram - out->bytes);
        out->through |= through > 0;
        out->bytes += through;
        for (int layer = n_layer - layers; layer < n_layer; layer++)
            out->attention += hearth_attends(&s->model->hp, layer);
    }
    out->hot = uses_hot(p) && (o->attention || !s->model->hp.n_expert || out->layers < n_layer);
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
        hearth_offload_check(params, 1, &ignored) || !hearth_accel_at(&info, numbers[0]))
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
            hearth_offload_close_layer(o, &o->layers[i]);
        close_workspace(o);
        close_head(o);
        hearth_accel_close(&o->a);
    }
    free(o->layers);
    free(o->places);
    free(o->growth);
    free(o->latent_tiles);
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
