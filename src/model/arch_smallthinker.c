// SPDX-License-Identifier: MIT
// The smallthinker architecture: experts with ReLU, chosen from the layer's input before attention. Of four
// layers the first one has no sliding window, and where there are windows it has no positions either.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_ATTENTION,
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SPARSE_EXPERTS,
    {0},
};

const struct hearth_arch hearth_arch_smallthinker = {
    .name = "smallthinker",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_RELU,
    .expert_renorm = true,
    .early_router = true,
    .window_period = 4,
    .window_first = true,
    .rope_windowed = true,
    .globals = globals,
    .layer = layer,
};
