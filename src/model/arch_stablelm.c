// SPDX-License-Identifier: MIT
// The stablelm architecture: StableLM 3B, 2 1.6B, 2 12B. LayerNorm, part of a head rotates. In the last one both parts are
// side by side behind one norm, and each head's query and key is normed, with weights of its own.
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
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, HEAD, HEADS, OPTIONAL_F32),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, HEAD, HEADS_KV, OPTIONAL_F32),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, SERIES),
    HEARTH_LAYER("ffn_norm.bias", ffn_norm_b, EMBD, NONE, SERIES),
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER_SPARSE,
    {0},
};

const struct hearth_arch hearth_arch_stablelm = {
    .name = "stablelm",
    .positions = HEARTH_POS_ROPE_NEOX,
    .layer_norm = true,
    .parallel_one_norm = true,
    .activation = HEARTH_ACT_SILU,
    .globals = globals,
    .layer = layer,
};
