// SPDX-License-Identifier: MIT
// The architectures deepseek2, deepseek32, glm-dsa, hy_v4 and mistral4. The first: DeepSeek V2, V3, R1, Kimi K2, GLM-4.7-Flash.
// Latent attention; experts in groups, one more that all tokens use, none in the first layers. Layers behind block_count
// less nextn_predict_layers guess tokens ahead. The second, DeepSeek V3.2, is the same with a small attention beside it,
// the lightning indexer, that chooses the positions to attend to. The third, GLM-5, 5.1 and 5.2, is that with layers that
// attend to what the last one before them chose. The fourth, Hunyuan 4, is the third with several residual streams, which
// each part reads and adds to by weights that all of them make, a sink for each head, and a gate for each element of what
// attention gives. The fifth, Mistral Small 4, is the first with queries that grow with their position, experts' gate and up
// in one tensor, and no groups.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding globals_streams[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("output_hc_fn.weight", output_mix, STREAMS, STREAM_COUNT, ALWAYS),
    HEARTH_GLOBAL("output_hc_base.weight", output_mix_b, STREAM_COUNT, NONE, ALWAYS),
    HEARTH_GLOBAL("output_hc_scale.weight", output_mix_scale, ONE, NONE, ALWAYS),
    {0},
};

#define LATENT                                                                                               \
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),                                         \
        HEARTH_LAYER("attn_q.weight", attn_q, EMBD, HEADS_QUERY, WHOLE_Q),                                   \
        HEARTH_LAYER("attn_q_a.weight", attn_q_a, EMBD, Q_RANK, TWO_STEP_Q),                                 \
        HEARTH_LAYER("attn_q_a_norm.weight", attn_q_a_norm, Q_RANK, NONE, TWO_STEP_Q),                       \
        HEARTH_LAYER("attn_q_b.weight", attn_q_up, Q_RANK, HEADS_QUERY, TWO_STEP_Q),                         \
        HEARTH_LAYER("attn_kv_a_mqa.weight", attn_kv_a, EMBD, LATENT_KEY, ALWAYS),                           \
        HEARTH_LAYER("attn_kv_a_norm.weight", attn_kv_a_norm, LATENT, NONE, ALWAYS),                         \
        HEARTH_LAYER("attn_kv_b.weight", attn_kv_up, LATENT, HEADS_BOTH, JOINT),                             \
        HEARTH_LAYER("attn_k_b.weight", attn_k_up, STILL, LATENT, EACH_HEAD),                                \
        HEARTH_LAYER("attn_v_b.weight", attn_v_up, LATENT, VALUE, EACH_HEAD),                                \
        HEARTH_LAYER("attn_output.weight", attn_out, HEADS_VALUE, EMBD, ALWAYS),                             \
        HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS), HEARTH_LAYER_GATED(LEADING),          \
        HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS)

static const struct hearth_binding layer[] = {
    LATENT,
    HEARTH_LAYER("exp_probs_b.bias", ffn_choice_b, EXPERTS, NONE, OPTIONAL),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SHARED,
    {0},
};

#define CHOOSING                                                                                             \
    HEARTH_LAYER("indexer.attn_q_b.weight", choose_q, Q_RANK, CHOOSER_Q, CHOOSES),                           \
        HEARTH_LAYER("indexer.attn_k.weight", choose_k, EMBD, CHOOSER, CHOOSES),                             \
        HEARTH_LAYER("indexer.k_norm.weight", choose_k_norm, CHOOSER, NONE, CHOOSES),                        \
        HEARTH_LAYER("indexer.k_norm.bias", choose_k_norm_b, CHOOSER, NONE, CHOOSES),                        \
        HEARTH_LAYER("indexer.proj.weight", choose_weigh, EMBD, CHOOSER_HEADS, CHOOSES),                     \
        HEARTH_LAYER("exp_probs_b.bias", ffn_choice_b, EXPERTS, NONE, OPTIONAL), HEARTH_LAYER_EXPERTS,       \
        HEARTH_LAYER_SHARED

static const struct hearth_binding layer_choosing[] = {
    LATENT,
    CHOOSING,
    {0},
};

static const struct hearth_binding layer_streams[] = {
    HEARTH_LAYER("hc_attn_fn.weight", attn_mix, STREAMS, MIX, ALWAYS),
    HEARTH_LAYER("hc_attn_base.weight", attn_mix_b, MIX, NONE, ALWAYS),
    HEARTH_LAYER("hc_attn_scale.weight", attn_mix_scale, MIX_KINDS, NONE, ALWAYS),
    LATENT,
    HEARTH_LAYER("attn_sinks.weight", attn_sinks, HEADS, NONE, ALWAYS),
    HEARTH_LAYER("attn_gate.weight", attn_gate, EMBD, HEADS_VALUE, ALWAYS),
    HEARTH_LAYER("hc_ffn_fn.weight", ffn_mix, STREAMS, MIX, ALWAYS),
    HEARTH_LAYER("hc_ffn_base.weight", ffn_mix_b, MIX, NONE, ALWAYS),
    HEARTH_LAYER("hc_ffn_scale.weight", ffn_mix_scale, MIX_KINDS, NONE, ALWAYS),
    CHOOSING,
    {0},
};

static const struct hearth_binding layer_mistral4[] = {
    LATENT,
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SHARED,
    {0},
};

const struct hearth_arch hearth_arch_deepseek2 = {
    .name = "deepseek2",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .latent = true,
    .q_growth = true,
    .groups = true,
    .extra_layers = true,
    .nextn = true,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_deepseek32 = {
    .name = "deepseek32",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .latent = true,
    .groups = true,
    .extra_layers = true,
    .choosing = HEARTH_CHOOSING_SINGLE,
    .choice_halves = true,
    .globals = globals,
    .layer = layer_choosing,
};

const struct hearth_arch hearth_arch_glm_dsa = {
    .name = "glm-dsa",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .expert_gating = HEARTH_GATING_SIGMOID,
    .latent = true,
    .groups = true,
    .extra_layers = true,
    .choosing = HEARTH_CHOOSING_SINGLE,
    .choice_shared = true,
    .globals = globals,
    .layer = layer_choosing,
};

const struct hearth_arch hearth_arch_hy_v4 = {
    .name = "hy_v4",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .expert_gating = HEARTH_GATING_SIGMOID,
    .expert_renorm = true,
    .limits = true,
    .limit_before = true,
    .limit_experts = true,
    .latent = true,
    .latent_eps = 1e-6f,
    .kept = true,
    .choosing = HEARTH_CHOOSING_SINGLE,
    .choice_shared = true,
    .choice_behind = true,
    .choice_eps_usual = true,
    .choice_said = true,
    .globals = globals_streams,
    .layer = layer_streams,
};

const struct hearth_arch hearth_arch_mistral4 = {
    .name = "mistral4",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .expert_renorm = true,
    .latent = true,
    .q_growth = true,
    .globals = globals,
    .layer = layer_mistral4,
};
