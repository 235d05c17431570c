// SPDX-License-Identifier: MIT
// The llama architecture: Llama 1 to 3, Mistral and their kin. RMSNorm, rotary positions in adjacent pairs,
// grouped query attention, gated feed-forward whose activation is data (SiLU by default, ReLU, dReLU).
#include "model/arch.h"

static int read_hparams(struct hearth_hparams *hp, const struct hearth_gguf *g, struct hearth_error *err)
{
    int rc = hearth_hparams_read_common(hp, g, "llama", err);
    if (!rc)
        rc = hearth_gguf_f32(g, "llama.attention.layer_norm_rms_epsilon", true, &hp->norm_eps, err);
    hp->rope_neox = false;
    return rc;
}

static const struct hearth_binding globals[] = {
    {"token_embd.weight", offsetof(struct hearth_model, token_embd), HEARTH_DIM_EMBD, HEARTH_DIM_VOCAB,
     false},
    {"output_norm.weight", offsetof(struct hearth_model, output_norm), HEARTH_DIM_EMBD, HEARTH_DIM_NONE,
     false},
    {"output.weight", offsetof(struct hearth_model, output), HEARTH_DIM_EMBD, HEARTH_DIM_VOCAB, true},
    {"rope_freqs.weight", offsetof(struct hearth_model, rope_freqs), HEARTH_DIM_ROT2, HEARTH_DIM_NONE, true},
    {0},
};

static const struct hearth_binding layer[] = {
    {"attn_norm.weight", offsetof(struct hearth_layer, attn_norm), HEARTH_DIM_EMBD, HEARTH_DIM_NONE, false},
    {"attn_q.weight", offsetof(struct hearth_layer, attn_q), HEARTH_DIM_EMBD, HEARTH_DIM_Q, false},
    {"attn_k.weight", offsetof(struct hearth_layer, attn_k), HEARTH_DIM_EMBD, HEARTH_DIM_KV, false},
    {"attn_v.weight", offsetof(struct hearth_layer, attn_v), HEARTH_DIM_EMBD, HEARTH_DIM_KV, false},
    {"attn_output.weight", offsetof(struct hearth_layer, attn_out), HEARTH_DIM_Q, HEARTH_DIM_EMBD, false},
    {"ffn_norm.weight", offsetof(struct hearth_layer, ffn_norm), HEARTH_DIM_EMBD, HEARTH_DIM_NONE, false},
    {"ffn_gate.weight", offsetof(struct hearth_layer, ffn_gate), HEARTH_DIM_EMBD, HEARTH_DIM_FF, false},
    {"ffn_up.weight", offsetof(struct hearth_layer, ffn_up), HEARTH_DIM_EMBD, HEARTH_DIM_FF, false},
    {"ffn_down.weight", offsetof(struct hearth_layer, ffn_down), HEARTH_DIM_FF, HEARTH_DIM_EMBD, false},
    {0},
};

const struct hearth_arch hearth_arch_llama = {"llama", read_hparams, globals, layer};
