// SPDX-License-Identifier: MIT
// The architectures nemotron (Nemotron 3, 4, Minitron) and arcee (AFM 4.5B): squared ReLU without a gate. nemotron has
// LayerNorm, and part of a head rotates.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("output_norm.bias", output_norm_b, EMBD, NONE, ALWAYS),
    {0},
};

static const struct hearth_binding globals_arcee[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("rope_freqs.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_UNGATED_BIASED,
    HEARTH_LAYER_SPARSE,
    {0},
};

static const struct hearth_binding layer_arcee[] = {
    HEARTH_LAYER_ATTENTION_BIASED,
    HEARTH_LAYER("ffn_up.weight", ffn_up, EMBD, FF, ALWAYS),
    HEARTH_LAYER("ffn_down.weight", ffn_down, FF, EMBD, ALWAYS),
    HEARTH_LAYER_SPARSE,
    {0},
};

const struct hearth_arch hearth_arch_nemotron = {
    .name = "nemotron",
    .positions = HEARTH_POS_ROPE_NEOX,
    .layer_norm = true,
    .activation = HEARTH_ACT_RELU_SQUARED,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_jais2 = {
    .name = "jais2",
    .positions = HEARTH_POS_ROPE_NEOX,
    .layer_norm = true,
    .activation = HEARTH_ACT_RELU_SQUARED,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_arcee = {
    .name = "arcee",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_RELU_SQUARED,
    .globals = globals_arcee,
    .layer = layer_arcee,
};
