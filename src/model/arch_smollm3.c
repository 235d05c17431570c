// SPDX-License-Identifier: MIT
// The smollm3 architecture: SmolLM3. As llama, but every fourth layer does not rotate.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
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

const struct hearth_arch hearth_arch_smollm3 = {
    .name = "smollm3",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .still_period = 4,
    .globals = globals,
    .layer = layer,
};
