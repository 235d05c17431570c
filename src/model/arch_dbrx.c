// SPDX-License-Identifier: MIT
// The dbrx architecture: DBRX. LayerNorm without biases; elements of queries, keys and values have a limit; experts in every
// layer, whose weights add up to 1.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("attn_output_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SPARSE_EXPERTS,
    {0},
};

const struct hearth_arch hearth_arch_dbrx = {
    .name = "dbrx",
    .positions = HEARTH_POS_ROPE_NEOX,
    .layer_norm = true,
    .activation = HEARTH_ACT_SILU,
    .expert_renorm = true,
    .qkv_limited = true,
    .globals = globals,
    .layer = layer,
};
