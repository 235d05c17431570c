// SPDX-License-Identifier: MIT
// The architecture deepseek4: DeepSeek V4 Flash and Pro. Several residual streams, mixed by balanced matrices. Positions
// have one vector, key and value in one; all heads share it, and what they give is made narrow in groups first. A token
// attends to a window, and in most layers to blocks of positions before it, each blended to one: of small blocks to the
// best, of large ones to all. Experts are chosen by the root of softplus and a bias, in the first layers by a table that
// knows a token's experts; one more is used by all tokens. Layers behind block_count less nextn_predict_layers guess tokens
// ahead and are not used.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("output_hc_fn.weight", output_mix, STREAMS, STREAM_COUNT, ALWAYS),
    HEARTH_GLOBAL("output_hc_base.weight", output_mix_b, STREAM_COUNT, NONE, ALWAYS),
    HEARTH_GLOBAL("output_hc_scale.weight", output_mix_scale, ONE, NONE, ALWAYS),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("hc_attn_fn.weight", attn_mix, STREAMS, MIX, ALWAYS),
    HEARTH_LAYER("hc_attn_base.weight", attn_mix_b, MIX, NONE, ALWAYS),
    HEARTH_LAYER("hc_attn_scale.weight", attn_mix_scale, MIX_KINDS, NONE, ALWAYS),
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_q_a.weight", attn_q_a, EMBD, Q_RANK, ALWAYS),
    HEARTH_LAYER("attn_q_a_norm.weight", attn_q_a_norm, Q_RANK, NONE, ALWAYS),
    HEARTH_LAYER("attn_q_b.weight", attn_q_up, Q_RANK, Q, ALWAYS),
    HEARTH_LAYER("attn_kv.weight", attn_k, EMBD, KV, ALWAYS),
    HEARTH_LAYER("attn_kv_a_norm.weight", attn_k_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_sinks.weight", attn_sinks, HEADS, NONE, ALWAYS),
    HEARTH_LAYER("attn_output_a.weight", attn_out_a, OUT_GROUP, OUT_LOW, ALWAYS),
    HEARTH_LAYER("attn_output_b.weight", attn_out, OUT_LOW, EMBD, ALWAYS),
    HEARTH_LAYER("attn_compressor_kv.weight", blend_value, EMBD, BLEND, BLENDS),
    HEARTH_LAYER("attn_compressor_gate.weight", blend_gate, EMBD, BLEND, BLENDS),
    HEARTH_LAYER("attn_compressor_ape.weight", blend_bias, BLEND, BLOCK, BLENDS_F32),
    HEARTH_LAYER("attn_compressor_norm.weight", blend_norm, HEAD, NONE, BLENDS),
    HEARTH_LAYER("indexer_compressor_kv.weight", blend_choose_value, EMBD, CHOOSER_TWICE, BLENDS_BEST),
    HEARTH_LAYER("indexer_compressor_gate.weight", blend_choose_gate, EMBD, CHOOSER_TWICE, BLENDS_BEST),
    HEARTH_LAYER("indexer_compressor_ape.weight", blend_choose_bias, CHOOSER_TWICE, BLOCK, BLENDS_BEST_F32),
    HEARTH_LAYER("indexer_compressor_norm.weight", blend_choose_norm, CHOOSER, NONE, BLENDS_BEST),
    HEARTH_LAYER("indexer.attn_q_b.weight", choose_q, Q_RANK, CHOOSER_Q, BLENDS_BEST),
    HEARTH_LAYER("indexer.proj.weight", choose_weigh, EMBD, CHOOSER_HEADS, BLENDS_BEST),
    HEARTH_LAYER("hc_ffn_fn.weight", ffn_mix, STREAMS, MIX, ALWAYS),
    HEARTH_LAYER("hc_ffn_base.weight", ffn_mix_b, MIX, NONE, ALWAYS),
    HEARTH_LAYER("hc_ffn_scale.weight", ffn_mix_scale, MIX_KINDS, NONE, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER("ffn_gate_tid2eid.weight", ffn_by_token, EXPERTS_USED, VOCAB, BY_TOKEN),
    HEARTH_LAYER("exp_probs_b.bias", ffn_choice_b, EXPERTS, NONE, BY_SCORE),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SHARED,
    HEARTH_LAYER_SPARSE_EXPERTS,
    {0},
};

const struct hearth_arch hearth_arch_deepseek4 = {
    .name = "deepseek4",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .expert_gating = HEARTH_GATING_ROOT,
    .expert_renorm = true,
    .limits = true,
    .limit_before = true,
    .blends = true,
    .shared_usual = 1,
    .extra_layers = true,
    .globals = globals,
    .layer = layer,
};
