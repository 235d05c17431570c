// SPDX-License-Identifier: MIT
// The architectures hunyuan-dense and hunyuan-moe: Hunyuan. RMSNorm of each head's query and key, after rotation; with
// experts, one more is used by all tokens.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBAL("token_embd.weight", token_embd, EMBD, VOCAB, ALWAYS),
    HEARTH_GLOBAL("output_norm.weight", output_norm, EMBD, NONE, ALWAYS),
    HEARTH_GLOBAL("output.weight", output, EMBD, VOCAB, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_q.weight", attn_q, EMBD, Q, ALWAYS),
    HEARTH_LAYER("attn_k.weight", attn_k, EMBD, KV, ALWAYS),
    HEARTH_LAYER("attn_v.weight", attn_v, EMBD, KV, ALWAYS),
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_gate.weight", ffn_gate, EMBD, FF, ALWAYS),
    HEARTH_LAYER("ffn_up.weight", ffn_up, EMBD, FF, ALWAYS),
    HEARTH_LAYER("ffn_down.weight", ffn_down, FF, EMBD, ALWAYS),
    HEARTH_LAYER_SPARSE,
    {0},
};

static const struct hearth_binding layer_moe[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_q.weight", attn_q, EMBD, Q, ALWAYS),
    HEARTH_LAYER("attn_k.weight", attn_k, EMBD, KV, ALWAYS),
    HEARTH_LAYER("attn_v.weight", attn_v, EMBD, KV, ALWAYS),
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER("ffn_gate_exps.weight", ffn_gate_exps, EMBD, FF_EXP, EACH_EXPERT),
    HEARTH_LAYER("ffn_up_exps.weight", ffn_up_exps, EMBD, FF_EXP, EACH_EXPERT),
    HEARTH_LAYER("ffn_down_exps.weight", ffn_down_exps, FF_EXP, EMBD, EACH_EXPERT),
    HEARTH_LAYER("ffn_gate_shexp.weight", ffn_gate_shared, EMBD, FF_SHARED, SHARED),
    HEARTH_LAYER("ffn_up_shexp.weight", ffn_up_shared, EMBD, FF_SHARED, SHARED),
    HEARTH_LAYER("ffn_down_shexp.weight", ffn_down_shared, FF_SHARED, EMBD, SHARED),
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

const struct hearth_arch hearth_arch_hunyuan_moe = {
    .name = "hunyuan-moe",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .expert_renorm = true,
    .norm_behind = true,
    .globals = globals,
    .layer = layer_moe,
};
