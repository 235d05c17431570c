// SPDX-License-Identifier: MIT
// The gptneox architecture: GPT-NeoX and Pythia. LayerNorm, biases everywhere, queries, keys and values in one matrix,
// exact GELU and no gate; part of a head rotates. The file says whether both parts are side by side, each behind a norm
// of its own.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("output_norm.bias", output_norm_b, EMBD, NONE, ALWAYS),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_norm.bias", attn_norm_b, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_qkv.weight", attn_qkv, EMBD, QKV, ALWAYS),
    HEARTH_LAYER("attn_qkv.bias", attn_qkv_b, QKV, NONE, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("attn_output.bias", attn_out_b, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_norm.bias", ffn_norm_b, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_up.weight", ffn_up, EMBD, FF, ALWAYS),
    HEARTH_LAYER("ffn_up.bias", ffn_up_b, FF, NONE, ALWAYS),
    HEARTH_LAYER("ffn_down.weight", ffn_down, FF, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_down.bias", ffn_down_b, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_SPARSE,
    {0},
};

const struct hearth_arch hearth_arch_gptneox = {
    .name = "gptneox",
    .positions = HEARTH_POS_ROPE_NEOX,
    .layer_norm = true,
    .parallel_said = true,
    .activation = HEARTH_ACT_GELU,
    .globals = globals,
    .layer = layer,
};
