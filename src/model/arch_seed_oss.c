// SPDX-License-Identifier: MIT
// The seed_oss architecture: Seed-OSS. As qwen2, with heads of a width of their own.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("rope_freqs.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER_QKV_BIASES(OPTIONAL),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("post_attention_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_JUMP,
    {0},
};

const struct hearth_arch hearth_arch_seed_oss = {
    .name = "seed_oss",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .globals = globals,
    .layer = layer,
};
