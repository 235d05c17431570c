// SPDX-License-Identifier: MIT
// The step35 architecture: Step 3.5 Flash. A sigmoid gates what each head of attention gives; layers with a sliding window,
// of which the file has a list, have more heads and rotate whole heads with a base of their own, the others half of a head.
// Experts are chosen by sigmoids and a bias, one more is used by all tokens, the first layers have none, and activated
// gates have limits in some. Layers behind block_count less nextn_predict_layers guess tokens ahead and are not used.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("rope_freqs.weight", rope_freqs, HEAD2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, HEAD, NONE, OPTIONAL),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, HEAD, NONE, OPTIONAL),
    HEARTH_LAYER("attn_gate.weight", attn_gate, EMBD, HEADS, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(LEADING),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER("exp_probs_b.bias", ffn_choice_b, EXPERTS, NONE, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SHARED,
    {0},
};

const struct hearth_arch hearth_arch_step35 = {
    .name = "step35",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .expert_gating = HEARTH_GATING_SIGMOID,
    .expert_renorm = true,
    .window_period = 4,
    .window_first = true,
    .window_heads = true,
    .window_rotation = true,
    .rot_half = true,
    .limits = true,
    .extra_layers = true,
    .globals = globals,
    .layer = layer,
};
