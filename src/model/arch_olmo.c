// SPDX-License-Identifier: MIT
// The olmo architecture: OLMo 1. LayerNorm without weights; elements of queries, keys and values may have a limit.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBAL("token_embd.weight", token_embd, EMBD, VOCAB, ALWAYS),
    HEARTH_GLOBAL("output.weight", output, EMBD, VOCAB, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_QKV,           HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER_GATED(ALWAYS), HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_JUMP,          {0},
};

const struct hearth_arch hearth_arch_olmo = {
    .name = "olmo",
    .positions = HEARTH_POS_ROPE,
    .layer_norm = true,
    .unit_norms = true,
    .qkv_limited = true,
    .activation = HEARTH_ACT_SILU,
    .globals = globals,
    .layer = layer,
};
