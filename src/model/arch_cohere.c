// SPDX-License-Identifier: MIT
// The architectures command-r, cohere2 and cohere2moe: Command R, R+, R7B, A and Aya, North. LayerNorm without biases, one for both
// attention and feed-forward part, which are side by side; logits are multiplied by what the file says. Some command-r
// norm each head's query and key, with weights of its own. Of four layers of cohere2 three have a window and rotate, the
// fourth has neither.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER_QKV_BIASES(OPTIONAL),
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, HEAD, HEADS, OPTIONAL_F32),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, HEAD, HEADS_KV, OPTIONAL_F32),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("attn_output.bias", attn_out_b, EMBD, NONE, OPTIONAL),
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER_SPARSE,
    {0},
};

static const struct hearth_binding layer_2[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER_SPARSE,
    {0},
};

const struct hearth_arch hearth_arch_command_r = {
    .name = "command-r",
    .positions = HEARTH_POS_ROPE,
    .layer_norm = true,
    .parallel = true,
    .activation = HEARTH_ACT_SILU,
    .scales = true,
    .logit_factor = true,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_cohere2 = {
    .name = "cohere2",
    .positions = HEARTH_POS_ROPE,
    .layer_norm = true,
    .parallel = true,
    .activation = HEARTH_ACT_SILU,
    .scales = true,
    .logit_factor = true,
    .window_period = 4,
    .rope_windowed = true,
    .globals = globals,
    .layer = layer_2,
};

// Experts, none in the first layers, which rotate though they have no window; the mean of what experts and the one that all
// tokens use give; RMSNorm where the file says so. Layers that guess tokens ahead stay unused.
static const struct hearth_binding layer_experts[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER_GATED(LEADING),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SHARED,
    {0},
};

const struct hearth_arch hearth_arch_cohere2moe = {
    .name = "cohere2moe",
    .positions = HEARTH_POS_ROPE,
    .layer_norm = true,
    .norm_said = true,
    .parallel = true,
    .activation = HEARTH_ACT_SILU,
    .expert_gating = HEARTH_GATING_SIGMOID,
    .expert_mean = true,
    .scales = true,
    .logit_factor = true,
    .window_period = 4,
    .rope_windowed = true,
    .rope_leading = true,
    .extra_layers = true,
    .globals = globals,
    .layer = layer_experts,
};
