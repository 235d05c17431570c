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

const struct hearth_hf_family hearth_hf_families_recurrent[] = {
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
