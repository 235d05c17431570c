// SPDX-License-Identifier: MIT
// What is special in config.json about families whose layers are recurrent in part. Source: the models' configuration
// classes in transformers.
#include <stdio.h>
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

// ---- scans (Mamba-2)

static int check_scan(const struct hearth_hf_model *m, struct hearth_error *err)
{
    if (m->rec_keys && m->rec_heads && m->rec_dim && m->rec_state && m->n_taps && m->n_taps <= 64 &&
        m->rec_heads <= 4096 && m->rec_dim <= 4096 && m->rec_state <= 4096 && m->rec_heads % m->rec_keys == 0)
        return HEARTH_OK;
    return hearth_fail(
        err, HEARTH_E_FORMAT,
        "%s: a scan of %u heads of %u values with states of %u, in %u groups, behind %u taps, cannot be",
        m->config.path, m->rec_heads, m->rec_dim, m->rec_state, m->rec_keys, m->n_taps);
}

// Settings under the names that begin with "mamba_". The width of heads may be "auto".
static int read_mamba(struct hearth_hf_model *m, uint32_t width, struct hearth_error *err)
{
    const json_t *head = json_object_get(m->config.root, "mamba_d_head");
    m->rec_heads = 128;
    m->rec_keys = 1;
    m->rec_state = 256;
    m->n_taps = 4;
    int rc = u32(m, "mamba_n_heads", false, &m->rec_heads, err);
    if (!rc)
        rc = u32(m, "mamba_n_groups", false, &m->rec_keys, err);
    if (!rc)
        rc = u32(m, "mamba_d_state", false, &m->rec_state, err);
    if (!rc)
        rc = u32(m, "mamba_d_conv", false, &m->n_taps, err);
    m->rec_dim = m->rec_heads ? width / m->rec_heads : 0;
    if (!rc && !hearth_json_is(head, "auto"))
        rc = u32(m, "mamba_d_head", false, &m->rec_dim, err);
    if (!rc && (uint64_t)m->rec_dim * m->rec_heads != width)
        rc = hearth_fail(err, HEARTH_E_FORMAT, "%s: %u heads of %u values are not %u together",
                         m->config.path, m->rec_heads, m->rec_dim, width);
    if (!rc)
        rc = expect(m, "mamba_conv_bias", true, true, err);
    if (!rc)
        rc = expect(m, "mamba_proj_bias", false, false, err);
    return rc ? rc : check_scan(m, err);
}

// Which layers attend, under the names of any year.
static int read_scan_layers(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *types = json_object_get(m->config.root, "layer_types");
    if (!json_is_array(types))
        types = json_object_get(m->config.root, "layers_block_type");
    if (json_array_size(types) != m->n_layer)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"layer_types\" must say of each layer what it is",
                           m->config.path);
    for (uint32_t i = 0; i < m->n_layer; i++) {
        const json_t *type = json_array_get(types, i);
        const bool recurs = hearth_json_is(type, "mamba") || hearth_json_is(type, "linear_attention");
        if (!recurs && !hearth_json_is(type, "attention") && !hearth_json_is(type, "full_attention"))
            return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: layer %u is \"%.40s\", which is not supported",
                               m->config.path, i, json_is_string(type) ? json_string_value(type) : "?");
        m->recurrent[i / 32] |= (uint32_t)recurs << (i % 32);
    }
    return HEARTH_OK;
}

static bool has_recurrence(const struct hearth_hf_model *m)
{
    for (uint32_t i = 0; i < m->n_layer; i++)
        if (hearth_hf_is_recurrent(m, i))
            return true;
    return false;
}

// Models all of whose layers attend are of the same class, and as Granite 3.
int hearth_hf_read_granitehybrid(struct hearth_hf_model *m, struct hearth_error *err)
{
    uint32_t n_experts = 8, expand = 2, n_used = 2;
    int rc = read_scan_layers(m, err);
    const bool recurs = has_recurrence(m);
    const bool rotates = hearth_json_is(json_object_get(m->config.root, "position_embedding_type"), "rope");
    if (!rc && rotates == recurs)
        rc = hearth_fail(
            err, HEARTH_E_UNSUPPORTED, "%s: \"position_embedding_type\": %s is not supported", m->config.path,
            recurs ? "rotation beside recurrent layers" : "attention alone that does not rotate");
    if (!rc)
        rc = hearth_hf_read_granite(m, err);
    if (!rc)
        rc = u32(m, "num_local_experts", false, &n_experts, err);
    if (!rc)
        rc = u32(m, "num_experts_per_tok", false, &n_used, err);
    if (!rc)
        rc = u32(m, "mamba_expand", false, &expand, err);
    if (!rc && recurs)
        rc = read_mamba(m, expand * m->n_embd, err);
    m->n_ff_shared = 1024;
    if (!rc)
        rc = u32(m, "shared_intermediate_size", false, &m->n_ff_shared, err);
    if (!rc && !n_experts && m->n_ff != m->n_ff_shared)
        rc = hearth_fail(err, HEARTH_E_UNSUPPORTED,
                         "%s: \"shared_intermediate_size\" %u is not supported, \"intermediate_size\" is %u",
                         m->config.path, m->n_ff_shared, m->n_ff);
    if (!rc && n_experts) {
        m->n_expert = n_experts;
        m->n_expert_used = n_used;
        m->n_ff_exp = m->n_ff;
        rc = read_experts(m, "num_local_experts", err);
    }
    if (!rc && !recurs && n_experts)
        rc = hearth_fail(err, HEARTH_E_UNSUPPORTED,
                         "%s: experts where all layers attend are not supported in this class",
                         m->config.path);
    m->is_still = recurs;
    if (recurs)
        m->n_ctx = 1 << 20; // what nothing rotates in has no end, and llama.cpp's files say it so
    if (!rc && (!recurs || n_experts))
        m->family = m->family->variants[recurs];
    return rc ? rc : expect(m, "attention_bias", false, false, err);
}

// Kinds of layers: a letter each, or a list.
static int read_nemotron_layers(struct hearth_hf_model *m, bool *experts, struct hearth_error *err)
{
    const json_t *list = json_object_get(m->config.root, "layers_block_type");
    const char *letters = json_string_value(json_object_get(m->config.root, "hybrid_override_pattern"));
    if (!json_is_array(list))
        list = json_object_get(m->config.root, "layer_types");
    const size_t n = json_is_array(list) ? json_array_size(list) : letters ? strlen(letters) : 0;
    if (!n || n > 4096 || (m->n_layer && m->n_layer != n))
        return hearth_fail(err, HEARTH_E_FORMAT,
                           "%s: \"hybrid_override_pattern\" must say of each layer what it is",
                           m->config.path);
    m->n_layer = (uint32_t)n;
    bool dense = false;
    for (uint32_t i = 0; i < m->n_layer; i++) {
        const json_t *type = json_array_get(list, i);
        const char letter = json_is_array(list) ? ' ' : letters[i];
        const bool recurs =
            letter == 'M' || hearth_json_is(type, "mamba") || hearth_json_is(type, "linear_attention");
        const bool attends =
            letter == '*' || hearth_json_is(type, "attention") || hearth_json_is(type, "full_attention");
        const bool moe = letter == 'E' || hearth_json_is(type, "moe");
        if (!recurs && !attends && !moe && letter != '-' && !hearth_json_is(type, "mlp"))
            return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: layer %u is \"%.40s\", which is not supported",
                               m->config.path, i,
                               json_is_string(type) ? json_string_value(type) : (char[]){letter, '\0'});
        m->recurrent[i / 32] |= (uint32_t)recurs << (i % 32);
        m->feeds[i / 32] |= (uint32_t)(!recurs && !attends) << (i % 32);
        *experts = *experts || moe;
        dense = dense || (!recurs && !attends && !moe);
    }
    if (*experts && dense)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                           "%s: layers without experts beside others are not supported", m->config.path);
    return HEARTH_OK;
}

static int read_nemotron_experts(struct hearth_hf_model *m, struct hearth_error *err)
{
    m->n_expert = 8;
    m->n_expert_used = 2;
    m->n_ff_exp = m->n_ff_shared = 7688;
    m->expert_scale = 1;
    m->n_group = m->n_group_used = m->n_shared = 1;
    int rc = read_experts(m, "n_routed_experts", err);
    if (!rc)
        rc = u32(m, "moe_intermediate_size", false, &m->n_ff_exp, err);
    if (!rc)
        rc = u32(m, "moe_shared_expert_intermediate_size", false, &m->n_ff_shared, err);
    if (!rc)
        rc = u32(m, "moe_latent_size", false, &m->n_embd_exp, err);
    if (!rc)
        rc = u32(m, "num_nextn_predict_layers", false, &m->n_extra, err);
    if (!rc)
        rc = hearth_json_f64(&m->config, m->config.root, "routed_scaling_factor", false, &m->expert_scale,
                             err);
    if (!rc)
        rc = expect_number(m, "n_shared_experts", 1, 1, err);
    if (!rc)
        rc = expect_number(m, "n_group", 1, 1, err);
    m->family = m->family->variants[0];
    return rc ? rc : hearth_json_bool(&m->config, m->config.root, "norm_topk_prob", &m->renorm, err);
}

int hearth_hf_read_nemotron_h(struct hearth_hf_model *m, struct hearth_error *err)
{
    static const char *const biases[] = {"attention_bias", "mlp_bias", "use_bias", "mamba_proj_bias"};
    bool experts = false;
    m->has_rope = false;
    m->is_still = true;
    m->n_ctx = 1 << 20; // as of Granite 4 H
    m->rec_heads = 128;
    m->rec_dim = 64;
    m->rec_state = 128;
    m->rec_keys = 8;
    m->n_taps = 4;
    int rc = read_nemotron_layers(m, &experts, err);
    const struct {
        const char *key;
        uint32_t *out;
    } sizes[] = {{"mamba_num_heads", &m->rec_heads}, {"mamba_head_dim", &m->rec_dim},
                 {"ssm_state_size", &m->rec_state},  {"mamba_n_groups", &m->rec_keys},
                 {"n_groups", &m->rec_keys},         {"mamba_d_conv", &m->n_taps},
                 {"conv_kernel", &m->n_taps},        {"attention_head_dim", &m->head_dim},
                 {"head_dim", &m->head_dim}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !rc; i++)
        rc = u32(m, sizes[i].key, false, sizes[i].out, err);
    if (!rc)
        rc = hearth_json_f64(&m->config, m->config.root, "layer_norm_epsilon", false, &m->norm_eps, err);
    for (size_t i = 0; i < sizeof biases / sizeof *biases && !rc; i++)
        rc = expect(m, biases[i], false, false, err);
    if (!rc)
        rc = expect(m, "use_conv_bias", true, true, err);
    if (!rc)
        rc = check_scan(m, err);
    return rc || !experts ? rc : read_nemotron_experts(m, err);
}

// ---- Kimi Linear

// Which layers attend: a list of kinds, or their numbers, which begin with 1.
static int read_kimi_layers(struct hearth_hf_model *m, const json_t *linear, struct hearth_error *err)
{
    const json_t *attending = json_object_get(linear, "full_attn_layers"), *n;
    size_t k;
    if (!json_is_array(attending))
        return read_scan_layers(m, err);
    for (uint32_t i = 0; i < m->n_layer; i++)
        m->recurrent[i / 32] |= (uint32_t)1 << (i % 32);
    json_array_foreach(attending, k, n)
    {
        const json_int_t i = json_integer_value(n) - 1;
        if (!json_is_integer(n) || i < 0 || i >= (json_int_t)m->n_layer)
            return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"full_attn_layers\" must be numbers of layers",
                               m->config.path);
        m->recurrent[i / 32] &= ~((uint32_t)1 << (i % 32));
    }
    return HEARTH_OK;
}

static int read_kimi_experts(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *function = json_object_get(m->config.root, "moe_router_activation_func");
    m->gating = SIGMOID;
    m->n_expert_used = 8;
    m->n_ff_exp = 1024;
    m->n_shared = 1;
    m->expert_scale = 1;
    if (json_is_string(function) && !hearth_json_is(function, "sigmoid"))
        return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                           "%s: \"moe_router_activation_func\": \"%.40s\" is not supported, sigmoid is",
                           m->config.path, json_string_value(function));
    const struct {
        const char *key;
        uint32_t *out;
    } sizes[] = {{"num_experts_per_token", &m->n_expert_used},
                 {"moe_intermediate_size", &m->n_ff_exp},
                 {"num_shared_experts", &m->n_shared},
                 {"first_k_dense_replace", &m->n_dense},
                 {"topk_group", &m->n_group_used}};
    int rc = HEARTH_OK;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !rc; i++)
        rc = u32(m, sizes[i].key, false, sizes[i].out, err);
    if (!rc)
        rc = read_experts(m, "num_experts", err);
    if (!rc && (m->n_shared > 4096 || m->n_ff_exp > 1 << 20 || m->n_dense > m->n_layer))
        rc =
            hearth_fail(err, HEARTH_E_FORMAT, "%s: %u experts of %u neurons behind %u of %u layers cannot be",
                        m->config.path, m->n_expert, m->n_ff_exp, m->n_dense, m->n_layer);
    if (!rc)
        rc = hearth_json_f64(&m->config, m->config.root, "routed_scaling_factor", false, &m->expert_scale,
                             err);
    if (!rc)
        rc = expect_number(m, "num_expert_group", 1, 1, err);
    if (!rc)
        rc = expect_number(m, "moe_layer_freq", 1, 1, err);
    m->n_ff_shared = rc ? 0 : m->n_shared * m->n_ff_exp;
    return rc ? rc : expect(m, "moe_renormalize", true, true, err);
}

int hearth_hf_read_kimi_linear(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *linear = json_object_get(m->config.root, "linear_attn_config");
    m->rec_heads = 32;
    m->rec_dim = 128;
    m->n_taps = 4;
    const struct {
        const char *key;
        uint32_t *out;
    } sizes[] = {
        {"num_heads", &m->rec_heads}, {"head_dim", &m->rec_dim}, {"short_conv_kernel_size", &m->n_taps}};
    int rc = hearth_hf_read_latent(m, err);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !rc; i++)
        rc = hearth_json_u32(&m->config, linear, sizes[i].key, false, sizes[i].out, err);
    if (!rc)
        rc = u32(m, "model_max_length", false, &m->n_ctx, err);
    if (!rc)
        rc = read_kimi_layers(m, linear, err);
    m->rec_keys = m->rec_heads;
    m->rec_state = m->rec_dim;
    if (!rc)
        rc = check_scan(m, err);
    if (!rc && m->rec_heads != m->n_head)
        rc = hearth_fail(err, HEARTH_E_UNSUPPORTED,
                         "%s: %u heads of recurrent layers beside %u of attention are not supported",
                         m->config.path, m->rec_heads, m->n_head);
    if (!rc && m->q_rank)
        rc = hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: \"q_lora_rank\" is not supported in this family",
                         m->config.path);
    if (!rc)
        rc = expect(m, "mla_use_nope", true, true, err);
    return rc ? rc : read_kimi_experts(m, err);
}

// ---- MiniMax-Text-01, M1

// The one number that parts multiply what they add to by: all kinds have the same, and none one for themselves.
static int read_factors(struct hearth_hf_model *m, struct hearth_error *err)
{
    static const char *const kinds[] = {"full_attention", "linear_attention", "mlp"};
    m->scale.residual = 1;
    int rc = HEARTH_OK;
    for (size_t i = 0; i < 3 && !rc; i++) {
        char key[64];
        double alpha = 1;
        snprintf(key, sizeof key, "layernorm_%s_beta", kinds[i]);
        rc = expect_number(m, key, 1, 1, err);
        snprintf(key, sizeof key, "layernorm_%s_alpha", kinds[i]);
        if (!rc)
            rc = hearth_json_f64(&m->config, m->config.root, key, false, &alpha, err);
        if (!rc && (!(alpha > 0) || (i && alpha != m->scale.residual)))
            rc = hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: \"%s\": %g is not supported, %g of all kinds is",
                             m->config.path, key, alpha, m->scale.residual);
        m->scale.residual = alpha;
    }
    return rc;
}

int hearth_hf_read_minimax_01(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *types = json_object_get(m->config.root, "attn_type_list");
    if (json_array_size(types) != m->n_layer)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"attn_type_list\" must say of each layer what it is",
                           m->config.path);
    for (uint32_t i = 0; i < m->n_layer; i++) {
        const bool attends = json_integer_value(json_array_get(types, i)) == 1;
        m->recurrent[i / 32] |= (uint32_t)!attends << (i % 32);
        m->full_interval = m->full_interval ? m->full_interval : attends ? i + 1 : 0;
    }
    for (uint32_t i = 0; i < m->n_layer; i++)
        if (!m->full_interval || hearth_hf_is_recurrent(m, i) != ((i + 1) % m->full_interval != 0))
            return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                               "%s: \"attn_type_list\": only each n-th layer may attend", m->config.path);
    m->n_ff_exp = m->n_ff;
    m->n_rot = m->head_dim;
    m->rec_heads = m->rec_keys = m->n_head;
    m->rec_dim = m->head_dim;
    int rc = read_experts(m, "num_local_experts", err);
    if (!rc)
        rc = u32(m, "rotary_dim", false, &m->n_rot, err);
    if (!rc && (!m->n_rot || m->n_rot % 2 || m->n_rot > m->head_dim))
        rc = hearth_fail(err, HEARTH_E_FORMAT, "%s: \"rotary_dim\" %u of %u dimensions cannot be",
                         m->config.path, m->n_rot, m->head_dim);
    if (!rc)
        rc = expect_number(m, "shared_intermediate_size", 0, 0, err);
    if (!rc)
        rc = expect(m, "postnorm", true, true, err);
    return rc ? rc : read_factors(m, err);
}

// ---- Falcon-H1

static int read_multipliers(const struct hearth_hf_model *m, const char *key, size_t n, double *out,
                            struct hearth_error *err)
{
    const json_t *list = json_object_get(m->config.root, key);
    for (size_t i = 0; i < n; i++)
        out[i] = json_is_array(list) ? json_number_value(json_array_get(list, i)) : 1;
    if (!json_is_array(list) || json_array_size(list) == n)
        return HEARTH_OK;
    return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"%s\" must be %zu numbers", m->config.path, key, n);
}

int hearth_hf_read_falcon_h1(struct hearth_hf_model *m, struct hearth_error *err)
{
    static const char *const biases[] = {"attention_bias", "mlp_bias", "projectors_bias"};
    const struct {
        const char *key;
        double *out;
    } numbers[] = {{"embedding_multiplier", &m->multiply.embedding},
                   {"lm_head_multiplier", &m->multiply.head},
                   {"attention_in_multiplier", &m->multiply.attn_in},
                   {"attention_out_multiplier", &m->multiply.attn_out},
                   {"key_multiplier", &m->multiply.key},
                   {"ssm_in_multiplier", &m->multiply.scan_in},
                   {"ssm_out_multiplier", &m->multiply.scan_out}};
    uint32_t width = 1024;
    bool normed = false;
    double mlp[2] = {1, 1};
    int rc = u32(m, "mamba_d_ssm", false, &width, err);
    if (!rc)
        rc = read_mamba(m, width, err);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !rc; i++) {
        *numbers[i].out = 1;
        rc = hearth_json_f64(&m->config, m->config.root, numbers[i].key, false, numbers[i].out, err);
    }
    if (!rc)
        rc = read_multipliers(m, "mlp_multipliers", 2, mlp, err);
    if (!rc)
        rc = read_multipliers(m, "ssm_multipliers", 5, m->multiply.scan, err);
    m->multiply.gate = mlp[0];
    m->multiply.down = mlp[1];
    for (size_t i = 0; i < sizeof biases / sizeof *biases && !rc; i++)
        rc = expect(m, biases[i], false, false, err);
    if (!rc)
        rc = hearth_json_bool(&m->config, m->config.root, "mamba_rms_norm", &normed, err);
    if (!rc && normed)
        rc = expect(m, "mamba_norm_before_gate", false, true, err);
    if (!rc && m->tied && m->multiply.head != m->multiply.embedding)
        rc = hearth_fail(err, HEARTH_E_UNSUPPORTED,
                         "%s: a head that is the embedding, but has another multiplier, is not supported",
                         m->config.path);
    m->own_head_dim = true;
    return rc;
}

void hearth_hf_multipliers(const struct hearth_hf_model *m, const char *to, uint64_t row, float out[2],
                           int *n)
{
    const struct {
        const char *to;
        double by[2];
    } list[] = {{"token_embd.weight", {m->multiply.embedding, 1}},
                {"output.weight", {m->multiply.head, 1}},
                {"attn_q.weight", {m->multiply.attn_in, 1}},
                {"attn_k.weight", {m->multiply.key, m->multiply.attn_in}},
                {"attn_v.weight", {m->multiply.attn_in, 1}},
                {"attn_output.weight", {m->multiply.attn_out, 1}},
                {"ffn_gate.weight", {m->multiply.gate, 1}},
                {"ffn_down.weight", {m->multiply.down, 1}},
                {"ssm_out.weight", {m->multiply.scan_out, 1}}};
    const uint64_t width = (uint64_t)m->rec_heads * m->rec_dim, keys = (uint64_t)m->rec_keys * m->rec_state;
    *n = 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(to, list[i].to)) {
            out[0] = (float)list[i].by[0];
            out[1] = (float)list[i].by[1];
            *n = 2;
        }
    if (strcmp(to, "ssm_in.weight") != 0)
        return;
    // Gates, values, what states learn by and are read by, steps.
    const size_t part = row < width                  ? 0
                        : row < 2 * width            ? 1
                        : row < 2 * width + keys     ? 2
                        : row < 2 * width + 2 * keys ? 3
                                                     : 4;
    out[0] = (float)m->multiply.scan_in;
    out[1] = (float)m->multiply.scan[part];
    *n = 2;
}
