// SPDX-License-Identifier: MIT
// The architectures qwen, Qwen 1, qwen2, Qwen 1.5, 2 and 2.5, and qwen2vl, the text part of Qwen2-VL and Qwen2.5-VL. As llama, with
// biases on queries, keys and values and rotation of the pairs (i, i + half a head). Positions of images have several
// parts, which in texts are all the same.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("rope_freqs.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER_QKV_BIASES(ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_JUMP,
    {0},
};

const struct hearth_arch hearth_arch_qwen2 = {
    .name = "qwen2",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_qwen2vl = {
    .name = "qwen2vl",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .globals = globals,
    .layer = layer,
};

// Qwen 1: its files say both halves of the feed-forward part together.
const struct hearth_arch hearth_arch_qwen = {
    .name = "qwen",
    .positions = HEARTH_POS_ROPE_NEOX,
    .any_eps = true,
    .activation = HEARTH_ACT_SILU,
    .ff_both = true,
    .globals = globals,
    .layer = layer,
};
