// SPDX-License-Identifier: MIT
// Hyper-parameters, written under GGUF's keys.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "convert/hf_model.h"

// The key "<arch>.<name>", one of two in turn for each thread.
static const char *key_of(const struct hearth_hf_model *m, const char *name)
{
    static _Thread_local char keys[2][128];
    static _Thread_local unsigned next;
    char *key = keys[next++ % 2];
    snprintf(key, sizeof keys[0], "%s.%s", m->family->arch, name);
    return key;
}

// Keys are written one after the other, until one fails.
struct putting {
    const struct hearth_hf_model *m;
    struct hearth_gguf_writer *w;
    struct hearth_error *err;
    int rc;
};

static void put_u32(struct putting *p, const char *name, uint32_t v)
{
    if (!p->rc)
        p->rc = hearth_gguf_put_u32(p->w, key_of(p->m, name), v, p->err);
}

static void put_f32(struct putting *p, const char *name, double v)
{
    if (!p->rc)
        p->rc = hearth_gguf_put_f32(p->w, key_of(p->m, name), (float)v, p->err);
}

static void put_str(struct putting *p, const char *key, const char *v)
{
    if (!p->rc)
        p->rc = hearth_gguf_put_str(p->w, key, v, strlen(v), p->err);
}

static void put_given(struct putting *p, const char *name, double v)
{
    if (v > 0)
        put_f32(p, name, v);
}

static void put_rope(struct putting *p)
{
    const struct hearth_hf_model *m = p->m;
    put_f32(p, "rope.freq_base", m->rope_theta);
    put_given(p, "rope.freq_base_swa", m->rope_theta_window);
    if (m->n_rot)
        put_u32(p, "rope.dimension_count", m->n_rot);
    if (m->family->window_heads) {
        put_u32(p, "rope.dimension_count", m->full_head_dim);
        put_u32(p, "rope.dimension_count_swa", m->head_dim);
    }
    if (m->sections[0] && !p->rc)
        p->rc = hearth_gguf_put_array(p->w, key_of(m, "rope.dimension_sections"), HEARTH_GGUF_I32,
                                      m->sections, 4, p->err);
    if (m->family->rope_long)
        put_u32(p, "rope.scaling.original_context_length", m->n_ctx_orig);
    if (m->rope == HEARTH_HF_ROPE_LONG) {
        const double longer = (double)m->n_ctx / m->n_ctx_orig;
        put_f32(p, "rope.scaling.attn_factor", longer > 1 ? sqrt(1 + log(longer) / log(m->n_ctx_orig)) : 1);
    }
    if (!strcmp(m->family->arch, "cohere2") && m->rope == HEARTH_HF_ROPE_PLAIN)
        put_str(p, key_of(m, "rope.scaling.type"), "none");
    if (m->rope == HEARTH_HF_ROPE_ALPHA) {
        put_str(p, key_of(m, "rope.scaling.type"), "none");
        put_f32(p, "rope.scaling.factor", 1);
        put_u32(p, "rope.scaling.original_context_length", m->n_ctx_orig);
    }
    if (m->rope != HEARTH_HF_ROPE_LINEAR && m->rope != HEARTH_HF_ROPE_YARN)
        return;
    put_str(p, key_of(m, "rope.scaling.type"), m->rope == HEARTH_HF_ROPE_YARN ? "yarn" : "linear");
    put_f32(p, "rope.scaling.factor", m->rope_factor);
    if (m->rope != HEARTH_HF_ROPE_YARN)
        return;
    put_u32(p, "rope.scaling.original_context_length", m->n_ctx_orig ? m->n_ctx_orig : m->n_ctx);
    put_given(p, "rope.scaling.yarn_ext_factor", m->ext_factor);
    put_given(p, "rope.scaling.yarn_attn_factor", m->attn_factor);
    put_given(p, "rope.scaling.yarn_beta_fast", m->beta_fast);
    put_given(p, "rope.scaling.yarn_beta_slow", m->beta_slow);
    put_given(p, "rope.scaling.yarn_log_multiplier", m->yarn_log);
}

static void put_experts(struct putting *p)
{
    const struct hearth_hf_model *m = p->m;
    put_u32(p, "expert_count", m->n_expert);
    put_u32(p, "expert_used_count", m->n_expert_used);
    const bool latent = m->family->latent || m->family->grouped;
    if (m->n_ff_exp != m->n_ff || strcmp(m->family->arch, "llama") != 0)
        put_u32(p, "expert_feed_forward_length", m->n_ff_exp);
    if (latent || m->n_shared)
        put_u32(p, "expert_shared_count", m->n_shared);
    if ((!latent || m->family->shared_length) && m->n_ff_shared && !m->family->shared_usual)
        put_u32(p, "expert_shared_feed_forward_length", m->n_ff_shared);
    if (m->expert_step)
        put_u32(p, "interleave_moe_layer_step", m->expert_step);
    if (m->n_dense || latent)
        put_u32(p, "leading_dense_block_count", m->n_dense);
    if (m->n_group)
        put_u32(p, "expert_group_count", m->n_group);
    if (m->n_group_used)
        put_u32(p, "expert_group_used_count", m->n_group_used);
    if (m->n_embd_exp)
        put_u32(p, "moe_latent_size", m->n_embd_exp);
    put_given(p, "expert_weights_scale", m->expert_scale);
    if (m->gating)
        put_u32(p, "expert_gating_func", m->gating);
    // With latent attention weights do not add up to 1 unless the file says so.
    if ((m->renorm == latent || m->family->grouped || m->family->one_part) && !p->rc)
        p->rc = hearth_gguf_put_bool(p->w, key_of(m, "expert_weights_norm"), m->renorm, p->err);
}

// Where the file says that there are none.
static void put_no_experts(struct putting *p)
{
    put_u32(p, "expert_count", 0);
    put_u32(p, "expert_used_count", 0);
    put_u32(p, "expert_shared_feed_forward_length", p->m->n_ff_shared);
}

static void put_recurrence(struct putting *p)
{
    const struct hearth_hf_model *m = p->m;
    if (m->family->has_kda) {
        put_u32(p, "ssm.conv_kernel", m->n_taps);
        put_u32(p, "kda.head_dim", m->rec_dim);
        return;
    }
    if (!m->family->has_delta && !m->family->has_scan) {
        put_u32(p, "shortconv.l_cache", m->n_taps);
        return;
    }
    put_u32(p, "ssm.conv_kernel", m->n_taps);
    put_u32(p, "ssm.state_size", m->family->has_scan ? m->rec_state : m->rec_dim);
    put_u32(p, "ssm.group_count", m->rec_keys);
    put_u32(p, "ssm.time_step_rank", m->rec_heads);
    put_u32(p, "ssm.inner_size", m->rec_heads * m->rec_dim);
    if (m->family->has_scan)
        return;
    put_u32(p, "full_attention_interval", m->full_interval);
    uint8_t recurs[4096 + 64]; // the layer for guesses attends, whatever the interval says of its number
    for (uint32_t i = 0; i < hearth_hf_n_blocks(m); i++)
        recurs[i] = i < m->n_layer && hearth_hf_is_recurrent(m, i);
    if (hearth_hf_n_blocks(m) > m->n_layer && !p->rc)
        p->rc = hearth_gguf_put_array(p->w, key_of(m, "attention.recurrent_layers"), HEARTH_GGUF_BOOL, recurs,
                                      hearth_hf_n_blocks(m), p->err);
}

static void put_array(struct putting *p, const char *name, enum hearth_gguf_type type, const void *items)
{
    if (!p->rc)
        p->rc = hearth_gguf_put_array(p->w, key_of(p->m, name), type, items, p->m->n_layer, p->err);
}

// Of layers that differ, a number for each: those that do not attend have none.
static void put_kv_heads(struct putting *p)
{
    const struct hearth_hf_model *m = p->m;
    const bool by_kind = m->family->window_heads && m->full_head_kv != m->n_head_kv;
    uint32_t heads[4096];
    if (!by_kind && (!m->n_taps || m->family->has_delta || m->family->beside)) {
        put_u32(p, "attention.head_count_kv", m->n_head_kv);
        return;
    }
    for (uint32_t i = 0; i < m->n_layer; i++)
        heads[i] = hearth_hf_listed_kv(m, i);
    put_array(p, "attention.head_count_kv",
              by_kind || m->family->has_scan || m->family->has_kda ? HEARTH_GGUF_I32 : HEARTH_GGUF_U32,
              heads);
}

static void put_neurons(struct putting *p)
{
    const struct hearth_hf_model *m = p->m;
    uint32_t neurons[4096];
    if (!m->wide_borrowers && !m->family->neuron_list && !m->family->one_part) {
        if (m->n_ff)
            put_u32(p, "feed_forward_length", m->n_ff);
        return;
    }
    for (uint32_t i = 0; i < m->n_layer; i++)
        neurons[i] = !m->family->one_part     ? hearth_hf_neurons(m, i)
                     : !hearth_hf_feeds(m, i) ? 0
                     : m->n_expert            ? m->n_ff_exp
                                              : m->n_ff;
    put_array(p, "feed_forward_length", HEARTH_GGUF_I32, neurons);
}

// Latent attention: what the cache has as keys and values, then what heads have.
static void put_latent(struct putting *p)
{
    const struct hearth_hf_model *m = p->m;
    if (m->q_rank)
        put_u32(p, "attention.q_lora_rank", m->q_rank);
    put_u32(p, "attention.kv_lora_rank", m->rank);
    put_u32(p, "attention.key_length", m->rank + m->n_rot);
    put_u32(p, "attention.value_length", m->rank);
    put_u32(p, "attention.key_length_mla", m->still_dim + m->n_rot);
    put_u32(p, "attention.value_length_mla", m->value_dim);
}

// Heads of layers without a window, and of those with one, and what else such models have.
static void put_kinds(struct putting *p)
{
    const struct hearth_hf_model *m = p->m;
    uint8_t windowed[4096];
    for (uint32_t i = 0; i < m->n_layer; i++)
        windowed[i] = hearth_hf_is_windowed(m, i);
    put_array(p, "attention.sliding_window_pattern", HEARTH_GGUF_BOOL, windowed);
    put_u32(p, "attention.key_length", m->full_head_dim);
    put_u32(p, "attention.value_length", m->full_head_dim);
    put_u32(p, "attention.key_length_swa", m->head_dim);
    put_u32(p, "attention.value_length_swa", m->head_dim);
    put_u32(p, "attention.shared_kv_layers", m->n_borrowing);
    put_u32(p, "embedding_length_per_layer_input", m->n_embd_layer);
}

// Of so many layers the last one has no window.
static void put_windows(struct putting *p)
{
    const struct hearth_hf_model *m = p->m;
    uint8_t windowed[4096];
    for (uint32_t i = 0; i < m->n_layer; i++)
        windowed[i] = !m->window_period || (i + 1) % m->window_period != 0;
    put_array(p, "attention.sliding_window_pattern", HEARTH_GGUF_BOOL, windowed);
}

// Scales, caps, and what models that see have.
static void put_scales(struct putting *p)
{
    const struct hearth_hf_model *m = p->m;
    put_given(p, "embedding_scale", m->scale.embedding);
    put_given(p, "attention.scale", m->scale.scores);
    put_given(p, "residual_scale", m->scale.residual);
    put_given(p, "logit_scale", m->scale.logits);
    put_given(p, "final_logit_softcapping", m->logit_cap);
    put_given(p, "attn_logit_softcapping", m->score_cap);
    if (m->has_deepstack)
        put_u32(p, "n_deepstack_layers", m->n_deepstack);
}

// The share of a normal distribution that is below x standard deviations, the other way round, in the numbers that
// files have it in.
static float deviations_of(double share)
{
    if (!(share > 0))
        return -INFINITY;
    const double wanted = 2.0 * (float)share - 1;
    double low = -6, high = 6;
    for (int i = 0; i < 100; i++) {
        const double middle = (low + high) / 2;
        *(erf(middle) < wanted ? &low : &high) = middle;
    }
    return (float)low * (float)sqrt(2);
}

// Several streams, layers that attend to keys of earlier ones, and cut gates.
static void put_streams(struct putting *p)
{
    const struct hearth_hf_model *m = p->m;
    float cuts[4096];
    put_u32(p, "altup.active_idx", m->active_stream);
    put_u32(p, "altup.num_inputs", m->n_streams);
    put_u32(p, "embedding_length_per_layer_input", m->n_embd_layer);
    put_u32(p, "attention.shared_kv_layers", m->n_borrowing);
    for (uint32_t i = 0; i < m->n_layer; i++)
        cuts[i] = deviations_of(m->cuts[i / 32] >> (i % 32) & 1 ? m->cut_share : 0);
    put_array(p, "activation_sparsity_scale", HEARTH_GGUF_F32, cuts);
}

// What chooses positions.
static void put_choice(struct putting *p)
{
    const struct hearth_hf_model *m = p->m;
    uint8_t chooses[4096];
    put_u32(p, "attention.indexer.head_count", m->choose_heads);
    put_u32(p, "attention.indexer.key_length", m->choose_dim);
    put_u32(p, "attention.indexer.top_k", m->choose_top);
    for (uint32_t i = 0; i < m->n_layer; i++)
        chooses[i] = !(m->shares_choice[i / 32] >> (i % 32) & 1);
    if (m->choice_listed)
        put_array(p, "attention.indexer.types", HEARTH_GGUF_BOOL, chooses);
}

// What an architecture computes unless the file names another activation.
static const char *own_activation(const struct hearth_hf_model *m)
{
    static const char *const own[][2] = {{"bamboo", "drelu"},
                                         {"falcon", "gelu"},
                                         {"gemma", "gelu_tanh"},
                                         {"gemma3n", "gelu_tanh"},
                                         {"starcoder2", "gelu_tanh"},
                                         {"nemotron_h", "relu_squared"},
                                         {"nemotron_h_moe", "relu_squared"},
                                         {"opt", "relu"},
                                         {"gemma2", "gelu_tanh"},
                                         {"gemma3", "gelu_tanh"},
                                         {"gemma4", "gelu_tanh"}};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (!strcmp(own[i][0], m->family->arch))
            return own[i][1];
    return "silu";
}

int hearth_hf_model_put(const struct hearth_hf_model *m, bool has_predictors, struct hearth_gguf_writer *w,
                        struct hearth_error *err)
{
    struct putting p = {m, w, err, HEARTH_OK};
    put_u32(&p, "block_count", hearth_hf_n_blocks(m));
    if (hearth_hf_n_blocks(m) > m->n_layer)
        put_u32(&p, "nextn_predict_layers", m->n_extra);
    put_u32(&p, "context_length", m->n_ctx);
    put_u32(&p, "embedding_length", m->n_embd);
    put_neurons(&p);
    put_u32(&p, "attention.head_count", m->n_head);
    put_kv_heads(&p);
    if (m->family->window_heads) {
        put_kinds(&p);
    } else if (m->family->latent) {
        put_latent(&p);
    } else if (m->own_head_dim) {
        put_u32(&p, "attention.key_length", m->head_dim);
        put_u32(&p, "attention.value_length", m->head_dim);
    }
    put_f32(&p, m->family->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
            m->norm_eps);
    if (m->has_rope)
        put_rope(&p);
    if (m->window || m->family->window_always)
        put_u32(&p, "attention.sliding_window", m->window);
    if (m->window && m->family->window_list)
        put_windows(&p);
    else if (m->window && m->window_period != m->family->window_period)
        put_u32(&p, "attention.sliding_window_pattern", m->window_period);
    put_scales(&p);
    if (m->choose_heads)
        put_choice(&p);
    if (m->n_streams)
        put_streams(&p);
    if (m->n_taps)
        put_recurrence(&p);
    if (m->family->has_fixed && m->full_interval != 8) // which files need not say
        put_u32(&p, "full_attention_interval", m->full_interval);
    if (m->family->one_part)
        put_u32(&p, "rope.dimension_count", m->n_embd / m->n_head);
    if (m->is_still && !p.rc)
        p.rc = hearth_gguf_put_bool(w, key_of(m, "rope.scaling.finetuned"), false, err);
    if (m->n_expert)
        put_experts(&p);
    else if (!strcmp(m->family->arch, "granitehybrid"))
        put_no_experts(&p);
    if (has_predictors || strcmp(m->activation, own_activation(m)) != 0)
        put_str(&p, key_of(m, "feed_forward.activation"), m->activation);
    if (!strncmp(m->family->arch, "lfm2", 4) || m->family->latent || m->family->says_vocab)
        put_u32(&p, "vocab_size", m->n_vocab);
    if (m->family->llama_keys) {
        put_u32(&p, "vocab_size", m->n_vocab);
        put_u32(&p, "rope.dimension_count", m->head_dim);
    }
    if (!strcmp(m->family->arch, "falcon"))
        put_str(&p, "falcon.tensor_data_layout", "jploski");
    return p.rc;
}
