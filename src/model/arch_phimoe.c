// SPDX-License-Identifier: MIT
// The phimoe architecture: Phi 3.5 MoE. LayerNorm; biases of attention and of the head; experts in every layer, each weighed
// against those whose scores are close to its own. Two tables of frequencies as in phi3. Norms and weights are those of the
// model's own code; llama.cpp has RMSNorm and a softmax.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("output_norm.bias", output_norm_b, EMBD, NONE, ALWAYS),
    HEARTH_GLOBAL("output.bias", output_b, VOCAB, NONE, OPTIONAL),
    HEARTH_GLOBAL("rope_factors_short.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    HEARTH_GLOBAL("rope_factors_long.weight", rope_long, ROT2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_ATTENTION_BIASED,
    HEARTH_LAYER("attn_norm.bias", attn_norm_b, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_norm.bias", ffn_norm_b, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SPARSE_EXPERTS,
    {0},
};

const struct hearth_arch hearth_arch_phimoe = {
    .name = "phimoe",
    .positions = HEARTH_POS_ROPE_NEOX,
    .layer_norm = true,
    .any_eps = true,
    .activation = HEARTH_ACT_SILU,
    .expert_gating = HEARTH_GATING_NEAR,
    .rope_long = true,
    .globals = globals,
    .layer = layer,
};
