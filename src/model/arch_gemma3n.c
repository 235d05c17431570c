// SPDX-License-Identifier: MIT
// The gemma3n architecture (text): as gemma3, with RMSNorm of values, scores that are not scaled and a soft cap of
// logits. Of several residual streams each layer computes one, and predicts and corrects the others. A narrow product goes
// past attention. Each token gives each layer something beside the stream; the last layers attend to keys and values of
// earlier ones; in some layers gates are cut, so that few neurons are on.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("altup_proj.weight", streams_in, EMBD, EMBD, EACH_STREAM),
    HEARTH_GLOBAL("altup_unembd_proj.weight", streams_out, EMBD, EMBD, EACH_STREAM),
    HEARTH_GLOBAL("per_layer_token_embd.weight", token_layers, EMBD_LAYERS, VOCAB, ALWAYS),
    HEARTH_GLOBAL("per_layer_model_proj.weight", token_layers_in, EMBD, EMBD_LAYERS, ALWAYS),
    HEARTH_GLOBAL("per_layer_proj_norm.weight", token_layers_norm, EMBD_LAYER, NONE, ALWAYS),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("altup_router_norm.weight", predict_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("altup_router.weight", predict_router, EMBD, STREAM_COUNT, ALWAYS),
    HEARTH_LAYER("altup_predict_coef.weight", predict_by, STREAM_COUNT, STREAM_SQUARE, ALWAYS_F32),
    HEARTH_LAYER("altup_correct_coef.weight", correct_by, STREAM_COUNT, STREAM_COUNT, ALWAYS_F32),
    HEARTH_LAYER("altup_correct_scale.weight", correct_scale, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("laurel_l.weight", past_in, EMBD, MIX_RANK, ALWAYS),
    HEARTH_LAYER("laurel_r.weight", past_out, MIX_RANK, EMBD, ALWAYS),
    HEARTH_LAYER("laurel_post_norm.weight", past_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_q.weight", attn_q, EMBD, Q, ALWAYS),
    HEARTH_LAYER("attn_k.weight", attn_k, EMBD, KV, OWN_KEYS),
    HEARTH_LAYER("attn_v.weight", attn_v, EMBD, KV, OWN_KEYS),
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, HEAD, NONE, OWN_KEYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("post_attention_norm.weight", attn_post_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER("post_ffw_norm.weight", ffn_post_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("inp_gate.weight", token_gate, EMBD, EMBD_LAYER, ALWAYS),
    HEARTH_LAYER("proj.weight", token_out, EMBD_LAYER, EMBD, ALWAYS),
    HEARTH_LAYER("post_norm.weight", token_post_norm, EMBD, NONE, ALWAYS),
    {0},
};

const struct hearth_arch hearth_arch_gemma3n = {
    .name = "gemma3n",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_GELU_TANH,
    .embd_sqrt = true,
    .window_period = 5,
    .borrows = true,
    .value_norm = true,
    .logit_cap = true,
    .logit_cap_unsaid = 30.0f,
    .attn_scale = 1.0f,
    .token_gives = true,
    .predicts = true,
    .cuts_gates = true,
    .rope_theta_window = 10000.0f,
    .globals = globals,
    .layer = layer,
};
