// SPDX-License-Identifier: MIT
// Families with experts.
#include "convert/hf_rows.h"

static const struct hearth_hf_map mixtral_layer[] = {
    NORMS,
    LLAMA_QKV,
    {"block_sparse_moe.gate.weight", "ffn_gate_inp.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    SAME("mlp.gate.weight", "ffn_gate_inp.weight"),
    EXPERTS("block_sparse_moe.experts.", "mlp.experts.", "w1", "w3", "w2"),
    {"block_sparse_moe.experts.#.predictor.fc1.weight", "fc1_exps.weight", HEARTH_HF_PREDICTOR,
     HEARTH_HF_SAME},
    {"block_sparse_moe.experts.#.predictor.fc2.weight", "fc2_exps.weight", HEARTH_HF_PREDICTOR,
     HEARTH_HF_SAME},
    {0},
};

static const struct hearth_hf_map qwen3moe_layer[] = {
    NORMS,
    PLAIN_QKV,
    HEAD_NORMS,
    SAME("mlp.gate.weight", "ffn_gate_inp.weight"),
    EXPERTS("mlp.experts.", "mlp.experts.", "gate_proj", "up_proj", "down_proj"),
    {0},
};

#define DEEPSEEK_EXPERTS                                                                                     \
    {"mlp.gate_proj.weight", "ffn_gate.weight", HEARTH_HF_LEADING, HEARTH_HF_SAME},                          \
        {"mlp.up_proj.weight", "ffn_up.weight", HEARTH_HF_LEADING, HEARTH_HF_SAME},                          \
        {"mlp.down_proj.weight", "ffn_down.weight", HEARTH_HF_LEADING, HEARTH_HF_SAME},                      \
        {"mlp.gate.weight", "ffn_gate_inp.weight", HEARTH_HF_EXPERTS, HEARTH_HF_SAME},                       \
        EXPERTS("mlp.experts.", "mlp.experts.", "gate_proj", "up_proj", "down_proj"),                        \
        {"mlp.shared_experts.gate_proj.weight", "ffn_gate_shexp.weight", HEARTH_HF_SHARED, HEARTH_HF_SAME},  \
        {"mlp.shared_experts.up_proj.weight", "ffn_up_shexp.weight", HEARTH_HF_SHARED, HEARTH_HF_SAME},      \
    {                                                                                                        \
        "mlp.shared_experts.down_proj.weight", "ffn_down_shexp.weight", HEARTH_HF_SHARED, HEARTH_HF_SAME     \
    }

#define LATENT                                                                                               \
    NORMS, {"self_attn.q_proj.weight", "attn_q.weight", HEARTH_HF_WHOLE_Q, HEARTH_HF_SAME},                  \
        {"self_attn.q_a_proj.weight", "attn_q_a.weight", HEARTH_HF_TWO_STEP_Q, HEARTH_HF_SAME},              \
        {"self_attn.q_a_layernorm.weight", "attn_q_a_norm.weight", HEARTH_HF_TWO_STEP_Q, HEARTH_HF_SAME},    \
        {"self_attn.q_b_proj.weight", "attn_q_b.weight", HEARTH_HF_TWO_STEP_Q, HEARTH_HF_SAME},              \
        SAME("self_attn.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight"),                                 \
        SAME("self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight"),                                    \
        {"self_attn.kv_b_proj.weight", "attn_k_b.weight", HEARTH_HF_REQUIRED, HEARTH_HF_KEYS_OF_BOTH},       \
        {"self_attn.kv_b_proj.weight", "attn_v_b.weight", HEARTH_HF_REQUIRED, HEARTH_HF_VALUES_OF_BOTH},     \
        OUTPUT, DEEPSEEK_EXPERTS

static const struct hearth_hf_map deepseek_v2_layer[] = {LATENT, {0}};

static const struct hearth_hf_map deepseek_v3_layer[] = {
    LATENT,
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias", HEARTH_HF_EXPERTS, HEARTH_HF_SAME},
    {0},
};

static const struct hearth_hf_map deepseek_v32_layer[] = {
    LATENT,
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias", HEARTH_HF_EXPERTS, HEARTH_HF_SAME},
    {"self_attn.indexer.wq_b.weight", "indexer.attn_q_b.weight", HEARTH_HF_CHOOSES, HEARTH_HF_SAME},
    {"self_attn.indexer.wk.weight", "indexer.attn_k.weight", HEARTH_HF_CHOOSES, HEARTH_HF_SAME},
    {"self_attn.indexer.k_norm.weight", "indexer.k_norm.weight", HEARTH_HF_CHOOSES, HEARTH_HF_SAME},
    {"self_attn.indexer.k_norm.bias", "indexer.k_norm.bias", HEARTH_HF_CHOOSES, HEARTH_HF_SAME},
    {"self_attn.indexer.weights_proj.weight", "indexer.proj.weight", HEARTH_HF_CHOOSES, HEARTH_HF_SAME},
    {0},
};

// The parts of a layer that guesses tokens ahead: it has copies of the embedding and the head.
static const struct hearth_hf_map nextn[] = {
    SAME("eh_proj.weight", "nextn.eh_proj.weight"),
    SAME("enorm.weight", "nextn.enorm.weight"),
    SAME("hnorm.weight", "nextn.hnorm.weight"),
    MAYBE("embed_tokens.weight", "nextn.embed_tokens.weight"),
    MAYBE("shared_head.head.weight", "nextn.shared_head_head.weight"),
    MAYBE("shared_head.norm.weight", "nextn.shared_head_norm.weight"),
    {0},
};

static const struct hearth_hf_map glm4moe_layer[] = {
    SAME("input_layernorm.weight", "attn_norm.weight"),
    SAME("post_attention_layernorm.weight", "post_attention_norm.weight"),
    PLAIN_QKV,
    MAYBE("self_attn.q_proj.bias", "attn_q.bias"),
    MAYBE("self_attn.k_proj.bias", "attn_k.bias"),
    MAYBE("self_attn.v_proj.bias", "attn_v.bias"),
    MAYBE("self_attn.q_norm.weight", "attn_q_norm.weight"),
    MAYBE("self_attn.k_norm.weight", "attn_k_norm.weight"),
    DEEPSEEK_EXPERTS,
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias", HEARTH_HF_EXPERTS, HEARTH_HF_SAME},
    {0},
};

static const struct hearth_hf_map gptoss_layer[] = {
    SAME("input_layernorm.weight", "attn_norm.weight"),
    SAME("post_attention_layernorm.weight", "post_attention_norm.weight"),
    BOTH("self_attn.q_proj", "attn_q"),
    BOTH("self_attn.k_proj", "attn_k"),
    BOTH("self_attn.v_proj", "attn_v"),
    BOTH("self_attn.o_proj", "attn_output"),
    SAME("self_attn.sinks", "attn_sinks.weight"),
    BOTH("mlp.router", "ffn_gate_inp"),
    {"mlp.experts.gate_up_proj_blocks", "ffn_gate_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_EVEN_ROWS},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", HEARTH_HF_REQUIRED, HEARTH_HF_EVEN_COLUMNS},
    {"mlp.experts.gate_up_proj_blocks", "ffn_up_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_ODD_ROWS},
    {"mlp.experts.gate_up_proj", "ffn_up_exps.weight", HEARTH_HF_REQUIRED, HEARTH_HF_ODD_COLUMNS},
    {"mlp.experts.down_proj_blocks", "ffn_down_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    {"mlp.experts.down_proj", "ffn_down_exps.weight", HEARTH_HF_REQUIRED, HEARTH_HF_COLUMNS},
    {"mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias", HEARTH_HF_REQUIRED, HEARTH_HF_EVEN_ROWS},
    {"mlp.experts.gate_up_proj_bias", "ffn_up_exps.bias", HEARTH_HF_REQUIRED, HEARTH_HF_ODD_ROWS},
    SAME("mlp.experts.down_proj_bias", "ffn_down_exps.bias"),
    {0},
};

static const struct hearth_hf_map qwen2moe_layer[] = {
    NORMS, PLAIN_QKV, QKV_BIASES(HEARTH_HF_REQUIRED), MANY_EXPERTS, {0},
};

static const struct hearth_hf_map minimax_m2_layer[] = {
    NORMS,
    PLAIN_QKV,
    HEAD_NORMS,
    {"block_sparse_moe.gate.weight", "ffn_gate_inp.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    SAME("mlp.gate.weight", "ffn_gate_inp.weight"),
    {"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    SAME("mlp.e_score_correction_bias", "exp_probs_b.bias"),
    EXPERTS("block_sparse_moe.experts.", "mlp.experts.", "w1", "w3", "w2"),
    {0},
};

static const struct hearth_hf_map granitemoe_layer[] = {NORMS, LLAMA_QKV, GRANITE_EXPERTS, {0}};

// Experts of a layer in two tensors, whose columns are a GGUF's rows.
#define TURNED_EXPERTS(prefix)                                                                               \
    OF_EXPERTS(prefix "gate_up_proj", "ffn_gate_exps.weight", HEARTH_HF_FIRST_COLUMNS),                      \
        OF_EXPERTS(prefix "gate_up_proj", "ffn_up_exps.weight", HEARTH_HF_SECOND_COLUMNS),                   \
        OF_EXPERTS(prefix "down_proj", "ffn_down_exps.weight", HEARTH_HF_COLUMNS)

static const struct hearth_hf_map qwen3vlmoe_layer[] = {
    NORMS,
    PLAIN_QKV,
    HEAD_NORMS,
    SAME("mlp.gate.weight", "ffn_gate_inp.weight"),
    TURNED_EXPERTS("mlp.experts."),
    {0},
};

static const struct hearth_hf_map llama4_layer[] = {
    NORMS,
    PLAIN_QKV,
    {"feed_forward.gate_proj.weight", "ffn_gate.weight", HEARTH_HF_LEADING, HEARTH_HF_SAME},
    {"feed_forward.up_proj.weight", "ffn_up.weight", HEARTH_HF_LEADING, HEARTH_HF_SAME},
    {"feed_forward.down_proj.weight", "ffn_down.weight", HEARTH_HF_LEADING, HEARTH_HF_SAME},
    OF_EXPERTS("feed_forward.router.weight", "ffn_gate_inp.weight", HEARTH_HF_SAME),
    TURNED_EXPERTS("feed_forward.experts."),
    OF_SHARED("feed_forward.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight", HEARTH_HF_SAME),
    OF_SHARED("feed_forward.shared_expert.up_proj.weight", "ffn_up_shexp.weight", HEARTH_HF_SAME),
    OF_SHARED("feed_forward.shared_expert.down_proj.weight", "ffn_down_shexp.weight", HEARTH_HF_SAME),
    {0},
};

static const struct hearth_hf_map hunyuan_moe_layer[] = {
    NORMS,
    PLAIN_QKV,
    HUNYUAN_NORMS,
    SAME("mlp.gate.wg.weight", "ffn_gate_inp.weight"),
    EXPERTS("mlp.experts.", "mlp.experts.", "gate_proj", "up_proj", "down_proj"),
    OF_SHARED("mlp.shared_mlp.gate_proj.weight", "ffn_gate_shexp.weight", HEARTH_HF_SAME),
    OF_SHARED("mlp.shared_mlp.up_proj.weight", "ffn_up_shexp.weight", HEARTH_HF_SAME),
    OF_SHARED("mlp.shared_mlp.down_proj.weight", "ffn_down_shexp.weight", HEARTH_HF_SAME),
    {0},
};

static const struct hearth_hf_map ernie_moe_layer[] = {
    NORMS,
    PLAIN_QKV,
    DEEPSEEK_EXPERTS,
    OF_EXPERTS("mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias", HEARTH_HF_SAME),
    {0},
};

static const struct hearth_hf_map dots1_layer[] = {
    NORMS,
    PLAIN_QKV,
    HEAD_NORMS,
    DEEPSEEK_EXPERTS,
    OF_EXPERTS("mlp.gate.e_score_correction_bias", "exp_probs_b.bias", HEARTH_HF_SAME),
    {0},
};

static const struct hearth_hf_map bailing2_globals[] = {
    SAME("word_embeddings.weight", "token_embd.weight"),
    SAME("norm.weight", "output_norm.weight"),
    {"lm_head.weight", "output.weight", HEARTH_HF_HEAD, HEARTH_HF_SAME},
    {0},
};

static const struct hearth_hf_map bailing2_layer[] = {
    NORMS,
    SAME("attention.query_key_value.weight", "attn_qkv.weight"),
    SAME("attention.query_layernorm.weight", "attn_q_norm.weight"),
    SAME("attention.key_layernorm.weight", "attn_k_norm.weight"),
    SAME("attention.dense.weight", "attn_output.weight"),
    DEEPSEEK_EXPERTS,
    OF_EXPERTS("mlp.gate.expert_bias", "exp_probs_b.bias", HEARTH_HF_SAME),
    {0},
};

const struct hearth_hf_family hearth_hf_families_experts[] = {
    {.arch = "hunyuan-moe",
     .classes = {"HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe"},
     .rope_alpha = true,
     .defaults = {.n_ctx = 2048, .norm_eps = 1e-5},
     .predictor_input = "normed",
     .globals = hearth_hf_rms_globals,
     .layer = hunyuan_moe_layer,
     .read = hearth_hf_read_hunyuan_moe},
    {.arch = "ernie4_5-moe",
     .classes = {"Ernie4_5_MoeForCausalLM", "ernie4_5_moe"},
     .guesses = "model.mtp_",
     .defaults = {.n_ctx = 131072,
                  .n_head_kv = 4,
                  .norm_eps = 1e-5,
                  .rope_theta = 500000,
                  .n_dense = 1,
                  .tied = true},
     .globals = hearth_hf_rms_globals,
     .layer = ernie_moe_layer,
     .read = hearth_hf_read_ernie_moe},
    {.arch = "dots1",
     .classes = {"Dots1ForCausalLM", "dots1"},
     .grouped = true,
     .window_asked = true,
     .globals = hearth_hf_rms_globals,
     .layer = dots1_layer,
     .read = hearth_hf_read_dots1},
    {.arch = "bailingmoe2",
     .classes = {"BailingMoeV2ForCausalLM", "bailing_moe"},
     .grouped = true,
     .rope_partial = true,
     .window_asked = true,
     .shared_length = true,
     .says_vocab = true,
     .defaults = {.rope_share = 0.5},
     .globals = bailing2_globals,
     .layer = bailing2_layer,
     .read = hearth_hf_read_bailing2},
    {.arch = "qwen3vlmoe",
     .classes = {"Qwen3VLMoeForConditionalGeneration"},
     .rope_partial = true,
     .sees = true,
     .defaults = {.n_ctx = 128000, .n_head_kv = 16, .rope_theta = 500000},
     .predictor_input = "normed",
     .globals = hearth_hf_rms_globals,
     .layer = qwen3vlmoe_layer,
     .read = hearth_hf_read_qwen3vlmoe},
    {.arch = "llama4",
     .classes = {"Llama4ForConditionalGeneration", "Llama4ForCausalLM", "llama4", "llama4_text"},
     .llama_keys = true,
     .shared_usual = true,
     .defaults = {.n_vocab = 202048,
                  .n_ctx = 131072,
                  .n_embd = 5120,
                  .n_layer = 48,
                  .n_head = 40,
                  .n_head_kv = 8,
                  .head_dim = 128,
                  .n_ff = 8192,
                  .norm_eps = 1e-5,
                  .rope_theta = 500000},
     .globals = hearth_hf_rms_globals,
     .layer = llama4_layer,
     .read = hearth_hf_read_llama4},
    {.arch = "llama",
     .classes = {"MixtralForCausalLM", "mixtral"},
     .llama_keys = true,
     .defaults = {.norm_eps = 1e-5, .rope_theta = 1e6},
     .predictor_input = "normed",
     .globals = hearth_hf_rms_globals,
     .layer = mixtral_layer,
     .read = hearth_hf_read_mixtral},
    {.arch = "llama",
     .classes = {"TurboSparseMixtralForCausalLM", "turbosparsemixtral"},
     .llama_keys = true,
     .activation = "drelu",
     .predictor_input = "normed",
     .globals = hearth_hf_rms_globals,
     .layer = mixtral_layer,
     .read = hearth_hf_read_mixtral},
    {.arch = "qwen3moe",
     .classes = {"Qwen3MoeForCausalLM", "qwen3_moe"},
     .defaults = {.head_dim = 128},
     .predictor_input = "normed",
     .globals = hearth_hf_rms_globals,
     .layer = qwen3moe_layer,
     .read = hearth_hf_read_qwen3moe},
    {.arch = "qwen2moe",
     .classes = {"Qwen2MoeForCausalLM", "qwen2_moe"},
     .predictor_input = "normed",
     .globals = hearth_hf_rms_globals,
     .layer = qwen2moe_layer,
     .read = hearth_hf_read_qwen2moe},
    {.arch = "granitemoe",
     .classes = {"GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM", "granitemoe", "granitemoeshared"},
     .llama_keys = true,
     .predictor_input = "normed",
     .globals = hearth_hf_rms_globals,
     .layer = granitemoe_layer,
     .read = hearth_hf_read_granitemoe},
    {.arch = "olmoe",
     .classes = {"OlmoeForCausalLM", "olmoe"},
     .defaults = {.norm_eps = 1e-5},
     .predictor_input = "normed",
     .globals = hearth_hf_rms_globals,
     .layer = qwen3moe_layer,
     .read = hearth_hf_read_olmoe},
    {.arch = "minimax-m2",
     .classes = {"MiniMaxM2ForCausalLM", "minimax_m2"},
     .rope_partial = true,
     .defaults = {.n_head_kv = 8, .head_dim = 128, .rope_theta = 5e6},
     .predictor_input = "normed",
     .globals = hearth_hf_rms_globals,
     .layer = minimax_m2_layer,
     .read = hearth_hf_read_minimax_m2},
    {.arch = "deepseek2",
     .classes = {"DeepseekV2ForCausalLM", "deepseek_v2"},
     .latent = true,
     .globals = hearth_hf_rms_globals,
     .layer = deepseek_v2_layer,
     .read = hearth_hf_read_deepseek_v2},
    {.arch = "deepseek2",
     .classes = {"DeepseekV3ForCausalLM", "deepseek_v3", "kimi_k2"},
     .latent = true,
     .defaults = {.n_dense = 3},
     .globals = hearth_hf_rms_globals,
     .layer = deepseek_v3_layer,
     .read = hearth_hf_read_deepseek_v3},
    {.arch = "deepseek2",
     .classes = {"Glm4MoeLiteForCausalLM", "glm4_moe_lite"},
     .latent = true,
     .defaults = {.norm_eps = 1e-5, .n_dense = 1},
     .globals = hearth_hf_rms_globals,
     .layer = deepseek_v3_layer,
     .read = hearth_hf_read_deepseek_v3},
    {.arch = "deepseek32",
     .classes = {"DeepseekV32ForCausalLM", "deepseek_v32"},
     .latent = true,
     .defaults = {.n_dense = 3},
     .globals = hearth_hf_rms_globals,
     .layer = deepseek_v32_layer,
     .read = hearth_hf_read_deepseek_v32},
    {.arch = "glm-dsa",
     .classes = {"GlmMoeDsaForCausalLM", "glm_moe_dsa"},
     .latent = true,
     .defaults = {.norm_eps = 1e-5, .n_dense = 3},
     .globals = hearth_hf_rms_globals,
     .layer = deepseek_v32_layer,
     .read = hearth_hf_read_glm_dsa},
    {.arch = "glm4moe",
     .classes = {"Glm4MoeForCausalLM", "glm4_moe"},
     .grouped = true,
     .rope_partial = true,
     .defaults = {.norm_eps = 1e-5, .n_dense = 1, .rope_share = 0.5},
     .globals = hearth_hf_rms_globals,
     .layer = glm4moe_layer,
     .extra = nextn,
     .read = hearth_hf_read_glm4moe},
    {.arch = "gpt-oss",
     .classes = {"GptOssForCausalLM", "gpt_oss"},
     .window_period = 2,
     .mxfp4 = true,
     .rope_exact = true,
     .defaults = {.n_vocab = 201088,
                  .n_ctx = 131072,
                  .n_embd = 2880,
                  .n_layer = 36,
                  .n_head = 64,
                  .n_head_kv = 8,
                  .head_dim = 64,
                  .n_ff = 2880,
                  .window = 128,
                  .norm_eps = 1e-5,
                  .rope_theta = 150000},
     .globals = hearth_hf_rms_globals,
     .layer = gptoss_layer,
     .read = hearth_hf_read_gptoss},
    {0},
};
