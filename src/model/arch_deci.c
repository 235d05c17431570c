// SPDX-License-Identifier: MIT
// The deci architecture: DeciLM, and Llama-3.1-Nemotron-51B, Super-49B and Ultra-253B: llama whose layers were made smaller
// one by one. Each has its own number of key/value heads and of neurons; some have one matrix in attention's place, or lack
// attention, the feed-forward part, or both.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("rope_freqs.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, MIXES),
    HEARTH_LAYER("attn_qkv.weight", attn_qkv, EMBD, QKV, FUSED),
    HEARTH_LAYER("attn_q.weight", attn_q, EMBD, Q, ATTENDS),
    HEARTH_LAYER("attn_k.weight", attn_k, EMBD, KV, ATTENDS),
    HEARTH_LAYER("attn_v.weight", attn_v, EMBD, KV, ATTENDS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, MIXES),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, FEEDS),
    HEARTH_LAYER_GATED(FEEDS),
    {0},
};

const struct hearth_arch hearth_arch_deci = {
    .name = "deci",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .uneven = true,
    .globals = globals,
    .layer = layer,
};
