// SPDX-License-Identifier: MIT
// The phi3 architecture: Phi 3, 3.5 and 4. Queries, keys and values in one matrix, gate and up in another; part
// of a head may rotate. Where the file has two tables of frequencies, the second one is for texts beyond the
// context that the model was first trained for; such texts are refused.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("rope_factors_short.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    HEARTH_GLOBAL("rope_factors_long.weight", rope_long, ROT2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_qkv.weight", attn_qkv, EMBD, QKV, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_up.weight", ffn_gate_up, EMBD, FF_TWICE, ALWAYS),
    HEARTH_LAYER("ffn_down.weight", ffn_down, FF, EMBD, ALWAYS),
    HEARTH_LAYER_BY_NEURON,
    {0},
};

const struct hearth_arch hearth_arch_phi3 = {
    .name = "phi3",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .rope_long = true,
    .globals = globals,
    .layer = layer,
};
