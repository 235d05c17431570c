// SPDX-License-Identifier: MIT
// The phi2 architecture: Phi 1, 1.5 and 2. LayerNorm, one for both attention and feed-forward part, which are side by
// side; biases everywhere, of the head, too; GELU with tanh and no gate; part of a head rotates. Older files have
// queries, keys and values in one matrix.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("output_norm.bias", output_norm_b, EMBD, NONE, ALWAYS),
    HEARTH_GLOBAL("output.bias", output_b, VOCAB, NONE, ALWAYS),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_norm.bias", attn_norm_b, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER_QKV_BIASES(ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("attn_output.bias", attn_out_b, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_up.weight", ffn_up, EMBD, FF, ALWAYS),
    HEARTH_LAYER("ffn_up.bias", ffn_up_b, FF, NONE, ALWAYS),
    HEARTH_LAYER("ffn_down.weight", ffn_down, FF, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_down.bias", ffn_down_b, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_SPARSE,
    {0},
};

const struct hearth_arch hearth_arch_phi2 = {
    .name = "phi2",
    .positions = HEARTH_POS_ROPE_NEOX,
    .layer_norm = true,
    .parallel = true,
    .activation = HEARTH_ACT_GELU_TANH,
    .globals = globals,
    .layer = layer,
};
