// SPDX-License-Identifier: MIT
// The gpt-oss architecture: experts with biases and a clamped SwiGLU, a sink for each head, biases on all
// projections. Every other layer has a sliding window. The ramp of its YaRN is not rounded to whole pairs.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER_QKV_BIASES(ALWAYS),
    HEARTH_LAYER("attn_sinks.weight", attn_sinks, HEADS, NONE, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("attn_output.bias", attn_out_b, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("post_attention_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER("ffn_gate_inp.bias", ffn_router_b, EXPERTS, NONE, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER("ffn_gate_exps.bias", ffn_gate_exps_b, FF_EXP, EXPERTS, EACH_VECTOR),
    HEARTH_LAYER("ffn_up_exps.bias", ffn_up_exps_b, FF_EXP, EXPERTS, EACH_VECTOR),
    HEARTH_LAYER("ffn_down_exps.bias", ffn_down_exps_b, EMBD, EXPERTS, EACH_VECTOR),
    HEARTH_LAYER_SPARSE_EXPERTS,
    {0},
};

const struct hearth_arch hearth_arch_gptoss = {
    .name = "gpt-oss",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SWIGLU_CLAMPED,
    .expert_renorm = true,
    .window_period = 2,
    .yarn_exact = true,
    .globals = globals,
    .layer = layer,
};
