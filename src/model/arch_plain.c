// SPDX-License-Identifier: MIT
// Architectures that are llama with nothing of their own but the order of what rotates: baichuan (Baichuan 1 and 2, 7B),
// xverse (XVERSE) and pangu-embedded (openPangu Embedded), which has biases in attention. Baichuan's 13B, of 40 layers,
// has positions by a bias of scores, of which its files say nothing.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("rope_freqs.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_ATTENTION, HEARTH_LAYER_GATED(ALWAYS), HEARTH_LAYER_SPARSE, HEARTH_LAYER_JUMP, {0},
};

static const struct hearth_binding layer_biased[] = {
    HEARTH_LAYER_ATTENTION_BIASED, HEARTH_LAYER_GATED(ALWAYS), HEARTH_LAYER_SPARSE, HEARTH_LAYER_JUMP, {0},
};

const struct hearth_arch hearth_arch_baichuan = {
    .name = "baichuan",
    .positions = HEARTH_POS_ROPE,
    .alibi_layers = 40,
    .activation = HEARTH_ACT_SILU,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_xverse = {
    .name = "xverse",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_pangu_embedded = {
    .name = "pangu-embedded",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .globals = globals,
    .layer = layer_biased,
};
