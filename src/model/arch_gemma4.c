// SPDX-License-Identifier: MIT
// The gemma4 architecture (text): norms on both sides of attention and feed-forward part, RMSNorm of each
// head's query, key and value, GELU with tanh, embeddings times the root of their width, a soft cap of logits.
// Layers with a window have heads of another size and number, and a rotation of their own. Without a window
// values may be keys before their norm and rotation. Experts are beside a dense part, with norms of their own,
// and a router that reads the stream. Small models: the last layers attend to keys and values of earlier ones,
// and each token gives each layer something beside the stream.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    HEARTH_GLOBAL("rope_freqs.weight", rope_freqs, ROT2, NONE, ALWAYS),
    HEARTH_GLOBAL("per_layer_token_embd.weight", token_layers, EMBD_LAYERS, VOCAB, TOKEN_GIVES),
    HEARTH_GLOBAL("per_layer_model_proj.weight", token_layers_in, EMBD, EMBD_LAYERS, TOKEN_GIVES),
    HEARTH_GLOBAL("per_layer_proj_norm.weight", token_layers_norm, EMBD_LAYER, NONE, TOKEN_GIVES),
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("attn_q.weight", attn_q, EMBD, Q, ALWAYS),
    HEARTH_LAYER("attn_k.weight", attn_k, EMBD, KV, OWN_KEYS),
    HEARTH_LAYER("attn_v.weight", attn_v, EMBD, KV, OWN_VALUES),
    HEARTH_LAYER("attn_q_norm.weight", attn_q_norm, HEAD, NONE, ALWAYS),
    HEARTH_LAYER("attn_k_norm.weight", attn_k_norm, HEAD, NONE, OWN_KEYS),
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER("post_attention_norm.weight", attn_post_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_GATED(DENSE),
    HEARTH_LAYER("ffn_gate.weight", ffn_gate_shared, EMBD, FF_SHARED, SHARED),
    HEARTH_LAYER("ffn_up.weight", ffn_up_shared, EMBD, FF_SHARED, SHARED),
    HEARTH_LAYER("ffn_down.weight", ffn_down_shared, FF_SHARED, EMBD, SHARED),
    HEARTH_LAYER("post_ffw_norm_1.weight", ffn_post_norm_shared, EMBD, NONE, EXPERTS),
    HEARTH_LAYER("pre_ffw_norm_2.weight", ffn_norm_exps, EMBD, NONE, EXPERTS),
    HEARTH_LAYER("post_ffw_norm_2.weight", ffn_post_norm_exps, EMBD, NONE, EXPERTS),
    HEARTH_LAYER("ffn_gate_inp.weight", ffn_router, EMBD, EXPERTS, EXPERTS),
    HEARTH_LAYER("ffn_gate_inp.scale", ffn_router_norm, EMBD, NONE, EXPERTS),
    HEARTH_LAYER_EXPERTS,
    HEARTH_LAYER_BY_NEURON,
    HEARTH_LAYER_BY_NEURON_EXPERTS,
    HEARTH_LAYER("ffn_down_exps.scale", ffn_scale_exps, EXPERTS, NONE, OPTIONAL),
    HEARTH_LAYER("post_ffw_norm.weight", ffn_post_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER("inp_gate.weight", token_gate, EMBD, EMBD_LAYER, TOKEN_GIVES),
    HEARTH_LAYER("proj.weight", token_out, EMBD_LAYER, EMBD, TOKEN_GIVES),
    HEARTH_LAYER("post_norm.weight", token_post_norm, EMBD, NONE, TOKEN_GIVES),
    HEARTH_LAYER("layer_output_scale.weight", output_scale, ONE, NONE, OPTIONAL),
    {0},
};

const struct hearth_arch hearth_arch_gemma4 = {
    .name = "gemma4",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_GELU_TANH,
    .expert_renorm = true,
    .embd_sqrt = true,
    .window_period = 6,
    .window_heads = true,
    .borrows = true,
    .value_norm = true,
    .logit_cap = true,
    .attn_scale = 1.0f,
    .dense_beside = true,
    .router_root = true,
    .token_gives = true,
    .rope_theta_window = 10000.0f,
    .globals = globals,
    .layer = layer,
};
