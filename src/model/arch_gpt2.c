// SPDX-License-Identifier: MIT
// The architectures gpt2 and starcoder: GPT-2 and what is built like it, StarCoder 1 and SantaCoder, whose heads share one key
// and value. A table of learned positions; LayerNorm, biases, GELU with tanh and no gate.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("position_embd.weight", position_embd, EMBD, POS, ALWAYS),
    HEARTH_GLOBAL("output_norm.bias", output_norm_b, EMBD, NONE, ALWAYS),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_UNGATED_BIASED,
    HEARTH_LAYER_SPARSE,
    {0},
};

const struct hearth_arch hearth_arch_gpt2 = {
    .name = "gpt2",
    .positions = HEARTH_POS_LEARNED,
    .layer_norm = true,
    .activation = HEARTH_ACT_GELU_TANH,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_starcoder = {
    .name = "starcoder",
    .positions = HEARTH_POS_LEARNED,
    .layer_norm = true,
    .activation = HEARTH_ACT_GELU_TANH,
    .globals = globals,
    .layer = layer,
};
