// SPDX-License-Identifier: MIT
// The architectures minicpm (1 and 2, dense) and minicpm3: llama with scales of embeddings, what layers add, and logits,
// which older files, and all of minicpm3, do not say. Where the file has two tables of frequencies, texts are as long as
// the first one allows. minicpm3 has latent attention.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("rope_freqs.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    HEARTH_GLOBAL("rope_factors_short.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    HEARTH_GLOBAL("rope_factors_long.weight", rope_long, ROT2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER_ATTENTION_BIASED, HEARTH_LAYER_GATED(ALWAYS), HEARTH_LAYER_SPARSE, HEARTH_LAYER_JUMP, {0},
};

const struct hearth_arch hearth_arch_minicpm = {
    .name = "minicpm",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .scales = true,
    .scale_base = 256,
    .rope_long = true,
    .globals = globals,
    .layer = layer,
};

static const struct hearth_binding layer_3[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_q.weight", attn_q, EMBD, HEADS_QUERY, WHOLE_Q),
    HEARTH_LAYER("attn_q_a.weight", attn_q_a, EMBD, Q_RANK, TWO_STEP_Q),
    HEARTH_LAYER("attn_q_a_norm.weight", attn_q_a_norm, Q_RANK, NONE, TWO_STEP_Q),
    HEARTH_LAYER("attn_q_b.weight", attn_q_up, Q_RANK, HEADS_QUERY, TWO_STEP_Q),
    HEARTH_LAYER("attn_kv_a_mqa.weight", attn_kv_a, EMBD, LATENT_KEY, ALWAYS),
    HEARTH_LAYER("attn_kv_a_norm.weight", attn_kv_a_norm, LATENT, NONE, ALWAYS),
    HEARTH_LAYER("attn_kv_b.weight", attn_kv_up, LATENT, HEADS_BOTH, JOINT),
    HEARTH_LAYER("attn_k_b.weight", attn_k_up, STILL, LATENT, EACH_HEAD),
    HEARTH_LAYER("attn_v_b.weight", attn_v_up, LATENT, VALUE, EACH_HEAD),
    HEARTH_LAYER("attn_output.weight", attn_out, HEADS_VALUE, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(ALWAYS),
    {0},
};

const struct hearth_arch hearth_arch_minicpm3 = {
    .name = "minicpm3",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .latent = true,
    .value_unsaid = true,
    .latent_eps = 1e-6f,
    .scales = true,
    .scale_base = 256,
    .rope_long = true,
    .globals = globals,
    .layer = layer_3,
};
