// SPDX-License-Identifier: MIT
// The llama architecture: Llama 1 to 3, Mistral, Mixtral and their kin. RMSNorm, rotary positions in adjacent
// pairs, grouped query attention, gated feed-forward whose activation is data (SiLU by default, ReLU, dReLU),
// dense or in experts.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("rope_freqs.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_ATTENTION_BIASED,
    HEARTH_LAYER_GATED(DENSE),
    HEARTH_LAYER("ffn_gate.bias", ffn_gate_b, FF, NONE, OPTIONAL),
    HEARTH_LAYER("ffn_up.bias", ffn_up_b, FF, NONE, OPTIONAL),
    HEARTH_LAYER("ffn_down.bias", ffn_down_b, EMBD, NONE, OPTIONAL),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_LINEAR,
    HEARTH_LAYER_SPARSE_EXPERTS,
    {0},
};

const struct hearth_arch hearth_arch_llama = {
    .name = "llama",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .expert_renorm = true,
    .globals = globals,
    .layer = layer,
};
