// SPDX-License-Identifier: MIT
// The seed_oss architecture: Seed-OSS. As qwen2, with heads of a width of their own.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBAL("token_embd.weight", token_embd, EMBD, VOCAB, ALWAYS),
    HEARTH_GLOBAL("output_norm.weight", output_norm, EMBD, NONE, ALWAYS),
    HEARTH_GLOBAL("output.weight", output, EMBD, VOCAB, OPTIONAL),
    HEARTH_GLOBAL("rope_freqs.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_q.weight", attn_q, EMBD, Q, ALWAYS),
    HEARTH_LAYER("attn_k.weight", attn_k, EMBD, KV, ALWAYS),
    HEARTH_LAYER("attn_v.weight", attn_v, EMBD, KV, ALWAYS),
    HEARTH_LAYER("attn_q.bias", attn_q_b, Q, NONE, OPTIONAL),
    HEARTH_LAYER("attn_k.bias", attn_k_b, KV, NONE, OPTIONAL),
    HEARTH_LAYER("attn_v.bias", attn_v_b, KV, NONE, OPTIONAL),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("post_attention_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_gate.weight", ffn_gate, EMBD, FF, ALWAYS),
    HEARTH_LAYER("ffn_up.weight", ffn_up, EMBD, FF, ALWAYS),
    HEARTH_LAYER("ffn_down.weight", ffn_down, FF, EMBD, ALWAYS),
    HEARTH_LAYER_SPARSE,
    {0},
};

const struct hearth_arch hearth_arch_seed_oss = {
    .name = "seed_oss",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .globals = globals,
    .layer = layer,
};
