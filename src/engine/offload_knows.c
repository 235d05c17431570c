// SPDX-License-Identifier: MIT
// What devices know of a model.
#include "engine/offload.h"

static bool is_plain(uint32_t type)
{
    return type == HEARTH_TYPE_F16 || type == HEARTH_TYPE_F32;
}

// Whether devices know what all of the model's layers keep and do, or their attention, where they have experts.
static bool knows_model(const struct hearth_session *s)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_layer *first = &s->model->weights.layers[0];
    const bool knows_norms = !hearth_has(&first->attn_inner_norm) && !hearth_has(&first->ffn_inner_norm);
    const bool knows_adding = hp->normed_scale == 0.0f && !hp->streams.n && !hp->n_embd_layer;
    const bool knows_attention =
        !hearth_values_in_keys(hp) && !hp->chooser.block && !hp->blender.n_layers && !hp->n_borrowing &&
        !hp->uneven && hp->positions != HEARTH_POS_NONE && hp->alibi == 0.0f && !hp->gates_softplus &&
        !hp->recurrence.beside && hp->head_dim <= HEARTH_ACCEL_MAX_DIM &&
        hp->head_dim_window <= HEARTH_ACCEL_MAX_DIM && hp->value_dim <= HEARTH_ACCEL_MAX_DIM &&
        hp->value_dim_window <= HEARTH_ACCEL_MAX_DIM;
    return knows_norms && knows_adding && knows_attention && !(hp->n_expert && hp->parallel) &&
           !(s->model->xielu && !hp->n_expert) && is_plain(s->kv.type_k) && is_plain(s->kv.type_v);
}

bool hearth_offload_knows(const struct hearth_session *s, int layer)
{
    const struct hearth_hparams *hp = &s->model->hp;
    return knows_model(s) && (hp->n_expert || (hearth_attends(hp, layer) && hearth_feeds(hp, layer)));
}

uint64_t hearth_offload_cache_bytes(const struct hearth_session *s, int layer)
{
    // The pool may be one that is only asked about, which has no list of its layers.
    const struct hearth_kv_heads *heads = &s->kv.heads[hearth_window_of(&s->model->hp, layer) != 0];
    return (uint64_t)s->kv.n_pages * (uint64_t)heads->n * heads->bytes;
}

struct hearth_accel_cache hearth_offload_cache(const struct hearth_session *s, int layer)
{
    const struct hearth_hparams *hp = &s->model->hp;
    return (struct hearth_accel_cache){.type_k = s->kv.type_k,
                                       .type_v = s->kv.type_v,
                                       .n_heads = (size_t)hearth_n_head_of(hp, layer),
                                       .n_heads_kv = (size_t)hearth_n_head_kv_of(hp, layer),
                                       .dim = (size_t)hearth_head_dim_of(hp, layer),
                                       .dim_v = (size_t)hearth_value_dim_of(hp, layer)};
}
