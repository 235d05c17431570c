// SPDX-License-Identifier: MIT
// The architectures granite and granitemoe: llama; with experts, there may be one that all tokens use beside them. The file
// says what embeddings, scores, what layers add and logits are multiplied by.
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
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_JUMP,
    {0},
};

static const struct hearth_binding layer_moe[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SHARED,
    HEARTH_LAYER_SPARSE_EXPERTS,
    {0},
};

const struct hearth_arch hearth_arch_granite = {
    .name = "granite",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .scales = true,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_granitemoe = {
    .name = "granitemoe",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .expert_renorm = true,
    .scales = true,
    .globals = globals,
    .layer = layer_moe,
};
