// SPDX-License-Identifier: MIT
// The architectures ernie4_5 and ernie4_5-moe: ERNIE 4.5. As llama; with experts, these are chosen by the softmax and a bias,
// one more is used by all tokens, and the first layers have none.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_ATTENTION_BIASED, HEARTH_LAYER_GATED(ALWAYS), HEARTH_LAYER_SPARSE, HEARTH_LAYER_JUMP, {0},
};

static const struct hearth_binding layer_moe[] = {
    HEARTH_LAYER_ATTENTION_BIASED,
    HEARTH_LAYER_GATED(LEADING),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER("exp_probs_b.bias", ffn_choice_b, EXPERTS, NONE, OPTIONAL),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SHARED,
    {0},
};

const struct hearth_arch hearth_arch_ernie = {
    .name = "ernie4_5",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_ernie_moe = {
    .name = "ernie4_5-moe",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .expert_renorm = true,
    .softmax_choice = true,
    .globals = globals,
    .layer = layer_moe,
};
