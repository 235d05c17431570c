// SPDX-License-Identifier: MIT
// The architectures qwen35 and qwen35moe, Qwen 3.5 and 3.6, and qwen3next, Qwen3-Next. Of four layers three are
// recurrent, by the gated delta rule; the fourth attends, with a gate on what it gives. A quarter of a head rotates.
// Layers behind block_count less nextn_predict_layers guess tokens ahead. qwen35moe has many small
// experts in each layer, whose chosen weights add up to 1, and one that all tokens use, weighed by a sigmoid.
// qwen3next has them, too, heads of values in another order, and what is learned and forgotten in one matrix.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

// What mixes the tokens of a layer, and both norms; between them the weights of the gated delta rule.
#define MIXER                                                                                                \
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),                                         \
        HEARTH_LAYER("attn_q.weight", attn_q, EMBD, Q_TWICE, ATTENDS),                                       \
        HEARTH_LAYER("attn_k.weight", attn_k, EMBD, KV, ATTENDS),                                            \
        HEARTH_LAYER("attn_v.weight", attn_v, EMBD, KV, ATTENDS),                                            \
        HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, HEAD, NONE, ATTENDS),                                \
        HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, HEAD, NONE, ATTENDS),                                \
        HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ATTENDS),                                      \
        HEARTH_LAYER("attn_qkv.weight", rec_in, EMBD, REC_IN, RECURS),                                       \
        HEARTH_LAYER("attn_gate.weight", rec_gate, EMBD, REC_VALUES, RECURS)
#define MIXER_BEHIND                                                                                         \
    HEARTH_LAYER("ssm_conv1d.weight", rec_conv, REC_TAPS, REC_CHANNELS, RECURS_F32),                         \
        HEARTH_LAYER("ssm_a", rec_decay, REC_HEADS, NONE, RECURS),                                           \
        HEARTH_LAYER("ssm_dt.bias", rec_decay_b, REC_HEADS, NONE, RECURS),                                   \
        HEARTH_LAYER("ssm_norm.weight", rec_norm, REC_HEAD, NONE, RECURS),                                   \
        HEARTH_LAYER("ssm_out.weight", rec_out, REC_VALUES, EMBD, RECURS),                                   \
        HEARTH_LAYER("post_attention_norm.weight", ffn_norm, EMBD, NONE, ALWAYS)

// Many small experts, and one that all tokens use.
#define MANY_EXPERTS                                                                                         \
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS), HEARTH_LAYER_EXPERTS,           \
        HEARTH_LAYER("ffn_gate_inp_shexp.weight", ffn_router_shared, EMBD, NONE, SHARED),                    \
        HEARTH_LAYER_SHARED, HEARTH_LAYER_SPARSE_EXPERTS

static const struct hearth_binding layer[] = {
    MIXER,
    HEARTH_LAYER("ssm_beta.weight", rec_beta, EMBD, REC_HEADS, RECURS),
    HEARTH_LAYER("ssm_alpha.weight", rec_alpha, EMBD, REC_HEADS, RECURS),
    MIXER_BEHIND,
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_JUMP,
    {0},
};

static const struct hearth_binding layer_moe[] = {
    MIXER,
    HEARTH_LAYER("ssm_beta.weight", rec_beta, EMBD, REC_HEADS, RECURS),
    HEARTH_LAYER("ssm_alpha.weight", rec_alpha, EMBD, REC_HEADS, RECURS),
    MIXER_BEHIND,
    MANY_EXPERTS,
    {0},
};

static const struct hearth_binding layer_next[] = {
    MIXER, HEARTH_LAYER("ssm_ba.weight", rec_both, EMBD, REC_HEADS_TWICE, RECURS), MIXER_BEHIND, MANY_EXPERTS,
    {0},
};

const struct hearth_arch hearth_arch_qwen35 = {
    .name = "qwen35",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .recurrence = HEARTH_RECURRENCE_DELTA,
    .attn_gated = true,
    .extra_layers = true,
    .nextn = true,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_qwen35moe = {
    .name = "qwen35moe",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .expert_renorm = true,
    .recurrence = HEARTH_RECURRENCE_DELTA,
    .attn_gated = true,
    .extra_layers = true,
    .nextn = true,
    .globals = globals,
    .layer = layer_moe,
};

const struct hearth_arch hearth_arch_qwen3next = {
    .name = "qwen3next",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .expert_renorm = true,
    .recurrence = HEARTH_RECURRENCE_DELTA,
    .rec_grouped = true,
    .attn_gated = true,
    .extra_layers = true,
    .nextn = true,
    .globals = globals,
    .layer = layer_next,
};
