// SPDX-License-Identifier: MIT
// The orion architecture: Orion 14B. As llama, with LayerNorm and rotation of half a head against the other.
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
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_norm.bias", ffn_norm_b, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_JUMP,
    {0},
};

const struct hearth_arch hearth_arch_orion = {
    .name = "orion",
    .positions = HEARTH_POS_ROPE_NEOX,
    .layer_norm = true,
    .activation = HEARTH_ACT_SILU,
    .globals = globals,
    .layer = layer,
};
