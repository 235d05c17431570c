// SPDX-License-Identifier: MIT
// What is special about a family in config.json. Source: the models' configuration classes in transformers.
#include "convert/hf_settings.h"

#include <stdio.h>
#include <string.h>

int hearth_hf_read_mixtral(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->n_ff_exp = m->n_ff;
    return read_experts(m, "num_local_experts", err);
}

int hearth_hf_read_qwen3(struct hearth_hf_model *m, struct hearth_error *err)
{
    return expect(m, "attention_bias", false, false, err);
}

int hearth_hf_read_qwen3moe(struct hearth_hf_model *m, struct hearth_error *err)
{
    const int rc = hearth_hf_read_qwen3(m, err);
    return rc ? rc : read_qwen_experts(m, false, err);
}

int hearth_hf_read_qwen2moe(struct hearth_hf_model *m, struct hearth_error *err)
{
    int rc = read_qwen_experts(m, false, err);
    if (!rc)
        rc = u32(m, "shared_expert_intermediate_size", true, &m->n_ff_shared, err);
    return rc ? rc : expect(m, "qkv_bias", true, true, err);
}

int hearth_hf_read_qwen3vl(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *images = json_object_get(m->outer ? m->outer : m->config.root, "vision_config");
    m->has_deepstack = true;
    m->n_deepstack = (uint32_t)json_array_size(json_object_get(images, "deepstack_visual_indexes"));
    return hearth_hf_read_qwen3(m, err);
}

// The model's weights add up to 1 whatever the file says.
int hearth_hf_read_qwen3vlmoe(struct hearth_hf_model *m, struct hearth_error *err)
{
    int rc = hearth_hf_read_qwen3vl(m, err);
    m->n_expert = 60;
    m->n_expert_used = 4;
    if (!rc)
        rc = read_qwen_experts(m, true, err);
    if (rc || m->renorm)
        return rc;
    return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: \"norm_topk_prob\": false is not supported",
                       m->config.path);
}

int hearth_hf_read_olmoe(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->renorm = false;
    m->n_ff_exp = m->n_ff;
    if (json_is_number(json_object_get(m->config.root, "clip_qkv")))
        return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: \"clip_qkv\" is not supported", m->config.path);
    int rc = expect(m, "attention_bias", false, false, err);
    if (!rc)
        rc = read_experts(m, "num_experts", err);
    return rc ? rc : hearth_json_bool(&m->config, m->config.root, "norm_topk_prob", &m->renorm, err);
}

// Every fourth layer does not rotate: files do not say it, so it cannot be otherwise.
static int expect_still_layers(const struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *rotates = json_object_get(m->config.root, "no_rope_layers");
    const bool listed = json_array_size(rotates) > 0;
    uint32_t interval = 4;
    int rc = u32(m, "no_rope_layer_interval", false, &interval, err);
    bool same = listed ? json_array_size(rotates) >= m->n_layer : interval == 4;
    for (uint32_t i = 0; i < m->n_layer && same && listed; i++)
        same = json_integer_value(json_array_get(rotates, i)) == ((i + 1) % 4 != 0);
    if (!rc && !same)
        rc = hearth_fail(err, HEARTH_E_UNSUPPORTED,
                         "%s: \"no_rope_layers\": other than every fourth layer is not supported",
                         m->config.path);
    return rc;
}

int hearth_hf_read_smollm3(struct hearth_hf_model *m, struct hearth_error *err)
{
    const int rc = expect_still_layers(m, err);
    return rc ? rc : expect(m, "use_sliding_window", false, false, err);
}

// Layers with experts: each so many-th, or as the list says, which must say the same.
static int read_expert_step(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *list = json_object_get(m->config.root, "moe_layers");
    m->expert_step = 1;
    const int rc = u32(m, "interleave_moe_layer_step", false, &m->expert_step, err);
    if (rc)
        return rc;
    const uint32_t step = m->expert_step;
    bool same = step > 0 && step <= m->n_layer;
    if (same && json_is_array(list))
        same = json_array_size(list) == m->n_layer / step;
    for (uint32_t i = 0; i < json_array_size(list) && same; i++)
        same = json_integer_value(json_array_get(list, i)) == (json_int_t)(i + 1) * step - 1;
    return same ? HEARTH_OK
                : hearth_fail(err, HEARTH_E_UNSUPPORTED,
                              "%s: \"moe_layers\": other than each n-th layer, as "
                              "\"interleave_moe_layer_step\" says, is not supported",
                              m->config.path);
}

// Three of four layers attend within chunks.
static int expect_chunks(const struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *types = json_object_get(m->config.root, "layer_types");
    for (uint32_t i = 0; i < m->n_layer && json_array_size(types); i++)
        if (!hearth_json_is(json_array_get(types, i), (i + 1) % 4 ? "chunked_attention" : "full_attention"))
            return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                               "%s: \"layer_types\": other than three layers with chunks of each four is not "
                               "supported",
                               m->config.path);
    return expect_number(m, "attention_chunk_size", 8192, 8192, err);
}

int hearth_hf_read_llama4(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->n_expert = 16;
    m->n_expert_used = 1;
    m->n_ff_exp = m->n_ff_shared = m->n_ff;
    m->n_ff = 16384;
    int rc = u32(m, "intermediate_size_mlp", false, &m->n_ff, err);
    if (!rc)
        rc = read_experts(m, "num_local_experts", err);
    if (!rc)
        rc = read_expert_step(m, err);
    if (!rc)
        rc = expect_still_layers(m, err);
    if (!rc)
        rc = expect_chunks(m, err);
    if (!rc)
        rc = expect_number(m, "floor_scale", 8192, 8192, err);
    if (!rc)
        rc = expect_number(m, "attn_scale", 0.1, 0.1, err);
    if (!rc)
        rc = expect(m, "attn_temperature_tuning", true, true, err);
    if (!rc) // which the architecture tells by the number of experts
        rc = expect(m, "use_qk_norm", m->n_expert != 128, true, err);
    return rc ? rc : expect(m, "attention_bias", false, false, err);
}

int hearth_hf_read_granite(struct hearth_hf_model *m, struct hearth_error *err)
{
    const struct {
        const char *key;
        double *out;
    } scales[] = {{"embedding_multiplier", &m->scale.embedding},
                  {"attention_multiplier", &m->scale.scores},
                  {"residual_multiplier", &m->scale.residual},
                  {"logits_scaling", &m->scale.logits}};
    int rc = HEARTH_OK;
    for (size_t i = 0; i < sizeof scales / sizeof *scales && !rc; i++) {
        *scales[i].out = 1;
        rc = hearth_json_f64(&m->config, m->config.root, scales[i].key, false, scales[i].out, err);
        if (!rc && !(*scales[i].out > 0))
            rc = hearth_fail(err, HEARTH_E_FORMAT, "%s: \"%s\" %g must be positive", m->config.path,
                             scales[i].key, *scales[i].out);
    }
    return rc;
}

int hearth_hf_read_granitemoe(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->n_ff_exp = m->n_ff;
    int rc = hearth_hf_read_granite(m, err);
    if (!rc)
        rc = read_experts(m, "num_local_experts", err);
    if (!rc)
        rc = u32(m, "shared_intermediate_size", false, &m->n_ff_shared, err);
    return rc ? rc : expect(m, "attention_bias", false, false, err);
}

int hearth_hf_read_falcon(struct hearth_hf_model *m, struct hearth_error *err)
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

int hearth_hf_read_opt(struct hearth_hf_model *m, struct hearth_error *err)
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

int hearth_hf_read_gemma(struct hearth_hf_model *m, struct hearth_error *err)
{
    return expect(m, "attention_bias", false, false, err);
}

int hearth_hf_read_gemma2(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->logit_cap = 30;
    m->score_cap = 50;
    // The largest model scales scores as if heads shared its width; the architecture knows that.
    const double scale = m->n_layer == 46 ? (double)m->n_embd / m->n_head : (double)m->head_dim;
    int rc =
        hearth_json_f64(&m->config, m->config.root, "final_logit_softcapping", false, &m->logit_cap, err);
    if (!rc)
        rc = hearth_json_f64(&m->config, m->config.root, "attn_logit_softcapping", false, &m->score_cap, err);
    if (!rc)
        rc = expect(m, "attention_bias", false, false, err);
    return rc ? rc : expect_number(m, "query_pre_attn_scalar", scale, 256, err);
}

int hearth_hf_read_cohere2(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->n_rot = m->head_dim;
    m->scale.logits = 0.0625;
    int rc = hearth_json_f64(&m->config, m->config.root, "layer_norm_eps", false, &m->norm_eps, err);
    if (!rc)
        rc = hearth_json_f64(&m->config, m->config.root, "logit_scale", false, &m->scale.logits, err);
    if (!rc && !(m->scale.logits > 0))
        rc = hearth_fail(err, HEARTH_E_FORMAT, "%s: \"logit_scale\" %g must be positive", m->config.path,
                         m->scale.logits);
    if (!rc)
        rc = expect_number(m, "rotary_pct", 1, 1, err);
    return rc ? rc : expect(m, "attention_bias", false, false, err);
}

int hearth_hf_read_ernie(struct hearth_hf_model *m, struct hearth_error *err)
{
    return expect(m, "use_bias", false, false, err);
}

int hearth_hf_read_phi3(struct hearth_hf_model *m, struct hearth_error *err)
{
    if (m->own_head_dim && m->head_dim != m->n_embd / m->n_head)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: \"head_dim\" %u is not supported, %u is",
                           m->config.path, m->head_dim, m->n_embd / m->n_head);
    m->n_rot = m->n_rot ? m->n_rot : m->head_dim;
    m->n_ctx_orig = m->n_ctx_orig ? m->n_ctx_orig : m->n_ctx;
    const json_t *lists[] = {m->short_factors, m->long_factors};
    for (size_t k = 0; k < 2 && m->rope == HEARTH_HF_ROPE_LONG; k++)
        for (size_t i = 0; i < m->n_rot / 2; i++)
            if (json_array_size(lists[k]) != m->n_rot / 2 ||
                !(json_number_value(json_array_get(lists[k], i)) > 0))
                return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"%s\" must be %u positive numbers",
                                   m->config.path, k ? "long_factor" : "short_factor", m->n_rot / 2);
    return HEARTH_OK;
}

int hearth_hf_read_gemma3(struct hearth_hf_model *m, struct hearth_error *err)
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

// The share of gates that are below what lets them through: of each layer its own, or none; a number is all layers'.
static int read_cuts(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *pattern = json_object_get(m->config.root, "activation_sparsity_pattern");
    if (json_is_array(pattern) && json_array_size(pattern) != m->n_layer)
        return hearth_fail(err, HEARTH_E_FORMAT,
                           "%s: \"activation_sparsity_pattern\" must have a number for each layer",
                           m->config.path);
    for (uint32_t i = 0; i < m->n_layer; i++) {
        const double usual = i < 10 ? 0.95 : 0;
        const json_t *own = json_is_array(pattern) ? json_array_get(pattern, i) : pattern;
        const double share = json_is_number(own) ? json_number_value(own) : usual;
        if (!(share >= 0 && share < 0.9999) || (share > 0 && share < 0.0001) ||
            (share > 0 && m->cut_share > 0 && share != m->cut_share))
            return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                               "%s: \"activation_sparsity_pattern\": only one share below 1 is supported, "
                               "beside 0",
                               m->config.path);
        m->cuts[i / 32] |= (uint32_t)(share > 0) << (i % 32);
        m->cut_share = share > 0 ? share : m->cut_share;
    }
    return HEARTH_OK;
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

int hearth_hf_read_gemma3n(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->n_streams = 4;
    m->mix_rank = 64;
    m->n_embd_layer = 256;
    m->logit_cap = 30;
    m->n_borrowing = 15;
    if (!m->window)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: \"sliding_window\": none is not supported",
                           m->config.path);
    for (uint32_t i = 0; i < m->n_layer; i++)
        m->windowed[i / 32] |= (uint32_t)((i + 1) % m->window_period != 0) << (i % 32);
    int rc = u32(m, "altup_num_inputs", false, &m->n_streams, err);
    if (!rc)
        rc = u32(m, "altup_active_idx", false, &m->active_stream, err);
    if (!rc && (m->n_streams != 4 || m->active_stream >= m->n_streams))
        rc = hearth_fail(err, HEARTH_E_UNSUPPORTED,
                         "%s: \"altup_num_inputs\": %u with stream %u active is not supported, 4 are",
                         m->config.path, m->n_streams, m->active_stream);
    if (!rc)
        rc = u32(m, "laurel_rank", false, &m->mix_rank, err);
    if (!rc && (!m->mix_rank || m->mix_rank > 1 << 20))
        rc = hearth_fail(err, HEARTH_E_FORMAT, "%s: \"laurel_rank\" %u cannot be", m->config.path,
                         m->mix_rank);
    if (!rc)
        rc = u32(m, "hidden_size_per_layer_input", false, &m->n_embd_layer, err);
    if (!rc)
        rc =
            hearth_json_f64(&m->config, m->config.root, "final_logit_softcapping", false, &m->logit_cap, err);
    if (!rc)
        rc = read_borrowing(m, err);
    if (!rc)
        rc = read_cuts(m, err);
    if (!rc)
        rc = expect(m, "altup_correct_scale", true, true, err);
    return rc ? rc : expect(m, "attention_bias", false, false, err);
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

int hearth_hf_read_gemma4_unified(struct hearth_hf_model *m, struct hearth_error *err)
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

int hearth_hf_read_gemma4(struct hearth_hf_model *m, struct hearth_error *err)
{
    bool has_experts = false;
    m->n_embd_layer = 256;
    int rc = hearth_hf_read_gemma4_unified(m, err);
    if (!rc)
        rc = u32(m, "hidden_size_per_layer_input", false, &m->n_embd_layer, err);
    if (!rc)
        rc = hearth_json_bool(&m->config, m->config.root, "enable_moe_block", &has_experts, err);
    if (rc || !has_experts)
        return rc;
    rc = u32(m, "moe_intermediate_size", true, &m->n_ff_exp, err);
    return rc ? rc : read_experts(m, "num_experts", err);
}

// ---- latent attention

// The ranks, and of heads what stays, what rotates, and values.
int hearth_hf_read_latent(struct hearth_hf_model *m, struct hearth_error *err)
{
    int rc = u32(m, "kv_lora_rank", true, &m->rank, err);
    if (!rc)
        rc = u32(m, "q_lora_rank", false, &m->q_rank, err);
    if (!rc)
        rc = u32(m, "qk_nope_head_dim", true, &m->still_dim, err);
    if (!rc)
        rc = u32(m, "qk_rope_head_dim", true, &m->n_rot, err);
    if (!rc)
        rc = u32(m, "v_head_dim", true, &m->value_dim, err);
    if (!rc && (!m->rank || m->rank > 65536 || m->q_rank > 1 << 20 || !m->still_dim || m->still_dim > 4096 ||
                !m->n_rot || m->n_rot % 2 || m->n_rot > 4096 || !m->value_dim || m->value_dim > 4096))
        rc = hearth_fail(err, HEARTH_E_FORMAT,
                         "%s: heads of %u and %u elements and values of %u, of rank %u, cannot be",
                         m->config.path, m->still_dim, m->n_rot, m->value_dim, m->rank);
    m->head_dim = m->still_dim + m->n_rot + m->n_rot % 2;
    m->n_head_kv = 1; // the latent vector, for all heads
    return rc ? rc : expect(m, "attention_bias", false, false, err);
}

// Layers without experts come first: so many, or as the list says.
static int read_dense_layers(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *types = json_object_get(m->config.root, "mlp_layer_types");
    if (!json_is_array(types))
        return u32(m, "first_k_dense_replace", false, &m->n_dense, err);
    m->n_dense = 0;
    for (size_t i = 0; i < json_array_size(types); i++) {
        const bool dense = hearth_json_is(json_array_get(types, i), "dense");
        if (dense ? m->n_dense != i : !hearth_json_is(json_array_get(types, i), "sparse"))
            return hearth_fail(
                err, HEARTH_E_UNSUPPORTED,
                "%s: \"mlp_layer_types\": layers without experts behind others are not supported",
                m->config.path);
        m->n_dense += dense;
    }
    return HEARTH_OK;
}

// Experts, in groups or not, of which one that all tokens use is as large as so many others.
static int read_grouped(struct hearth_hf_model *m, const char *function, struct hearth_error *err)
{
    uint32_t shared = 0;
    const json_t *given = json_object_get(m->config.root, "scoring_func");
    if (json_is_string(given) && !hearth_json_is(given, function) &&
        !(m->gating == SIGMOID && hearth_json_is(given, "noaux_tc")))
        return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                           "%s: \"scoring_func\": \"%.40s\" is not supported, %s is", m->config.path,
                           json_string_value(given), function);
    m->expert_scale = 1;
    int rc = read_experts(m, "n_routed_experts", err);
    if (!rc)
        rc = u32(m, "moe_intermediate_size", true, &m->n_ff_exp, err);
    if (!rc)
        rc = u32(m, "n_shared_experts", false, &shared, err);
    if (!rc)
        rc = read_dense_layers(m, err);
    if (!rc)
        rc = u32(m, "n_group", false, &m->n_group, err);
    if (!rc)
        rc = u32(m, "topk_group", m->n_group > 0, &m->n_group_used, err);
    if (!rc)
        rc = hearth_json_f64(&m->config, m->config.root, "routed_scaling_factor", false, &m->expert_scale,
                             err);
    if (!rc)
        rc = expect_number(m, "moe_layer_freq", 1, 1, err);
    if (!rc && (shared > 4096 || m->n_ff_exp > 1 << 20 || m->n_dense > m->n_layer ||
                (m->n_group && (m->n_expert % m->n_group || m->n_group_used > m->n_group))))
        rc = hearth_fail(err, HEARTH_E_FORMAT,
                         "%s: %u experts in %u groups, of which %u count, behind %u of %u layers cannot be",
                         m->config.path, m->n_expert, m->n_group, m->n_group_used, m->n_dense, m->n_layer);
    m->n_shared = shared;
    m->n_ff_shared = shared * m->n_ff_exp;
    return rc;
}

int hearth_hf_read_deepseek_v2(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *method = json_object_get(m->config.root, "topk_method");
    m->gating = SOFTMAX;
    m->renorm = false;
    int rc = hearth_hf_read_latent(m, err);
    if (!rc)
        rc = read_grouped(m, "softmax", err);
    if (!rc && !hearth_json_is(method, "group_limited_greedy") && m->n_group > 1)
        m->n_group = m->n_group_used = 1; // which the model does not look at
    return rc ? rc : expect(m, "norm_topk_prob", false, false, err);
}

// Layers that guess tokens ahead.
static int read_extra(struct hearth_hf_model *m, struct hearth_error *err)
{
    const int rc = u32(m, "num_nextn_predict_layers", false, &m->n_extra, err);
    if (rc || m->n_extra <= 64)
        return rc;
    return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"num_nextn_predict_layers\" %u cannot be", m->config.path,
                       m->n_extra);
}

int hearth_hf_read_glm4moe(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->gating = SIGMOID;
    int rc = read_grouped(m, "sigmoid", err);
    if (!rc)
        rc = expect_number(m, "n_group", 1, 1, err);
    if (!rc)
        rc = read_extra(m, err);
    return rc ? rc : hearth_json_bool(&m->config, m->config.root, "norm_topk_prob", &m->renorm, err);
}

int hearth_hf_read_deepseek_v3(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->gating = SIGMOID;
    int rc = hearth_hf_read_latent(m, err);
    if (!rc)
        rc = read_grouped(m, "sigmoid", err);
    if (!rc)
        rc = read_extra(m, err);
    if (!rc)
        rc = expect(m, "rope_interleave", true, true, err);
    return rc ? rc : hearth_json_bool(&m->config, m->config.root, "norm_topk_prob", &m->renorm, err);
}

static int read_choice(struct hearth_hf_model *m, uint32_t heads, struct hearth_error *err)
{
    m->choose_heads = heads;
    m->choose_dim = 128;
    m->choose_top = 2048;
    int rc = u32(m, "index_n_heads", false, &m->choose_heads, err);
    if (!rc)
        rc = u32(m, "index_head_dim", false, &m->choose_dim, err);
    if (!rc)
        rc = u32(m, "index_topk", false, &m->choose_top, err);
    if (!rc && (!m->choose_heads || m->choose_heads > 4096 || m->choose_dim < m->n_rot ||
                m->choose_dim > 4096 || !m->choose_top || !m->q_rank))
        rc = hearth_fail(err, HEARTH_E_FORMAT, "%s: %u heads of %u dimensions cannot choose %u positions",
                         m->config.path, m->choose_heads, m->choose_dim, m->choose_top);
    return rc;
}

int hearth_hf_read_deepseek_v32(struct hearth_hf_model *m, struct hearth_error *err)
{
    const int rc = hearth_hf_read_deepseek_v3(m, err);
    return rc ? rc : read_choice(m, 64, err);
}

// Layers that choose positions, and those that attend to what the last one before them chose: a list, or letters, or each
// so many-th one behind the first. The first must choose.
static int read_choosing(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *types = json_object_get(m->config.root, "indexer_types");
    const json_t *pattern = json_object_get(m->config.root, "index_topk_pattern");
    const char *letters = json_string_value(pattern);
    uint32_t every = 1, behind = 2;
    int rc = u32(m, "index_topk_freq", false, &every, err);
    if (!rc)
        rc = u32(m, "index_skip_topk_offset", false, &behind, err);
    if (!json_is_array(types) && json_is_array(pattern))
        types = pattern;
    m->choice_listed = json_is_array(types) || letters || every > 1;
    bool ok = !rc && every > 0 && (!json_is_array(types) || json_array_size(types) == m->n_layer) &&
              (json_is_array(types) || !letters || strlen(letters) == m->n_layer);
    for (uint32_t i = 0; i < m->n_layer && ok; i++) {
        const json_t *type = json_array_get(types, i);
        const uint32_t past = i + 1 > behind ? i + 1 - behind : 0;
        const bool shares = json_is_array(types) ? hearth_json_is(type, "shared")
                            : letters            ? letters[i] == 'S'
                                                 : past % every != 0;
        ok = (i || !shares) && (shares || !json_is_array(types) || hearth_json_is(type, "full")) &&
             (shares || json_is_array(types) || !letters || letters[i] == 'F');
        m->shares_choice[i / 32] |= (uint32_t)shares << (i % 32);
    }
    if (!rc && !ok)
        rc = hearth_fail(
            err, HEARTH_E_FORMAT,
            "%s: \"indexer_types\" must say of each layer whether it is full or shared, and of the first "
            "that it is full",
            m->config.path);
    return rc;
}

int hearth_hf_read_glm_dsa(struct hearth_hf_model *m, struct hearth_error *err)
{
    int rc = hearth_hf_read_deepseek_v3(m, err);
    if (!rc)
        rc = read_choice(m, 32, err);
    if (!rc)
        rc = expect(m, "indexer_rope_interleave", true, true, err);
    return rc ? rc : read_choosing(m, err);
}

// ---- gpt-oss

int hearth_hf_read_gptoss(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->n_ff_exp = m->n_ff;
    if (m->rope != HEARTH_HF_ROPE_YARN)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: \"rope_scaling\" must be there, and YaRN",
                           m->config.path);
    int rc = read_experts(m, "num_local_experts", err);
    if (!rc)
        rc = expect_number(m, "swiglu_alpha", 1.702, 1.702, err);
    if (!rc)
        rc = expect_number(m, "swiglu_limit", 7, 7, err);
    return rc ? rc : expect(m, "attention_bias", true, true, err);
}

// ---- MiniMax-M2

int hearth_hf_read_minimax_m2(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *types = json_object_get(m->config.root, "attn_type_list");
    const json_t *function = json_object_get(m->config.root, "scoring_func");
    for (size_t i = 0; i < json_array_size(types); i++)
        if (json_integer_value(json_array_get(types, i)) != 1)
            return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                               "%s: \"attn_type_list\": layers with linear attention are not supported",
                               m->config.path);
    if (json_is_string(function) && !hearth_json_is(function, "sigmoid"))
        return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                           "%s: \"scoring_func\": \"%.40s\" is not supported, sigmoid is", m->config.path,
                           json_string_value(function));
    m->gating = SIGMOID;
    m->n_ff_exp = m->n_ff;
    int rc = read_experts(m, "num_local_experts", err);
    if (!rc)
        rc = u32(m, "rotary_dim", false, &m->n_rot, err);
    if (!rc && (m->n_rot % 2 || m->n_rot > m->head_dim))
        rc = hearth_fail(err, HEARTH_E_FORMAT, "%s: \"rotary_dim\" %u of %u dimensions cannot be",
                         m->config.path, m->n_rot, m->head_dim);
    if (!rc)
        rc = expect_number(m, "shared_intermediate_size", 0, 0, err);
    if (!rc)
        rc = expect(m, "use_qk_norm", true, true, err);
    return rc ? rc : expect(m, "use_routing_bias", true, true, err);
}

// ---- Hunyuan, ERNIE with experts, dots.llm1, Ling 2

int hearth_hf_read_hunyuan(struct hearth_hf_model *m, struct hearth_error *err)
{
    return expect(m, "attention_bias", false, false, err);
}

// A number, or one for each layer, which must be the same.
static int read_same(const struct hearth_hf_model *m, const char *key, uint32_t *out,
                     struct hearth_error *err)
{
    const json_t *list = json_object_get(m->config.root, key), *n;
    size_t i;
    if (!json_is_array(list))
        return u32(m, key, false, out, err);
    json_array_foreach(
        list, i,
        n) if (!json_is_integer(n) || json_integer_value(n) < 0 || json_integer_value(n) > INT32_MAX ||
               json_integer_value(n) !=
                   json_integer_value(json_array_get(
                       list, 0))) return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                                                     "%s: \"%s\": layers that differ are not supported",
                                                     m->config.path, key);
    *out = (uint32_t)json_integer_value(json_array_get(list, 0));
    return HEARTH_OK;
}

int hearth_hf_read_hunyuan_moe(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->n_ff_exp = m->n_ff;
    m->n_expert_used = m->n_shared = 1;
    int rc = hearth_hf_read_hunyuan(m, err);
    if (!rc)
        rc = read_same(m, "moe_topk", &m->n_expert_used, err);
    if (!rc)
        rc = read_experts(m, "num_experts", err);
    if (!rc)
        rc = read_same(m, "moe_intermediate_size", &m->n_ff_exp, err);
    if (!rc)
        rc = read_same(m, "num_shared_expert", &m->n_shared, err);
    if (!rc && m->n_shared != 1)
        rc = hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: \"num_shared_expert\": %u is not supported, 1 is",
                         m->config.path, m->n_shared);
    m->n_ff_shared = m->n_ff;
    return rc;
}

int hearth_hf_read_ernie_moe(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->n_expert = 64;
    m->n_expert_used = 6;
    m->n_ff_exp = 1536;
    m->n_shared = 2;
    m->expert_step = 1;
    const json_t *last = json_object_get(m->config.root, "moe_layer_end_index");
    const struct {
        const char *key;
        uint32_t *out;
    } sizes[] = {{"moe_num_experts", &m->n_expert},       {"moe_k", &m->n_expert_used},
                 {"moe_intermediate_size", &m->n_ff_exp}, {"moe_num_shared_experts", &m->n_shared},
                 {"moe_layer_start_index", &m->n_dense},  {"num_nextn_predict_layers", &m->n_extra}};
    int rc = hearth_hf_read_ernie(m, err);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !rc; i++)
        rc = u32(m, sizes[i].key, false, sizes[i].out, err);
    if (!rc)
        rc = expect_number(m, "moe_layer_interval", 1, 1, err);
    if (!rc)
        rc = read_experts(m, "moe_num_experts", err);
    if (!rc && (m->n_dense > m->n_layer || (json_is_integer(last) && json_integer_value(last) != -1 &&
                                            json_integer_value(last) != (json_int_t)m->n_layer - 1)))
        rc =
            hearth_fail(err, HEARTH_E_UNSUPPORTED,
                        "%s: \"moe_layer_end_index\": layers without experts behind others are not supported",
                        m->config.path);
    if (!rc && (m->n_shared > 4096 || m->n_ff_exp > 1 << 20 || m->n_extra > 64))
        rc = hearth_fail(err, HEARTH_E_FORMAT, "%s: \"moe_num_shared_experts\" %u of %u neurons cannot be",
                         m->config.path, m->n_shared, m->n_ff_exp);
    m->n_ff_shared = m->n_shared * m->n_ff_exp;
    return rc;
}

int hearth_hf_read_dots1(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->gating = SIGMOID;
    m->renorm = false;
    int rc = read_grouped(m, "sigmoid", err);
    if (!rc)
        rc = expect_number(m, "n_group", 1, 1, err);
    if (!rc)
        rc = expect(m, "attention_bias", false, false, err);
    return rc ? rc : hearth_json_bool(&m->config, m->config.root, "norm_topk_prob", &m->renorm, err);
}

int hearth_hf_read_bailing2(struct hearth_hf_model *m, struct hearth_error *err)
{
    static const char *const biases[] = {"use_bias", "use_qkv_bias"};
    const json_t *function = json_object_get(m->config.root, "score_function");
    m->gating = SIGMOID;
    m->expert_scale = 1;
    if (json_is_string(function) && !hearth_json_is(function, "sigmoid"))
        return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                           "%s: \"score_function\": \"%.40s\" is not supported, sigmoid is", m->config.path,
                           json_string_value(function));
    const struct {
        const char *key;
        uint32_t *out;
    } sizes[] = {{"moe_intermediate_size", &m->n_ff_exp},
                 {"num_shared_experts", &m->n_shared},
                 {"first_k_dense_replace", &m->n_dense},
                 {"n_group", &m->n_group},
                 {"topk_group", &m->n_group_used}};
    int rc = read_experts(m, "num_experts", err);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !rc; i++)
        rc = u32(m, sizes[i].key, false, sizes[i].out, err);
    if (!rc &&
        (m->n_shared > 4096 || m->n_ff_exp > 1 << 20 || m->n_dense > m->n_layer ||
         (m->n_group && (m->n_expert % m->n_group || !m->n_group_used || m->n_group_used > m->n_group))))
        rc = hearth_fail(err, HEARTH_E_FORMAT,
                         "%s: %u experts in %u groups, of which %u count, behind %u of %u layers cannot be",
                         m->config.path, m->n_expert, m->n_group, m->n_group_used, m->n_dense, m->n_layer);
    m->n_ff_shared = rc ? 0 : m->n_shared * m->n_ff_exp;
    if (!rc)
        rc = u32(m, "moe_shared_expert_intermediate_size", false, &m->n_ff_shared, err);
    if (!rc)
        rc = hearth_json_f64(&m->config, m->config.root, "routed_scaling_factor", false, &m->expert_scale,
                             err);
    for (size_t i = 0; i < sizeof biases / sizeof *biases && !rc; i++)
        rc = expect(m, biases[i], false, false, err);
    if (!rc)
        rc = expect(m, "use_qk_norm", true, true, err);
    if (!rc)
        rc = expect(m, "norm_head", false, false, err);
    if (!rc)
        rc = read_extra(m, err);
    return rc ? rc : hearth_json_bool(&m->config, m->config.root, "norm_topk_prob", &m->renorm, err);
}

// ---- StarCoder 2, InternLM 2

int hearth_hf_read_starcoder2(struct hearth_hf_model *m, struct hearth_error *err)
{
    const int rc = hearth_json_f64(&m->config, m->config.root, "norm_epsilon", false, &m->norm_eps, err);
    return rc ? rc : expect(m, "use_bias", true, true, err);
}

int hearth_hf_read_internlm2(struct hearth_hf_model *m, struct hearth_error *err)
{
    return expect(m, "bias", false, false, err);
}
