// SPDX-License-Identifier: MIT
// Whole layers with experts on a device: see offload_moe.h.
#include "engine/offload_moe.h"

#include <stdlib.h>

#include "base/memory.h"
#include "engine/offload.h"
#include "model/ffn.h"
#include "model/load.h"

// Bytes of an expert that are read together, about.
#define PIECE ((size_t)1 << 20)

#define ROLE(name) (offsetof(struct hearth_layer, name) / sizeof(struct hearth_weight))
const size_t hearth_offload_moe_roles[HEARTH_OFFLOAD_MOE_ROLES] = {
    ROLE(ffn_router),      ROLE(ffn_router_b),   ROLE(ffn_choice_b),       ROLE(ffn_router_norm),
    ROLE(ffn_norm_exps),   ROLE(ffn_scale_exps), ROLE(ffn_post_norm_exps), ROLE(ffn_post_norm_shared),
    ROLE(ffn_gate_shared), ROLE(ffn_up_shared),  ROLE(ffn_down_shared),    ROLE(ffn_router_shared)};
#undef ROLE

// ---- which layers

static bool knows_router(const struct hearth_session *s, int layer)
{
    const struct hearth_hparams *hp = &s->model->hp;
    return hp->expert_gating != HEARTH_GATING_ROOT && !hearth_is_by_token(hp, layer) &&
           hp->n_expert <= HEARTH_ACCEL_MOST_EXPERTS && hp->n_expert_used <= HEARTH_ACCEL_MOST_USED &&
           hp->n_group <= HEARTH_ACCEL_MOST_GROUPS &&
           s->limits.max_steps <= HEARTH_EXPERT_ROWS_MOST / hp->n_expert_used;
}

bool hearth_offload_knows_experts(const struct hearth_session *s, int layer)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_layer *l = &s->model->weights.layers[layer];
    uint64_t largest = 0;
    if (!hearth_offload_knows(s, layer) || hearth_is_recurrent(hp, layer) || s->model->xielu ||
        hearth_cuts_gates(hp, layer) || hearth_has(&l->ffn_inner_norm) || hearth_has(&l->ffn_linear) ||
        hearth_limit_of(hp, layer, false).at > 0.0f || l->ffn_router_shared.change)
        return false;
    if (!hearth_has_experts(hp, layer))
        return !hearth_has(&l->ffn_down_t);
    const bool is_normed = hearth_has(&l->ffn_post_norm_exps) || hearth_has(&l->ffn_post_norm_shared);
    return knows_router(s, layer) && hearth_device_experts_bytes(s, layer, &largest) &&
           !(is_normed && hearth_has(&l->ffn_router_shared));
}

// ---- memory

// Matrices and biases of all experts: what the model has and where it goes; first, as HEARTH_EXPERT_FACTORS
// has them, gate, up and down.
struct part {
    const struct hearth_weight *w;
    size_t role;
};
#define PARTS 6

static void list_parts(const struct hearth_layer *l, struct part parts[PARTS])
{
    const struct hearth_weight *const weights[PARTS] = {&l->ffn_gate_exps, &l->ffn_up_exps,
                                                        &l->ffn_down_exps, &l->ffn_gate_exps_b,
                                                        &l->ffn_up_exps_b, &l->ffn_down_exps_b};
    for (size_t i = 0; i < PARTS; i++)
        parts[i] =
            (struct part){weights[i], (size_t)(weights[i] - (const struct hearth_weight *)(const void *)l)};
}

static bool is_bias(size_t part)
{
    return part >= HEARTH_EXPERT_FACTORS;
}

// Rows that a part has there.
static size_t rows_of(const struct hearth_session *s, const struct part *parts, size_t i)
{
    return (size_t)s->model->hp.n_expert * (is_bias(i) ? 1 : parts[i].w->n);
}

uint64_t hearth_offload_experts_bytes(const struct hearth_session *s, int layer, uint64_t *largest)
{
    struct part parts[PARTS];
    size_t pieces[HEARTH_ACCEL_WEIGHT_PARTS];
    uint64_t bytes = 0;
    if (!hearth_has_experts(&s->model->hp, layer))
        return 0;
    list_parts(&s->model->weights.layers[layer], parts);
    for (size_t i = 0; i < PARTS; i++) {
        const struct hearth_weight *w = parts[i].w;
        if (!hearth_has(w))
            continue;
        const size_t rows = rows_of(s, parts, i);
        const uint32_t type = is_bias(i) ? HEARTH_TYPE_F32 : w->type;
        bytes += hearth_accel_weight_bytes(type, w->k, rows);
        bytes += !is_bias(i) && w->scales ? (uint64_t)s->model->hp.n_expert * sizeof(float) : 0;
        hearth_accel_weight_parts(type, w->k, rows, pieces);
        for (size_t k = 0; k < HEARTH_ACCEL_WEIGHT_PARTS; k++)
            *largest = pieces[k] > *largest ? pieces[k] : *largest;
    }
    return bytes;
}

// Rows of one expert of a matrix, piece by piece.
static int send_expert(struct hearth_offload *o, const struct hearth_accel_weight *to,
                       const struct hearth_weight *w, const struct hearth_weight *now, uint8_t *piece,
                       size_t rows, int expert, struct hearth_error *err)
{
    int rc = HEARTH_OK;
    for (size_t at = 0; at < w->n && !rc && !hearth_accel_has_failed(o->a); at += rows)
        rc = hearth_offload_send_expert(o->a, o->s->model, to, expert, w, now, piece, expert, at,
                                        w->n - at < rows ? w->n - at : rows, err);
    return rc;
}

// now: NULL where they are read from the file.
static int send_matrices(struct hearth_offload *o, struct hearth_accel_weight *to,
                         const struct hearth_weight *w, const struct hearth_weight *now,
                         struct hearth_error *err)
{
    const int n = o->s->model->hp.n_expert;
    const size_t rows = now ? w->n : w->stride < PIECE ? PIECE / w->stride : 1;
    int rc = hearth_accel_weight_begin(o->a, to, w->type, w->k, w->n * (size_t)n, err);
    uint8_t *piece = now || rc ? NULL : hearth_calloc(rows, w->stride);
    if (!rc && !now && !piece)
        rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory to read experts for a device");
    for (int e = 0; e < n && !rc && !hearth_accel_has_failed(o->a); e++)
        rc = send_expert(o, to, w, now, piece, rows, e, err);
    free(piece);
    return rc;
}

static int send_biases(struct hearth_offload *o, struct hearth_accel_weight *to,
                       const struct hearth_weight *now, struct hearth_error *err)
{
    const size_t n = (size_t)o->s->model->hp.n_expert;
    const int rc = hearth_accel_weight_begin(o->a, to, HEARTH_TYPE_F32, now->k, n, err);
    return rc ? rc
              : hearth_accel_weight_put(o->a, to, 0, n, hearth_vector_of(now), now->k * sizeof(float), err);
}

int hearth_offload_send_experts(struct hearth_offload *o, struct hearth_offload_layer *l, int layer,
                                struct hearth_error *err)
{
    const struct hearth_session *s = o->s;
    const bool resident = s->work.ffn.sources->ffn.ops == &hearth_memory_source;
    const struct hearth_weight *now = hearth_layer_weights(&s->context.weights->layers[layer]);
    const size_t scales = (size_t)s->model->hp.n_expert * sizeof(float);
    struct part parts[PARTS];
    int rc = HEARTH_OK;
    if (!hearth_has_experts(&s->model->hp, layer))
        return HEARTH_OK;
    list_parts(&s->model->weights.layers[layer], parts);
    for (size_t i = 0; i < PARTS && !rc && !hearth_accel_has_failed(o->a); i++) {
        const struct hearth_weight *w = parts[i].w, *here = &now[parts[i].role];
        struct hearth_accel_weight *to = &l->w[parts[i].role];
        if (!hearth_has(w))
            continue;
        rc =
            is_bias(i) ? send_biases(o, to, here, err) : send_matrices(o, to, w, resident ? here : NULL, err);
        if (rc || is_bias(i) || !w->scales)
            continue;
        l->scales[i] = hearth_accel_alloc(o->a, scales);
        hearth_accel_write(o->a, &l->scales[i], 0, w->scales, scales);
    }
    return rc;
}

// ---- workspace

// Whether some experts are of plain numbers, which read these.
static bool has_plain(const struct hearth_session *s)
{
    bool has = false;
    for (int i = 0; i < s->model->hp.n_layer; i++) {
        const struct hearth_layer *l = &s->model->weights.layers[i];
        has |= hearth_has_experts(&s->model->hp, i) &&
               (!hearth_type_info(l->ffn_up_exps.type)->unit_elems ||
                (hearth_has(&l->ffn_gate_exps) && !hearth_type_info(l->ffn_gate_exps.type)->unit_elems));
    }
    return has;
}

void hearth_offload_each_moe_buffer(struct hearth_offload *o, uint64_t rows,
                                    void (*fn)(void *arg, struct hearth_accel_memory *m, uint64_t bytes),
                                    void *arg)
{
    const struct hearth_hparams *hp = &o->s->model->hp;
    struct hearth_offload_moe *m = &o->moe;
    const uint64_t f32 = sizeof(float), n = (uint64_t)hp->n_expert,
                   slots = rows * (uint64_t)hp->n_expert_used, embd = (uint64_t)hp->n_embd,
                   width = (uint64_t)hp->n_ff_exp, wider = embd > width ? embd : width;
    const size_t steps = hearth_accel_most_tiles(false, (size_t)n, (size_t)slots),
                 prompts = hearth_accel_most_tiles(true, (size_t)n, (size_t)slots);
    fn(arg, &m->slots.tiles, (steps > prompts ? steps : prompts) * sizeof(struct hearth_accel_tile));
    fn(arg, &m->slots.slots, slots * sizeof(int32_t));
    fn(arg, &m->slots.from, slots * sizeof(int32_t));
    fn(arg, &m->slots.which, slots * sizeof(int32_t));
    fn(arg, &m->slots.counts, n * sizeof(int32_t));
    fn(arg, &m->x, has_plain(o->s) ? slots * embd * f32 : 0);
    fn(arg, &m->acts, slots * hearth_acts_bytes((size_t)wider));
    fn(arg, &m->gate, slots * width * f32);
    fn(arg, &m->up, slots * width * f32);
    fn(arg, &m->out, slots * embd * f32);
    fn(arg, &m->shared_products, hp->n_ff_shared ? rows * f32 : 0);
    for (int k = 0; k < 2; k++) {
        struct hearth_offload_rows *r = &o->rows[k];
        fn(arg, &r->scores, rows * n * f32);
        fn(arg, &r->ids, slots * sizeof(int32_t));
        fn(arg, &r->weights, slots * f32);
    }
}
