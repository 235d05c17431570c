// SPDX-License-Identifier: MIT
// The deepseek architecture: DeepSeek MoE 16B, the first of its kind. As llama, with many small experts, some neurons that
// all tokens use, and no experts in the first layer.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("rope_freqs.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_ATTENTION,
    HEARTH_LAYER_GATED(LEADING),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SHARED,
    {0},
};

const struct hearth_arch hearth_arch_deepseek = {
    .name = "deepseek",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .globals = globals,
    .layer = layer,
};
