// SPDX-License-Identifier: MIT
// The architecture qwen4exp, Qwen3.8-Flash-Next: recurrent layers, gated attention and many small experts
// as in qwen35moe, over several residual streams. What a part reads is mixed of them by two matrices of low
// rank, and each stream gets its own share of what comes out. Attention goes to the best blocks of
// neighbouring positions. n-grams of tokens feed one layer by rows of a table that is larger than all the
// rest.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBAL("token_embd.weight", token_embd, EMBD, VOCAB, ALWAYS),
    HEARTH_GLOBAL("output_hc_norm.weight", output_norm, STREAMS, NONE, ALWAYS),
    HEARTH_GLOBAL("output_hc_down.weight", output_mix_down, STREAMS, MIX_RANK, ALWAYS),
    HEARTH_GLOBAL("output_hc_up.weight", output_mix_up, MIX_RANK, STREAMS, ALWAYS),
    HEARTH_GLOBAL("output.weight", output, EMBD, VOCAB, OPTIONAL),
    HEARTH_GLOBAL("per_layer_token_embd.weight", gram_table, GRAM, GRAM_ROWS, GRAMS),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("hc_attn_norm.weight", attn_norm, STREAMS, NONE, ALWAYS),
    HEARTH_LAYER("hc_attn_down.weight", attn_mix_down, STREAMS, MIX_RANK, ALWAYS),
    HEARTH_LAYER("hc_attn_up.weight", attn_mix_up, MIX_RANK, STREAMS, ALWAYS),
    HEARTH_LAYER("hc_attn_inject.weight", attn_inject, STREAMS, STREAM_COUNT, ALWAYS),
    HEARTH_LAYER("attn_q.weight", attn_q, EMBD, Q_TWICE, ATTENDS),
    HEARTH_LAYER("attn_k.weight", attn_k, EMBD, KV, ATTENDS),
    HEARTH_LAYER("attn_v.weight", attn_v, EMBD, KV, ATTENDS),
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, HEAD, NONE, ATTENDS),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, HEAD, NONE, ATTENDS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ATTENDS),
    HEARTH_LAYER("indexer.q_proj.weight", choose_q, EMBD, CHOOSER_Q, ATTENDS),
    HEARTH_LAYER("indexer.k_proj.weight", choose_k, EMBD, CHOOSER, ATTENDS),
    HEARTH_LAYER("indexer.q_norm.weight", choose_q_norm, CHOOSER, NONE, ATTENDS),
    HEARTH_LAYER("indexer.k_norm.weight", choose_k_norm, CHOOSER, NONE, ATTENDS),
    HEARTH_LAYER("attn_qkv.weight", rec_in, EMBD, REC_IN, RECURS),
    HEARTH_LAYER("attn_gate.weight", rec_gate, EMBD, REC_VALUES, RECURS),
    HEARTH_LAYER("ssm_beta.weight", rec_beta, EMBD, REC_HEADS, RECURS),
    HEARTH_LAYER("ssm_alpha.weight", rec_alpha, EMBD, REC_HEADS, RECURS),
    HEARTH_LAYER("ssm_conv1d.weight", rec_conv, REC_TAPS, REC_CHANNELS, RECURS_F32),
    HEARTH_LAYER("ssm_a", rec_decay, REC_HEADS, NONE, RECURS),
    HEARTH_LAYER("ssm_dt.bias", rec_decay_b, REC_HEADS, NONE, RECURS),
    HEARTH_LAYER("ssm_norm.weight", rec_norm, REC_HEAD, NONE, RECURS),
    HEARTH_LAYER("ssm_out.weight", rec_out, REC_VALUES, EMBD, RECURS),
    HEARTH_LAYER("ple_key.weight", gram_key, GRAMS, STREAMS, GRAMS),
    HEARTH_LAYER("ple_value.weight", gram_value, GRAMS, EMBD, GRAMS),
    HEARTH_LAYER("ple_norm_key.weight", gram_key_norm, STREAMS, NONE, GRAMS),
    HEARTH_LAYER("ple_norm_query.weight", gram_query_norm, STREAMS, NONE, GRAMS),
    HEARTH_LAYER("ple_norm_conv.weight", gram_conv_norm, STREAMS, NONE, GRAMS),
    HEARTH_LAYER("ple_conv1d.weight", gram_conv, GRAM_TAPS, STREAMS, GRAMS_F32),
    HEARTH_LAYER("hc_ffn_norm.weight", ffn_norm, STREAMS, NONE, ALWAYS),
    HEARTH_LAYER("hc_ffn_down.weight", ffn_mix_down, STREAMS, MIX_RANK, ALWAYS),
    HEARTH_LAYER("hc_ffn_up.weight", ffn_mix_up, MIX_RANK, STREAMS, ALWAYS),
    HEARTH_LAYER("hc_ffn_inject.weight", ffn_inject, STREAMS, STREAM_COUNT, ALWAYS),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER("ffn_gate_inp_shexp.weight", ffn_router_shared, EMBD, NONE, SHARED),
    HEARTH_LAYER_SHARED,
    HEARTH_LAYER_SPARSE_EXPERTS,
    {0},
};

const struct hearth_arch hearth_arch_qwen4exp = {
    .name = "qwen4exp",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .expert_renorm = true,
    .recurrence = HEARTH_RECURRENCE_DELTA,
    .rec_sigmoid = true,
    .attn_gated = true,
    .streams = true,
    .choosing = HEARTH_CHOOSING_MEANS,
    .globals = globals,
    .layer = layer,
};
