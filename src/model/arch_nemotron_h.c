// SPDX-License-Identifier: MIT
// The architectures nemotron_h and nemotron_h_moe: Nemotron-H, Nemotron Nano 2 and Nemotron 3. A layer is one part
// only: a scan whose states fade (Mamba-2), attention without rotation, or a feed-forward part of squared ReLU,
// without a gate. nemotron_h_moe has experts in these, chosen by sigmoids and a bias, and one that all tokens use.
// Experts of Nemotron 3 Super read a projection of the stream; another one makes the stream of what they give.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

#define MIXER                                                                                                \
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, MIXES),                                          \
        HEARTH_LAYER("attn_q.weight", attn_q, EMBD, Q, ATTENDS),                                             \
        HEARTH_LAYER("attn_k.weight", attn_k, EMBD, KV, ATTENDS),                                            \
        HEARTH_LAYER("attn_v.weight", attn_v, EMBD, KV, ATTENDS),                                            \
        HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ATTENDS), HEARTH_LAYER_SCAN,                   \
        HEARTH_LAYER_SCAN_NORM(RECURS_F32), HEARTH_LAYER("attn_norm.weight", ffn_norm, EMBD, NONE, FEEDS)

static const struct hearth_binding layer[] = {
    MIXER,
    HEARTH_LAYER("ffn_up.weight", ffn_up, EMBD, FF, FEEDS),
    HEARTH_LAYER("ffn_down.weight", ffn_down, FF, EMBD, FEEDS),
    {0},
};

static const struct hearth_binding layer_moe[] = {
    MIXER,
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER("exp_probs_b.bias", ffn_choice_b, EXPERTS, NONE, EXPERTS),
    HEARTH_LAYER("ffn_latent_down.weight", ffn_exps_in, EMBD, EMBD_EXP, SMALL_EXPERTS),
    HEARTH_LAYER("ffn_latent_up.weight", ffn_exps_out, EMBD_EXP, EMBD, SMALL_EXPERTS),
    HEARTH_LAYER("ffn_up_exps.weight", ffn_up_exps, EMBD_EXP, FF_EXP, EACH_EXPERT),
    HEARTH_LAYER("ffn_down_exps.weight", ffn_down_exps, FF_EXP, EMBD_EXP, EACH_EXPERT),
    HEARTH_LAYER("ffn_up_shexp.weight", ffn_up_shared, EMBD, FF_SHARED, SHARED),
    HEARTH_LAYER("ffn_down_shexp.weight", ffn_down_shared, FF_SHARED, EMBD, SHARED),
    {0},
};

const struct hearth_arch hearth_arch_nemotron_h = {
    .name = "nemotron_h",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_RELU_SQUARED,
    .still_period = 1,
    .recurrence = HEARTH_RECURRENCE_SCAN,
    .one_part = true,
    .any_eps = true,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_nemotron_h_moe = {
    .name = "nemotron_h_moe",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_RELU_SQUARED,
    .expert_gating = HEARTH_GATING_SIGMOID,
    .still_period = 1,
    .recurrence = HEARTH_RECURRENCE_SCAN,
    .one_part = true,
    .any_eps = true,
    .extra_layers = true,
    .globals = globals,
    .layer = layer_moe,
};
