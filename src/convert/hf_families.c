// SPDX-License-Identifier: MIT
// The families: a table each from the names of transformers to those of GGUF, and what is special about it.
// Sources: the models' own code in transformers; for Bamboo and TurboSparse the code that their repositories
// carry.
#include <stdio.h>
#include <string.h>

#include "convert/hf_model.h"

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
#define PLAIN_QKV                                                                                            \
    SAME("self_attn.q_proj.weight", "attn_q.weight"), SAME("self_attn.k_proj.weight", "attn_k.weight"),      \
        SAME("self_attn.v_proj.weight", "attn_v.weight"), OUTPUT

static const struct hearth_hf_map llama_layer[] = {NORMS, LLAMA_QKV, LLAMA_BIASES, GATED, {0}};
static const struct hearth_hf_map bamboo_layer[] = {NORMS, LLAMA_QKV, GATED, {0}};

static const struct hearth_hf_map mixtral_layer[] = {
    NORMS,
    LLAMA_QKV,
    {"block_sparse_moe.gate.weight", "ffn_gate_inp.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    SAME("mlp.gate.weight", "ffn_gate_inp.weight"),
    {"block_sparse_moe.experts.#.w1.weight", "ffn_gate_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", HEARTH_HF_REQUIRED, HEARTH_HF_FIRST_HALF},
    {"block_sparse_moe.experts.#.w3.weight", "ffn_up_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    {"mlp.experts.gate_up_proj", "ffn_up_exps.weight", HEARTH_HF_REQUIRED, HEARTH_HF_SECOND_HALF},
    {"block_sparse_moe.experts.#.w2.weight", "ffn_down_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    SAME("mlp.experts.down_proj", "ffn_down_exps.weight"),
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
    {"mlp.experts.#.gate_proj.weight", "ffn_gate_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", HEARTH_HF_REQUIRED, HEARTH_HF_FIRST_HALF},
    {"mlp.experts.#.up_proj.weight", "ffn_up_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    {"mlp.experts.gate_up_proj", "ffn_up_exps.weight", HEARTH_HF_REQUIRED, HEARTH_HF_SECOND_HALF},
    {"mlp.experts.#.down_proj.weight", "ffn_down_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    SAME("mlp.experts.down_proj", "ffn_down_exps.weight"),
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

#define BOTH(from, to) SAME(from ".weight", to ".weight"), SAME(from ".bias", to ".bias")

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

#define QWEN35_MIXER                                                                                         \
    NORM("input_layernorm.weight", "attn_norm.weight"),                                                      \
        NORM("post_attention_layernorm.weight", "post_attention_norm.weight"),                               \
        IN_ATTENTION("self_attn.q_proj.weight", "attn_q.weight", HEARTH_HF_SAME),                            \
        IN_ATTENTION("self_attn.k_proj.weight", "attn_k.weight", HEARTH_HF_SAME),                            \
        IN_ATTENTION("self_attn.v_proj.weight", "attn_v.weight", HEARTH_HF_SAME),                            \
        IN_ATTENTION("self_attn.o_proj.weight", "attn_output.weight", HEARTH_HF_SAME),                       \
        IN_ATTENTION("self_attn.q_norm.weight", "attn_q_norm.weight", HEARTH_HF_ONE_MORE),                   \
        IN_ATTENTION("self_attn.k_norm.weight", "attn_k_norm.weight", HEARTH_HF_ONE_MORE),                   \
        IN_RECURRENCE("linear_attn.in_proj_qkv.weight", "attn_qkv.weight", HEARTH_HF_BEHIND_KEYS),           \
        IN_RECURRENCE("linear_attn.in_proj_z.weight", "attn_gate.weight", HEARTH_HF_VALUE_HEADS),            \
        IN_RECURRENCE("linear_attn.in_proj_b.weight", "ssm_beta.weight", HEARTH_HF_EACH_HEAD),               \
        IN_RECURRENCE("linear_attn.in_proj_a.weight", "ssm_alpha.weight", HEARTH_HF_EACH_HEAD),              \
        IN_RECURRENCE("linear_attn.conv1d.weight", "ssm_conv1d.weight", HEARTH_HF_BEHIND_KEYS),              \
        IN_RECURRENCE("linear_attn.A_log", "ssm_a", HEARTH_HF_DECAY),                                        \
        IN_RECURRENCE("linear_attn.dt_bias", "ssm_dt.bias", HEARTH_HF_EACH_HEAD),                            \
        IN_RECURRENCE("linear_attn.norm.weight", "ssm_norm.weight", HEARTH_HF_SAME),                         \
        IN_RECURRENCE("linear_attn.out_proj.weight", "ssm_out.weight", HEARTH_HF_VALUE_COLUMNS)

static const struct hearth_hf_map qwen35_layer[] = {QWEN35_MIXER, GATED, {0}};

static const struct hearth_hf_map qwen35moe_layer[] = {
    QWEN35_MIXER,
    SAME("mlp.gate.weight", "ffn_gate_inp.weight"),
    {"mlp.experts.#.gate_proj.weight", "ffn_gate_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", HEARTH_HF_REQUIRED, HEARTH_HF_FIRST_HALF},
    {"mlp.experts.#.up_proj.weight", "ffn_up_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    {"mlp.experts.gate_up_proj", "ffn_up_exps.weight", HEARTH_HF_REQUIRED, HEARTH_HF_SECOND_HALF},
    {"mlp.experts.#.down_proj.weight", "ffn_down_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    SAME("mlp.experts.down_proj", "ffn_down_exps.weight"),
    SAME("mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"),
    SAME("mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"),
    SAME("mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"),
    SAME("mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"),
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
    {"feed_forward.experts.#.w1.weight", "ffn_gate_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    OF_EXPERTS("feed_forward.experts.gate_up_proj", "ffn_gate_exps.weight", HEARTH_HF_FIRST_HALF),
    {"feed_forward.experts.#.w3.weight", "ffn_up_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    OF_EXPERTS("feed_forward.experts.gate_up_proj", "ffn_up_exps.weight", HEARTH_HF_SECOND_HALF),
    {"feed_forward.experts.#.w2.weight", "ffn_down_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},
    OF_EXPERTS("feed_forward.experts.down_proj", "ffn_down_exps.weight", HEARTH_HF_SAME),
    {0},
};

// ---- what is special

static int u32(const struct hearth_hf_model *m, const char *key, bool required, uint32_t *out,
               struct hearth_error *err)
{
    return hearth_json_u32(&m->config, m->config.root, key, required, out, err);
}

// A setting that must have this value, or be absent if that is its default.
static int expect(const struct hearth_hf_model *m, const char *key, bool value, bool by_default,
                  struct hearth_error *err)
{
    bool is = by_default;
    const int rc = hearth_json_bool(&m->config, m->config.root, key, &is, err);
    if (rc || is == value)
        return rc;
    return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: \"%s\": %s is not supported", m->config.path, key,
                       value ? "false" : "true");
}

static int read_experts(struct hearth_hf_model *m, const char *count, struct hearth_error *err)
{
    const char *used = m->family->window_heads ? "top_k_experts" : "num_experts_per_tok";
    int rc = u32(m, count, !m->n_expert, &m->n_expert, err);
    if (!rc)
        rc = u32(m, used, !m->n_expert_used, &m->n_expert_used, err);
    if (!rc && (!m->n_expert || m->n_expert > 4096 || !m->n_expert_used || m->n_expert_used > m->n_expert))
        rc = hearth_fail(err, HEARTH_E_FORMAT, "%s: %u of %u experts cannot be used", m->config.path,
                         m->n_expert_used, m->n_expert);
    return rc;
}

static int read_mixtral(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->n_ff_exp = m->n_ff;
    return read_experts(m, "num_local_experts", err);
}

static int read_qwen3(struct hearth_hf_model *m, struct hearth_error *err)
{
    return expect(m, "attention_bias", false, false, err);
}

static int read_qwen3moe(struct hearth_hf_model *m, struct hearth_error *err)
{
    uint32_t every = 1;
    m->renorm = false;
    int rc = read_qwen3(m, err);
    if (!rc)
        rc = read_experts(
            m, json_object_get(m->config.root, "num_experts") ? "num_experts" : "num_local_experts", err);
    if (!rc)
        rc = u32(m, "moe_intermediate_size", true, &m->n_ff_exp, err);
    if (!rc)
        rc = u32(m, "decoder_sparse_step", false, &every, err);
    if (!rc && (every != 1 || json_array_size(json_object_get(m->config.root, "mlp_only_layers")) > 0))
        rc = hearth_fail(err, HEARTH_E_UNSUPPORTED,
                         "%s: layers without experts beside others are not supported", m->config.path);
    return rc ? rc : hearth_json_bool(&m->config, m->config.root, "norm_topk_prob", &m->renorm, err);
}

static int read_falcon(struct hearth_hf_model *m, struct hearth_error *err)
{
    bool is_new = false, one = true;
    uint32_t kv = m->n_head;
    int rc = expect(m, "alibi", false, false, err);
    if (!rc)
        rc = expect(m, "bias", false, false, err);
    if (!rc)
        rc = hearth_json_bool(&m->config, m->config.root, "new_decoder_architecture", &is_new, err);
    if (!rc && !is_new)
        rc = expect(m, "parallel_attn", true, true, err);
    if (!rc)
        rc = hearth_json_bool(&m->config, m->config.root, "multi_query", &one, err);
    if (!rc)
        rc = u32(m, "n_head_kv", false, &kv, err);
    if (!rc)
        rc = u32(m, "num_kv_heads", false, &kv, err);
    if (!rc)
        rc = hearth_json_f64(&m->config, m->config.root, "layer_norm_epsilon", false, &m->norm_eps, err);
    if (!rc)
        rc = u32(m, "ffn_hidden_size", false, &m->n_ff, err);
    if (!m->n_ff)
        m->n_ff = 4 * m->n_embd;
    // num_kv_heads is the number of heads in the files of small models, and means nothing there.
    m->n_head_kv = is_new ? kv : one ? 1 : m->n_head;
    if (!rc && (!m->n_head_kv || m->n_head % m->n_head_kv || m->n_embd % m->n_head || m->own_head_dim))
        rc = hearth_fail(err, HEARTH_E_FORMAT, "%s: %u heads cannot share %u", m->config.path, m->n_head,
                         m->n_head_kv);
    return rc;
}

static int read_opt(struct hearth_hf_model *m, struct hearth_error *err)
{
    uint32_t width = m->n_embd;
    m->has_rope = false;
    int rc = u32(m, "ffn_dim", true, &m->n_ff, err);
    if (!rc)
        rc = u32(m, "word_embed_proj_dim", false, &width, err);
    if (!rc && width != m->n_embd)
        rc = hearth_fail(err, HEARTH_E_UNSUPPORTED,
                         "%s: an embedding narrower than the layers is not supported", m->config.path);
    if (!rc)
        rc = expect(m, "do_layer_norm_before", true, true, err);
    if (!rc)
        rc = expect(m, "_remove_final_layer_norm", false, false, err);
    if (!rc)
        rc = expect(m, "enable_bias", true, true, err);
    return rc ? rc : expect(m, "layer_norm_elementwise_affine", true, true, err);
}

// A number that must have this value, or be absent if that is its default.
static int expect_number(const struct hearth_hf_model *m, const char *key, double value, double by_default,
                         struct hearth_error *err)
{
    double is = by_default;
    const int rc = hearth_json_f64(&m->config, m->config.root, key, false, &is, err);
    if (rc || is == value)
        return rc;
    return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: \"%s\": %g is not supported, %g is", m->config.path,
                       key, is, value);
}

static int read_gemma3(struct hearth_hf_model *m, struct hearth_error *err)
{
    static const char *const caps[] = {"attn_logit_softcapping", "final_logit_softcapping"};
    for (size_t i = 0; i < 2; i++)
        if (json_is_number(json_object_get(m->config.root, caps[i])))
            return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: \"%s\" is not supported", m->config.path,
                               caps[i]);
    // The largest model scales scores as if heads shared its width; the architecture knows that.
    const double scale = m->n_layer == 62 ? (double)m->n_embd / m->n_head : (double)m->head_dim;
    const int rc = expect(m, "attention_bias", false, false, err);
    return rc ? rc : expect_number(m, "query_pre_attn_scalar", scale, 256, err);
}

// Which layers have a window: those that the list says, or all but each sixth. The last one never has.
static int read_windowed(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *types = json_object_get(m->config.root, "layer_types");
    if (json_is_array(types) && json_array_size(types) != m->n_layer)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"layer_types\" must say of each layer what it is",
                           m->config.path);
    for (uint32_t i = 0; i + 1 < m->n_layer; i++) {
        const json_t *type = json_array_get(types, i);
        const bool is = json_is_array(types) ? hearth_json_is(type, "sliding_attention") : (i + 1) % 6 != 0;
        if (json_is_array(types) && !is && !hearth_json_is(type, "full_attention"))
            return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: layer %u is \"%.40s\", which is not supported",
                               m->config.path, i, json_is_string(type) ? json_string_value(type) : "?");
        m->windowed[i / 32] |= (uint32_t)is << (i % 32);
    }
    return HEARTH_OK;
}

// Heads of a layer where config.json has what differs by layer, under the layer's number.
static int read_own_heads(const struct hearth_hf_model *m, const json_t *layers, uint32_t layer,
                          uint32_t *dim, uint32_t *kv, struct hearth_error *err)
{
    char number[16];
    snprintf(number, sizeof number, "%u", layer);
    const json_t *own = json_object_get(layers, number);
    *dim = m->head_dim;
    *kv = m->n_head_kv;
    const int rc = hearth_json_u32(&m->config, own, "head_dim", false, dim, err);
    return rc ? rc : hearth_json_u32(&m->config, own, "num_key_value_heads", false, kv, err);
}

// Heads of layers without a window. Published files say them once, later versions of transformers of each layer.
static int read_full_heads(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *layers = json_object_get(m->config.root, "per_layer_config");
    m->full_head_dim = 512;
    m->full_head_kv = m->n_head_kv;
    int rc = hearth_json_bool(&m->config, m->config.root, "attention_k_eq_v", &m->keys_are_values, err);
    if (!rc && !json_is_object(layers))
        rc = u32(m, "global_head_dim", false, &m->full_head_dim, err);
    if (!rc && !json_is_object(layers) && m->keys_are_values)
        rc = u32(m, "num_global_key_value_heads", false, &m->full_head_kv, err);
    for (uint32_t i = m->n_layer; json_is_object(layers) && i-- > 0 && !rc;) {
        uint32_t dim, kv;
        rc = read_own_heads(m, layers, i, &dim, &kv, err);
        if (!rc && i == m->n_layer - 1) {
            m->full_head_dim = dim;
            m->full_head_kv = kv;
        }
        if (!rc && (dim != hearth_hf_head_dim(m, i) || kv != hearth_hf_heads_kv(m, i)))
            rc = hearth_fail(err, HEARTH_E_UNSUPPORTED,
                             "%s: \"per_layer_config\": layer %u has other heads than those of its kind",
                             m->config.path, i);
    }
    if (!rc && (!m->full_head_dim || m->full_head_dim % 2 || m->full_head_dim > 65536 || !m->full_head_kv ||
                m->n_head % m->full_head_kv))
        rc = hearth_fail(err, HEARTH_E_FORMAT, "%s: %u heads of %u dimensions cannot share %u",
                         m->config.path, m->n_head, m->full_head_dim, m->full_head_kv);
    return rc;
}

// Layers that attend to keys and values of earlier ones: of each kind there must be one that has some.
static int read_borrowing(struct hearth_hf_model *m, struct hearth_error *err)
{
    int rc = u32(m, "num_kv_shared_layers", false, &m->n_borrowing, err);
    if (!rc)
        rc = hearth_json_bool(&m->config, m->config.root, "use_double_wide_mlp", &m->wide_borrowers, err);
    bool has[2] = {false, false}, wants[2] = {false, false};
    for (uint32_t i = 0; i < m->n_layer; i++)
        (hearth_hf_borrows(m, i) ? wants : has)[hearth_hf_is_windowed(m, i)] = true;
    if (!rc && (m->n_borrowing >= m->n_layer || (wants[0] && !has[0]) || (wants[1] && !has[1])))
        rc = hearth_fail(err, HEARTH_E_FORMAT,
                         "%s: \"num_kv_shared_layers\" %u leaves no layer of each kind that has keys",
                         m->config.path, m->n_borrowing);
    m->wide_borrowers = m->wide_borrowers && m->n_borrowing;
    return rc;
}

static int read_gemma4_unified(struct hearth_hf_model *m, struct hearth_error *err)
{
    if (hearth_json_is(json_object_get(m->config.root, "use_bidirectional_attention"), "all"))
        return hearth_fail(
            err, HEARTH_E_UNSUPPORTED,
            "%s: \"use_bidirectional_attention\": texts that are read both ways are not supported",
            m->config.path);
    int rc = read_windowed(m, err);
    if (!rc)
        rc = read_full_heads(m, err);
    if (!rc)
        rc = read_borrowing(m, err);
    if (!rc)
        rc =
            hearth_json_f64(&m->config, m->config.root, "final_logit_softcapping", false, &m->logit_cap, err);
    return rc ? rc : expect(m, "attention_bias", false, false, err);
}

static int read_gemma4(struct hearth_hf_model *m, struct hearth_error *err)
{
    bool has_experts = false;
    m->n_embd_layer = 256;
    int rc = read_gemma4_unified(m, err);
    if (!rc)
        rc = u32(m, "hidden_size_per_layer_input", false, &m->n_embd_layer, err);
    if (!rc)
        rc = hearth_json_bool(&m->config, m->config.root, "enable_moe_block", &has_experts, err);
    if (rc || !has_experts)
        return rc;
    rc = u32(m, "moe_intermediate_size", true, &m->n_ff_exp, err);
    return rc ? rc : read_experts(m, "num_experts", err);
}

// Of so many layers the last one attends.
static int read_interval(struct hearth_hf_model *m, struct hearth_error *err)
{
    uint32_t interval = 4;
    const int rc = u32(m, "full_attention_interval", false, &interval, err);
    if (rc)
        return rc;
    if (!interval)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"full_attention_interval\" 0 cannot be",
                           m->config.path);
    for (uint32_t i = 0; i < m->n_layer; i++)
        m->recurrent[i / 32] |= (uint32_t)((i + 1) % interval != 0) << (i % 32);
    return HEARTH_OK;
}

// The layers that attend, by number.
static int read_attending(struct hearth_hf_model *m, const json_t *layers, struct hearth_error *err)
{
    for (uint32_t i = 0; i < m->n_layer; i++)
        m->recurrent[i / 32] |= (uint32_t)1 << (i % 32);
    for (size_t k = 0; k < json_array_size(layers); k++) {
        const json_t *at = json_array_get(layers, k);
        const json_int_t i = json_integer_value(at);
        if (!json_is_integer(at) || i < 0 || i >= (json_int_t)m->n_layer)
            return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"full_attn_idxs\" must be numbers of layers",
                               m->config.path);
        m->recurrent[i / 32] &= ~((uint32_t)1 << (i % 32));
    }
    return HEARTH_OK;
}

// Which layers attend, from a list of kinds, or as configs say it that have none.
static int read_kinds(struct hearth_hf_model *m, const char *recurrent, struct hearth_error *err)
{
    const json_t *types = json_object_get(m->config.root, "layer_types");
    const json_t *attending = json_object_get(m->config.root, "full_attn_idxs");
    if (!json_is_array(types) && m->family->has_delta)
        return read_interval(m, err);
    if (!json_is_array(types) && json_is_array(attending))
        return read_attending(m, attending, err);
    if (json_array_size(types) != m->n_layer)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"layer_types\" must say of each layer what it is",
                           m->config.path);
    for (uint32_t i = 0; i < m->n_layer; i++) {
        const json_t *type = json_array_get(types, i);
        const bool recurs = hearth_json_is(type, recurrent);
        if (!recurs && !hearth_json_is(type, "full_attention"))
            return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: layer %u is \"%.40s\", which is not supported",
                               m->config.path, i, json_is_string(type) ? json_string_value(type) : "?");
        m->recurrent[i / 32] |= (uint32_t)recurs << (i % 32);
    }
    return HEARTH_OK;
}

static int read_qwen35(struct hearth_hf_model *m, struct hearth_error *err)
{
    uint32_t key_dim = 128;
    m->n_taps = 4;
    m->rec_keys = 16;
    m->rec_heads = 32;
    m->rec_dim = 128;
    int rc = read_kinds(m, "linear_attention", err);
    for (uint32_t i = 0; i < m->n_layer && !m->full_interval; i++)
        m->full_interval = hearth_hf_is_recurrent(m, i) ? 0 : i + 1;
    for (uint32_t i = 0; i < m->n_layer && !rc; i++)
        if (!m->full_interval || hearth_hf_is_recurrent(m, i) != ((i + 1) % m->full_interval != 0))
            rc = hearth_fail(err, HEARTH_E_UNSUPPORTED,
                             "%s: \"layer_types\": only each n-th layer may attend", m->config.path);
    if (!rc)
        rc = u32(m, "linear_conv_kernel_dim", false, &m->n_taps, err);
    if (!rc)
        rc = u32(m, "linear_num_key_heads", false, &m->rec_keys, err);
    if (!rc)
        rc = u32(m, "linear_num_value_heads", false, &m->rec_heads, err);
    if (!rc)
        rc = u32(m, "linear_value_head_dim", false, &m->rec_dim, err);
    if (!rc)
        rc = u32(m, "linear_key_head_dim", false, &key_dim, err);
    if (!rc && (key_dim != m->rec_dim || !m->rec_dim || !m->rec_keys || !m->rec_heads || !m->n_taps ||
                m->rec_heads % m->rec_keys || m->rec_heads > 4096 || m->rec_dim > 4096 || m->n_taps > 64))
        rc = hearth_fail(err, HEARTH_E_UNSUPPORTED,
                         "%s: %u heads of %u values with %u heads of %u keys are not supported",
                         m->config.path, m->rec_heads, m->rec_dim, m->rec_keys, key_dim);
    return rc ? rc : expect(m, "attention_bias", false, false, err);
}

static int read_qwen35moe(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->n_ff = 0;
    m->n_expert = 256;
    m->n_expert_used = 8;
    m->n_ff_exp = m->n_ff_shared = 512;
    int rc = read_qwen35(m, err);
    if (!rc)
        rc = read_experts(m, "num_experts", err);
    if (!rc)
        rc = u32(m, "moe_intermediate_size", false, &m->n_ff_exp, err);
    return rc ? rc : u32(m, "shared_expert_intermediate_size", false, &m->n_ff_shared, err);
}

// Neurons of LFM2's layers: the file's number, which has an older name, too, is that of a layer without a gate,
// unless it says otherwise.
static int read_neurons(struct hearth_hf_model *m, struct hearth_error *err)
{
    bool adjusts = true;
    double factor = 1;
    uint32_t multiple = 256;
    int rc = u32(m, "block_ff_dim", false, &m->n_ff, err);
    if (!rc)
        rc = hearth_json_bool(&m->config, m->config.root, "block_auto_adjust_ff_dim", &adjusts, err);
    if (!rc)
        rc = hearth_json_f64(&m->config, m->config.root, "block_ffn_dim_multiplier", false, &factor, err);
    if (!rc)
        rc = u32(m, "block_multiple_of", false, &multiple, err);
    if (rc || !adjusts)
        return rc;
    const double wanted = factor * (double)(uint32_t)(2.0 * m->n_ff / 3.0);
    if (!multiple || !(wanted > 0 && wanted < 1e9))
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"block_multiple_of\" %u of %g neurons cannot be",
                           m->config.path, multiple, wanted);
    m->n_ff = ((uint32_t)wanted + multiple - 1) / multiple * multiple;
    return HEARTH_OK;
}

static int read_conv(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->n_taps = 3;
    int rc = read_kinds(m, "conv", err);
    if (!rc)
        rc = hearth_json_bool(&m->config, m->config.root, "tie_embedding", &m->tied, err);
    if (!rc)
        rc = u32(m, "conv_L_cache", false, &m->n_taps, err);
    if (!rc)
        rc = hearth_json_f64(&m->config, m->config.root, "norm_eps", false, &m->norm_eps, err);
    if (!rc && (!m->n_taps || m->n_taps > 64))
        rc =
            hearth_fail(err, HEARTH_E_FORMAT, "%s: \"conv_L_cache\" %u cannot be", m->config.path, m->n_taps);
    return rc ? rc : expect(m, "conv_bias", false, false, err);
}

static int read_lfm2(struct hearth_hf_model *m, struct hearth_error *err)
{
    const int rc = read_conv(m, err);
    return rc ? rc : read_neurons(m, err);
}

static int read_lfm2moe(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->n_expert = 32;
    m->n_expert_used = 4;
    m->n_ff_exp = 1792;
    m->n_dense = 2;
    int rc = read_conv(m, err);
    if (!rc)
        rc = read_experts(m, "num_experts", err);
    if (!rc)
        rc = u32(m, "moe_intermediate_size", false, &m->n_ff_exp, err);
    if (!rc)
        rc = u32(m, "num_dense_layers", false, &m->n_dense, err);
    if (!rc)
        rc = expect(m, "use_expert_bias", true, true, err);
    if (!rc)
        rc = expect_number(m, "routed_scaling_factor", 1, 1, err);
    return rc ? rc : expect(m, "norm_topk_prob", true, true, err);
}

// ---- the list

static const struct hearth_hf_family families[] = {
    {.arch = "llama",
     .classes = {"LlamaForCausalLM", "LLaMAForCausalLM", "MistralForCausalLM", "SparseLlamaForCausalLM",
                 "llama", "mistral"},
     .base = "model.",
     .layers = "layers.",
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = llama_layer},
    {.arch = "llama",
     .classes = {"MixtralForCausalLM", "mixtral"},
     .base = "model.",
     .layers = "layers.",
     .defaults = {.norm_eps = 1e-5, .rope_theta = 1e6},
     .predictor_input = "normed",
     .globals = rms_globals,
     .layer = mixtral_layer,
     .read = read_mixtral},
    {.arch = "llama",
     .classes = {"TurboSparseMixtralForCausalLM", "turbosparsemixtral"},
     .base = "model.",
     .layers = "layers.",
     .activation = "drelu",
     .predictor_input = "normed",
     .globals = rms_globals,
     .layer = mixtral_layer,
     .read = read_mixtral},
    {.arch = "bamboo",
     .classes = {"BambooForCausalLM", "bamboo"},
     .base = "model.",
     .layers = "layers.",
     .activation = "drelu",
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = bamboo_layer},
    {.arch = "qwen2",
     .classes = {"Qwen2ForCausalLM", "qwen2"},
     .base = "model.",
     .layers = "layers.",
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = qwen2_layer},
    {.arch = "qwen2",
     .classes = {"SparseQwen2ForCausalLM", "sparseqwen2"},
     .base = "model.",
     .layers = "layers.",
     .activation = "drelu",
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = qwen2_layer},
    {.arch = "qwen3",
     .classes = {"Qwen3ForCausalLM", "qwen3"},
     .base = "model.",
     .layers = "layers.",
     .defaults = {.head_dim = 128},
     .predictor_input = "stream",
     .globals = rms_globals,
     .layer = qwen3_layer,
     .read = read_qwen3},
    {.arch = "qwen3moe",
     .classes = {"Qwen3MoeForCausalLM", "qwen3_moe"},
     .base = "model.",
     .layers = "layers.",
     .defaults = {.head_dim = 128},
     .predictor_input = "normed",
     .globals = rms_globals,
     .layer = qwen3moe_layer,
     .read = read_qwen3moe},
    {.arch = "gemma3",
     .classes = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "gemma3_text"},
     .base = "model.",
     .layers = "layers.",
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
     .read = read_gemma3},
    {.arch = "gemma4",
     .classes = {"Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "gemma4_text", "gemma4"},
     .base = "model.",
     .layers = "layers.",
     .rope_by_kind = true,
     .window_heads = true,
     .defaults = {.n_vocab = 262144,
                  .n_ctx = 131072,
                  .n_embd = 2304,
                  .n_layer = 30,
                  .n_head = 8,
                  .n_head_kv = 4,
                  .head_dim = 256,
                  .n_ff = 9216,
                  .window = 512,
                  .rope_theta = 1e6,
                  .rope_theta_window = 10000,
                  .rope_share = 0.25,
                  .activation = "gelu_pytorch_tanh",
                  .tied = true},
     .predictor_input = "stream",
     .globals = gemma4_globals,
     .layer = gemma4_layer,
     .read = read_gemma4},
    {.arch = "gemma4",
     .classes = {"Gemma4UnifiedForCausalLM", "Gemma4UnifiedForConditionalGeneration", "gemma4_unified_text",
                 "gemma4_unified"},
     .base = "model.",
     .layers = "layers.",
     .rope_by_kind = true,
     .window_heads = true,
     .defaults = {.n_vocab = 262144,
                  .n_ctx = 262144,
                  .n_embd = 2304,
                  .n_layer = 30,
                  .n_head = 8,
                  .n_head_kv = 4,
                  .head_dim = 256,
                  .n_ff = 9216,
                  .window = 1024,
                  .rope_theta = 1e6,
                  .rope_theta_window = 10000,
                  .rope_share = 0.25,
                  .activation = "gelu_pytorch_tanh",
                  .tied = true},
     .predictor_input = "stream",
     .globals = gemma4_globals,
     .layer = gemma4_layer,
     .read = read_gemma4_unified},
    {.arch = "qwen35",
     .classes = {"Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration", "qwen3_5_text"},
     .base = "model.",
     .layers = "layers.",
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
     .read = read_qwen35},
    {.arch = "qwen35moe",
     .classes = {"Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text"},
     .base = "model.",
     .layers = "layers.",
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
     .read = read_qwen35moe},
    {.arch = "lfm2",
     .classes = {"Lfm2ForCausalLM", "lfm2"},
     .base = "model.",
     .layers = "layers.",
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
     .read = read_lfm2},
    {.arch = "lfm2moe",
     .classes = {"Lfm2MoeForCausalLM", "lfm2_moe"},
     .base = "model.",
     .layers = "layers.",
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
     .read = read_lfm2moe},
    {.arch = "falcon",
     .classes = {"FalconForCausalLM", "RWForCausalLM", "falcon", "RefinedWeb", "RefinedWebModel"},
     .base = "transformer.",
     .layers = "h.",
     .layer_norm = true,
     .defaults = {.n_ctx = 2048, .norm_eps = 1e-5, .activation = "gelu", .tied = true},
     .predictor_input = "layer",
     .globals = falcon_globals,
     .layer = falcon_layer,
     .read = read_falcon},
    {.arch = "opt",
     .classes = {"OPTForCausalLM", "opt"},
     .base = "model.decoder.",
     .layers = "layers.",
     .layer_norm = true,
     .defaults = {.norm_eps = 1e-5, .activation = "relu", .tied = true},
     .predictor_input = "stream",
     .globals = opt_globals,
     .layer = opt_layer,
     .read = read_opt},
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
