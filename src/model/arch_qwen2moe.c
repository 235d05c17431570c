// SPDX-License-Identifier: MIT
// The qwen2moe architecture: Qwen 1.5 and 2 with experts. As qwen2, with experts in every layer whose weights do not add up
// to 1, and one that all tokens use, weighed by a sigmoid.
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
    HEARTH_LAYER("attn_q.bias", attn_q_b, Q, NONE, ALWAYS),
    HEARTH_LAYER("attn_k.bias", attn_k_b, KV, NONE, ALWAYS),
    HEARTH_LAYER("attn_v.bias", attn_v_b, KV, NONE, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER("ffn_gate_exps.weight", ffn_gate_exps, EMBD, FF_EXP, EACH_EXPERT),
    HEARTH_LAYER("ffn_up_exps.weight", ffn_up_exps, EMBD, FF_EXP, EACH_EXPERT),
    HEARTH_LAYER("ffn_down_exps.weight", ffn_down_exps, FF_EXP, EMBD, EACH_EXPERT),
    HEARTH_LAYER("ffn_gate_inp_shexp.weight", ffn_router_shared, EMBD, NONE, SHARED),
    HEARTH_LAYER("ffn_gate_shexp.weight", ffn_gate_shared, EMBD, FF_SHARED, SHARED),
    HEARTH_LAYER("ffn_up_shexp.weight", ffn_up_shared, EMBD, FF_SHARED, SHARED),
    HEARTH_LAYER("ffn_down_shexp.weight", ffn_down_shared, FF_SHARED, EMBD, SHARED),
    HEARTH_LAYER_SPARSE_EXPERTS,
    {0},
};

const struct hearth_arch hearth_arch_qwen2moe = {
    .name = "qwen2moe",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .globals = globals,
    .layer = layer,
};
