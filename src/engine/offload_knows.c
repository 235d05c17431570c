// SPDX-License-Identifier: MIT
// What devices know of a model.
#include "engine/offload.h"

// Whether devices know what all of the model's layers keep and do, or their attention, where they have experts.
static bool knows_model(const struct hearth_session *s)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const bool knows_adding =
        hp->normed_scale == 0.0f && !hp->streams.n && !hp->n_embd_layer && hp->post_norm_eps == hp->norm_eps;
    const bool knows_attention = !hp->one_vector && !hp->chooser.block && !hp->blender.n_layers &&
                                 !hp->n_borrowing && !(hp->alibi > 0.0f && hp->score_cap > 0.0f) &&
                                 !hp->gates_softplus && !hp->recurrence.beside;
    const bool knows_cache = hearth_accel_knows_cache(s->kv.type_k, (size_t)hp->head_dim) &&
                             hearth_accel_knows_cache(s->kv.type_k, (size_t)hp->head_dim_window) &&
                             hearth_accel_knows_cache(s->kv.type_v, (size_t)hp->value_dim) &&
                             hearth_accel_knows_cache(s->kv.type_v, (size_t)hp->value_dim_window);
    return knows_adding && knows_attention && knows_cache && !(hp->n_expert && hp->parallel);
}

bool hearth_offload_knows(const struct hearth_session *s, int layer)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_layer *l = &s->model->weights.layers[layer];
    return knows_model(s) && !l->pred_fc1.change && !l->pred_fc2.change &&
           (hp->n_expert || !hearth_is_recurrent(hp, layer));
}

uint64_t hearth_offload_cache_bytes(const struct hearth_session *s, int layer)
{
    // The pool may be one that is only asked about, which has no list of its layers.
    const struct hearth_kv_heads *heads = &s->kv.heads[hearth_window_of(&s->model->hp, layer) != 0];
    return (uint64_t)s->kv.n_pages * (uint64_t)hearth_n_head_kv_of(&s->model->hp, layer) * heads->bytes;
}

struct hearth_accel_cache hearth_offload_cache(const struct hearth_session *s, int layer)
{
    const struct hearth_hparams *hp = &s->model->hp;
    return (struct hearth_accel_cache){.type_k = s->kv.type_k,
                                       .type_v = s->kv.type_v,
                                       .n_heads = (size_t)hearth_n_head_of(hp, layer),
                                       .n_heads_kv = (size_t)hearth_n_head_kv_of(hp, layer),
                                       .dim = (size_t)hearth_head_dim_of(hp, layer),
                                       .dim_v = (size_t)hearth_value_dim_of(hp, layer),
                                       .values_in_keys = hearth_values_in_keys(hp)};
}
