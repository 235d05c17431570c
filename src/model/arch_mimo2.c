// SPDX-License-Identifier: MIT
// The mimo2 architecture: MiMo V2 Flash and its kin. Values are smaller than keys, and have a scale. Layers with a
// sliding window, of which the file has a list, have sinks, more heads of keys and values, and a rotation of their own.
// Experts are chosen by sigmoids and a bias; the first layers, whose router the file lacks, have none. Layers behind
// block_count less nextn_predict_layers guess tokens ahead and are not used.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_qkv.weight", attn_qkv, EMBD, QKV, OPTIONAL),
    HEARTH_LAYER("attn_q.weight", attn_q, EMBD, Q, ALWAYS),
    HEARTH_LAYER("attn_k.weight", attn_k, EMBD, KV, ALWAYS),
    HEARTH_LAYER("attn_v.weight", attn_v, EMBD, V, ALWAYS),
    HEARTH_LAYER("attn_sinks.weight", attn_sinks, HEADS, NONE, OPTIONAL),
    HEARTH_LAYER("attn_output.weight", attn_out, O, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(LEADING),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER("exp_probs_b.bias", ffn_choice_b, EXPERTS, NONE, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    {0},
};

const struct hearth_arch hearth_arch_mimo2 = {
    .name = "mimo2",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .expert_gating = HEARTH_GATING_SIGMOID,
    .expert_renorm = true,
    .window_period = 6,
    .window_heads = true,
    .window_rotation = true,
    .narrow_values = true,
    .dense_by_tensors = true,
    .extra_layers = true,
    .globals = globals,
    .layer = layer,
};
