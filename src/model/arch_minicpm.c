// SPDX-License-Identifier: MIT
// The minicpm architecture: MiniCPM 1 and 2, dense. llama with scales of embeddings, what layers add, and logits, which
// older files do not say. Where the file has two tables of frequencies, texts are as long as the first one allows.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("rope_freqs.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    HEARTH_GLOBAL("rope_factors_short.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    HEARTH_GLOBAL("rope_factors_long.weight", rope_long, ROT2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER_QKV_BIASES(OPTIONAL),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("attn_output.bias", attn_out_b, EMBD, NONE, OPTIONAL),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_JUMP,
    {0},
};

const struct hearth_arch hearth_arch_minicpm = {
    .name = "minicpm",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .scales = true,
    .scale_base = 256,
    .rope_long = true,
    .globals = globals,
    .layer = layer,
};
