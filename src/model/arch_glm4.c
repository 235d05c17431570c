// SPDX-License-Identifier: MIT
// The architectures chatglm, ChatGLM 3 and GLM-4 of 2024, and glm4, GLM-4 of 2025, which has RMSNorm on both sides of both
// parts. Fused gate and up; half of a head rotates.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER_QKV_BIASES(OPTIONAL),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("post_attention_norm.weight", attn_post_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_up.weight", ffn_gate_up, EMBD, FF_TWICE, ALWAYS),
    HEARTH_LAYER("ffn_down.weight", ffn_down, FF, EMBD, ALWAYS),
    HEARTH_LAYER("post_ffw_norm.weight", ffn_post_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_BY_NEURON,
    {0},
};

static const struct hearth_binding layer_plain[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER_QKV_BIASES(OPTIONAL),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_up.weight", ffn_gate_up, EMBD, FF_TWICE, ALWAYS),
    HEARTH_LAYER("ffn_down.weight", ffn_down, FF, EMBD, ALWAYS),
    HEARTH_LAYER_BY_NEURON,
    {0},
};

const struct hearth_arch hearth_arch_chatglm = {
    .name = "chatglm",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .globals = globals,
    .layer = layer_plain,
};

const struct hearth_arch hearth_arch_glm4 = {
    .name = "glm4",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .extra_layers = true,
    .globals = globals,
    .layer = layer,
};
