// SPDX-License-Identifier: MIT
// The starcoder2 architecture: StarCoder 2. LayerNorm, biases, GELU with tanh and no gate.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("output_norm.bias", output_norm_b, EMBD, NONE, ALWAYS),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_norm.bias", attn_norm_b, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER_QKV_BIASES(OPTIONAL),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("attn_output.bias", attn_out_b, EMBD, NONE, OPTIONAL),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_norm.bias", ffn_norm_b, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_up.weight", ffn_up, EMBD, FF, ALWAYS),
    HEARTH_LAYER("ffn_up.bias", ffn_up_b, FF, NONE, OPTIONAL),
    HEARTH_LAYER("ffn_down.weight", ffn_down, FF, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_down.bias", ffn_down_b, EMBD, NONE, OPTIONAL),
    HEARTH_LAYER_SPARSE,
    {0},
};

const struct hearth_arch hearth_arch_starcoder2 = {
    .name = "starcoder2",
    .positions = HEARTH_POS_ROPE_NEOX,
    .layer_norm = true,
    .activation = HEARTH_ACT_GELU_TANH,
    .globals = globals,
    .layer = layer,
};
