// SPDX-License-Identifier: MIT
// The families: a table each from the names of transformers to those of GGUF, and what is special about it.
// Sources: the models' own code in transformers; for Bamboo and TurboSparse the code that their repositories
// carry.
#include <stdio.h>
#include <string.h>

#include "convert/hf_readers.h"

#define SAME(from, to)                                                                                       \
    {                                                                                                        \
        from, to, HEARTH_HF_REQUIRED, HEARTH_HF_SAME                                                         \
    }
#define MAYBE(from, to)                                                                                      \
    {                                                                                                        \
        from, to, HEARTH_HF_OPTIONAL, HEARTH_HF_SAME                                                         \
    }

// ---- tables

static const struct hearth_hf_map rms_globals[] = {
    SAME("embed_tokens.weight", "token_embd.weight"),
    SAME("norm.weight", "output_norm.weight"),
    {"lm_head.weight", "output.weight", HEARTH_HF_HEAD, HEARTH_HF_SAME},
    {0},
};

#define PREDICTORS(from)                                                                                     \
    {from ".fc1.weight", "fc1.weight", HEARTH_HF_PREDICTOR, HEARTH_HF_SAME},                                 \
    {                                                                                                        \
        from ".fc2.weight", "fc2.weight", HEARTH_HF_PREDICTOR, HEARTH_HF_SAME                                \
    }
#define NORMS                                                                                                \
    SAME("input_layernorm.weight", "attn_norm.weight"),                                                      \
        SAME("post_attention_layernorm.weight", "ffn_norm.weight")
#define GATED                                                                                                \
    SAME("mlp.gate_proj.weight", "ffn_gate.weight"), SAME("mlp.up_proj.weight", "ffn_up.weight"),            \
        SAME("mlp.down_proj.weight", "ffn_down.weight"), PREDICTORS("mlp.predictor")
#define OUTPUT SAME("self_attn.o_proj.weight", "attn_output.weight")
// Rows as llama rotates them: adjacent pairs.
#define LLAMA_QKV                                                                                            \
    {"self_attn.q_proj.weight", "attn_q.weight", HEARTH_HF_REQUIRED, HEARTH_HF_ROTARY_Q},                    \
        {"self_attn.k_proj.weight", "attn_k.weight", HEARTH_HF_REQUIRED, HEARTH_HF_ROTARY_K},                \
        SAME("self_attn.v_proj.weight", "attn_v.weight"), OUTPUT
#define LLAMA_BIASES                                                                                         \
    {"self_attn.q_proj.bias", "attn_q.bias", HEARTH_HF_OPTIONAL, HEARTH_HF_ROTARY_Q},                        \
        {"self_attn.k_proj.bias", "attn_k.bias", HEARTH_HF_OPTIONAL, HEARTH_HF_ROTARY_K},                    \
        MAYBE("self_attn.v_proj.bias", "attn_v.bias"), MAYBE("self_attn.o_proj.bias", "attn_output.bias"),   \
        MAYBE("mlp.gate_proj.bias", "ffn_gate.bias"), MAYBE("mlp.up_proj.bias", "ffn_up.bias"),              \
        MAYBE("mlp.down_proj.bias", "ffn_down.bias")
// Experts of a layer, each with tensors of its own, or all of them in two tensors.
#define EXPERTS(each, all, gate, up, down)                                                                   \
    {each "#." gate ".weight", "ffn_gate_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},                    \
        {all "gate_up_proj", "ffn_gate_exps.weight", HEARTH_HF_EXPERTS, HEARTH_HF_FIRST_HALF},               \
        {each "#." up ".weight", "ffn_up_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},                    \
        {all "gate_up_proj", "ffn_up_exps.weight", HEARTH_HF_EXPERTS, HEARTH_HF_SECOND_HALF},                \
        {each "#." down ".weight", "ffn_down_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},                \
    {                                                                                                        \
        all "down_proj", "ffn_down_exps.weight", HEARTH_HF_EXPERTS, HEARTH_HF_SAME                           \
    }
#define PLAIN_QKV                                                                                            \
    SAME("self_attn.q_proj.weight", "attn_q.weight"), SAME("self_attn.k_proj.weight", "attn_k.weight"),      \
        SAME("self_attn.v_proj.weight", "attn_v.weight"), OUTPUT

#define BOTH(from, to) SAME(from ".weight", to ".weight"), SAME(from ".bias", to ".bias")

static const struct hearth_hf_map llama_layer[] = {NORMS, LLAMA_QKV, LLAMA_BIASES, GATED, {0}};
static const struct hearth_hf_map bamboo_layer[] = {NORMS, LLAMA_QKV, GATED, {0}};

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

static const struct hearth_hf_map qwen2_layer[] = {
    NORMS,
    PLAIN_QKV,
    SAME("self_attn.q_proj.bias", "attn_q.bias"),
    SAME("self_attn.k_proj.bias", "attn_k.bias"),
    SAME("self_attn.v_proj.bias", "attn_v.bias"),
    GATED,
    {0},
};

#define HEAD_NORMS                                                                                           \
    SAME("self_attn.q_norm.weight", "attn_q_norm.weight"),                                                   \
        SAME("self_attn.k_norm.weight", "attn_k_norm.weight")

static const struct hearth_hf_map qwen3_layer[] = {NORMS, PLAIN_QKV, HEAD_NORMS, GATED, {0}};

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

// The same where it stands apart.
static const struct hearth_hf_map mtp[] = {
    SAME("mtp.fc.weight", "nextn.eh_proj.weight"),
    {"mtp.pre_fc_norm_embedding.weight", "nextn.enorm.weight", HEARTH_HF_REQUIRED, HEARTH_HF_ONE_MORE},
    {"mtp.pre_fc_norm_hidden.weight", "nextn.hnorm.weight", HEARTH_HF_REQUIRED, HEARTH_HF_ONE_MORE},
    {"mtp.norm.weight", "nextn.shared_head_norm.weight", HEARTH_HF_REQUIRED, HEARTH_HF_ONE_MORE},
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

// Norms whose numbers are less by 1 than what they multiply by.
#define NORM(from, to)                                                                                       \
    {                                                                                                        \
        from, to, HEARTH_HF_REQUIRED, HEARTH_HF_ONE_MORE                                                     \
    }

static const struct hearth_hf_map one_more_globals[] = {
    SAME("embed_tokens.weight", "token_embd.weight"),
    NORM("norm.weight", "output_norm.weight"),
    {"lm_head.weight", "output.weight", HEARTH_HF_HEAD, HEARTH_HF_SAME},
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

#define OF_EXPERTS(from, to, order)                                                                          \
    {                                                                                                        \
        from, to, HEARTH_HF_EXPERTS, order                                                                   \
    }
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

// Many small experts, and one that all tokens use.
#define MANY_EXPERTS                                                                                         \
    SAME("mlp.gate.weight", "ffn_gate_inp.weight"),                                                          \
        EXPERTS("mlp.experts.", "mlp.experts.", "gate_proj", "up_proj", "down_proj"),                        \
        SAME("mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"),                                  \
        SAME("mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"),                                 \
        SAME("mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"),                                     \
        SAME("mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight")

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

// The part of attention that keeps rows as they are, with biases of queries, keys and values where there are any.
#define QKV_BIASES(need)                                                                                     \
    {"self_attn.q_proj.bias", "attn_q.bias", need, HEARTH_HF_SAME},                                          \
        {"self_attn.k_proj.bias", "attn_k.bias", need, HEARTH_HF_SAME},                                      \
    {                                                                                                        \
        "self_attn.v_proj.bias", "attn_v.bias", need, HEARTH_HF_SAME                                         \
    }

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

#define OF_SHARED(from, to, order)                                                                           \
    {                                                                                                        \
        from, to, HEARTH_HF_SHARED, order                                                                    \
    }

static const struct hearth_hf_map granitemoe_layer[] = {
    NORMS,
    LLAMA_QKV,
    SAME("block_sparse_moe.router.layer.weight", "ffn_gate_inp.weight"),
    {"block_sparse_moe.input_linear.weight", "ffn_gate_exps.weight", HEARTH_HF_REQUIRED,
     HEARTH_HF_FIRST_HALF},
    {"block_sparse_moe.input_linear.weight", "ffn_up_exps.weight", HEARTH_HF_REQUIRED, HEARTH_HF_SECOND_HALF},
    SAME("block_sparse_moe.output_linear.weight", "ffn_down_exps.weight"),
    OF_SHARED("shared_mlp.input_linear.weight", "ffn_gate_shexp.weight", HEARTH_HF_FIRST_HALF),
    OF_SHARED("shared_mlp.input_linear.weight", "ffn_up_shexp.weight", HEARTH_HF_SECOND_HALF),
    OF_SHARED("shared_mlp.output_linear.weight", "ffn_down_shexp.weight", HEARTH_HF_SAME),
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

static const struct hearth_hf_map gemma2_layer[] = {
    NORM("input_layernorm.weight", "attn_norm.weight"),
    NORM("post_attention_layernorm.weight", "post_attention_norm.weight"),
    NORM("pre_feedforward_layernorm.weight", "ffn_norm.weight"),
    NORM("post_feedforward_layernorm.weight", "post_ffw_norm.weight"),
    PLAIN_QKV,
    GATED,
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

// ---- the list

#define GEMMA4_DEFAULTS(context, width)                                                                      \
    {                                                                                                        \
        .n_vocab = 262144, .n_ctx = context, .n_embd = 2304, .n_layer = 30, .n_head = 8, .n_head_kv = 4,     \
        .head_dim = 256, .n_ff = 9216, .window = width, .rope_theta = 1e6, .rope_theta_window = 10000,       \
        .rope_share = 0.25, .activation = "gelu_pytorch_tanh", .tied = true                                  \
    }

static const struct hearth_hf_family families[] = {
    {.arch = "llama",
     .classes = {"LlamaForCausalLM", "LLaMAForCausalLM", "MistralForCausalLM", "SparseLlamaForCausalLM",
                 "llama", "mistral"},
     .llama_keys = true,
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = llama_layer},
    {.arch = "llama",
     .classes = {"MixtralForCausalLM", "mixtral"},
     .llama_keys = true,
     .defaults = {.norm_eps = 1e-5, .rope_theta = 1e6},
     .predictor_input = "normed",
     .globals = rms_globals,
     .layer = mixtral_layer,
     .read = hearth_hf_read_mixtral},
    {.arch = "llama",
     .classes = {"TurboSparseMixtralForCausalLM", "turbosparsemixtral"},
     .llama_keys = true,
     .activation = "drelu",
     .predictor_input = "normed",
     .globals = rms_globals,
     .layer = mixtral_layer,
     .read = hearth_hf_read_mixtral},
    {.arch = "bamboo",
     .classes = {"BambooForCausalLM", "bamboo"},
     .llama_keys = true,
     .activation = "drelu",
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = bamboo_layer},
    {.arch = "qwen2",
     .classes = {"Qwen2ForCausalLM", "qwen2"},
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = qwen2_layer},
    {.arch = "qwen2",
     .classes = {"SparseQwen2ForCausalLM", "sparseqwen2"},
     .activation = "drelu",
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = qwen2_layer},
    {.arch = "qwen3",
     .classes = {"Qwen3ForCausalLM", "qwen3"},
     .defaults = {.head_dim = 128},
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = qwen3_layer,
     .read = hearth_hf_read_qwen3},
    {.arch = "qwen3moe",
     .classes = {"Qwen3MoeForCausalLM", "qwen3_moe"},
     .defaults = {.head_dim = 128},
     .predictor_input = "normed",
     .globals = rms_globals,
     .layer = qwen3moe_layer,
     .read = hearth_hf_read_qwen3moe},
    {.arch = "qwen2moe",
     .classes = {"Qwen2MoeForCausalLM", "qwen2_moe"},
     .predictor_input = "normed",
     .globals = rms_globals,
     .layer = qwen2moe_layer,
     .read = hearth_hf_read_qwen2moe},
    {.arch = "qwen2vl",
     .classes = {"Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"},
     .rope_partial = true,
     .sees = true,
     .defaults = {.norm_eps = 1e-5},
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = qwen2_layer},
    {.arch = "qwen3vl",
     .classes = {"Qwen3VLForConditionalGeneration"},
     .rope_partial = true,
     .sees = true,
     .defaults = {.n_ctx = 128000, .head_dim = 128},
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = qwen3_layer,
     .read = hearth_hf_read_qwen3vl},
    {.arch = "smollm3",
     .classes = {"SmolLM3ForCausalLM", "smollm3"},
     .llama_keys = true,
     .defaults = {.n_head_kv = 4, .rope_theta = 2e6, .tied = true},
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = llama_layer,
     .read = hearth_hf_read_smollm3},
    {.arch = "granite",
     .classes = {"GraniteForCausalLM", "granite"},
     .llama_keys = true,
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = llama_layer,
     .read = hearth_hf_read_granite},
    {.arch = "granitemoe",
     .classes = {"GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM", "granitemoe", "granitemoeshared"},
     .llama_keys = true,
     .predictor_input = "normed",
     .globals = rms_globals,
     .layer = granitemoe_layer,
     .read = hearth_hf_read_granitemoe},
    {.arch = "seed_oss",
     .classes = {"SeedOssForCausalLM", "seed_oss"},
     .defaults = {.n_head_kv = 8, .head_dim = 128},
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = seed_layer},
    {.arch = "olmo2",
     .classes = {"Olmo2ForCausalLM", "olmo2"},
     .defaults = {.norm_eps = 1e-5},
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = olmo2_layer},
    {.arch = "olmo2",
     .classes = {"Olmo3ForCausalLM", "olmo3"},
     .window_period = 4,
     .window_list = true,
     .rope_by_kind = true,
     .defaults = {.window = 4096, .norm_eps = 1e-5, .rope_theta = 500000},
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = olmo2_layer},
    {.arch = "olmoe",
     .classes = {"OlmoeForCausalLM", "olmoe"},
     .defaults = {.norm_eps = 1e-5},
     .predictor_input = "normed",
     .globals = rms_globals,
     .layer = qwen3moe_layer,
     .read = hearth_hf_read_olmoe},
    {.arch = "minimax-m2",
     .classes = {"MiniMaxM2ForCausalLM", "minimax_m2"},
     .rope_partial = true,
     .defaults = {.n_head_kv = 8, .head_dim = 128, .rope_theta = 5e6},
     .predictor_input = "normed",
     .globals = rms_globals,
     .layer = minimax_m2_layer,
     .read = hearth_hf_read_minimax_m2},
    {.arch = "deepseek2",
     .classes = {"DeepseekV2ForCausalLM", "deepseek_v2"},
     .latent = true,
     .globals = rms_globals,
     .layer = deepseek_v2_layer,
     .read = hearth_hf_read_deepseek_v2},
    {.arch = "deepseek2",
     .classes = {"DeepseekV3ForCausalLM", "deepseek_v3", "kimi_k2"},
     .latent = true,
     .defaults = {.n_dense = 3},
     .globals = rms_globals,
     .layer = deepseek_v3_layer,
     .read = hearth_hf_read_deepseek_v3},
    {.arch = "deepseek2",
     .classes = {"Glm4MoeLiteForCausalLM", "glm4_moe_lite"},
     .latent = true,
     .defaults = {.norm_eps = 1e-5, .n_dense = 1},
     .globals = rms_globals,
     .layer = deepseek_v3_layer,
     .read = hearth_hf_read_deepseek_v3},
    {.arch = "glm4moe",
     .classes = {"Glm4MoeForCausalLM", "glm4_moe"},
     .grouped = true,
     .rope_partial = true,
     .defaults = {.norm_eps = 1e-5, .n_dense = 1, .rope_share = 0.5},
     .globals = rms_globals,
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
     .globals = rms_globals,
     .layer = gptoss_layer,
     .read = hearth_hf_read_gptoss},
    {.arch = "phi3",
     .classes = {"Phi3ForCausalLM", "phi3"},
     .rope_partial = true,
     .rope_long = true,
     .window_always = true,
     .defaults = {.n_ctx = 4096, .norm_eps = 1e-5},
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = phi3_layer,
     .read = hearth_hf_read_phi3},
    {.arch = "glm4",
     .classes = {"Glm4ForCausalLM", "glm4"},
     .rope_partial = true,
     .defaults = {.n_head_kv = 2, .head_dim = 128, .norm_eps = 1.5625e-7, .rope_share = 0.5},
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = glm4_layer},
    {.arch = "exaone4",
     .classes = {"Exaone4ForCausalLM", "exaone4"},
     .window_period = 4,
     .window_list = true,
     .says_vocab = true,
     .defaults = {.window = 4096, .norm_eps = 1e-5},
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = olmo2_layer},
    {.arch = "cohere2",
     .classes = {"Cohere2ForCausalLM", "cohere2"},
     .layer_norm = true,
     .window_period = 4,
     .says_vocab = true,
     .defaults = {.window = 4096, .norm_eps = 1e-5, .tied = true},
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = cohere2_layer,
     .read = hearth_hf_read_cohere2},
    {.arch = "ernie4_5",
     .classes = {"Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM", "ernie4_5"},
     .defaults = {.head_dim = 128, .norm_eps = 1e-5, .rope_theta = 500000, .tied = true},
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = ernie_layer,
     .read = hearth_hf_read_ernie},
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
     .globals = one_more_globals,
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
     .globals = one_more_globals,
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
     .globals = one_more_globals,
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
     .globals = one_more_globals,
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
     .globals = one_more_globals,
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
};
enum { N_FAMILIES = sizeof families / sizeof families[0], N_CLASSES = 6 };

const struct hearth_hf_family *hearth_hf_family_find(const char *name)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        for (size_t j = 0; j < N_CLASSES && families[i].classes[j]; j++)
            if (!strcmp(families[i].classes[j], name))
                return &families[i];
    return NULL;
}

const char *hearth_hf_class_at(size_t at, const char **arch)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        for (size_t j = 0; j < N_CLASSES && families[i].classes[j]; j++)
            if (strstr(families[i].classes[j], "For") && !at--) {
                *arch = families[i].arch;
                return families[i].classes[j];
            }
    return NULL;
}

void hearth_hf_family_names(char *out, size_t size)
{
    const char *arch, *class;
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; at < size && (class = hearth_hf_class_at(i, &arch)); i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", class);
}
