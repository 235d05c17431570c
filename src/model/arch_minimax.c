// SPDX-License-Identifier: MIT
// The architectures minimax-01, minimax-m2 and minimax-m3. MiniMax-Text-01: of eight layers seven are recurrent (lightning
// attention, states that fade at fixed rates), the eighth attends; parts add to what they read, not to the stream; experts in
// every layer, chosen by softmax. MiniMax-M2: RMSNorm of all queries together, and of all keys; half of a head
// rotates; experts in every layer, chosen by sigmoids and a bias. MiniMax-M3: RMSNorm of each head; clamped SwiGLU; an expert
// that all tokens use, none in the first layers; in those with experts each head of keys and values attends to the best
// blocks of positions, by a head of a small attention beside it.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding layer_01[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_q.weight", attn_q, EMBD, Q, ATTENDS),
    HEARTH_LAYER("attn_k.weight", attn_k, EMBD, KV, ATTENDS),
    HEARTH_LAYER("attn_v.weight", attn_v, EMBD, KV, ATTENDS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ATTENDS),
    HEARTH_LAYER("attn_qkv.weight", rec_in, EMBD, REC_IN, RECURS),
    HEARTH_LAYER("attn_gate.weight", rec_gate, EMBD, REC_VALUES, RECURS),
    HEARTH_LAYER("attn_norm_2.weight", rec_norm, REC_VALUES, NONE, RECURS),
    HEARTH_LAYER("attn_output.weight", rec_out, REC_VALUES, EMBD, RECURS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SPARSE_EXPERTS,
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, Q, NONE, ALWAYS),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, KV, NONE, ALWAYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER("exp_probs_b.bias", ffn_choice_b, EXPERTS, NONE, ALWAYS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SPARSE_EXPERTS,
    {0},
};

static const struct hearth_binding layer_m3[] = {
    HEARTH_LAYER_ATTENTION,
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("indexer.q_proj.weight", choose_q, EMBD, CHOOSER_Q, CHOOSES),
    HEARTH_LAYER("indexer.k_proj.weight", choose_k, EMBD, CHOOSER, CHOOSES),
    HEARTH_LAYER("indexer.q_norm.weight", choose_q_norm, CHOOSER, NONE, CHOOSES),
    HEARTH_LAYER("indexer.k_norm.weight", choose_k_norm, CHOOSER, NONE, CHOOSES),
    HEARTH_LAYER_GATED(LEADING),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER("exp_probs_b.bias", ffn_choice_b, EXPERTS, NONE, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_SHARED,
    {0},
};

const struct hearth_arch hearth_arch_minimax_01 = {
    .name = "minimax-01",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .expert_renorm = true,
    .normed_stream = true,
    .recurrence = HEARTH_RECURRENCE_FIXED,
    .rec_interval = 8,
    .globals = globals,
    .layer = layer_01,
};

const struct hearth_arch hearth_arch_minimax_m2 = {
    .name = "minimax-m2",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .expert_gating = HEARTH_GATING_SIGMOID,
    .expert_renorm = true,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_minimax_m3 = {
    .name = "minimax-m3",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SWIGLU_CLAMPED,
    .expert_gating = HEARTH_GATING_SIGMOID,
    .expert_renorm = true,
    .choosing = HEARTH_CHOOSING_EACH,
    .globals = globals,
    .layer = layer_m3,
};
