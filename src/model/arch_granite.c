// SPDX-License-Identifier: MIT
// The architectures granite, granitemoe and granitehybrid: llama; with experts, there may be one that all tokens use beside them. The file
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
    HEARTH_LAYER_ATTENTION,      HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER_EXPERTS,        HEARTH_LAYER_SHARED,
    HEARTH_LAYER_SPARSE_EXPERTS, {0},
};

// With experts, or without any.
static const struct hearth_binding layer_swa[] = {
    HEARTH_LAYER_ATTENTION,      HEARTH_LAYER("attn_sinks.weight", attn_sinks, HEADS, NONE, ALWAYS),
    HEARTH_LAYER_GATED(DENSE),   HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER_EXPERTS,        HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_SPARSE_EXPERTS, {0},
};

static const struct hearth_binding layer_hybrid[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_q.weight", attn_q, EMBD, Q, ATTENDS),
    HEARTH_LAYER("attn_k.weight", attn_k, EMBD, KV, ATTENDS),
    HEARTH_LAYER("attn_v.weight", attn_v, EMBD, KV, ATTENDS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ATTENDS),
    HEARTH_LAYER_SCAN,
    HEARTH_LAYER_SCAN_NORM(RECURS_F32),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(DENSE),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SHARED,
    HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_JUMP,
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

const struct hearth_arch hearth_arch_granite_swa = {
    .name = "granite_swa",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .expert_renorm = true,
    .scales = true,
    .window_period = 4,
    .window_first = true,
    .rope_listed = true,
    .globals = globals,
    .layer = layer_swa,
};

const struct hearth_arch hearth_arch_granitehybrid = {
    .name = "granitehybrid",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .expert_renorm = true,
    .scales = true,
    .may_be_still = true,
    .recurrence = HEARTH_RECURRENCE_SCAN,
    .globals = globals,
    .layer = layer_hybrid,
};
