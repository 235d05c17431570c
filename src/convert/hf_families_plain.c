// SPDX-License-Identifier: MIT
// Families with attention and a dense part in each layer.
#include "convert/hf_rows.h"

const struct hearth_hf_map hearth_hf_rms_globals[] = {
    SAME("embed_tokens.weight", "token_embd.weight"),
    SAME("norm.weight", "output_norm.weight"),
    {"lm_head.weight", "output.weight", HEARTH_HF_HEAD, HEARTH_HF_SAME},
    {0},
};

#define LLAMA_BIASES                                                                                         \
    {"self_attn.q_proj.bias", "attn_q.bias", HEARTH_HF_OPTIONAL, HEARTH_HF_ROTARY_Q},                        \
        {"self_attn.k_proj.bias", "attn_k.bias", HEARTH_HF_OPTIONAL, HEARTH_HF_ROTARY_K},                    \
        MAYBE("self_attn.v_proj.bias", "attn_v.bias"), MAYBE("self_attn.o_proj.bias", "attn_output.bias"),   \
        MAYBE("mlp.gate_proj.bias", "ffn_gate.bias"), MAYBE("mlp.up_proj.bias", "ffn_up.bias"),              \
        MAYBE("mlp.down_proj.bias", "ffn_down.bias")

static const struct hearth_hf_map llama_layer[] = {NORMS, LLAMA_QKV, LLAMA_BIASES, GATED, {0}};

static const struct hearth_hf_map bamboo_layer[] = {NORMS, LLAMA_QKV, GATED, {0}};

static const struct hearth_hf_map qwen2_layer[] = {
    NORMS,
    PLAIN_QKV,
    SAME("self_attn.q_proj.bias", "attn_q.bias"),
    SAME("self_attn.k_proj.bias", "attn_k.bias"),
    SAME("self_attn.v_proj.bias", "attn_v.bias"),
    GATED,
    {0},
};

static const struct hearth_hf_map qwen3_layer[] = {NORMS, PLAIN_QKV, HEAD_NORMS, GATED, {0}};

static const struct hearth_hf_map falcon_globals[] = {
    SAME("word_embeddings.weight", "token_embd.weight"),
    SAME("ln_f.weight", "output_norm.weight"),
    SAME("ln_f.bias", "output_norm.bias"),
    {"lm_head.weight", "output.weight", HEARTH_HF_HEAD, HEARTH_HF_SAME},
    {0},
};

static const struct hearth_hf_map falcon_layer[] = {
    {"input_layernorm.weight", "attn_norm.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    SAME("ln_mlp.weight", "attn_norm.weight"),
    {"input_layernorm.bias", "attn_norm.bias", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    SAME("ln_mlp.bias", "attn_norm.bias"),
    MAYBE("ln_attn.weight", "attn_norm_2.weight"),
    MAYBE("ln_attn.bias", "attn_norm_2.bias"),
    {"self_attention.query_key_value.weight", "attn_qkv.weight", HEARTH_HF_REQUIRED, HEARTH_HF_QKV},
    SAME("self_attention.dense.weight", "attn_output.weight"),
    SAME("mlp.dense_h_to_4h.weight", "ffn_up.weight"),
    SAME("mlp.dense_4h_to_h.weight", "ffn_down.weight"),
    PREDICTORS("mlp.predictor"),
    {0},
};

static const struct hearth_hf_map opt_globals[] = {
    SAME("embed_tokens.weight", "token_embd.weight"),
    SAME("embed_positions.weight", "position_embd.weight"),
    SAME("final_layer_norm.weight", "output_norm.weight"),
    SAME("final_layer_norm.bias", "output_norm.bias"),
    {"lm_head.weight", "output.weight", HEARTH_HF_HEAD, HEARTH_HF_SAME},
    {0},
};

static const struct hearth_hf_map opt_layer[] = {
    BOTH("self_attn_layer_norm", "attn_norm"),
    BOTH("self_attn.q_proj", "attn_q"),
    BOTH("self_attn.k_proj", "attn_k"),
    BOTH("self_attn.v_proj", "attn_v"),
    BOTH("self_attn.out_proj", "attn_output"),
    BOTH("final_layer_norm", "ffn_norm"),
    BOTH("fc1", "ffn_up"),
    BOTH("fc2", "ffn_down"),
    PREDICTORS("predictor"),
    {0},
};

const struct hearth_hf_map hearth_hf_one_more_globals[] = {
    SAME("embed_tokens.weight", "token_embd.weight"),
    NORM("norm.weight", "output_norm.weight"),
    {"lm_head.weight", "output.weight", HEARTH_HF_HEAD, HEARTH_HF_SAME},
    {0},
};

static const struct hearth_hf_map seed_layer[] = {
    SAME("input_layernorm.weight", "attn_norm.weight"),
    SAME("post_attention_layernorm.weight", "post_attention_norm.weight"),
    PLAIN_QKV,
    QKV_BIASES(HEARTH_HF_OPTIONAL),
    GATED,
    {0},
};

// Norms behind both parts alone.
static const struct hearth_hf_map olmo2_layer[] = {
    SAME("post_attention_layernorm.weight", "post_attention_norm.weight"),
    SAME("post_feedforward_layernorm.weight", "post_ffw_norm.weight"),
    PLAIN_QKV,
    HEAD_NORMS,
    GATED,
    {0},
};

#define PACKED_GATED                                                                                         \
    SAME("mlp.gate_up_proj.weight", "ffn_up.weight"), SAME("mlp.down_proj.weight", "ffn_down.weight")

static const struct hearth_hf_map phi3_layer[] = {
    NORMS, SAME("self_attn.qkv_proj.weight", "attn_qkv.weight"), OUTPUT, PACKED_GATED, {0},
};

static const struct hearth_hf_map glm4_layer[] = {
    SAME("input_layernorm.weight", "attn_norm.weight"),
    SAME("post_self_attn_layernorm.weight", "post_attention_norm.weight"),
    SAME("post_attention_layernorm.weight", "ffn_norm.weight"),
    SAME("post_mlp_layernorm.weight", "post_ffw_norm.weight"),
    PLAIN_QKV,
    QKV_BIASES(HEARTH_HF_OPTIONAL),
    PACKED_GATED,
    {0},
};

// One norm before both parts, which are side by side.
static const struct hearth_hf_map cohere2_layer[] = {
    SAME("input_layernorm.weight", "attn_norm.weight"),
    PLAIN_QKV,
    GATED,
    {0},
};

static const struct hearth_hf_map ernie_layer[] = {NORMS, PLAIN_QKV, GATED, {0}};

static const struct hearth_hf_map hunyuan_layer[] = {NORMS, PLAIN_QKV, HUNYUAN_NORMS, GATED, {0}};

static const struct hearth_hf_map starcoder2_globals[] = {
    SAME("embed_tokens.weight", "token_embd.weight"),
    BOTH("norm", "output_norm"),
    {"lm_head.weight", "output.weight", HEARTH_HF_HEAD, HEARTH_HF_SAME},
    {0},
};

static const struct hearth_hf_map starcoder2_layer[] = {
    BOTH("input_layernorm", "attn_norm"), BOTH("post_attention_layernorm", "ffn_norm"),
    BOTH("self_attn.q_proj", "attn_q"),   BOTH("self_attn.k_proj", "attn_k"),
    BOTH("self_attn.v_proj", "attn_v"),   BOTH("self_attn.o_proj", "attn_output"),
    BOTH("mlp.c_fc", "ffn_up"),           BOTH("mlp.c_proj", "ffn_down"),
    PREDICTORS("mlp.predictor"),          {0},
};

static const struct hearth_hf_map internlm2_globals[] = {
    SAME("tok_embeddings.weight", "token_embd.weight"),
    SAME("norm.weight", "output_norm.weight"),
    {"output.weight", "output.weight", HEARTH_HF_HEAD, HEARTH_HF_SAME},
    {0},
};

static const struct hearth_hf_map internlm2_layer[] = {
    SAME("attention_norm.weight", "attn_norm.weight"),
    SAME("ffn_norm.weight", "ffn_norm.weight"),
    {"attention.wqkv.weight", "attn_q.weight", HEARTH_HF_REQUIRED, HEARTH_HF_GROUPED_Q},
    {"attention.wqkv.weight", "attn_k.weight", HEARTH_HF_REQUIRED, HEARTH_HF_GROUPED_K},
    {"attention.wqkv.weight", "attn_v.weight", HEARTH_HF_REQUIRED, HEARTH_HF_GROUPED_V},
    SAME("attention.wo.weight", "attn_output.weight"),
    SAME("feed_forward.w1.weight", "ffn_gate.weight"),
    SAME("feed_forward.w3.weight", "ffn_up.weight"),
    SAME("feed_forward.w2.weight", "ffn_down.weight"),
    PREDICTORS("feed_forward.predictor"),
    {0},
};

const struct hearth_hf_family hearth_hf_families_plain[] = {
    {.arch = "hunyuan-dense",
     .classes = {"HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense"},
     .rope_alpha = true,
     .defaults = {.n_ctx = 2048, .norm_eps = 1e-5},
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = hunyuan_layer,
     .read = hearth_hf_read_hunyuan},
    {.arch = "starcoder2",
     .classes = {"Starcoder2ForCausalLM", "starcoder2"},
     .layer_norm = true,
     .defaults =
         {.n_ctx = 4096, .n_head_kv = 2, .norm_eps = 1e-5, .activation = "gelu_pytorch_tanh", .tied = true},
     .predictor_input = "stream",
     .globals = starcoder2_globals,
     .layer = starcoder2_layer,
     .read = hearth_hf_read_starcoder2},
    {.arch = "internlm2",
     .classes = {"InternLM2ForCausalLM", "internlm2"},
     .rope_dynamic = true,
     .predictor_input = "stream",
     .globals = internlm2_globals,
     .layer = internlm2_layer,
     .read = hearth_hf_read_internlm2},
    {.arch = "llama",
     .classes = {"LlamaForCausalLM", "LLaMAForCausalLM", "MistralForCausalLM", "SparseLlamaForCausalLM",
                 "llama", "mistral"},
     .llama_keys = true,
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = llama_layer},
    {.arch = "bamboo",
     .classes = {"BambooForCausalLM", "bamboo"},
     .llama_keys = true,
     .activation = "drelu",
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = bamboo_layer},
    {.arch = "qwen2",
     .classes = {"Qwen2ForCausalLM", "qwen2"},
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = qwen2_layer},
    {.arch = "qwen2",
     .classes = {"SparseQwen2ForCausalLM", "sparseqwen2"},
     .activation = "drelu",
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = qwen2_layer},
    {.arch = "qwen3",
     .classes = {"Qwen3ForCausalLM", "qwen3"},
     .defaults = {.head_dim = 128},
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = qwen3_layer,
     .read = hearth_hf_read_qwen3},
    {.arch = "qwen2vl",
     .classes = {"Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"},
     .rope_partial = true,
     .sees = true,
     .defaults = {.norm_eps = 1e-5},
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = qwen2_layer},
    {.arch = "qwen3vl",
     .classes = {"Qwen3VLForConditionalGeneration"},
     .rope_partial = true,
     .sees = true,
     .defaults = {.n_ctx = 128000, .head_dim = 128},
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = qwen3_layer,
     .read = hearth_hf_read_qwen3vl},
    {.arch = "smollm3",
     .classes = {"SmolLM3ForCausalLM", "smollm3"},
     .window_asked = true,
     .llama_keys = true,
     .defaults = {.n_head_kv = 4, .rope_theta = 2e6, .tied = true},
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = llama_layer,
     .read = hearth_hf_read_smollm3},
    {.arch = "granite",
     .classes = {"GraniteForCausalLM", "granite"},
     .llama_keys = true,
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = llama_layer,
     .read = hearth_hf_read_granite},
    {.arch = "seed_oss",
     .classes = {"SeedOssForCausalLM", "seed_oss"},
     .defaults = {.n_head_kv = 8, .head_dim = 128},
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = seed_layer},
    {.arch = "olmo2",
     .classes = {"Olmo2ForCausalLM", "olmo2"},
     .defaults = {.norm_eps = 1e-5},
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = olmo2_layer},
    {.arch = "olmo2",
     .classes = {"Olmo3ForCausalLM", "olmo3"},
     .window_period = 4,
     .window_list = true,
     .rope_by_kind = true,
     .defaults = {.window = 4096, .norm_eps = 1e-5, .rope_theta = 500000},
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = olmo2_layer},
    {.arch = "phi3",
     .classes = {"Phi3ForCausalLM", "phi3"},
     .rope_partial = true,
     .rope_long = true,
     .window_always = true,
     .defaults = {.n_ctx = 4096, .norm_eps = 1e-5},
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = phi3_layer,
     .read = hearth_hf_read_phi3},
    {.arch = "glm4",
     .classes = {"Glm4ForCausalLM", "glm4"},
     .rope_partial = true,
     .defaults = {.n_head_kv = 2, .head_dim = 128, .norm_eps = 1.5625e-7, .rope_share = 0.5},
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = glm4_layer},
    {.arch = "exaone4",
     .classes = {"Exaone4ForCausalLM", "exaone4"},
     .window_period = 4,
     .window_list = true,
     .says_vocab = true,
     .defaults = {.window = 4096, .norm_eps = 1e-5},
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = olmo2_layer},
    {.arch = "cohere2",
     .classes = {"Cohere2ForCausalLM", "cohere2"},
     .layer_norm = true,
     .window_period = 4,
     .says_vocab = true,
     .defaults = {.window = 4096, .norm_eps = 1e-5, .tied = true},
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = cohere2_layer,
     .read = hearth_hf_read_cohere2},
    {.arch = "ernie4_5",
     .classes = {"Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM", "ernie4_5"},
     .defaults = {.head_dim = 128, .norm_eps = 1e-5, .rope_theta = 500000, .tied = true},
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = ernie_layer,
     .read = hearth_hf_read_ernie},
    {.arch = "falcon",
     .classes = {"FalconForCausalLM", "RWForCausalLM", "falcon", "RefinedWeb", "RefinedWebModel"},
     .base = "transformer.",
     .layers = "h.",
     .layer_norm = true,
     .defaults = {.n_ctx = 2048, .norm_eps = 1e-5, .activation = "gelu", .tied = true},
     .predictor_input = "layer",
     .globals = falcon_globals,
     .layer = falcon_layer,
     .read = hearth_hf_read_falcon},
    {.arch = "opt",
     .classes = {"OPTForCausalLM", "opt"},
     .base = "model.decoder.",
     .layer_norm = true,
     .defaults = {.norm_eps = 1e-5, .activation = "relu", .tied = true},
     .predictor_input = "stream",
     .globals = opt_globals,
     .layer = opt_layer,
     .read = hearth_hf_read_opt},
    {0},
};
