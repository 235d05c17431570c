// SPDX-License-Identifier: MIT
// The architectures hunyuan-dense, hunyuan-moe and hunyuan_vl: Hunyuan, and the text part of HunyuanOCR and HunyuanVL.
// RMSNorm of each head's query and key, after rotation; with experts, one more is used by all tokens. Files of the last
// say the factor for long texts, which the others have in the base of the rotation. And maincoder, Maincoder 1B, which is
// hunyuan-dense with rotation of adjacent pairs.
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
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_JUMP,
    {0},
};

static const struct hearth_binding layer_moe[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SHARED,
    HEARTH_LAYER_SPARSE_EXPERTS,
    {0},
};

const struct hearth_arch hearth_arch_hunyuan_dense = {
    .name = "hunyuan-dense",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .norm_behind = true,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_maincoder = {
    .name = "maincoder",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .norm_behind = true,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_hunyuan_vl = {
    .name = "hunyuan_vl",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .norm_behind = true,
    .rope_alpha = true,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_hunyuan_moe = {
    .name = "hunyuan-moe",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .expert_renorm = true,
    .norm_behind = true,
    .globals = globals,
    .layer = layer_moe,
};
