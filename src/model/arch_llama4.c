// SPDX-License-Identifier: MIT
// The llama4 architecture: Llama 4 Scout and Maverick. Of four layers three attend within chunks of 8192 positions and rotate;
// there each head's query and key are normed after that, without weights, but in Maverick. In the fourth layer nothing rotates, and
// queries grow with their position. Experts, in every layer or every other one, are chosen by sigmoids, which their input is
// multiplied by; one more is used by all tokens.
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

const struct hearth_arch hearth_arch_llama4 = {
    .name = "llama4",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .expert_gating = HEARTH_GATING_SIGMOID,
    .weigh_before = true,
    .expert_steps = true,
    .shared_usual = 1,
    .window_period = 4,
    .window_unsaid = 8192,
    .chunked = true,
    .rope_windowed = true,
    .unit_heads = true,
    .q_growth_usual = 0.1f,
    .q_growth_step = 8192,
    .globals = globals,
    .layer = layer,
};
