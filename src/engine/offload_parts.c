// SPDX-License-Identifier: MIT
// Layers' weights on devices: see offload_parts.h.
#include "engine/offload_parts.h"

#include <string.h>

#include "engine/offload_changes.h"
#include "model/ffn.h"

// ---- which layers

// Those of attention come first.
#define ROLE(name) (offsetof(struct hearth_layer, name) / sizeof(struct hearth_weight))
const size_t hearth_offload_roles[HEARTH_OFFLOAD_ROLES] = {
    ROLE(attn_inner_norm), ROLE(attn_norm),     ROLE(attn_norm_b), ROLE(attn_q),         ROLE(attn_k),
    ROLE(attn_v),          ROLE(attn_gate),     ROLE(attn_q_b),    ROLE(attn_k_b),       ROLE(attn_v_b),
    ROLE(attn_q_norm),     ROLE(attn_k_norm),   ROLE(attn_sinks),  ROLE(attn_out),       ROLE(attn_out_b),
    ROLE(attn_q_a),        ROLE(attn_q_a_norm), ROLE(attn_q_up),   ROLE(attn_kv_a),      ROLE(attn_kv_a_norm),
    ROLE(attn_kv_up),      ROLE(attn_k_up),     ROLE(attn_v_up),   ROLE(attn_post_norm), ROLE(ffn_post_norm),
    ROLE(ffn_norm),        ROLE(ffn_norm_b),    ROLE(ffn_gate),    ROLE(ffn_up),         ROLE(ffn_down),
    ROLE(ffn_gate_b),      ROLE(ffn_up_b),      ROLE(ffn_down_b),  ROLE(ffn_down_t),     ROLE(ffn_linear),
    ROLE(ffn_inner_norm),  ROLE(output_scale)};

#define N_ATTENTION 24
#define MOST_ROLES  (HEARTH_OFFLOAD_ROLES + HEARTH_OFFLOAD_MOE_ROLES)

static const size_t predictor_roles[] = {ROLE(pred_fc1), ROLE(pred_fc2)};

// Beside attention.
static const size_t shared_roles[] = {ROLE(ffn_norm), ROLE(ffn_norm_b), ROLE(ffn_gate_shared),
                                      ROLE(ffn_up_shared), ROLE(ffn_down_shared)};
#undef ROLE

bool hearth_offload_shares_expert(const struct hearth_session *s)
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

// The layer's weights that a device has, but for those of single experts: places in struct hearth_layer,
// MOST_ROLES at most. Returns how many.
static size_t list_roles(const struct hearth_offload *o, size_t *out)
{
    const struct hearth_session *s = o->s;
    size_t n = o->attention ? N_ATTENTION : HEARTH_OFFLOAD_ROLES;
    const bool shares = o->attention && hearth_offload_shares_expert(s),
               experts = s->model->hp.n_expert && !o->attention;
    memcpy(out, hearth_offload_roles, n * sizeof *out);
    for (size_t i = 0; shares && i < sizeof shared_roles / sizeof *shared_roles; i++)
        out[n++] = shared_roles[i];
    for (size_t i = 0; experts && i < HEARTH_OFFLOAD_MOE_ROLES; i++)
        out[n++] = hearth_offload_moe_roles[i];
    if (s->model->hp.n_expert || o->attention)
        return n;
    for (size_t i = 0; s->mode.sparsity == HEARTH_SPARSITY_PREDICT && i < 2; i++)
        out[n++] = predictor_roles[i];
    return n;
}

static const struct hearth_weight *weight_of(const struct hearth_session *s, int layer, size_t role)
{
    return (const struct hearth_weight *)(const void *)&s->model->weights.layers[layer] + role;
}

bool hearth_offload_is_idle(const struct hearth_offload *o, int layer)
{
    return o->attention && !hearth_attends(&o->s->model->hp, layer);
}

bool hearth_offload_layer_bytes(const struct hearth_offload *o, int layer, uint64_t *bytes)
{
    const struct hearth_session *s = o->s;
    size_t list[MOST_ROLES], n = list_roles(o, list);
    uint64_t largest = 0;
    const bool experts = s->model->hp.n_expert && !o->attention;
    *bytes = 0;
    if (experts ? !hearth_offload_knows_experts(s, layer) : !hearth_offload_knows(s, layer))
        return false;
    if (hearth_offload_is_idle(o, layer))
        return true;
    *bytes = experts ? hearth_offload_experts_bytes(s, layer, &largest) : 0;
    *bytes += hearth_attends(&s->model->hp, layer) ? hearth_offload_cache_bytes(s, layer) : 0;
    for (size_t i = 0; i < n; i++) {
        const struct hearth_weight *w = weight_of(s, layer, list[i]);
        const uint64_t own = hearth_has(w) ? hearth_accel_weight_bytes(w->type, w->k, w->n) : 0;
        uint64_t changes;
        if (!hearth_offload_changes_bytes(w, &changes, &largest) || (hearth_has(w) && !own))
            return false;
        *bytes += own + changes;
    }
    return true;
}

bool hearth_offload_is_within_piece(const struct hearth_offload *o, const struct hearth_weight *w)
{
    size_t parts[HEARTH_ACCEL_WEIGHT_PARTS];
    uint64_t changes, largest = 0;
    bool is = hearth_accel_weight_parts(w->type, w->k, w->n, parts) &&
              hearth_offload_changes_bytes(w, &changes, &largest) && largest <= o->largest;
    for (int i = 0; i < HEARTH_ACCEL_WEIGHT_PARTS && is; i++)
        is = parts[i] <= o->largest;
    return is;
}

bool hearth_offload_is_layer_within(const struct hearth_offload *o, int layer)
{
    size_t list[MOST_ROLES], n = list_roles(o, list);
    const bool attends = hearth_attends(&o->s->model->hp, layer);
    uint64_t largest = 0;
    bool is = !attends || hearth_offload_cache_bytes(o->s, layer) <= o->largest;
    if (hearth_offload_is_idle(o, layer))
        return true;
    if (!o->attention)
        hearth_offload_experts_bytes(o->s, layer, &largest);
    is &= largest <= o->largest;
    for (size_t i = 0; i < n && is; i++) {
        const struct hearth_weight *w = weight_of(o->s, layer, list[i]);
        is = !hearth_has(w) || hearth_offload_is_within_piece(o, w);
    }
    return is;
}

// ---- layers

void hearth_offload_close_layer(struct hearth_offload *o, struct hearth_offload_layer *l)
{
    for (size_t i = 0; i < HEARTH_LAYER_WEIGHTS; i++) {
        hearth_offload_changes_close(o->a, &l->w[i]);
        hearth_accel_weight_close(o->a, &l->w[i]);
    }
    for (size_t i = 0; i < HEARTH_EXPERT_FACTORS; i++)
        hearth_accel_free(o->a, &l->scales[i]);
    hearth_accel_free(o->a, &l->cache.pages);
}

int hearth_offload_open_layer(struct hearth_offload *o, struct hearth_offload_layer *l, int layer,
                              struct hearth_error *err)
{
    const struct hearth_session *s = o->s;
    size_t list[MOST_ROLES], n = list_roles(o, list);
    int rc = HEARTH_OK;
    if (hearth_offload_is_idle(o, layer))
        return HEARTH_OK;
    l->cache = hearth_offload_cache(s, layer);
    if (hearth_attends(&s->model->hp, layer))
        l->cache.pages = hearth_accel_alloc(o->a, (size_t)hearth_offload_cache_bytes(s, layer));
    const struct hearth_weight *now = hearth_layer_weights(&s->context.weights->layers[layer]);
    for (size_t i = 0; i < n && !rc && !hearth_accel_has_failed(o->a); i++) {
        const struct hearth_weight *w = weight_of(s, layer, list[i]);
        if (hearth_has(w))
            rc = hearth_offload_send(o->a, s->model, &l->w[list[i]], w, &now[list[i]], w->n, err);
        if (!rc)
            rc = hearth_offload_changes_send(o->a, &l->w[list[i]], w, err);
    }
    return rc || o->attention ? rc : hearth_offload_send_experts(o, l, layer, err);
}
