// SPDX-License-Identifier: MIT
// The afmoe architecture: Trinity. Norms on both sides of both parts, and of each head's query and key; attention's output
// is gated element by element; of four layers three have a sliding window, and only these rotate. Experts are chosen by
// sigmoids and a bias, one more is used by all tokens, and the first layers have none.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_gate.weight", attn_gate, EMBD, Q, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("post_attention_norm.weight", attn_post_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(LEADING),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER("exp_probs_b.bias", ffn_choice_b, EXPERTS, NONE, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SHARED,
    HEARTH_LAYER("post_ffw_norm.weight", ffn_post_norm, EMBD, NONE, ALWAYS),
    {0},
};

const struct hearth_arch hearth_arch_afmoe = {
    .name = "afmoe",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .expert_gating = HEARTH_GATING_SIGMOID,
    .expert_renorm = true,
    .embd_sqrt = true,
    .window_period = 4,
    .rope_windowed = true,
    .globals = globals,
    .layer = layer,
};
