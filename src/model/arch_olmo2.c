// SPDX-License-Identifier: MIT
// The olmo2 architecture: OLMo 2 and 3. Norms only behind both parts, RMSNorm of all queries together, and of all keys.
// In OLMo 3, of four layers three have a window, and a rotation that is not scaled.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_QKV,
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, Q, NONE, ALWAYS),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, KV, NONE, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("post_attention_norm.weight", attn_post_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER("post_ffw_norm.weight", ffn_post_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_JUMP,
    {0},
};

const struct hearth_arch hearth_arch_olmo2 = {
    .name = "olmo2",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .window_period = 4,
    .window_rotation = true,
    .globals = globals,
    .layer = layer,
};
