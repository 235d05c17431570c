// SPDX-License-Identifier: MIT
// The architectures exaone (3 and 3.5) and exaone4. The first is llama with rotation of half a head against the other. The
// second has norms only behind both parts, and RMSNorm of each head's query and key; in the 32B, of four layers three
// have a window and rotate, the fourth has neither. Layers behind block_count less nextn_predict_layers guess tokens
// ahead and are not used.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("rope_freqs.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_ATTENTION, HEARTH_LAYER_GATED(ALWAYS), HEARTH_LAYER_SPARSE, HEARTH_LAYER_JUMP, {0},
};

static const struct hearth_binding layer_4[] = {
    HEARTH_LAYER_QKV,
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("post_attention_norm.weight", attn_post_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER("post_ffw_norm.weight", ffn_post_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_JUMP,
    {0},
};

const struct hearth_arch hearth_arch_exaone = {
    .name = "exaone",
    .any_eps = true,
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_exaone4 = {
    .name = "exaone4",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .window_period = 4,
    .rope_windowed = true,
    .extra_layers = true,
    .globals = globals,
    .layer = layer_4,
};
