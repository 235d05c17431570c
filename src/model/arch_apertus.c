// SPDX-License-Identifier: MIT
// The apertus architecture: Apertus. RMSNorm of each head's query and key; xIELU, with numbers of each layer's own, and no
// gate.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("rope_freqs.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER_QKV_BIASES(OPTIONAL),
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("attn_output.bias", attn_out_b, EMBD, NONE, OPTIONAL),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_up.weight", ffn_up, EMBD, FF, ALWAYS),
    HEARTH_LAYER("ffn_down.weight", ffn_down, FF, EMBD, ALWAYS),
    {0},
};

const struct hearth_arch hearth_arch_apertus = {
    .name = "apertus",
    .positions = HEARTH_POS_ROPE_NEOX,
    .xielu = true,
    .globals = globals,
    .layer = layer,
};
