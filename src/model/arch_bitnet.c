// SPDX-License-Identifier: MIT
// The bitnet architecture: BitNet b1.58, whose weights are -1, 0 and 1 times a scale of each matrix. What attention gives,
// and what goes down, is normed before its matrix. Gates are squared ReLUs in BitNet 2B-4T, whose heads share keys, and
// SiLU in the models before it: files do not say it.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_ATTENTION_BIASED,
    HEARTH_LAYER("attn_sub_norm.weight", attn_inner_norm, Q, NONE, ALWAYS),
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER("ffn_sub_norm.weight", ffn_inner_norm, FF, NONE, ALWAYS),
    {0},
};

const struct hearth_arch hearth_arch_bitnet = {
    .name = "bitnet",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .grouped_squared = true,
    .globals = globals,
    .layer = layer,
};
