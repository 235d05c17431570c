// SPDX-License-Identifier: MIT
// The internlm2 architecture: InternLM 2 and 2.5. As llama.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_ATTENTION_BIASED, HEARTH_LAYER_GATED(ALWAYS), HEARTH_LAYER_SPARSE, HEARTH_LAYER_JUMP, {0},
};

const struct hearth_arch hearth_arch_internlm2 = {
    .name = "internlm2",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .globals = globals,
    .layer = layer,
};
