// SPDX-License-Identifier: MIT
// The muse-glimmer architecture: Muse Glimmer (30B, text). RMSNorm on both sides of both parts, behind them with an epsilon
// of its own, of each head's query and key, and of embeddings, there without weights; sigmoids gate attention's output;
// three of four layers have a window, and only these rotate; logits are scaled, then capped.
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
    HEARTH_LAYER("attn_gate.weight", attn_gate, EMBD, Q, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("post_attention_norm.weight", attn_post_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER("post_ffw_norm.weight", ffn_post_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_SPARSE,
    {0},
};

const struct hearth_arch hearth_arch_muse_glimmer = {
    .name = "muse-glimmer",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .scales = true,
    .logit_factor = true,
    .logit_cap = true,
    .embd_unit = true,
    .post_eps = 1e-8f,
    .window_period = 4,
    .window_rotation = true,
    .rope_windowed = true,
    .globals = globals,
    .layer = layer,
};
