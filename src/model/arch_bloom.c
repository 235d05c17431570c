// SPDX-License-Identifier: MIT
// Architectures without rotation, whose scores have a bias by head and distance (ALiBi): bloom (BLOOM, BLOOMZ), with
// LayerNorm, of embeddings, too, and biases; mpt (MPT), LayerNorm that mostly has no biases; refact (Refact 1.6B), llama with
// one head of keys and values.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("output_norm.bias", output_norm_b, EMBD, NONE, ALWAYS),
    HEARTH_GLOBAL("token_embd_norm.weight", token_norm, EMBD, NONE, ALWAYS),
    HEARTH_GLOBAL("token_embd_norm.bias", token_norm_b, EMBD, NONE, ALWAYS),
    {0},
};

static const struct hearth_binding globals_mpt[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("output_norm.bias", output_norm_b, EMBD, NONE, OPTIONAL),
    HEARTH_GLOBAL("position_embd.weight", position_embd, EMBD, POS, OPTIONAL),
    {0},
};

static const struct hearth_binding globals_refact[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_UNGATED_BIASED,
    HEARTH_LAYER_SPARSE,
    {0},
};

static const struct hearth_binding layer_mpt[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_norm.bias", attn_norm_b, EMBD, NONE, OPTIONAL),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER_QKV_BIASES(OPTIONAL),
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, Q, NONE, OPTIONAL),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, KV, NONE, OPTIONAL),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("attn_output.bias", attn_out_b, EMBD, NONE, OPTIONAL),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_norm.bias", ffn_norm_b, EMBD, NONE, OPTIONAL),
    HEARTH_LAYER("ffn_up.weight", ffn_up, EMBD, FF, ALWAYS),
    HEARTH_LAYER("ffn_up.bias", ffn_up_b, FF, NONE, OPTIONAL),
    HEARTH_LAYER("ffn_down.weight", ffn_down, FF, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_down.bias", ffn_down_b, EMBD, NONE, OPTIONAL),
    HEARTH_LAYER_SPARSE,
    {0},
};

static const struct hearth_binding layer_refact[] = {
    HEARTH_LAYER_ATTENTION,
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER_SPARSE,
    {0},
};

const struct hearth_arch hearth_arch_bloom = {
    .name = "bloom",
    .positions = HEARTH_POS_NONE,
    .layer_norm = true,
    .activation = HEARTH_ACT_GELU_TANH,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_mpt = {
    .name = "mpt",
    .positions = HEARTH_POS_NONE,
    .alibi_said = true,
    .layer_norm = true,
    .qkv_limited = true,
    .activation = HEARTH_ACT_GELU,
    .globals = globals_mpt,
    .layer = layer_mpt,
};

const struct hearth_arch hearth_arch_refact = {
    .name = "refact",
    .positions = HEARTH_POS_NONE,
    .activation = HEARTH_ACT_SILU,
    .globals = globals_refact,
    .layer = layer_refact,
};
