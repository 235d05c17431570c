// SPDX-License-Identifier: MIT
// The architectures kimi-linear, Kimi Linear 48B-A3B, and bailingmoe3, Ling 3. Most layers are recurrent, by a delta rule
// whose keys fade each at a rate of its own (Kimi Delta Attention, arXiv 2510.26692); the others have latent attention.
// Experts chosen by sigmoids and a bias, one more that all tokens use, none in the first layers. In kimi-linear nothing
// rotates. In bailingmoe3 keys fade to a floor, what is forgotten and gates are projected in one step, each head of attention
// is gated, experts are chosen from the best groups, and layers behind block_count less nextn_predict_layers guess tokens
// ahead and are not used.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

// Before what gates attention, if anything does; before what is forgotten, and gates, of recurrent layers; and behind these.
#define LATENT                                                                                               \
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),                                         \
        HEARTH_LAYER("attn_q.weight", attn_q, EMBD, HEADS_QUERY, WHOLE_Q),                                   \
        HEARTH_LAYER("attn_q_a.weight", attn_q_a, EMBD, Q_RANK, TWO_STEP_Q),                                 \
        HEARTH_LAYER("attn_q_a_norm.weight", attn_q_a_norm, Q_RANK, NONE, TWO_STEP_Q),                       \
        HEARTH_LAYER("attn_q_b.weight", attn_q_up, Q_RANK, HEADS_QUERY, TWO_STEP_Q),                         \
        HEARTH_LAYER("attn_kv_a_mqa.weight", attn_kv_a, EMBD, LATENT_KEY, ATTENDS),                          \
        HEARTH_LAYER("attn_kv_a_norm.weight", attn_kv_a_norm, LATENT, NONE, ATTENDS),                        \
        HEARTH_LAYER("attn_kv_b.weight", attn_kv_up, LATENT, HEADS_BOTH, JOINT),                             \
        HEARTH_LAYER("attn_k_b.weight", attn_k_up, STILL, LATENT, EACH_HEAD),                                \
        HEARTH_LAYER("attn_v_b.weight", attn_v_up, LATENT, VALUE, EACH_HEAD)
#define MIXERS                                                                                               \
    HEARTH_LAYER("attn_output.weight", attn_out, HEADS_VALUE, EMBD, ATTENDS),                                \
        HEARTH_LAYER("attn_q.weight", rec_q, EMBD, REC_VALUES, RECURS),                                      \
        HEARTH_LAYER("attn_k.weight", rec_k, EMBD, REC_VALUES, RECURS),                                      \
        HEARTH_LAYER("attn_v.weight", rec_v, EMBD, REC_VALUES, RECURS),                                      \
        HEARTH_LAYER("ssm_conv1d_q.weight", rec_conv_q, REC_TAPS, REC_VALUES, RECURS_TAPS),                  \
        HEARTH_LAYER("ssm_conv1d_k.weight", rec_conv_k, REC_TAPS, REC_VALUES, RECURS_TAPS),                  \
        HEARTH_LAYER("ssm_conv1d_v.weight", rec_conv_v, REC_TAPS, REC_VALUES, RECURS_TAPS)
#define BEHIND                                                                                               \
    HEARTH_LAYER("ssm_beta.weight", rec_beta, EMBD, REC_HEADS, RECURS),                                      \
        HEARTH_LAYER("ssm_a", rec_decay, ONE, REC_HEADS, RECURS_F32),                                        \
        HEARTH_LAYER("ssm_dt.bias", rec_decay_b, REC_VALUES, NONE, RECURS),                                  \
        HEARTH_LAYER("ssm_norm.weight", rec_norm, REC_HEAD, NONE, RECURS),                                   \
        HEARTH_LAYER("attn_output.weight", rec_out, REC_VALUES, EMBD, RECURS),                               \
        HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS), HEARTH_LAYER_GATED(LEADING),          \
        HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),                             \
        HEARTH_LAYER("exp_probs_b.bias", ffn_choice_b, EXPERTS, NONE, EXPERTS), HEARTH_LAYER_EXPERTS,        \
        HEARTH_LAYER_SHARED

static const struct hearth_binding layer[] = {
    LATENT,
    MIXERS,
    HEARTH_LAYER("ssm_f_a.weight", rec_fade_a, EMBD, REC_HEAD, RECURS),
    HEARTH_LAYER("ssm_f_b.weight", rec_fade_b, REC_HEAD, REC_VALUES, RECURS),
    HEARTH_LAYER("ssm_g_a.weight", rec_gate_a, EMBD, REC_HEAD, RECURS),
    HEARTH_LAYER("ssm_g_b.weight", rec_gate_b, REC_HEAD, REC_VALUES, RECURS),
    BEHIND,
    {0},
};

static const struct hearth_binding layer_gated[] = {
    LATENT,
    HEARTH_LAYER("attn_gate.weight", attn_gate, EMBD, HEADS, ATTENDS),
    MIXERS,
    HEARTH_LAYER("ssm_f_a.weight", rec_alpha, EMBD, REC_VALUES, RECURS),
    HEARTH_LAYER("ssm_g_a.weight", rec_gate, EMBD, REC_VALUES, RECURS),
    BEHIND,
    {0},
};

const struct hearth_arch hearth_arch_kimi_linear = {
    .name = "kimi-linear",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .expert_gating = HEARTH_GATING_SIGMOID,
    .expert_renorm = true,
    .latent = true,
    .latent_eps = 1e-6f,
    .still_period = 1,
    .recurrence = HEARTH_RECURRENCE_DELTA,
    .rec_each = true,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_bailingmoe3 = {
    .name = "bailingmoe3",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .expert_gating = HEARTH_GATING_SIGMOID,
    .groups = true,
    .limits = true,
    .latent = true,
    .latent_eps = 1e-6f,
    .recurrence = HEARTH_RECURRENCE_DELTA,
    .rec_each = true,
    .rec_floor = true,
    .extra_layers = true,
    .globals = globals,
    .layer = layer_gated,
};
