// SPDX-License-Identifier: MIT
// The laguna architecture. Softplus gates attention's output, each element or each head; layers with a sliding window, all
// but the first of four, may have more heads, and have a rotation of their own; RMSNorm of each head's query and key.
// Experts are chosen by sigmoids and a bias, one more is used by all tokens, and the first layers have none.
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
    HEARTH_LAYER("attn_gate.weight", attn_gate, EMBD, HEADS_OR_Q, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(LEADING),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER("exp_probs_b.bias", ffn_choice_b, EXPERTS, NONE, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SHARED,
    {0},
};

const struct hearth_arch hearth_arch_laguna = {
    .name = "laguna",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .expert_gating = HEARTH_GATING_SIGMOID,
    .expert_renorm = true,
    .window_period = 4,
    .window_first = true,
    .window_heads = true,
    .window_rotation = true,
    .gates_softplus = true,
    .globals = globals,
    .layer = layer,
};
