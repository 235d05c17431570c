// SPDX-License-Identifier: MIT
// The architectures bailingmoe and bailingmoe2: Ling and Ring. Experts, one more that all tokens use, and none in the
// first layers; in the second, sigmoids and a bias choose from the best groups, each head's query and key are normed,
// and part of a head rotates. Layers behind block_count less nextn_predict_layers guess tokens ahead and are not used.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_ATTENTION,
    HEARTH_LAYER_GATED(LEADING),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SHARED,
    {0},
};

static const struct hearth_binding layer_2[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_qkv.weight", attn_qkv, EMBD, QKV, ALWAYS),
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(LEADING),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER("exp_probs_b.bias", ffn_choice_b, EXPERTS, NONE, OPTIONAL),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SHARED,
    {0},
};

const struct hearth_arch hearth_arch_bailingmoe = {
    .name = "bailingmoe",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_bailingmoe2 = {
    .name = "bailingmoe2",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .expert_gating = HEARTH_GATING_SIGMOID,
    .groups = true,
    .extra_layers = true,
    .globals = globals,
    .layer = layer_2,
};
