// SPDX-License-Identifier: MIT
// Families whose layers are recurrent in part.
#include "convert/hf_rows.h"

// The same where it stands apart.
static const struct hearth_hf_map mtp[] = {
    SAME("mtp.fc.weight", "nextn.eh_proj.weight"),
    {"mtp.pre_fc_norm_embedding.weight", "nextn.enorm.weight", HEARTH_HF_REQUIRED, HEARTH_HF_ONE_MORE},
    {"mtp.pre_fc_norm_hidden.weight", "nextn.hnorm.weight", HEARTH_HF_REQUIRED, HEARTH_HF_ONE_MORE},
    {"mtp.norm.weight", "nextn.shared_head_norm.weight", HEARTH_HF_REQUIRED, HEARTH_HF_ONE_MORE},
    {0},
};

#define IN_ATTENTION(from, to, order)                                                                        \
    {                                                                                                        \
        from, to, HEARTH_HF_ATTENDS, order                                                                   \
    }

#define IN_RECURRENCE(from, to, order)                                                                       \
    {                                                                                                        \
        from, to, HEARTH_HF_RECURS, order                                                                    \
    }

#define DELTA_ATTENTION                                                                                      \
    NORM("input_layernorm.weight", "attn_norm.weight"),                                                      \
        NORM("post_attention_layernorm.weight", "post_attention_norm.weight"),                               \
        IN_ATTENTION("self_attn.q_proj.weight", "attn_q.weight", HEARTH_HF_SAME),                            \
        IN_ATTENTION("self_attn.k_proj.weight", "attn_k.weight", HEARTH_HF_SAME),                            \
        IN_ATTENTION("self_attn.v_proj.weight", "attn_v.weight", HEARTH_HF_SAME),                            \
        IN_ATTENTION("self_attn.o_proj.weight", "attn_output.weight", HEARTH_HF_SAME),                       \
        IN_ATTENTION("self_attn.q_norm.weight", "attn_q_norm.weight", HEARTH_HF_ONE_MORE),                   \
        IN_ATTENTION("self_attn.k_norm.weight", "attn_k_norm.weight", HEARTH_HF_ONE_MORE)

#define DELTA_STATE                                                                                          \
    IN_RECURRENCE("linear_attn.conv1d.weight", "ssm_conv1d.weight", HEARTH_HF_BEHIND_KEYS),                  \
        IN_RECURRENCE("linear_attn.A_log", "ssm_a", HEARTH_HF_DECAY),                                        \
        IN_RECURRENCE("linear_attn.dt_bias", "ssm_dt.bias", HEARTH_HF_EACH_HEAD),                            \
        IN_RECURRENCE("linear_attn.norm.weight", "ssm_norm.weight", HEARTH_HF_SAME),                         \
        IN_RECURRENCE("linear_attn.out_proj.weight", "ssm_out.weight", HEARTH_HF_VALUE_COLUMNS)

#define QWEN35_MIXER                                                                                         \
    DELTA_ATTENTION, DELTA_STATE,                                                                            \
        IN_RECURRENCE("linear_attn.in_proj_qkv.weight", "attn_qkv.weight", HEARTH_HF_BEHIND_KEYS),           \
        IN_RECURRENCE("linear_attn.in_proj_z.weight", "attn_gate.weight", HEARTH_HF_VALUE_HEADS),            \
        IN_RECURRENCE("linear_attn.in_proj_b.weight", "ssm_beta.weight", HEARTH_HF_EACH_HEAD),               \
        IN_RECURRENCE("linear_attn.in_proj_a.weight", "ssm_alpha.weight", HEARTH_HF_EACH_HEAD)

static const struct hearth_hf_map qwen35_layer[] = {QWEN35_MIXER, GATED, {0}};

static const struct hearth_hf_map qwen35moe_layer[] = {
    QWEN35_MIXER,
    MANY_EXPERTS,
    {0},
};

static const struct hearth_hf_map qwen3next_layer[] = {
    DELTA_ATTENTION,
    DELTA_STATE,
    IN_RECURRENCE("linear_attn.in_proj_qkvz.weight", "attn_qkv.weight", HEARTH_HF_JOINT_QKV),
    IN_RECURRENCE("linear_attn.in_proj_qkvz.weight", "attn_gate.weight", HEARTH_HF_JOINT_GATES),
    IN_RECURRENCE("linear_attn.in_proj_ba.weight", "ssm_ba.weight", HEARTH_HF_SAME),
    MANY_EXPERTS,
    {0},
};

static const struct hearth_hf_map lfm2_globals[] = {
    SAME("embed_tokens.weight", "token_embd.weight"),
    SAME("embedding_norm.weight", "token_embd_norm.weight"),
    {"lm_head.weight", "output.weight", HEARTH_HF_HEAD, HEARTH_HF_SAME},
    {0},
};

#define LFM2_MIXER                                                                                           \
    SAME("operator_norm.weight", "attn_norm.weight"), SAME("ffn_norm.weight", "ffn_norm.weight"),            \
        IN_ATTENTION("self_attn.q_proj.weight", "attn_q.weight", HEARTH_HF_SAME),                            \
        IN_ATTENTION("self_attn.k_proj.weight", "attn_k.weight", HEARTH_HF_SAME),                            \
        IN_ATTENTION("self_attn.v_proj.weight", "attn_v.weight", HEARTH_HF_SAME),                            \
        IN_ATTENTION("self_attn.out_proj.weight", "attn_output.weight", HEARTH_HF_SAME),                     \
        IN_ATTENTION("self_attn.q_layernorm.weight", "attn_q_norm.weight", HEARTH_HF_SAME),                  \
        IN_ATTENTION("self_attn.k_layernorm.weight", "attn_k_norm.weight", HEARTH_HF_SAME),                  \
        IN_RECURRENCE("conv.in_proj.weight", "shortconv.in_proj.weight", HEARTH_HF_SAME),                    \
        IN_RECURRENCE("conv.conv.weight", "shortconv.conv.weight", HEARTH_HF_SAME),                          \
        IN_RECURRENCE("conv.out_proj.weight", "shortconv.out_proj.weight", HEARTH_HF_SAME)

static const struct hearth_hf_map lfm2_layer[] = {
    LFM2_MIXER,
    SAME("feed_forward.w1.weight", "ffn_gate.weight"),
    SAME("feed_forward.w3.weight", "ffn_up.weight"),
    SAME("feed_forward.w2.weight", "ffn_down.weight"),
    {0},
};

static const struct hearth_hf_map lfm2moe_layer[] = {
    LFM2_MIXER,
    {"feed_forward.w1.weight", "ffn_gate.weight", HEARTH_HF_LEADING, HEARTH_HF_SAME},
    {"feed_forward.w3.weight", "ffn_up.weight", HEARTH_HF_LEADING, HEARTH_HF_SAME},
    {"feed_forward.w2.weight", "ffn_down.weight", HEARTH_HF_LEADING, HEARTH_HF_SAME},
    OF_EXPERTS("feed_forward.gate.weight", "ffn_gate_inp.weight", HEARTH_HF_SAME),
    OF_EXPERTS("feed_forward.expert_bias", "exp_probs_b.bias", HEARTH_HF_SAME),
    EXPERTS("feed_forward.experts.", "feed_forward.experts.", "w1", "w3", "w2"),
    {0},
};

// A scan (Mamba-2), under a prefix of its own.
#define SCAN(prefix)                                                                                         \
    IN_RECURRENCE(prefix "in_proj.weight", "ssm_in.weight", HEARTH_HF_SAME),                                 \
        IN_RECURRENCE(prefix "conv1d.weight", "ssm_conv1d.weight", HEARTH_HF_SAME),                          \
        IN_RECURRENCE(prefix "conv1d.bias", "ssm_conv1d.bias", HEARTH_HF_SAME),                              \
        IN_RECURRENCE(prefix "dt_bias", "ssm_dt.bias", HEARTH_HF_SAME),                                      \
        IN_RECURRENCE(prefix "A_log", "ssm_a", HEARTH_HF_DECAY),                                             \
        IN_RECURRENCE(prefix "D", "ssm_d", HEARTH_HF_SPREAD),                                                \
        IN_RECURRENCE(prefix "out_proj.weight", "ssm_out.weight", HEARTH_HF_SAME)

static const struct hearth_hf_map nemotron_globals[] = {
    SAME("embeddings.weight", "token_embd.weight"),
    SAME("norm_f.weight", "output_norm.weight"),
    {"lm_head.weight", "output.weight", HEARTH_HF_HEAD, HEARTH_HF_SAME},
    {0},
};

// A layer is one of a scan, attention and a feed-forward part, or experts.
static const struct hearth_hf_map nemotron_layer[] = {
    SAME("norm.weight", "attn_norm.weight"),
    SCAN("mixer."),
    IN_RECURRENCE("mixer.norm.weight", "ssm_norm.weight", HEARTH_HF_SPREAD),
    IN_ATTENTION("mixer.q_proj.weight", "attn_q.weight", HEARTH_HF_ROTARY_Q), // though nothing rotates
    IN_ATTENTION("mixer.k_proj.weight", "attn_k.weight", HEARTH_HF_ROTARY_K),
    IN_ATTENTION("mixer.v_proj.weight", "attn_v.weight", HEARTH_HF_SAME),
    IN_ATTENTION("mixer.o_proj.weight", "attn_output.weight", HEARTH_HF_SAME),
    {"mixer.up_proj.weight", "ffn_up.weight", HEARTH_HF_FEEDS, HEARTH_HF_SAME},
    {"mixer.down_proj.weight", "ffn_down.weight", HEARTH_HF_FEEDS, HEARTH_HF_SAME},
    OF_EXPERTS("mixer.gate.weight", "ffn_gate_inp.weight", HEARTH_HF_SAME),
    OF_EXPERTS("mixer.gate.e_score_correction_bias", "exp_probs_b.bias", HEARTH_HF_SAME),
    {"mixer.fc1_latent_proj.weight", "ffn_latent_down.weight", HEARTH_HF_SMALL, HEARTH_HF_SAME},
    {"mixer.fc2_latent_proj.weight", "ffn_latent_up.weight", HEARTH_HF_SMALL, HEARTH_HF_SAME},
    OF_EXPERTS("mixer.experts.#.up_proj.weight", "ffn_up_exps.weight", HEARTH_HF_SAME),
    OF_EXPERTS("mixer.experts.#.down_proj.weight", "ffn_down_exps.weight", HEARTH_HF_SAME),
    OF_SHARED("mixer.shared_experts.up_proj.weight", "ffn_up_shexp.weight", HEARTH_HF_SAME),
    OF_SHARED("mixer.shared_experts.down_proj.weight", "ffn_down_shexp.weight", HEARTH_HF_SAME),
    {0},
};

#define GRANITE_MIXER                                                                                        \
    NORMS, IN_ATTENTION("self_attn.q_proj.weight", "attn_q.weight", HEARTH_HF_ROTARY_Q),                     \
        IN_ATTENTION("self_attn.k_proj.weight", "attn_k.weight", HEARTH_HF_ROTARY_K),                        \
        IN_ATTENTION("self_attn.v_proj.weight", "attn_v.weight", HEARTH_HF_SAME),                            \
        IN_ATTENTION("self_attn.o_proj.weight", "attn_output.weight", HEARTH_HF_SAME), SCAN("mamba."),       \
        IN_RECURRENCE("mamba.norm.weight", "ssm_norm.weight", HEARTH_HF_SPREAD)
// A feed-forward part that all tokens use, and nothing beside it.
#define GRANITE_DENSE                                                                                        \
    {"shared_mlp.input_linear.weight", "ffn_gate.weight", HEARTH_HF_REQUIRED, HEARTH_HF_FIRST_HALF},         \
        {"shared_mlp.input_linear.weight", "ffn_up.weight", HEARTH_HF_REQUIRED, HEARTH_HF_SECOND_HALF},      \
        SAME("shared_mlp.output_linear.weight", "ffn_down.weight")

static const struct hearth_hf_map granite_hybrid_layer[] = {GRANITE_MIXER, GRANITE_DENSE, {0}};
static const struct hearth_hf_map granite_hybrid_moe_layer[] = {GRANITE_MIXER, GRANITE_EXPERTS, {0}};

static const struct hearth_hf_map falcon_h1_globals[] = {
    SAME("embed_tokens.weight", "token_embd.weight"),
    SAME("final_layernorm.weight", "output_norm.weight"),
    {"lm_head.weight", "output.weight", HEARTH_HF_HEAD, HEARTH_HF_SAME},
    {0},
};

// Attention and a scan side by side.
static const struct hearth_hf_map falcon_h1_layer[] = {
    SAME("input_layernorm.weight", "attn_norm.weight"),
    SAME("pre_ff_layernorm.weight", "ffn_norm"),
    PLAIN_QKV,
    SAME("mamba.in_proj.weight", "ssm_in.weight"),
    SAME("mamba.conv1d.weight", "ssm_conv1d.weight"),
    SAME("mamba.conv1d.bias", "ssm_conv1d.bias"),
    SAME("mamba.dt_bias", "ssm_dt.bias"),
    {"mamba.A_log", "ssm_a", HEARTH_HF_REQUIRED, HEARTH_HF_DECAY},
    {"mamba.D", "ssm_d", HEARTH_HF_REQUIRED, HEARTH_HF_SPREAD},
    {"mamba.norm.weight", "ssm_norm.weight", HEARTH_HF_OPTIONAL, HEARTH_HF_SPREAD},
    SAME("mamba.out_proj.weight", "ssm_out.weight"),
    SAME("feed_forward.gate_proj.weight", "ffn_gate.weight"),
    SAME("feed_forward.up_proj.weight", "ffn_up.weight"),
    SAME("feed_forward.down_proj.weight", "ffn_down.weight"),
    {0},
};

// Recurrent layers with a convolution each for queries, keys and values, and attention with a latent vector.
static const struct hearth_hf_map kimi_layer[] = {
    NORMS,
    IN_ATTENTION("self_attn.q_proj.weight", "attn_q.weight", HEARTH_HF_SAME),
    IN_ATTENTION("self_attn.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight", HEARTH_HF_SAME),
    IN_ATTENTION("self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight", HEARTH_HF_SAME),
    IN_ATTENTION("self_attn.kv_b_proj.weight", "attn_k_b.weight", HEARTH_HF_KEYS_OF_BOTH),
    IN_ATTENTION("self_attn.kv_b_proj.weight", "attn_v_b.weight", HEARTH_HF_VALUES_OF_BOTH),
    SAME("self_attn.o_proj.weight", "attn_output.weight"),
    IN_RECURRENCE("self_attn.q_proj.weight", "attn_q.weight", HEARTH_HF_SAME),
    IN_RECURRENCE("self_attn.k_proj.weight", "attn_k.weight", HEARTH_HF_SAME),
    IN_RECURRENCE("self_attn.v_proj.weight", "attn_v.weight", HEARTH_HF_SAME),
    IN_RECURRENCE("self_attn.q_conv1d.weight", "ssm_conv1d_q.weight", HEARTH_HF_SAME),
    IN_RECURRENCE("self_attn.k_conv1d.weight", "ssm_conv1d_k.weight", HEARTH_HF_SAME),
    IN_RECURRENCE("self_attn.v_conv1d.weight", "ssm_conv1d_v.weight", HEARTH_HF_SAME),
    IN_RECURRENCE("self_attn.f_a_proj.weight", "ssm_f_a.weight", HEARTH_HF_SAME),
    IN_RECURRENCE("self_attn.f_b_proj.weight", "ssm_f_b.weight", HEARTH_HF_SAME),
    IN_RECURRENCE("self_attn.g_a_proj.weight", "ssm_g_a.weight", HEARTH_HF_SAME),
    IN_RECURRENCE("self_attn.g_b_proj.weight", "ssm_g_b.weight", HEARTH_HF_SAME),
    IN_RECURRENCE("self_attn.b_proj.weight", "ssm_beta.weight", HEARTH_HF_SAME),
    IN_RECURRENCE("self_attn.A_log", "ssm_a", HEARTH_HF_DECAY),
    IN_RECURRENCE("self_attn.dt_bias", "ssm_dt.bias", HEARTH_HF_SAME),
    IN_RECURRENCE("self_attn.o_norm.weight", "ssm_norm.weight", HEARTH_HF_SAME),
    {"mlp.gate_proj.weight", "ffn_gate.weight", HEARTH_HF_LEADING, HEARTH_HF_SAME},
    {"mlp.up_proj.weight", "ffn_up.weight", HEARTH_HF_LEADING, HEARTH_HF_SAME},
    {"mlp.down_proj.weight", "ffn_down.weight", HEARTH_HF_LEADING, HEARTH_HF_SAME},
    OF_EXPERTS("block_sparse_moe.gate.weight", "ffn_gate_inp.weight", HEARTH_HF_SAME),
    OF_EXPERTS("block_sparse_moe.gate.e_score_correction_bias", "exp_probs_b.bias", HEARTH_HF_SAME),
    OF_EXPERTS("block_sparse_moe.experts.#.w1.weight", "ffn_gate_exps.weight", HEARTH_HF_SAME),
    OF_EXPERTS("block_sparse_moe.experts.#.w3.weight", "ffn_up_exps.weight", HEARTH_HF_SAME),
    OF_EXPERTS("block_sparse_moe.experts.#.w2.weight", "ffn_down_exps.weight", HEARTH_HF_SAME),
    OF_SHARED("block_sparse_moe.shared_experts.gate_proj.weight", "ffn_gate_shexp.weight", HEARTH_HF_SAME),
    OF_SHARED("block_sparse_moe.shared_experts.up_proj.weight", "ffn_up_shexp.weight", HEARTH_HF_SAME),
    OF_SHARED("block_sparse_moe.shared_experts.down_proj.weight", "ffn_down_shexp.weight", HEARTH_HF_SAME),
    {0},
};

#define NEMOTRON(name)                                                                                       \
    .arch = name, .guesses = "mtp.", .base = "backbone.", .has_scan = true, .heads_stay = true,              \
    .one_part = true, .layer_norm = true, .says_vocab = true,                                                \
    .defaults = {.n_vocab = 131072,                                                                          \
                 .n_ctx = 4096,                                                                              \
                 .n_embd = 4096,                                                                             \
                 .n_head = 32,                                                                               \
                 .n_head_kv = 8,                                                                             \
                 .head_dim = 128,                                                                            \
                 .n_ff = 21504,                                                                              \
                 .norm_eps = 1e-5,                                                                           \
                 .activation = "relu2"},                                                                     \
    .globals = nemotron_globals, .layer = nemotron_layer

static const struct hearth_hf_family nemotron_moe = {NEMOTRON("nemotron_h_moe")};
static const struct hearth_hf_family granite_attending = {.arch = "granite",
                                                          .llama_keys = true,
                                                          .predictor_input = "stream",
                                                          .globals = hearth_hf_rms_globals,
                                                          .layer = granite_hybrid_layer};
static const struct hearth_hf_family granite_hybrid_moe = {.arch = "granitehybrid",
                                                           .llama_keys = true,
                                                           .has_scan = true,
                                                           .heads_stay = true,
                                                           .predictor_input = "normed",
                                                           .globals = hearth_hf_rms_globals,
                                                           .layer = granite_hybrid_moe_layer};

static const struct hearth_hf_map minimax_01_layer[] = {
    NORMS,
    IN_ATTENTION("self_attn.q_proj.weight", "attn_q.weight", HEARTH_HF_SAME),
    IN_ATTENTION("self_attn.k_proj.weight", "attn_k.weight", HEARTH_HF_SAME),
    IN_ATTENTION("self_attn.v_proj.weight", "attn_v.weight", HEARTH_HF_SAME),
    IN_ATTENTION("self_attn.o_proj.weight", "attn_output.weight", HEARTH_HF_SAME),
    IN_RECURRENCE("self_attn.qkv_proj.weight", "attn_qkv.weight", HEARTH_HF_SAME),
    IN_RECURRENCE("self_attn.output_gate.weight", "attn_gate.weight", HEARTH_HF_SAME),
    IN_RECURRENCE("self_attn.norm.weight", "attn_norm_2.weight", HEARTH_HF_SAME),
    IN_RECURRENCE("self_attn.out_proj.weight", "attn_output.weight", HEARTH_HF_SAME),
    SAME("block_sparse_moe.gate.weight", "ffn_gate_inp.weight"),
    EXPERTS("block_sparse_moe.experts.", "mlp.experts.", "w1", "w3", "w2"),
    {0},
};

const struct hearth_hf_family hearth_hf_families_recurrent[] = {
    {.arch = "minimax-01",
     .classes = {"MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM", "minimax_text_01", "minimax_m1"},
     .has_fixed = true,
     .heads_stay = true,
     .zero_unsaid = true,
     .defaults = {.n_head_kv = 8, .head_dim = 128, .norm_eps = 1e-5, .rope_theta = 1e7},
     .predictor_input = "normed",
     .globals = hearth_hf_rms_globals,
     .layer = minimax_01_layer,
     .read = hearth_hf_read_minimax_01},
    {.arch = "kimi-linear",
     .classes = {"KimiLinearForCausalLM", "kimi_linear"},
     .latent = true,
     .has_kda = true,
     .heads_stay = true,
     .defaults = {.n_ctx = 1048576, .norm_eps = 1e-5, .n_dense = 1},
     .globals = hearth_hf_rms_globals,
     .layer = kimi_layer,
     .read = hearth_hf_read_kimi_linear},
    {NEMOTRON("nemotron_h"), .classes = {"NemotronHForCausalLM", "nemotron_h"}, .variants = {&nemotron_moe},
     .read = hearth_hf_read_nemotron_h},
    {.arch = "granitehybrid",
     .classes = {"GraniteMoeHybridForCausalLM", "granitemoehybrid"},
     .llama_keys = true,
     .has_scan = true,
     .heads_stay = true,
     .predictor_input = "stream",
     .globals = hearth_hf_rms_globals,
     .layer = granite_hybrid_layer,
     .variants = {&granite_attending, &granite_hybrid_moe}, // where all layers attend; with experts
     .read = hearth_hf_read_granitehybrid},
    {.arch = "falcon-h1",
     .classes = {"FalconH1ForCausalLM", "falcon_h1"},
     .has_scan = true,
     .heads_stay = true,
     .beside = true,
     .multiplies = true,
     .says_vocab = true,
     .defaults = {.n_ctx = 8192, .n_head_kv = 8, .norm_eps = 1e-5},
     .predictor_input = "stream",
     .globals = falcon_h1_globals,
     .layer = falcon_h1_layer,
     .read = hearth_hf_read_falcon_h1},
    {.arch = "qwen35",
     .classes = {"Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration", "qwen3_5_text"},
     .rope_partial = true,
     .has_delta = true,
     .defaults = {.n_vocab = 248320,
                  .n_ctx = 32768,
                  .n_embd = 4096,
                  .n_layer = 32,
                  .n_head = 16,
                  .n_head_kv = 4,
                  .head_dim = 256,
                  .n_ff = 12288,
                  .rope_share = 0.25},
     .predictor_input = "stream",
     .globals = hearth_hf_one_more_globals,
     .layer = qwen35_layer,
     .extra = mtp,
     .extra_apart = true,
     .read = hearth_hf_read_qwen35},
    {.arch = "qwen35moe",
     .classes = {"Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text"},
     .rope_partial = true,
     .has_delta = true,
     .defaults = {.n_vocab = 248320,
                  .n_ctx = 32768,
                  .n_embd = 2048,
                  .n_layer = 40,
                  .n_head = 16,
                  .n_head_kv = 2,
                  .head_dim = 256,
                  .rope_share = 0.25},
     .predictor_input = "normed",
     .globals = hearth_hf_one_more_globals,
     .layer = qwen35moe_layer,
     .extra = mtp,
     .extra_apart = true,
     .read = hearth_hf_read_qwen35moe},
    {.arch = "qwen3next",
     .classes = {"Qwen3NextForCausalLM", "qwen3_next"},
     .rope_partial = true,
     .has_delta = true,
     .heads_stay = true,
     .defaults = {.n_head_kv = 2, .head_dim = 256, .rope_share = 0.25},
     .predictor_input = "normed",
     .globals = hearth_hf_one_more_globals,
     .layer = qwen3next_layer,
     .extra = mtp,
     .extra_apart = true,
     .read = hearth_hf_read_qwen3next},
    {.arch = "lfm2",
     .classes = {"Lfm2ForCausalLM", "lfm2"},
     .defaults = {.n_vocab = 65536,
                  .n_ctx = 128000,
                  .n_embd = 2560,
                  .n_layer = 32,
                  .n_head = 32,
                  .n_head_kv = 8,
                  .n_ff = 12288,
                  .norm_eps = 1e-5,
                  .rope_theta = 1e6,
                  .tied = true},
     .predictor_input = "stream",
     .globals = lfm2_globals,
     .layer = lfm2_layer,
     .read = hearth_hf_read_lfm2},
    {.arch = "lfm2moe",
     .classes = {"Lfm2MoeForCausalLM", "lfm2_moe"},
     .defaults = {.n_vocab = 65536,
                  .n_ctx = 128000,
                  .n_embd = 2048,
                  .n_layer = 32,
                  .n_head = 32,
                  .n_head_kv = 8,
                  .n_ff = 7168,
                  .norm_eps = 1e-5,
                  .rope_theta = 1e6,
                  .tied = true},
     .predictor_input = "normed",
     .globals = lfm2_globals,
     .layer = lfm2moe_layer,
     .read = hearth_hf_read_lfm2moe},
    {0},
};
