// SPDX-License-Identifier: MIT
// The architectures lfm2 and lfm2moe: LFM2 and LFM2.5. Most layers are short convolutions with a gate before and
// behind, the others attend, with RMSNorm of each head's query and key. lfm2moe has experts, chosen by sigmoids and a
// bias, none in the first layers.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBAL("token_embd.weight", token_embd, EMBD, VOCAB, ALWAYS),
    HEARTH_GLOBAL("token_embd_norm.weight", output_norm, EMBD, NONE, ALWAYS), // its name in these files
    HEARTH_GLOBAL("output.weight", output, EMBD, VOCAB, OPTIONAL),
    {0},
};

// What mixes the tokens of a layer, and both norms.
#define MIXER                                                                                                \
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),                                         \
        HEARTH_LAYER("attn_q.weight", attn_q, EMBD, Q, ATTENDS),                                             \
        HEARTH_LAYER("attn_k.weight", attn_k, EMBD, KV, ATTENDS),                                            \
        HEARTH_LAYER("attn_v.weight", attn_v, EMBD, KV, ATTENDS),                                            \
        HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, HEAD, NONE, ATTENDS),                                \
        HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, HEAD, NONE, ATTENDS),                                \
        HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ATTENDS),                                      \
        HEARTH_LAYER("shortconv.in_proj.weight", rec_in, EMBD, REC_IN, RECURS),                              \
        HEARTH_LAYER("shortconv.conv.weight", rec_conv, REC_TAPS, REC_CHANNELS, RECURS_F32),                 \
        HEARTH_LAYER("shortconv.out_proj.weight", rec_out, REC_VALUES, EMBD, RECURS),                        \
        HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS)

static const struct hearth_binding layer[] = {
    MIXER, HEARTH_LAYER_GATED(ALWAYS), HEARTH_LAYER_SPARSE, HEARTH_LAYER_JUMP, {0},
};

static const struct hearth_binding layer_moe[] = {
    MIXER,
    HEARTH_LAYER_GATED(LEADING),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER("exp_probs_b.bias", ffn_choice_b, EXPERTS, NONE, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    {0},
};

const struct hearth_arch hearth_arch_lfm2 = {
    .name = "lfm2",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .recurrence = HEARTH_RECURRENCE_CONV,
    .globals = globals,
    .layer = layer,
};

const struct hearth_arch hearth_arch_lfm2moe = {
    .name = "lfm2moe",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .expert_gating = HEARTH_GATING_SIGMOID,
    .expert_renorm = true,
    .recurrence = HEARTH_RECURRENCE_CONV,
    .globals = globals,
    .layer = layer_moe,
};
