// SPDX-License-Identifier: MIT
// The bamboo architecture of PowerInfer: Mistral with dReLU.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("rope_freqs.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_ATTENTION,
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER_SPARSE,
    {0},
};

const struct hearth_arch hearth_arch_bamboo = {
    .name = "bamboo",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_DRELU,
    .globals = globals,
    .layer = layer,
};
