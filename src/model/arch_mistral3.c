// SPDX-License-Identifier: MIT
// The mistral3 architecture: Ministral 3 and its kin. As llama, with queries that grow with their position.
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
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_JUMP,
    {0},
};

const struct hearth_arch hearth_arch_mistral3 = {
    .name = "mistral3",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .q_growth = true,
    .globals = globals,
    .layer = layer,
};
