// SPDX-License-Identifier: MIT
// The gemma3 architecture (text): norms on both sides of attention and feed-forward part, RMSNorm of each
// head's query and key, GELU with tanh, embeddings times the root of their width. Of six layers five have a
// sliding window, and a rotation of their own.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("post_attention_norm.weight", attn_post_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER("post_ffw_norm.weight", ffn_post_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_JUMP,
    {0},
};

const struct hearth_arch hearth_arch_gemma3 = {
    .name = "gemma3",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_GELU_TANH,
    .embd_sqrt = true,
    .narrow_scale_layers = 62, // of 27B
    .window_period = 6,
    .rope_theta_window = 10000.0f,
    .globals = globals,
    .layer = layer,
};
