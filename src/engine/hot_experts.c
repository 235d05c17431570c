// SPDX-License-Identifier: MIT
// Hot experts on a device: see hot_experts.h.
#include "engine/hot_experts.h"

#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "engine/offload_weights.h"
#include "engine/session.h"
#include "model/ffn.h"
#include "model/load.h"

// Bytes of an expert that come to the device together. After an evaluation: that many, and once more for so many
// tokens.
#define PIECE        ((size_t)1 << 20)
#define PIECE_TOKENS 16
// Tokens after which a use counts half. An expert that comes takes longer than one that is read from the file.
#define HALF_LIFE 256
// By how much another expert must be used more, so that it is worth the way.
#define MORE_BY 1.25f
#define MORE    0.01f
// Slots of a prompt together, at most: a dimension of grids.
#define MAX_SLOTS 16384

// ---- hot path

static struct hearth_hot_expert_rows *rows_of(struct hearth_hot_experts *h, enum hearth_phase phase)
{
    return &h->rows[phase == HEARTH_PHASE_STEP];
}

void hearth_hot_experts_count(struct hearth_hot_experts *h, int layer, const int *counts, int n_tokens)
{
    struct hearth_hot_expert_layer *l = &h->layers[layer];
    const int n_expert = h->s->model->hp.n_expert;
    const float stays = exp2f(-(float)n_tokens / HALF_LIFE);
    for (int e = 0; e < n_expert && l->n; e++)
        l->shares[e] = l->shares[e] * stays + (float)counts[e] / (float)n_tokens * (1.0f - stays);
}

void hearth_hot_experts_add(struct hearth_hot_experts *h, int layer, enum hearth_phase phase, int expert,
                            int n)
{
    struct hearth_hot_expert_rows *r = rows_of(h, phase);
    const int most = phase == HEARTH_PHASE_STEP ? HEARTH_ACCEL_STEP_TOKENS : HEARTH_ACCEL_PROMPT_TOKENS;
    const int place = h->layers[layer].place_of[expert];
    for (int at = 0; at < n; at += most)
        r->tile_list[r->n_tiles++] = (struct hearth_accel_tile){
            .first = (int32_t)r->n + at, .n = n - at < most ? n - at : most, .matrix = place};
    for (int i = 0; i < n; i++)
        r->which_list[r->n++] = place;
}

void hearth_hot_experts_begin(struct hearth_hot_experts *h, int layer, enum hearth_phase phase,
                              const float *x)
{
    const struct hearth_hparams *hp = &h->s->model->hp;
    const struct hearth_hot_expert_layer *l = &h->layers[layer];
    struct hearth_hot_expert_rows *r = rows_of(h, phase);
    const size_t n = r->n, embd = (size_t)hp->n_embd, width = (size_t)hp->n_ff_exp,
                 bytes = n * embd * sizeof *x;
    const bool is_prompt = phase != HEARTH_PHASE_STEP, gated = l->gate.n != 0;
    const struct hearth_accel_input in = {&r->x, &r->acts}, act = {&r->gate, &r->acts};
    if (!n)
        return;
    hearth_accel_write(h->a, &r->x, 0, x, bytes);
    hearth_accel_write(h->a, &r->tiles, 0, r->tile_list, r->n_tiles * sizeof *r->tile_list);
    hearth_accel_write(h->a, &r->which, 0, r->which_list, n * sizeof *r->which_list);
    hearth_accel_quantize(h->a, &r->acts, &r->x, embd, n);
    hearth_accel_products_of(h->a, is_prompt, &r->gate, gated ? &l->gate : &l->up, width, in, &r->tiles,
                             r->n_tiles);
    hearth_accel_add_bias_of(h->a, &r->gate, gated ? &l->gate_b : &l->up_b, &r->which, n);
    if (gated) {
        hearth_accel_products_of(h->a, is_prompt, &r->up, &l->up, width, in, &r->tiles, r->n_tiles);
        hearth_accel_add_bias_of(h->a, &r->up, &l->up_b, &r->which, n);
    }
    hearth_accel_activate(h->a, &r->gate, gated ? &r->up : NULL, NULL, hp->activation, width, n);
    hearth_accel_quantize(h->a, &r->acts, &r->gate, width, n);
    hearth_accel_products_of(h->a, is_prompt, &r->out, &l->down, embd, act, &r->tiles, r->n_tiles);
    r->event = hearth_accel_begin_read(h->a, &r->out, 0, r->got, bytes);
    hearth_accel_flush(h->a);
    h->slots += n;
}

bool hearth_hot_experts_end(struct hearth_hot_experts *h)
{
    struct hearth_error err = {0};
    for (int k = 0; k < 2; k++) {
        hearth_accel_wait(h->a, h->rows[k].event);
        h->rows[k].event = NULL;
        h->rows[k].n = h->rows[k].n_tiles = 0;
    }
    if (!hearth_accel_take(h->a, &err))
        return true;
    *h->works = false;
    hearth_log(HEARTH_LOG_WARNING, "%s; the CPU goes on with its experts", err.message);
    return false;
}

// ---- experts that come

// Matrices of a layer's experts as the model has them, as sessions see them, and on the device.
struct matrices {
    const struct hearth_weight *w[3], *now[3];
    struct hearth_accel_weight *to[3];
};

static struct matrices matrices_of(struct hearth_hot_experts *h, int layer)
{
    const struct hearth_layer *w = &h->s->model->weights.layers[layer],
                              *now = &h->s->context.weights->layers[layer];
    struct hearth_hot_expert_layer *l = &h->layers[layer];
    return (struct matrices){{&w->ffn_gate_exps, &w->ffn_up_exps, &w->ffn_down_exps},
                             {&now->ffn_gate_exps, &now->ffn_up_exps, &now->ffn_down_exps},
                             {&l->gate, &l->up, &l->down}};
}

static int put_bias(struct hearth_hot_experts *h, const struct hearth_accel_weight *to, int place,
                    const struct hearth_weight *biases, int expert, struct hearth_error *err)
{
    const float *bias = hearth_bias_of(biases, expert);
    return bias ? hearth_accel_weight_put(h->a, to, (size_t)place, 1, bias, biases->k * sizeof *bias, err)
                : HEARTH_OK;
}

// Rows of the expert that is on its way, of `bytes` at least, while there are any. *over: it is there.
static int bring(struct hearth_hot_experts *h, size_t bytes, bool *over, struct hearth_error *err)
{
    struct hearth_hot_expert_move *m = &h->move;
    const struct matrices x = matrices_of(h, m->layer);
    for (; m->part < 3; m->part++, m->at = 0) {
        const struct hearth_weight *w = x.w[m->part];
        while (m->at < w->n) {
            if (!bytes || hearth_accel_has_failed(h->a))
                return HEARTH_OK;
            const size_t most = bytes < PIECE ? bytes : PIECE, left = w->n - m->at;
            const size_t n = most < w->stride ? 1 : left < most / w->stride ? left : most / w->stride;
            const int rc = hearth_offload_send_expert(h->a, h->s->model, x.to[m->part], m->place, w,
                                                      h->resident ? x.now[m->part] : NULL, h->piece,
                                                      m->expert, m->at, n, err);
            if (rc)
                return rc;
            m->at += n;
            bytes -= n * w->stride < bytes ? n * w->stride : bytes;
        }
    }
    const struct hearth_layer *now = &h->s->context.weights->layers[m->layer];
    const struct hearth_hot_expert_layer *l = &h->layers[m->layer];
    int rc = put_bias(h, &l->gate_b, m->place, &now->ffn_gate_exps_b, m->expert, err);
    if (!rc)
        rc = put_bias(h, &l->up_b, m->place, &now->ffn_up_exps_b, m->expert, err);
    *over = !rc;
    return rc;
}

// It is the place's from now on.
static void settle(struct hearth_hot_experts *h)
{
    struct hearth_hot_expert_layer *l = &h->layers[h->move.layer];
    l->held[h->move.place] = h->move.expert;
    l->place_of[h->move.expert] = h->move.place;
    h->move.layer = -1;
}

// Of the next layer, one that is not here and hotter than one that is: that gives its place up.
static void choose(struct hearth_hot_experts *h)
{
    const int layer = h->next_layer, n_expert = h->s->model->hp.n_expert;
    struct hearth_hot_expert_layer *l = &h->layers[layer];
    int best = -1, place = -1;
    h->next_layer = layer + 1 < h->end ? layer + 1 : h->first;
    for (int e = 0; e < n_expert && l->n; e++)
        if (l->place_of[e] < 0 && (best < 0 || l->shares[e] > l->shares[best]))
            best = e;
    for (int p = 0; p < l->n; p++)
        if (place < 0 || l->shares[l->held[p]] < l->shares[l->held[place]])
            place = p;
    if (best < 0 || l->shares[best] <= l->shares[l->held[place]] * MORE_BY + MORE)
        return;
    l->place_of[l->held[place]] = -1;
    l->held[place] = -1;
    h->move = (struct hearth_hot_expert_move){.layer = layer, .place = place, .expert = best};
}

void hearth_hot_experts_turn(struct hearth_hot_experts *h, int n_tokens)
{
    struct hearth_error err = {0};
    bool over = false;
    if (!*h->works || !h->moves)
        return;
    for (int i = h->first; i < h->end && h->move.layer < 0; i++)
        choose(h);
    if (h->move.layer < 0)
        return;
    // Where it cannot be read, the place stays empty, and the CPU says so if it needs the same bytes.
    if (bring(h, PIECE * (size_t)(1 + n_tokens / PIECE_TOKENS), &over, &err)) {
        hearth_log(HEARTH_LOG_WARNING, "%s; the device keeps the experts that it has", err.message);
        h->moves = false;
    }
    if (over) {
        settle(h);
        h->moved++;
    }
}

// ---- opening

static bool is_streamed_bundle(const struct hearth_session *s, const struct hearth_weight *w)
{
    return s->model->load.ram && hearth_item_of(s->model, w)->bundle;
}

// Bytes that an expert of the layer takes, *largest becoming those of its largest matrix if that is more; 0: the CPU
// computes its experts.
static uint64_t expert_bytes(const struct hearth_session *s, int layer, uint64_t *largest)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_layer *l = &s->model->weights.layers[layer];
    const struct hearth_weight *const parts[] = {&l->ffn_gate_exps, &l->ffn_up_exps, &l->ffn_down_exps};
    uint64_t bytes = 2 * (uint64_t)hp->n_ff_exp * sizeof(float);
    if (!hearth_has_experts(hp, layer) || hearth_has(&l->ffn_down_t_exps) ||
        hearth_sparse_mode_layer(&s->mode, hp, l))
        return 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!hearth_has(parts[i]))
            continue;
        const uint64_t own = hearth_accel_weight_bytes(parts[i]->type, parts[i]->k, parts[i]->n);
        if (!own || is_streamed_bundle(s, parts[i]))
            return 0;
        bytes += own;
        *largest = own > *largest ? own : *largest;
    }
    return bytes;
}

// A piece, or the longest row of an expert.
static int take_piece(struct hearth_hot_experts *h, struct hearth_error *err)
{
    size_t bytes = PIECE;
    for (int i = h->first; i < h->end; i++) {
        const struct matrices x = matrices_of(h, i);
        for (int k = 0; k < 3; k++)
            bytes = x.w[k]->stride > bytes ? x.w[k]->stride : bytes;
    }
    h->piece = h->resident ? NULL : hearth_calloc(1, bytes);
    return h->resident || h->piece ? HEARTH_OK
                                   : hearth_fail(err, HEARTH_E_MEMORY, "no memory for hot experts");
}

static size_t wider(const struct hearth_hparams *hp)
{
    return (size_t)(hp->n_embd > hp->n_ff_exp ? hp->n_embd : hp->n_ff_exp);
}

static uint64_t slot_bytes(const struct hearth_hparams *hp)
{
    return ((uint64_t)hp->n_embd + (uint64_t)hp->n_ff_exp) * 2 * sizeof(float) +
           hearth_acts_bytes(wider(hp)) + sizeof(struct hearth_accel_tile) + sizeof(int32_t);
}

// How many slots of a prompt: an eighth of the room, at most. Returns the bytes of both classes.
static uint64_t size_rows(struct hearth_hot_experts *h, uint64_t room)
{
    const struct hearth_hparams *hp = &h->s->model->hp;
    const size_t used = (size_t)hp->n_expert_used, rows = (size_t)h->s->limits.max_rows * used;
    const uint64_t bytes = slot_bytes(hp), fit = room / 8 / bytes;
    h->rows[0].cap = rows < MAX_SLOTS ? rows : MAX_SLOTS;
    h->rows[0].cap = fit < h->rows[0].cap ? (size_t)fit : h->rows[0].cap;
    h->rows[1].cap = (size_t)h->s->limits.max_steps * used;
    return (h->rows[0].cap + h->rows[1].cap) * bytes;
}

static int take_rows(struct hearth_hot_experts *h, struct hearth_hot_expert_rows *r, struct hearth_error *err)
{
    const struct hearth_hparams *hp = &h->s->model->hp;
    const size_t f32 = sizeof(float), embd = (size_t)hp->n_embd * f32, width = (size_t)hp->n_ff_exp * f32;
    const size_t n = r->cap;
    r->x = hearth_accel_alloc(h->a, n * embd);
    r->acts = hearth_accel_alloc(h->a, n * hearth_acts_bytes(wider(hp)));
    r->gate = hearth_accel_alloc(h->a, n * width);
    r->up = hearth_accel_alloc(h->a, n * width);
    r->out = hearth_accel_alloc(h->a, n * embd);
    r->tiles = hearth_accel_alloc(h->a, n * sizeof *r->tile_list);
    r->which = hearth_accel_alloc(h->a, n * sizeof *r->which_list);
    r->tile_list = hearth_calloc(n ? n : 1, sizeof *r->tile_list);
    r->which_list = hearth_calloc(n ? n : 1, sizeof *r->which_list);
    r->got = hearth_accel_alloc_host(h->a, n ? n * embd : 1);
    return r->tile_list && r->which_list && r->got
               ? HEARTH_OK
               : hearth_fail(err, HEARTH_E_MEMORY, "no memory for hot experts");
}

static void close_rows(struct hearth_hot_experts *h, struct hearth_hot_expert_rows *r)
{
    struct hearth_accel_memory *const memory[] = {&r->x,   &r->acts,  &r->gate, &r->up,
                                                  &r->out, &r->tiles, &r->which};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        hearth_accel_free(h->a, memory[i]);
    free(r->tile_list);
    free(r->which_list);
    hearth_accel_free_host(h->a, r->got);
}

static void close_layer(struct hearth_hot_experts *h, struct hearth_hot_expert_layer *l)
{
    struct hearth_accel_weight *const parts[] = {&l->gate, &l->up, &l->down, &l->gate_b, &l->up_b};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hearth_accel_weight_close(h->a, parts[i]);
    free(l->held);
    free(l->place_of);
    free(l->shares);
    *l = (struct hearth_hot_expert_layer){0};
}

// Memory for n experts of a layer.
static int take_layer(struct hearth_hot_experts *h, int layer, int n, struct hearth_error *err)
{
    struct hearth_hot_expert_layer *l = &h->layers[layer];
    const struct matrices x = matrices_of(h, layer);
    const struct hearth_layer *now = &h->s->context.weights->layers[layer];
    const size_t n_expert = (size_t)h->s->model->hp.n_expert, width = (size_t)h->s->model->hp.n_ff_exp;
    int rc = HEARTH_OK;
    l->held = hearth_calloc((size_t)n, sizeof *l->held);
    l->place_of = hearth_calloc(n_expert, sizeof *l->place_of);
    l->shares = hearth_calloc(n_expert, sizeof *l->shares);
    if (!l->held || !l->place_of || !l->shares)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for hot experts");
    for (int i = 0; i < 3 && !rc; i++)
        if (hearth_has(x.w[i]))
            rc =
                hearth_accel_weight_begin(h->a, x.to[i], x.w[i]->type, x.w[i]->k, x.w[i]->n * (size_t)n, err);
    if (!rc && now->ffn_gate_exps_b.data)
        rc = hearth_accel_weight_begin(h->a, &l->gate_b, HEARTH_TYPE_F32, width, (size_t)n, err);
    if (!rc && now->ffn_up_exps_b.data)
        rc = hearth_accel_weight_begin(h->a, &l->up_b, HEARTH_TYPE_F32, width, (size_t)n, err);
    return rc;
}

// Nobody has been counted, so the first n are as good as any.
static int open_layer(struct hearth_hot_experts *h, int layer, int n, struct hearth_error *err)
{
    struct hearth_hot_expert_layer *l = &h->layers[layer];
    int rc = take_layer(h, layer, n, err);
    for (int e = 0; e < h->s->model->hp.n_expert && !rc; e++)
        l->place_of[e] = -1;
    for (int e = 0; e < n && !rc && !hearth_accel_has_failed(h->a); e++) {
        bool over = false;
        h->move = (struct hearth_hot_expert_move){.layer = layer, .place = e, .expert = e};
        rc = bring(h, SIZE_MAX, &over, err);
        if (over)
            settle(h);
    }
    l->n = n;
    return rc;
}

static int open_all(struct hearth_hot_experts *h, int n, struct hearth_error *err)
{
    uint64_t largest = 0;
    h->layers = hearth_calloc((size_t)h->end, sizeof *h->layers);
    if (!h->layers)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for hot experts");
    int rc = take_piece(h, err);
    for (int k = 0; k < 2 && !rc; k++)
        rc = take_rows(h, &h->rows[k], err);
    for (int i = h->first; i < h->end && !rc && !hearth_accel_has_failed(h->a); i++) {
        if (!expert_bytes(h->s, i, &largest))
            continue;
        rc = open_layer(h, i, n, err);
        if (rc || hearth_accel_has_failed(h->a)) // its memory is full
            close_layer(h, &h->layers[i]);
        h->n += (uint64_t)h->layers[i].n;
    }
    h->move.layer = -1;
    return rc;
}

int hearth_hot_experts_open(struct hearth_hot_experts **out, const struct hearth_session *s,
                            struct hearth_accel *a, bool *works, int first, int end, uint64_t room,
                            struct hearth_error *err)
{
    const struct hearth_hparams *hp = &s->model->hp;
    uint64_t bytes = 0, largest = 0;
    *out = NULL;
    for (int i = first; i < end; i++)
        bytes += expert_bytes(s, i, &largest); // of one of each layer
    if (!bytes)
        return HEARTH_OK;
    struct hearth_hot_experts *h = hearth_calloc(1, sizeof *h);
    if (!h)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for hot experts");
    *h = (struct hearth_hot_experts){.a = a,
                                     .s = s,
                                     .works = works,
                                     .resident = s->work.ffn.sources->ffn.ops == &hearth_memory_source,
                                     .moves = true,
                                     .first = first,
                                     .end = end,
                                     .next_layer = first,
                                     .move = {.layer = -1}};
    hearth_share_init(&h->shares[0]);
    hearth_share_init(&h->shares[1]);
    *out = h;
    const uint64_t rows = size_rows(h, room), left = room > rows ? room - rows : 0;
    const uint64_t piece = hearth_accel_describe(a)->largest / largest, fit = left / bytes;
    const uint64_t most = (uint64_t)hp->n_expert < piece ? (uint64_t)hp->n_expert : piece;
    const int n = (int)(fit < most ? fit : most);
    if (n)
        return open_all(h, n, err);
    hearth_hot_experts_close(out);
    return HEARTH_OK;
}

void hearth_hot_experts_close(struct hearth_hot_experts **hot)
{
    struct hearth_hot_experts *h = *hot;
    if (!h)
        return;
    for (int i = 0; h->layers && i < h->end; i++)
        close_layer(h, &h->layers[i]);
    for (int k = 0; k < 2; k++)
        close_rows(h, &h->rows[k]);
    free(h->piece);
    free(h->layers);
    free(h);
    *hot = NULL;
}
