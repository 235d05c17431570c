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

// ---- hot path

static struct hearth_expert_rows *rows_of(struct hearth_hot_experts *h, enum hearth_phase phase)
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
    hearth_expert_rows_add(rows_of(h, phase), phase != HEARTH_PHASE_STEP, h->layers[layer].place_of[expert],
                           n, &h->s->model->weights.layers[layer], expert);
}

void hearth_hot_experts_begin(struct hearth_hot_experts *h, int layer, enum hearth_phase phase,
                              const float *x)
{
    const struct hearth_hparams *hp = &h->s->model->hp;
    struct hearth_expert_rows *r = rows_of(h, phase);
    if (!r->n)
        return;
    hearth_accel_write(h->a, &r->x, 0, x, r->n * (size_t)hp->n_embd * sizeof *x);
    hearth_accel_write(h->a, &r->tiles, 0, r->tile_list, r->n_tiles * sizeof *r->tile_list);
    hearth_accel_write(h->a, &r->which, 0, r->which_list, r->n * sizeof *r->which_list);
    for (int i = 0; i < HEARTH_EXPERT_FACTORS && r->factor_lists[i]; i++)
        hearth_accel_write(h->a, &r->factors[i], 0, r->factor_lists[i], r->n * sizeof *r->factor_lists[i]);
    hearth_expert_rows_begin(r, h->a, hp, &h->layers[layer].matrices, phase != HEARTH_PHASE_STEP);
    h->slots += r->n;
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
                             {&l->matrices.gate, &l->matrices.up, &l->matrices.down}};
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
    int rc = put_bias(h, &l->matrices.gate_b, m->place, &now->ffn_gate_exps_b, m->expert, err);
    if (!rc)
        rc = put_bias(h, &l->matrices.up_b, m->place, &now->ffn_up_exps_b, m->expert, err);
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

// How many slots of a prompt: an eighth of the room, at most. Returns the bytes of both classes.
static uint64_t size_rows(struct hearth_hot_experts *h, uint64_t room)
{
    const struct hearth_hparams *hp = &h->s->model->hp;
    const size_t used = (size_t)hp->n_expert_used, rows = (size_t)h->s->limits.max_rows * used;
    const uint64_t bytes = hearth_expert_rows_bytes(h->s), fit = room / 8 / bytes;
    h->rows[0].cap = rows < HEARTH_EXPERT_ROWS_MOST ? rows : HEARTH_EXPERT_ROWS_MOST;
    h->rows[0].cap = fit < h->rows[0].cap ? (size_t)fit : h->rows[0].cap;
    const size_t steps = (size_t)h->s->limits.max_steps * used;
    h->rows[1].cap = steps < HEARTH_EXPERT_ROWS_MOST ? steps : HEARTH_EXPERT_ROWS_MOST;
    return (h->rows[0].cap + h->rows[1].cap) * bytes;
}

static void close_layer(struct hearth_hot_experts *h, struct hearth_hot_expert_layer *l)
{
    hearth_device_experts_close(h->a, &l->matrices);
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
        rc = hearth_accel_weight_begin(h->a, &l->matrices.gate_b, HEARTH_TYPE_F32, width, (size_t)n, err);
    if (!rc && now->ffn_up_exps_b.data)
        rc = hearth_accel_weight_begin(h->a, &l->matrices.up_b, HEARTH_TYPE_F32, width, (size_t)n, err);
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

// Of one expert of the layer; 0: none of them is to be here.
static uint64_t bytes_of(const struct hearth_session *s, int layer, const struct hearth_cpu_experts *cpu,
                         uint64_t *largest)
{
    return hearth_are_cpu_experts(cpu, layer) ? 0 : hearth_device_experts_bytes(s, layer, largest);
}

static int open_all(struct hearth_hot_experts *h, const struct hearth_cpu_experts *cpu, int n,
                    struct hearth_error *err)
{
    uint64_t largest = 0;
    h->layers = hearth_calloc((size_t)h->end, sizeof *h->layers);
    if (!h->layers)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for hot experts");
    int rc = take_piece(h, err);
    for (int k = 0; k < 2 && !rc; k++)
        rc = hearth_expert_rows_open(&h->rows[k], h->a, h->s, err);
    for (int i = h->first; i < h->end && !rc && !hearth_accel_has_failed(h->a); i++) {
        if (!bytes_of(h->s, i, cpu, &largest))
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
                            struct hearth_accel *a, bool *works, int first, int end,
                            const struct hearth_cpu_experts *cpu, uint64_t room, struct hearth_error *err)
{
    const struct hearth_hparams *hp = &s->model->hp;
    uint64_t bytes = 0, largest = 0;
    *out = NULL;
    for (int i = first; i < end; i++)
        bytes += bytes_of(s, i, cpu, &largest); // of one of each layer
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
        return open_all(h, cpu, n, err);
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
        hearth_expert_rows_close(&h->rows[k], h->a);
    free(h->piece);
    free(h->layers);
    free(h);
    *hot = NULL;
}
