// SPDX-License-Identifier: MIT
// A layer on a device: what forward.c and ffn.c do, as operations on its memory.
#include "engine/offload.h"

#include "engine/device_predictor.h"
#include "engine/heads.h"
#include "engine/offload_latent.h"
#include "model/ffn.h"

#define W(l, role) HEARTH_OFFLOAD_WEIGHT(l, role)

static const struct hearth_offload_layer *layer_of(const struct hearth_offload *o, int layer)
{
    const bool passes = layer < o->first || (o->attention && !o->attends);
    return passes ? &o->through->stages[layer % 2] : &o->layers[layer - o->first];
}

// Weights of a norm that has none.
static struct hearth_accel_weight ones_of(const struct hearth_offload *o, size_t k)
{
    return (struct hearth_accel_weight){.q = o->ones, .type = HEARTH_TYPE_F32, .k = k, .n = 1};
}

// h = norm(x), or x, and acts = h
static void norm(struct hearth_offload *o, const struct hearth_accel_weight *w,
                 const struct hearth_accel_weight *b, const struct hearth_offload_rows *rows)
{
    const struct hearth_hparams *hp = o->s->context.hp;
    const size_t n = (size_t)rows->n, width = (size_t)hp->n_embd;
    const struct hearth_accel_weight ones = ones_of(o, width);
    w = hp->unit_norms ? &ones : w;
    if (w->n) {
        hearth_accel_norm_quantize(o->a, &o->h, &o->acts, &rows->x, w, b, hp->layer_norm, hp->norm_eps, n);
        return;
    }
    hearth_accel_copy(o->a, &o->h, 0, &rows->x, 0, n * width * sizeof(float));
    hearth_accel_quantize(o->a, &o->acts, &o->h, width, n);
}

// What adapters add to the product of x with w.
static void add_changes(struct hearth_offload *o, const struct hearth_offload_rows *rows,
                        const struct hearth_accel_memory *out, const struct hearth_accel_weight *w,
                        const struct hearth_accel_memory *x)
{
    hearth_accel_add_changes(o->a, rows->is_prompt, out, w, x, (size_t)rows->n, &o->low, &o->high);
}

// out = the product of x [rows x w->k] with w; acts hold x already.
static void product(struct hearth_offload *o, const struct hearth_offload_rows *rows,
                    const struct hearth_accel_memory *out, const struct hearth_accel_weight *w,
                    const struct hearth_accel_memory *x, const struct hearth_accel_memory *mask)
{
    hearth_accel_product(o->a, rows->is_prompt, out, w, (struct hearth_accel_input){x, &o->acts},
                         (size_t)rows->n, mask);
    add_changes(o, rows, out, w, x);
}

// The products of h with several weights.
static void products(struct hearth_offload *o, const struct hearth_offload_rows *rows,
                     const struct hearth_accel_output *outputs, int n)
{
    hearth_accel_products(o->a, rows->is_prompt, outputs, n, (struct hearth_accel_input){&o->h, &o->acts},
                          (size_t)rows->n);
    for (int i = 0; i < n; i++)
        add_changes(o, rows, outputs[i].out, outputs[i].w, &o->h);
}

static void product_add(struct hearth_offload *o, const struct hearth_offload_rows *rows,
                        const struct hearth_accel_memory *out, const struct hearth_accel_weight *w,
                        const struct hearth_accel_memory *x)
{
    hearth_accel_product_add(o->a, rows->is_prompt, out, w, (struct hearth_accel_input){x, &o->acts},
                             (size_t)rows->n);
}

static void quantize(struct hearth_offload *o, const struct hearth_accel_memory *x, size_t k,
                     const struct hearth_offload_rows *rows)
{
    hearth_accel_quantize(o->a, &o->acts, x, k, (size_t)rows->n);
}

// x += scale * (branch + bias), or scale * norm(branch + bias)
static void add(struct hearth_offload *o, const struct hearth_offload_rows *rows,
                const struct hearth_accel_memory *branch, const struct hearth_accel_weight *bias,
                const struct hearth_accel_weight *post_norm)
{
    const struct hearth_hparams *hp = o->s->context.hp;
    const size_t n = (size_t)rows->n, width = (size_t)hp->n_embd;
    hearth_accel_add_bias(o->a, branch, bias, n);
    if (post_norm->n)
        hearth_accel_norm(o->a, branch, branch, post_norm, NULL, false, hp->norm_eps, n);
    if (hp->residual_scale != 1.0f)
        hearth_accel_add_scaled(o->a, &rows->x, branch, hp->residual_scale, width, n);
    else
        hearth_accel_add(o->a, &rows->x, branch, width, n);
}

// Whether x += the weight's product is all that there is to adding it.
static bool adds_alone(const struct hearth_offload *o, const struct hearth_accel_weight *w,
                       const struct hearth_accel_weight *bias, const struct hearth_accel_weight *post_norm)
{
    return !w->scale && !w->change && !bias->n && !post_norm->n && o->s->context.hp->residual_scale == 1.0f;
}

// ---- which experts

// h = RMSNorm(x), and acts = h
static void norm_alone(struct hearth_offload *o, const struct hearth_offload_rows *rows,
                       const struct hearth_accel_weight *w)
{
    hearth_accel_norm_quantize(o->a, &o->h, &o->acts, &rows->x, w, NULL, false, o->s->context.hp->norm_eps,
                               (size_t)rows->n);
}

// From the router's products to the rows' experts: hearth_moe_choose().
static void choose_experts(struct hearth_offload *o, const struct hearth_offload_rows *rows, int layer)
{
    const struct hearth_hparams *hp = o->s->context.hp;
    const struct hearth_offload_layer *l = layer_of(o, layer);
    const struct hearth_accel_router r = {
        .n = (size_t)hp->n_expert,
        .n_used = (size_t)hp->n_expert_used,
        .gating = hp->expert_gating == HEARTH_GATING_SIGMOID ? HEARTH_ACCEL_OF_SIGMOID
                  : hp->expert_gating == HEARTH_GATING_NEAR  ? HEARTH_ACCEL_OF_NEAR
                                                             : HEARTH_ACCEL_OF_SOFTMAX,
        .by = hp->router_scale,
        .bias = W(l, ffn_router_b),
        .choice = W(l, ffn_choice_b),
        .scales = W(l, ffn_scale_exps),
        .softmax_choice = hp->softmax_choice && (W(l, ffn_choice_b)->n || hp->n_group),
        .n_groups = (size_t)hp->n_group,
        .n_groups_used = (size_t)hp->n_group_used,
        .normalises = hp->expert_renorm,
        .scale = hp->expert_scale};
    hearth_accel_choose_experts(o->a, &r, &rows->scores, &rows->ids, &rows->weights, (size_t)rows->n);
}

// The router's products of x, which acts hold, too.
static void route(struct hearth_offload *o, const struct hearth_offload_rows *rows, int layer,
                  const struct hearth_accel_memory *x)
{
    product(o, rows, &rows->scores, W(layer_of(o, layer), ffn_router), x, NULL);
    choose_experts(o, rows, layer);
}

// Where the router reads the layer's input.
static void route_early(struct hearth_offload *o, const struct hearth_offload_rows *rows, int layer)
{
    const struct hearth_accel_weight *norm_of_router = W(layer_of(o, layer), ffn_router_norm);
    if (norm_of_router->n)
        norm_alone(o, rows, norm_of_router);
    else
        quantize(o, &rows->x, (size_t)o->s->context.hp->n_embd, rows);
    route(o, rows, layer, norm_of_router->n ? &o->h : &rows->x);
}

// ---- attention

// The rotation of a layer; NULL: there is none.
static const struct hearth_accel_memory *rotation_of(const struct hearth_offload *o, int layer,
                                                     const struct hearth_offload_rows *rows)
{
    const struct hearth_hparams *hp = o->s->context.hp;
    if (!hearth_rotates(hp, layer))
        return NULL;
    return hearth_rotates_apart(hp, layer) ? &rows->cos_sin_window : &rows->cos_sin;
}

// Of each head, maybe with weights of its own, or of all together.
static void norm_heads(struct hearth_offload *o, const struct hearth_accel_memory *x, size_t heads,
                       size_t dim, const struct hearth_accel_weight *w, size_t n)
{
    const struct hearth_hparams *hp = o->s->context.hp;
    if (w->n)
        hearth_accel_norm(o->a, x, x, w, NULL, hp->layer_norm, hp->norm_eps, n * (w->k == dim ? heads : 1));
}

// Of each head, without weights.
static void norm_heads_alone(struct hearth_offload *o, const struct hearth_accel_memory *x, size_t heads,
                             size_t dim, size_t n)
{
    const struct hearth_accel_weight ones = ones_of(o, dim);
    hearth_accel_norm(o->a, x, x, &ones, NULL, false, o->s->context.hp->norm_eps, n * heads);
}

static void limit(struct hearth_offload *o, const struct hearth_accel_memory *x, size_t width, size_t n)
{
    const float most = o->s->context.hp->qkv_limit;
    if (most > 0)
        hearth_accel_limit(o->a, x, most, width, n);
}

// Whether queries and keys are normed behind their rotation, so that storing the keys cannot rotate them.
static bool norms_behind(const struct hearth_hparams *hp)
{
    return hp->norm_behind || hp->unit_heads;
}

// Queries or keys of a layer: what hearth_heads_prepare() does, but for a rotation that is left to storing them.
static void prepare_heads(struct hearth_offload *o, const struct hearth_offload_rows *rows,
                          const struct hearth_accel_memory *x, size_t heads, size_t dim,
                          const struct hearth_accel_weight *bias, const struct hearth_accel_weight *head_norm,
                          const struct hearth_accel_rotation *rotation)
{
    const struct hearth_hparams *hp = o->s->context.hp;
    const size_t n = (size_t)rows->n;
    hearth_accel_add_bias(o->a, x, bias, n);
    limit(o, x, heads * dim, n);
    if (!hp->norm_behind)
        norm_heads(o, x, heads, dim, head_norm, n);
    if (norms_behind(hp) && rotation->cos_sin)
        hearth_accel_rope(o->a, x, rotation->cos_sin, heads, dim, rotation->n_rot, rotation->neox, n);
    if (hp->norm_behind)
        norm_heads(o, x, heads, dim, head_norm, n);
    if (hp->unit_heads && rotation->cos_sin)
        norm_heads_alone(o, x, heads, dim, n);
}

// The same of values.
static void prepare_values(struct hearth_offload *o, const struct hearth_offload_rows *rows, int layer)
{
    const struct hearth_hparams *hp = o->s->context.hp;
    const struct hearth_offload_layer *l = layer_of(o, layer);
    const size_t n = (size_t)rows->n, heads = l->cache.n_heads_kv, dim = l->cache.dim_v;
    hearth_accel_add_bias(o->a, &o->v, W(l, attn_v_b), n);
    limit(o, &o->v, heads * dim, n);
    if (hp->value_scale != 1.0f)
        hearth_accel_scale(o->a, &o->v, hp->value_scale, heads * dim, n);
    if (hp->value_norm)
        norm_heads_alone(o, &o->v, heads, dim, n);
}

// All products of the layer's normed input that attention wants.
static void project_all(struct hearth_offload *o, struct hearth_offload_rows *rows, int layer)
{
    const bool gated = o->s->context.hp->attn_gated;
    const struct hearth_offload_layer *l = layer_of(o, layer);
    const size_t n = (size_t)rows->n, dim = l->cache.dim;
    struct hearth_accel_output out[4] = {{gated ? &rows->both : &rows->q, W(l, attn_q)},
                                         {&o->k, W(l, attn_k)}};
    int n_out = 2;
    if (W(l, attn_v)->n)
        out[n_out++] = (struct hearth_accel_output){&o->v, W(l, attn_v)};
    if (W(l, attn_gate)->n)
        out[n_out++] = (struct hearth_accel_output){&rows->gate, W(l, attn_gate)};
    products(o, rows, out, n_out);
    if (gated)
        hearth_accel_split(o->a, &rows->q, &rows->both, l->cache.n_heads * dim, dim, n);
    if (!W(l, attn_v)->n)
        hearth_accel_copy(o->a, &o->v, 0, &o->k, 0, n * l->cache.n_heads_kv * dim * sizeof(float));
}

void hearth_offload_project(struct hearth_offload *o, struct hearth_offload_rows *rows, int layer)
{
    const struct hearth_hparams *hp = o->s->context.hp;
    const struct hearth_offload_layer *l = layer_of(o, layer);
    const size_t dim = l->cache.dim, heads = l->cache.n_heads;
    if (hp->early_router && !o->attention && hearth_has_experts(hp, layer))
        route_early(o, rows, layer);
    if (!hearth_attends(hp, layer))
        return;
    struct hearth_accel_rotation rotation = {rotation_of(o, layer, rows), (size_t)hearth_n_rot_of(hp, layer),
                                             hp->positions == HEARTH_POS_ROPE_NEOX};
    norm(o, W(l, attn_norm), W(l, attn_norm_b), rows);
    if (hp->latent.rank) {
        hearth_offload_latent_project(o, rows, l, layer, &rotation);
        return;
    }
    project_all(o, rows, layer);
    prepare_heads(o, rows, &rows->q, heads, dim, W(l, attn_q_b), W(l, attn_q_norm), &rotation);
    prepare_heads(o, rows, &o->k, l->cache.n_heads_kv, dim, W(l, attn_k_b), W(l, attn_k_norm), &rotation);
    prepare_values(o, rows, layer);
    if (norms_behind(hp))
        rotation.cos_sin = NULL;
    hearth_accel_store(o->a, &l->cache, &rows->copy, rows->copy_at, &rows->q, &o->k, &o->v, rotation,
                       (struct hearth_accel_places){&rows->places, &o->pages}, (size_t)rows->n);
    if (hearth_heads_do_grow(hp, layer))
        hearth_accel_scale_rows(o->a, &rows->q, &rows->growth, heads * dim, (size_t)rows->n);
}

// Attention's output times what gates it, and normed where it is.
static void finish_output(struct hearth_offload *o, const struct hearth_offload_rows *rows, int layer)
{
    const struct hearth_offload_layer *l = layer_of(o, layer);
    const size_t n = (size_t)rows->n, width = l->cache.n_heads * l->cache.dim_v;
    if (o->s->context.hp->attn_gated)
        hearth_accel_gate_beside(o->a, &o->out, &rows->both, width, l->cache.dim_v, n);
    if (W(l, attn_gate)->n)
        hearth_accel_gate(o->a, &o->out, &rows->gate, width, width / W(l, attn_gate)->n, n);
    if (W(l, attn_inner_norm)->n)
        hearth_accel_norm(o->a, &o->out, &o->out, W(l, attn_inner_norm), NULL, false,
                          o->s->context.hp->norm_eps, n);
}

// Attention and its output's product, to `out`, or added to it; without the bias.
static void attend(struct hearth_offload *o, const struct hearth_offload_rows *rows, int layer,
                   const struct hearth_accel_memory *out, bool adds)
{
    const struct hearth_hparams *hp = o->s->context.hp;
    const struct hearth_offload_layer *l = layer_of(o, layer);
    // A step's ranges are divided among groups; of a prompt there are groups enough.
    const size_t ranges = rows->is_prompt ? 1 : rows->ranges;
    const struct hearth_accel_attention how = {(size_t)hearth_window_of(hp, layer), hp->chunked,
                                               hp->attn_scale, hp->score_cap,
                                               hp->alibi > 0.0f ? &o->slopes : NULL};
    hearth_accel_attend(o->a, &l->cache, &o->out, &rows->q,
                        (struct hearth_accel_places){&rows->places, &o->pages}, W(l, attn_sinks), &how,
                        rows->is_prompt, ranges, &o->shares, &o->q_acts, (size_t)rows->n);
    const struct hearth_accel_memory *given = &o->out;
    if (hp->latent.rank)
        given = hearth_offload_latent_values(o, rows, l);
    else
        finish_output(o, rows, layer);
    quantize(o, given, W(l, attn_out)->k, rows);
    if (adds)
        product_add(o, rows, out, W(l, attn_out), given);
    else
        product(o, rows, out, W(l, attn_out), given, NULL);
}

// ---- feed-forward part

// What predictors of the layer look at; h: its input.
static const struct hearth_accel_memory *seen_of(const struct hearth_offload *o,
                                                 const struct hearth_offload_rows *rows, int layer)
{
    const enum hearth_predictor_input input = o->s->context.hp->predictor_input;
    if (input == HEARTH_PREDICTOR_NORMED)
        return &o->h;
    if (input != HEARTH_PREDICTOR_PREVIOUS)
        return &rows->x;
    return layer ? &o->seen[(layer - 1) % 2] : &o->h;
}

// Which neurons a step computes, as far as predictors say it.
static void ask_predictor(struct hearth_offload *o, const struct hearth_offload_rows *rows, int layer,
                          size_t n_ff)
{
    const struct hearth_offload_layer *l = layer_of(o, layer);
    const struct hearth_accel_weight *fc1 = W(l, pred_fc1), *fc2 = W(l, pred_fc2);
    const struct hearth_accel_memory *seen = seen_of(o, rows, layer);
    const struct hearth_model *m = o->s->model;
    const size_t n = (size_t)rows->n;
    if (!fc1->n) {
        hearth_accel_mask_scores(o->a, &o->mask, NULL, 0, 0, n_ff, n);
        return;
    }
    const struct hearth_device_predictor p = {fc1, fc2, &o->acts, &o->fc1, &o->inner, &o->up};
    hearth_device_predict(o->a, &p, seen, n);
    hearth_accel_mask_scores(o->a, &o->mask, &o->up, o->s->mode.predict_threshold,
                             m->always ? m->always[layer] : 0, n_ff, n);
}

// Gate and up, activated, to o->gate; `mask`: of the neurons that are computed, or NULL: then acts = o->gate, too.
static void compute_gates(struct hearth_offload *o, const struct hearth_offload_rows *rows, int layer,
                          size_t n_ff, const struct hearth_accel_memory *mask)
{
    const struct hearth_hparams *hp = o->s->context.hp;
    const struct hearth_sparse_mode *mode = &o->s->mode;
    const struct hearth_offload_layer *l = layer_of(o, layer);
    const size_t n = (size_t)rows->n;
    const bool gated = W(l, ffn_gate)->n != 0;
    const struct hearth_accel_output both[] = {{&o->gate, gated ? W(l, ffn_gate) : W(l, ffn_up)},
                                               {&o->up, W(l, ffn_up)}};
    if (mask) // whose neurons may have become fewer by the time that up is computed
        product(o, rows, both[0].out, both[0].w, &o->h, mask);
    else
        products(o, rows, both, gated ? 2 : 1);
    hearth_accel_add_bias(o->a, &o->gate, gated ? W(l, ffn_gate_b) : W(l, ffn_up_b), n);
    if (mask && mode->sparsity != HEARTH_SPARSITY_OFF)
        hearth_accel_mask_gates(
            o->a, mask, &o->gate, hp->activation,
            mode->sparsity_threshold > 0.0f ? hearth_sparse_mode_threshold(mode, layer) : 0.0f, n_ff, n);
    if (gated && mask)
        product(o, rows, &o->up, W(l, ffn_up), &o->h, mask);
    if (gated)
        hearth_accel_add_bias(o->a, &o->up, W(l, ffn_up_b), n);
    const struct hearth_accel_weight *inner = W(l, ffn_inner_norm);
    const struct hearth_xielu *xielu = o->s->model->xielu && !gated ? &o->s->model->xielu[layer] : NULL;
    if (xielu)
        hearth_accel_xielu(o->a, &o->gate,
                           &(struct hearth_accel_xielu){xielu->a, xielu->n, xielu->b, xielu->eps}, n_ff, n);
    else if (mask || inner->n)
        hearth_accel_activate(o->a, &o->gate, gated ? &o->up : NULL, mask, hp->activation, n_ff, n);
    if (inner->n)
        hearth_accel_norm_quantize(o->a, &o->gate, &o->acts, &o->gate, inner, NULL, false, hp->norm_eps, n);
    else if (xielu)
        quantize(o, &o->gate, n_ff, rows);
    else if (!mask)
        hearth_accel_activate_quantize(o->a, &o->gate, gated ? &o->up : NULL, &o->acts, hp->activation, n_ff,
                                       n);
}

// h = the feed-forward part of h, without the bias of down; or, where `adds`, x += that.
static void feed_forward(struct hearth_offload *o, const struct hearth_offload_rows *rows, int layer,
                         bool adds)
{
    const struct hearth_session *s = o->s;
    const struct hearth_offload_layer *l = layer_of(o, layer);
    const size_t n = (size_t)rows->n, n_embd = (size_t)s->context.hp->n_embd;
    const size_t n_ff = (size_t)hearth_ffn_neurons_of(s->context.hp, layer);
    const bool by_neuron = !rows->is_prompt && hearth_sparse_mode_layer(&s->mode, s->context.hp,
                                                                        &s->model->weights.layers[layer]);
    const bool asks = by_neuron && W(l, pred_fc1)->n;
    const bool masked = asks || (by_neuron && s->mode.sparsity != HEARTH_SPARSITY_OFF);
    if (o->seen[0].size && !rows->is_prompt)
        hearth_accel_copy(o->a, &o->seen[layer % 2], 0, &o->h, 0, n * n_embd * sizeof(float));
    if (masked)
        ask_predictor(o, rows, layer, n_ff);
    if (asks) // acts hold what it has seen
        quantize(o, &o->h, n_embd, rows);
    if (W(l, ffn_linear)->n)
        product(o, rows, &rows->branch, W(l, ffn_linear), &o->h, NULL);
    compute_gates(o, rows, layer, n_ff, masked ? &o->mask : NULL);
    const struct hearth_accel_weight *by = W(l, ffn_down_t);
    if (by->n && rows->is_prompt) {
        hearth_accel_columns(o->a, &o->h, by, &o->gate, n);
    } else if (by->n) {
        hearth_accel_clusters(o->a, &o->h, &o->parts, by, &o->gate, hearth_cluster_size(n_ff), n);
    } else {
        if (masked)
            quantize(o, &o->gate, n_ff, rows);
        if (adds)
            product_add(o, rows, &rows->x, W(l, ffn_down), &o->gate);
        else
            product(o, rows, &o->h, W(l, ffn_down), &o->gate, NULL);
    }
    if (W(l, ffn_linear)->n)
        hearth_accel_add(o->a, &o->h, &rows->branch, n_embd, n);
}

void hearth_offload_add_attention(struct hearth_offload *o, struct hearth_offload_rows *rows, int layer)
{
    const struct hearth_offload_layer *l = layer_of(o, layer);
    const bool alone = adds_alone(o, W(l, attn_out), W(l, attn_out_b), W(l, attn_post_norm));
    attend(o, rows, layer, alone ? &rows->x : &o->h, alone);
    if (!alone)
        add(o, rows, &o->h, W(l, attn_out_b), W(l, attn_post_norm));
}

// The part that all tokens use, of h and acts: gate, up and down, which a layer without experts has in their place. acts
// become what goes down, which is in gate.
static void compute_shared(struct hearth_offload *o, const struct hearth_offload_rows *rows,
                           const struct hearth_accel_weight *gate, const struct hearth_accel_weight *up,
                           const struct hearth_accel_weight *router)
{
    struct hearth_accel_output out[3] = {{&o->gate, gate->n ? gate : up}};
    int n = 1;
    if (gate->n)
        out[n++] = (struct hearth_accel_output){&o->up, up};
    if (router)
        out[n++] = (struct hearth_accel_output){&rows->scores, router};
    products(o, rows, out, n);
    hearth_accel_activate_quantize(o->a, &o->gate, gate->n ? &o->up : NULL, &o->acts,
                                   o->s->context.hp->activation, up->n, (size_t)rows->n);
}

void hearth_offload_share_expert(struct hearth_offload *o, struct hearth_offload_rows *rows, int layer)
{
    const struct hearth_offload_layer *l = layer_of(o, layer);
    norm(o, W(l, ffn_norm), W(l, ffn_norm_b), rows);
    compute_shared(o, rows, W(l, ffn_gate_shared), W(l, ffn_up_shared), NULL);
    product(o, rows, &rows->branch, W(l, ffn_down_shared), &o->gate, NULL);
}

// ---- feed-forward part with experts

// A layer without experts, of a model that has some.
static void feed_dense(struct hearth_offload *o, const struct hearth_offload_rows *rows, int layer)
{
    const struct hearth_hparams *hp = o->s->context.hp;
    const struct hearth_offload_layer *l = layer_of(o, layer);
    const struct hearth_accel_weight *own_norm = W(l, ffn_post_norm_shared);
    norm(o, W(l, ffn_norm), W(l, ffn_norm_b), rows);
    compute_shared(o, rows, W(l, ffn_gate), W(l, ffn_up), NULL);
    if (!own_norm->n && adds_alone(o, W(l, ffn_down), W(l, ffn_down_b), W(l, ffn_post_norm))) {
        product_add(o, rows, &rows->x, W(l, ffn_down), &o->gate);
        return;
    }
    product(o, rows, &o->h, W(l, ffn_down), &o->gate, NULL);
    if (own_norm->n)
        hearth_accel_norm(o->a, &o->h, &o->h, own_norm, NULL, false, hp->norm_eps, (size_t)rows->n);
    add(o, rows, &o->h, W(l, ffn_down_b), W(l, ffn_post_norm));
}

// Products of the slots' experts, times the scales of their matrices.
static void multiply_slots(struct hearth_offload *o, const struct hearth_offload_rows *rows, int layer,
                           const struct hearth_accel_output *outputs, const int *kinds, int n, size_t width,
                           const struct hearth_accel_memory *x)
{
    const struct hearth_offload_layer *l = layer_of(o, layer);
    const size_t n_slots = (size_t)rows->n * (size_t)o->s->context.hp->n_expert_used;
    hearth_accel_products_of_all(
        o->a, rows->is_prompt, outputs, n, width, (struct hearth_accel_input){x, &o->moe.acts},
        &o->moe.slots.tiles,
        hearth_accel_most_tiles(rows->is_prompt, (size_t)o->s->context.hp->n_expert, n_slots), rows->n == 1);
    for (int i = 0; i < n; i++)
        if (l->scales[kinds[i]].handle)
            hearth_accel_scale_experts(o->a, &o->moe.slots, outputs[i].out, &l->scales[kinds[i]], width,
                                       n_slots);
}

// Rows of h through the experts that are chosen for them, to moe.out.
static void compute_experts(struct hearth_offload *o, const struct hearth_offload_rows *rows, int layer)
{
    const struct hearth_hparams *hp = o->s->context.hp;
    const struct hearth_offload_layer *l = layer_of(o, layer);
    struct hearth_offload_moe *m = &o->moe;
    const size_t used = (size_t)hp->n_expert_used, n_slots = (size_t)rows->n * used,
                 width = (size_t)hp->n_ff_exp, n_embd = (size_t)hp->n_embd;
    const bool gated = W(l, ffn_gate_exps)->n != 0;
    static const int gates[] = {0, 1}, ups[] = {1}, downs[] = {2}; // of struct hearth_offload_layer's scales
    const struct hearth_accel_output both[] = {{&m->gate, gated ? W(l, ffn_gate_exps) : W(l, ffn_up_exps)},
                                               {&m->up, W(l, ffn_up_exps)}};
    hearth_accel_list_experts(o->a, rows->is_prompt, &m->slots, &rows->ids, (size_t)hp->n_expert, n_slots);
    hearth_accel_gather(o->a, &m->slots, &m->acts, m->x.handle ? &m->x : NULL, &o->h,
                        hp->weigh_before ? &rows->weights : NULL, used, n_embd, n_slots);
    multiply_slots(o, rows, layer, both, gated ? gates : ups, gated ? 2 : 1, width, &m->x);
    hearth_accel_add_bias_of(o->a, &m->gate, gated ? W(l, ffn_gate_exps_b) : W(l, ffn_up_exps_b),
                             &m->slots.which, n_slots);
    if (gated)
        hearth_accel_add_bias_of(o->a, &m->up, W(l, ffn_up_exps_b), &m->slots.which, n_slots);
    hearth_accel_activate_quantize(o->a, &m->gate, gated ? &m->up : NULL, &m->acts, hp->activation, width,
                                   n_slots);
    multiply_slots(o, rows, layer, &(struct hearth_accel_output){&m->out, W(l, ffn_down_exps)}, downs, 1,
                   n_embd, &m->gate);
}

// x += what experts gave, and the one that all tokens use, which is in branch.
static void add_experts(struct hearth_offload *o, const struct hearth_offload_rows *rows, int layer,
                        bool shares)
{
    const struct hearth_hparams *hp = o->s->context.hp;
    const struct hearth_offload_layer *l = layer_of(o, layer);
    const size_t n = (size_t)rows->n, n_embd = (size_t)hp->n_embd;
    const struct hearth_accel_weight *of_exps = W(l, ffn_post_norm_exps),
                                     *of_shared = W(l, ffn_post_norm_shared);
    const bool is_normed = shares && (of_exps->n || of_shared->n);
    const bool alone =
        !is_normed && adds_alone(o, W(l, ffn_down_exps), W(l, ffn_down_b), W(l, ffn_post_norm));
    const float scale = shares ? hp->shared_scale : 1.0f;
    const struct hearth_accel_experts_sum sum = {
        .outputs = &o->moe.out,
        .ids = &rows->ids,
        .weights = hp->weigh_before ? NULL : &rows->weights,
        .bias = W(l, ffn_down_exps_b),
        .shared = shares && !is_normed ? &rows->branch : NULL,
        .shared_products = W(l, ffn_router_shared)->n ? &o->moe.shared_products : NULL,
        .scale = is_normed ? 1.0f : scale,
        .n = n_embd,
        .n_used = (size_t)hp->n_expert_used};
    hearth_accel_sum_experts(o->a, &o->moe.slots, alone ? &rows->x : &o->h, &sum, alone, n);
    if (alone)
        return;
    if (is_normed && of_shared->n)
        hearth_accel_norm(o->a, &rows->branch, &rows->branch, of_shared, NULL, false, hp->norm_eps, n);
    if (is_normed && of_exps->n)
        hearth_accel_norm(o->a, &o->h, &o->h, of_exps, NULL, false, hp->norm_eps, n);
    if (is_normed)
        hearth_accel_add(o->a, &o->h, &rows->branch, n_embd, n);
    if (is_normed && scale != 1.0f)
        hearth_accel_scale(o->a, &o->h, scale, n_embd, n);
    add(o, rows, &o->h, W(l, ffn_down_b), W(l, ffn_post_norm));
}

// hearth_ffn() of a layer with experts. What needs acts of h comes before what changes them.
static void feed_experts(struct hearth_offload *o, const struct hearth_offload_rows *rows, int layer)
{
    const struct hearth_hparams *hp = o->s->context.hp;
    const struct hearth_offload_layer *l = layer_of(o, layer);
    const bool shares = hp->n_ff_shared != 0, apart = W(l, ffn_norm_exps)->n != 0;
    const bool is_early = hp->early_router, own = !is_early && W(l, ffn_router_norm)->n;
    const bool of_h = !is_early && !own && !apart; // the router reads what all read
    if (own) {
        norm_alone(o, rows, W(l, ffn_router_norm));
        route(o, rows, layer, &o->h);
    }
    norm(o, W(l, ffn_norm), W(l, ffn_norm_b), rows);
    if (shares && W(l, ffn_router_shared)->n) // a STEP product in both classes
        hearth_accel_product(o->a, false, &o->moe.shared_products, W(l, ffn_router_shared),
                             (struct hearth_accel_input){&o->h, &o->acts}, (size_t)rows->n, NULL);
    if (shares) {
        compute_shared(o, rows, W(l, ffn_gate_shared), W(l, ffn_up_shared), of_h ? W(l, ffn_router) : NULL);
        product(o, rows, &rows->branch, W(l, ffn_down_shared), &o->gate, NULL);
        if (of_h)
            choose_experts(o, rows, layer);
    } else if (of_h) {
        route(o, rows, layer, &o->h);
    }
    if (apart) {
        norm_alone(o, rows, W(l, ffn_norm_exps));
        if (!is_early && !own)
            route(o, rows, layer, &o->h);
    }
    compute_experts(o, rows, layer);
    add_experts(o, rows, layer, shares);
}

// x += attn_out(norm(x)), where that is in attention's place.
static void multiply(struct hearth_offload *o, const struct hearth_offload_rows *rows, int layer)
{
    const struct hearth_offload_layer *l = layer_of(o, layer);
    norm(o, W(l, attn_norm), W(l, attn_norm_b), rows);
    product(o, rows, &o->out, W(l, attn_out), &o->h, NULL);
    add(o, rows, &o->out, W(l, attn_out_b), W(l, attn_post_norm));
}

static void scale_output(struct hearth_offload *o, const struct hearth_offload_rows *rows, int layer)
{
    hearth_accel_scale_by(o->a, &rows->x, W(layer_of(o, layer), output_scale),
                          (size_t)o->s->context.hp->n_embd, (size_t)rows->n);
}

// What comes of a feed-forward part whose input is normed, where attention stands before it.
static void add_feed_forward(struct hearth_offload *o, const struct hearth_offload_rows *rows, int layer,
                             bool parallel)
{
    const struct hearth_offload_layer *l = layer_of(o, layer);
    const bool alone = !parallel && !W(l, ffn_linear)->n && !W(l, ffn_down_t)->n &&
                       adds_alone(o, W(l, ffn_down), W(l, ffn_down_b), W(l, ffn_post_norm));
    feed_forward(o, rows, layer, alone);
    if (parallel)
        add(o, rows, &rows->branch, W(l, attn_out_b), W(l, attn_post_norm));
    if (!alone)
        add(o, rows, &o->h, W(l, ffn_down_b), W(l, ffn_post_norm));
    scale_output(o, rows, layer);
}

void hearth_offload_finish(struct hearth_offload *o, struct hearth_offload_rows *rows, int layer)
{
    const struct hearth_hparams *hp = o->s->context.hp;
    const struct hearth_offload_layer *l = layer_of(o, layer);
    const struct hearth_layer *w = &o->s->context.weights->layers[layer];
    if (hp->parallel) {
        // The feed-forward part reads the layer's input, too.
        attend(o, rows, layer, &rows->branch, false);
        norm(o, w->ffn_norm.data == w->attn_norm.data ? W(l, attn_norm) : W(l, ffn_norm),
             w->ffn_norm.data == w->attn_norm.data ? W(l, attn_norm_b) : W(l, ffn_norm_b), rows);
        add_feed_forward(o, rows, layer, true);
        return;
    }
    if (hearth_attends(hp, layer))
        hearth_offload_add_attention(o, rows, layer);
    else if (hearth_is_linear(hp, layer))
        multiply(o, rows, layer);
    if (!hearth_feeds(hp, layer))
        return;
    if (hp->n_expert) {
        (hearth_has_experts(hp, layer) ? feed_experts : feed_dense)(o, rows, layer);
        scale_output(o, rows, layer);
        return;
    }
    norm(o, W(l, ffn_norm), W(l, ffn_norm_b), rows);
    add_feed_forward(o, rows, layer, false);
}
