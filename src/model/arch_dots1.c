// SPDX-License-Identifier: MIT
// The dots1 architecture: dots.llm1. RMSNorm of each head's query and key; experts chosen by sigmoids and a bias, one more
// that all tokens use, none in the first layers.
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
    HEARTH_LAYER("ffn_gate.weight", ffn_gate, EMBD, FF, LEADING),
    HEARTH_LAYER("ffn_up.weight", ffn_up, EMBD, FF, LEADING),
    HEARTH_LAYER("ffn_down.weight", ffn_down, FF, EMBD, LEADING),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER("exp_probs_b.bias", ffn_choice_b, EXPERTS, NONE, OPTIONAL),
    HEARTH_LAYER("ffn_gate_exps.weight", ffn_gate_exps, EMBD, FF_EXP, EACH_EXPERT),
    HEARTH_LAYER("ffn_up_exps.weight", ffn_up_exps, EMBD, FF_EXP, EACH_EXPERT),
    HEARTH_LAYER("ffn_down_exps.weight", ffn_down_exps, FF_EXP, EMBD, EACH_EXPERT),
    HEARTH_LAYER("ffn_gate_shexp.weight", ffn_gate_shared, EMBD, FF_SHARED, SHARED),
    HEARTH_LAYER("ffn_up_shexp.weight", ffn_up_shared, EMBD, FF_SHARED, SHARED),
    HEARTH_LAYER("ffn_down_shexp.weight", ffn_down_shared, FF_SHARED, EMBD, SHARED),
    {0},
};

const struct hearth_arch hearth_arch_dots1 = {
    .name = "dots1",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .expert_gating = HEARTH_GATING_SIGMOID,
    .globals = globals,
    .layer = layer,
};
