// SPDX-License-Identifier: MIT
// Gemma's families.
#include "convert/hf_rows.h"

static const struct hearth_hf_map gemma_layer[] = {
    NORM("input_layernorm.weight", "attn_norm.weight"),
    NORM("post_attention_layernorm.weight", "ffn_norm.weight"),
    PLAIN_QKV,
    GATED,
    {0},
};

#define PADDED(from, to)                                                                                     \
    {                                                                                                        \
        from, to, HEARTH_HF_REQUIRED, HEARTH_HF_PADDED                                                       \
    }

// Rows of tokens that stand for images and sounds may be missing.
static const struct hearth_hf_map gemma3n_globals[] = {
    PADDED("embed_tokens.weight", "token_embd.weight"),
    SAME("norm.weight", "output_norm.weight"),
    {"lm_head.weight", "output.weight", HEARTH_HF_HEAD, HEARTH_HF_SAME},
    PADDED("embed_tokens_per_layer.weight", "per_layer_token_embd.weight"),
    SAME("per_layer_model_projection.weight", "per_layer_model_proj.weight"),
    SAME("per_layer_projection_norm.weight", "per_layer_proj_norm.weight"),
    SAME("altup_projections.#.weight", "altup_proj.weight"),
    SAME("altup_unembed_projections.#.weight", "altup_unembd_proj.weight"),
    {0},
};

static const struct hearth_hf_map gemma3n_layer[] = {
    SAME("altup.router_norm.weight", "altup_router_norm.weight"),
    SAME("altup.modality_router.weight", "altup_router.weight"),
    SAME("altup.prediction_coefs.weight", "altup_predict_coef.weight"),
    SAME("altup.correction_coefs.weight", "altup_correct_coef.weight"),
    SAME("altup.correct_output_scale", "altup_correct_scale.weight"),
    SAME("laurel.linear_left.weight", "laurel_l.weight"),
    SAME("laurel.linear_right.weight", "laurel_r.weight"),
    SAME("laurel.post_laurel_norm.weight", "laurel_post_norm.weight"),
    SAME("input_layernorm.weight", "attn_norm.weight"),
    SAME("post_attention_layernorm.weight", "post_attention_norm.weight"),
    SAME("pre_feedforward_layernorm.weight", "ffn_norm.weight"),
    SAME("post_feedforward_layernorm.weight", "post_ffw_norm.weight"),
    SAME("self_attn.q_proj.weight", "attn_q.weight"),
    SAME("self_attn.q_norm.weight", "attn_q_norm.weight"),
    {"self_attn.k_proj.weight", "attn_k.weight", HEARTH_HF_OWN_KEYS, HEARTH_HF_SAME},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", HEARTH_HF_OWN_KEYS, HEARTH_HF_SAME},
    {"self_attn.v_proj.weight", "attn_v.weight", HEARTH_HF_OWN_KEYS, HEARTH_HF_SAME},
    OUTPUT,
    SAME("mlp.gate_proj.weight", "ffn_gate.weight"),
    SAME("mlp.up_proj.weight", "ffn_up.weight"),
    SAME("mlp.down_proj.weight", "ffn_down.weight"),
    SAME("per_layer_input_gate.weight", "inp_gate.weight"),
    SAME("per_layer_projection.weight", "proj.weight"),
    SAME("post_per_layer_input_norm.weight", "post_norm.weight"),
    {0},
};

static const struct hearth_hf_map gemma3_layer[] = {
    NORM("input_layernorm.weight", "attn_norm.weight"),
    NORM("post_attention_layernorm.weight", "post_attention_norm.weight"),
    NORM("pre_feedforward_layernorm.weight", "ffn_norm.weight"),
    NORM("post_feedforward_layernorm.weight", "post_ffw_norm.weight"),
    NORM("self_attn.q_norm.weight", "attn_q_norm.weight"),
    NORM("self_attn.k_norm.weight", "attn_k_norm.weight"),
    PLAIN_QKV,
    GATED,
    {0},
};

#define OF_TOKENS(from, to)                                                                                  \
    {                                                                                                        \
        from, to, HEARTH_HF_TOKEN_GIVES, HEARTH_HF_SAME                                                      \
    }

static const struct hearth_hf_map gemma4_globals[] = {
    SAME("embed_tokens.weight", "token_embd.weight"),
    SAME("norm.weight", "output_norm.weight"),
    {"lm_head.weight", "output.weight", HEARTH_HF_HEAD, HEARTH_HF_SAME},
    OF_TOKENS("embed_tokens_per_layer.weight", "per_layer_token_embd.weight"),
    OF_TOKENS("per_layer_model_projection.weight", "per_layer_model_proj.weight"),
    OF_TOKENS("per_layer_projection_norm.weight", "per_layer_proj_norm.weight"),
    {0},
};

static const struct hearth_hf_map gemma4_layer[] = {
    SAME("input_layernorm.weight", "attn_norm.weight"),
    SAME("post_attention_layernorm.weight", "post_attention_norm.weight"),
    SAME("pre_feedforward_layernorm.weight", "ffn_norm.weight"),
    SAME("post_feedforward_layernorm.weight", "post_ffw_norm.weight"),
    SAME("self_attn.q_proj.weight", "attn_q.weight"),
    SAME("self_attn.q_norm.weight", "attn_q_norm.weight"),
    {"self_attn.k_proj.weight", "attn_k.weight", HEARTH_HF_OWN_KEYS, HEARTH_HF_SAME},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", HEARTH_HF_OWN_KEYS, HEARTH_HF_SAME},
    {"self_attn.v_proj.weight", "attn_v.weight", HEARTH_HF_OWN_VALUES, HEARTH_HF_SAME},
    OUTPUT,
    SAME("mlp.gate_proj.weight", "ffn_gate.weight"),
    SAME("mlp.up_proj.weight", "ffn_up.weight"),
    SAME("mlp.down_proj.weight", "ffn_down.weight"),
    OF_EXPERTS("pre_feedforward_layernorm_2.weight", "pre_ffw_norm_2.weight", HEARTH_HF_SAME),
    OF_EXPERTS("post_feedforward_layernorm_1.weight", "post_ffw_norm_1.weight", HEARTH_HF_SAME),
    OF_EXPERTS("post_feedforward_layernorm_2.weight", "post_ffw_norm_2.weight", HEARTH_HF_SAME),
    OF_EXPERTS("router.proj.weight", "ffn_gate_inp.weight", HEARTH_HF_SAME),
    OF_EXPERTS("router.scale", "ffn_gate_inp.scale", HEARTH_HF_SAME),
    OF_EXPERTS("router.per_expert_scale", "ffn_down_exps.scale", HEARTH_HF_SAME),
    OF_EXPERTS("experts.gate_up_proj", "ffn_gate_up_exps.weight", HEARTH_HF_SAME),
    OF_EXPERTS("experts.down_proj", "ffn_down_exps.weight", HEARTH_HF_SAME),
    OF_TOKENS("per_layer_input_gate.weight", "inp_gate.weight"),
    OF_TOKENS("per_layer_projection.weight", "proj.weight"),
    OF_TOKENS("post_per_layer_input_norm.weight", "post_norm.weight"),
    MAYBE("layer_scalar", "layer_output_scale.weight"),
    {0},
};

static const struct hearth_hf_map gemma2_layer[] = {
    NORM("input_layernorm.weight", "attn_norm.weight"),
    NORM("post_attention_layernorm.weight", "post_attention_norm.weight"),
    NORM("pre_feedforward_layernorm.weight", "ffn_norm.weight"),
    NORM("post_feedforward_layernorm.weight", "post_ffw_norm.weight"),
    PLAIN_QKV,
    GATED,
    {0},
};

#define GEMMA4_DEFAULTS(context, width)                                                                      \
    {                                                                                                        \
        .n_vocab = 262144, .n_ctx = context, .n_embd = 2304, .n_layer = 30, .n_head = 8, .n_head_kv = 4,     \
        .head_dim = 256, .n_ff = 9216, .window = width, .rope_theta = 1e6, .rope_theta_window = 10000,       \
        .rope_share = 0.25, .activation = "gelu_pytorch_tanh", .tied = true                                  \
    }

const struct hearth_hf_family hearth_hf_families_gemma[] = {
    {.arch = "gemma3n",
     .classes = {"Gemma3nForCausalLM", "Gemma3nForConditionalGeneration", "gemma3n_text", "gemma3n"},
     .window_period = 5,
     .window_list = true,
     .rope_by_kind = true,
     .neuron_list = true,
     .defaults = {.n_vocab = 262400,
                  .n_ctx = 32768,
                  .n_embd = 2048,
                  .n_layer = 35,
                  .n_head = 8,
                  .n_head_kv = 2,
                  .head_dim = 256,
                  .n_ff = 16384,
                  .window = 512,
                  .rope_theta = 1e6,
                  .rope_theta_window = 10000,
                  .activation = "gelu_pytorch_tanh",
                  .tied = true},
     .predictor_input = "stream",
     .globals = gemma3n_globals,
     .layer = gemma3n_layer,
     .read = hearth_hf_read_gemma3n},
    {.arch = "gemma",
     .classes = {"GemmaForCausalLM", "gemma"},
     .activation = "gelu_pytorch_tanh", // of old checkpoints that say "gelu", too
     .defaults = {.n_vocab = 256000,
                  .n_ctx = 8192,
                  .n_embd = 3072,
                  .n_layer = 28,
                  .n_head = 16,
                  .n_head_kv = 16,
                  .head_dim = 256,
                  .n_ff = 24576,
                  .tied = true},
     .predictor_input = "stream",
     .globals = hearth_hf_one_more_globals,
     .layer = gemma_layer,
     .read = hearth_hf_read_gemma},
    {.arch = "gemma2",
     .classes = {"Gemma2ForCausalLM", "gemma2"},
     .window_period = 2,
     .defaults = {.n_ctx = 8192,
                  .n_head_kv = 4,
                  .head_dim = 256,
                  .window = 4096,
                  .activation = "gelu_pytorch_tanh",
                  .tied = true},
     .predictor_input = "stream",
     .globals = hearth_hf_one_more_globals,
     .layer = gemma2_layer,
     .read = hearth_hf_read_gemma2},
    {.arch = "gemma3",
     .classes = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "gemma3_text"},
     .window_period = 6,
     .rope_by_kind = true,
     .defaults = {.n_vocab = 262208,
                  .n_ctx = 131072,
                  .n_embd = 2304,
                  .n_layer = 26,
                  .n_head = 8,
                  .n_head_kv = 4,
                  .head_dim = 256,
                  .n_ff = 9216,
                  .window = 4096,
                  .rope_theta = 1e6,
                  .rope_theta_window = 10000,
                  .activation = "gelu_pytorch_tanh",
                  .tied = true},
     .predictor_input = "stream",
     .globals = hearth_hf_one_more_globals,
     .layer = gemma3_layer,
     .read = hearth_hf_read_gemma3},
    {.arch = "gemma4",
     .classes = {"Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "gemma4_text", "gemma4"},
     .rope_by_kind = true,
     .window_heads = true,
     .defaults = GEMMA4_DEFAULTS(131072, 512),
     .predictor_input = "stream",
     .globals = gemma4_globals,
     .layer = gemma4_layer,
     .read = hearth_hf_read_gemma4},
    {.arch = "gemma4",
     .classes = {"Gemma4UnifiedForCausalLM", "Gemma4UnifiedForConditionalGeneration", "gemma4_unified_text",
                 "gemma4_unified"},
     .rope_by_kind = true,
     .window_heads = true,
     .defaults = GEMMA4_DEFAULTS(262144, 1024),
     .predictor_input = "stream",
     .globals = gemma4_globals,
     .layer = gemma4_layer,
     .read = hearth_hf_read_gemma4_unified},
    {0},
};
