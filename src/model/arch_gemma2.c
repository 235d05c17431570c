// SPDX-License-Identifier: MIT
// The architectures gemma and gemma2: GELU with tanh, embeddings times the root of their width; the head is the embedding.
// gemma2 has norms on both sides of both parts, soft caps of scores and logits, and a window in every other layer.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_ATTENTION, HEARTH_LAYER_GATED(ALWAYS), HEARTH_LAYER_SPARSE, HEARTH_LAYER_JUMP, {0},
};

static const struct hearth_binding layer_2[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("post_attention_norm.weight", attn_post_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER("post_ffw_norm.weight", ffn_post_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_JUMP,
    {0},
};

const struct hearth_arch hearth_arch_gemma = {
    .name = "gemma",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_GELU_TANH,
    .embd_sqrt = true,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_gemma2 = {
    .name = "gemma2",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_GELU_TANH,
    .embd_sqrt = true,
    .narrow_scale_layers = 46, // of 27B
    .window_period = 2,
    .window_unsaid = 4096,
    .logit_cap = true,
    .logit_cap_unsaid = 30.0f,
    .score_cap_unsaid = 50.0f,
    .globals = globals,
    .layer = layer_2,
};
