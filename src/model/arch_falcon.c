// SPDX-License-Identifier: MIT
// The falcon architecture: LayerNorm, attention and feed-forward side by side, queries, keys and values in
// one matrix, GELU without a gate. The larger models norm the two branches' inputs separately; then the
// file's "attn_norm" is the feed-forward one's.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBAL("token_embd.weight", token_embd, EMBD, VOCAB, ALWAYS),
    HEARTH_GLOBAL("output_norm.weight", output_norm, EMBD, NONE, ALWAYS),
    HEARTH_GLOBAL("output_norm.bias", output_norm_b, EMBD, NONE, ALWAYS),
    HEARTH_GLOBAL("output.weight", output, EMBD, VOCAB, OPTIONAL),
    HEARTH_GLOBAL("rope_freqs.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_norm.bias", ffn_norm_b, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_norm_2.weight", attn_norm, EMBD, NONE, OPTIONAL),
    HEARTH_LAYER("attn_norm_2.bias", attn_norm_b, EMBD, NONE, OPTIONAL),
    HEARTH_LAYER("attn_qkv.weight", attn_qkv, EMBD, QKV, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_up.weight", ffn_up, EMBD, FF, ALWAYS),
    HEARTH_LAYER("ffn_down.weight", ffn_down, FF, EMBD, ALWAYS),
    HEARTH_LAYER_SPARSE,
    {0},
};

const struct hearth_arch hearth_arch_falcon = {
    .name = "falcon",
    .positions = HEARTH_POS_ROPE_NEOX,
    .layer_norm = true,
    .parallel = true,
    .activation = HEARTH_ACT_GELU,
    .globals = globals,
    .layer = layer,
};
