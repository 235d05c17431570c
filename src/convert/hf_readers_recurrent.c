// SPDX-License-Identifier: MIT
// What is special in config.json about families whose layers are recurrent in part. Source: the models' configuration
// classes in transformers.
#include <string.h>

#include "convert/hf_settings.h"

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

int hearth_hf_read_qwen35(struct hearth_hf_model *m, struct hearth_error *err)
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
    if (!rc)
        rc = u32(m, "mtp_num_hidden_layers", false, &m->n_extra, err);
    if (!rc && m->n_extra > 1)
        rc =
            hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: \"mtp_num_hidden_layers\": %u is not supported, 1 is",
                        m->config.path, m->n_extra);
    return rc ? rc : expect(m, "attention_bias", false, false, err);
}

int hearth_hf_read_qwen35moe(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->n_ff = 0;
    m->n_expert = 256;
    m->n_expert_used = 8;
    m->n_ff_exp = m->n_ff_shared = 512;
    int rc = hearth_hf_read_qwen35(m, err);
    if (!rc)
        rc = read_experts(m, "num_experts", err);
    if (!rc)
        rc = u32(m, "moe_intermediate_size", false, &m->n_ff_exp, err);
    return rc ? rc : u32(m, "shared_expert_intermediate_size", false, &m->n_ff_shared, err);
}

// config.json does not say whether there is a layer that guesses tokens ahead.
int hearth_hf_read_qwen3next(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->n_ff_shared = 512;
    m->n_extra = 1;
    int rc = hearth_hf_read_qwen35(m, err);
    if (!rc)
        rc = read_qwen_experts(m, true, err);
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

int hearth_hf_read_lfm2(struct hearth_hf_model *m, struct hearth_error *err)
{
    const int rc = read_conv(m, err);
    return rc ? rc : read_neurons(m, err);
}

int hearth_hf_read_lfm2moe(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->n_expert = 32;
    m->n_expert_used = 4;
    m->n_ff_exp = 1792;
    m->n_dense = 2;
    m->gating = SIGMOID;
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
