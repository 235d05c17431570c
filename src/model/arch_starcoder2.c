// SPDX-License-Identifier: MIT
// The starcoder2 architecture: StarCoder 2. LayerNorm, biases, GELU with tanh and no gate.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("output_norm.bias", output_norm_b, EMBD, NONE, ALWAYS),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_UNGATED_BIASED,
    HEARTH_LAYER_SPARSE,
    {0},
};

const struct hearth_arch hearth_arch_starcoder2 = {
    .name = "starcoder2",
    .positions = HEARTH_POS_ROPE_NEOX,
    .layer_norm = true,
    .activation = HEARTH_ACT_GELU_TANH,
    .globals = globals,
    .layer = layer,
};
