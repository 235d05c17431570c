// SPDX-License-Identifier: MIT
// The llama architecture: Llama 1 to 3, Mistral, Mixtral and their kin. RMSNorm, rotary positions in adjacent
// pairs, grouped query attention, gated feed-forward whose activation is data (SiLU by default, ReLU, dReLU),
// dense or in experts.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBAL("token_embd.weight", token_embd, EMBD, VOCAB, ALWAYS),
    HEARTH_GLOBAL("output_norm.weight", output_norm, EMBD, NONE, ALWAYS),
    HEARTH_GLOBAL("output.weight", output, EMBD, VOCAB, OPTIONAL),
    HEARTH_GLOBAL("rope_freqs.weight", rope_freqs, ROT2, NONE, OPTIONAL),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_q.weight", attn_q, EMBD, Q, ALWAYS),
    HEARTH_LAYER("attn_k.weight", attn_k, EMBD, KV, ALWAYS),
    HEARTH_LAYER("attn_v.weight", attn_v, EMBD, KV, ALWAYS),
    HEARTH_LAYER("attn_q.bias", attn_q_b, Q, NONE, OPTIONAL),
    HEARTH_LAYER("attn_k.bias", attn_k_b, KV, NONE, OPTIONAL),
    HEARTH_LAYER("attn_v.bias", attn_v_b, KV, NONE, OPTIONAL),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("attn_output.bias", attn_out_b, EMBD, NONE, OPTIONAL),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_gate.weight", ffn_gate, EMBD, FF, DENSE),
    HEARTH_LAYER("ffn_up.weight", ffn_up, EMBD, FF, DENSE),
    HEARTH_LAYER("ffn_down.weight", ffn_down, FF, EMBD, DENSE),
    HEARTH_LAYER("ffn_gate.bias", ffn_gate_b, FF, NONE, OPTIONAL),
    HEARTH_LAYER("ffn_up.bias", ffn_up_b, FF, NONE, OPTIONAL),
    HEARTH_LAYER("ffn_down.bias", ffn_down_b, EMBD, NONE, OPTIONAL),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER("ffn_gate_exps.weight", ffn_gate_exps, EMBD, FF_EXP, EACH_EXPERT),
    HEARTH_LAYER("ffn_up_exps.weight", ffn_up_exps, EMBD, FF_EXP, EACH_EXPERT),
    HEARTH_LAYER("ffn_down_exps.weight", ffn_down_exps, FF_EXP, EMBD, EACH_EXPERT),
    HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_SPARSE_EXPERTS,
    {0},
};

const struct hearth_arch hearth_arch_llama = {
    .name = "llama",
    .positions = HEARTH_POS_ROPE,
    .activation = HEARTH_ACT_SILU,
    .expert_renorm = true,
    .globals = globals,
    .layer = layer,
};
