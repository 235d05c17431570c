// SPDX-License-Identifier: MIT
// Hyper-parameters, as config.json says them.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "convert/hf_f8.h"

static int u32(const struct hearth_hf_model *m, const char *key, bool required, uint32_t *out,
               struct hearth_error *err)
{
    return hearth_json_u32(&m->config, m->config.root, key, required, out, err);
}

static double or_else(double given, double general)
{
    return given > 0 ? given : general;
}

static int unsupported(const struct hearth_hf_model *m, const char *key, const char *what,
                       struct hearth_error *err)
{
    return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: \"%s\": %s", m->config.path, key, what);
}

// ---- the family

static int find_family(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *classes = json_object_get(m->config.root, "architectures");
    const char *name = json_string_value(json_array_get(classes, 0));
    if (!name)
        name = json_string_value(json_object_get(m->config.root, "model_type"));
    if (!name)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"architectures\" is missing: which model is this?",
                           m->config.path);
    m->family = hearth_hf_family_find(name);
    if (m->family)
        return HEARTH_OK;
    char known[600];
    hearth_hf_family_names(known, sizeof known);
    return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: %.80s cannot be converted; these can: %s",
                       m->config.path, name, known);
}

// Models that see images have the text's settings in a part of their own.
static void use_text_config(struct hearth_hf_model *m)
{
    json_t *text = json_object_get(m->config.root, "text_config");
    if (!json_is_object(text))
        return;
    m->outer = m->config.root;
    m->config.root = text;
}

// ---- activation

static int use_activation(struct hearth_hf_model *m, const char *name, struct hearth_error *err)
{
    static const char *const names[][2] = {{"silu", "silu"},
                                           {"swish", "silu"},
                                           {"relu", "relu"},
                                           {"drelu", "drelu"},
                                           {"gelu", "gelu"},
                                           {"fatrelu", "relu"},
                                           {"gelu_pytorch_tanh", "gelu_tanh"},
                                           {"relu2", "relu_squared"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcasecmp(names[i][0], name)) {
            m->activation = names[i][1];
            return HEARTH_OK;
        }
    return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                       "%s: activation \"%.40s\" is not supported; silu, relu, drelu, fatrelu, gelu, "
                       "gelu_pytorch_tanh and relu2 are",
                       m->config.path, name);
}

// ProSparse's FATReLU lets through what is above a small threshold; PowerInfer's files of these models have
// ReLU.
static void warn_of_threshold(const struct hearth_hf_model *m)
{
    const json_t *threshold = json_object_get(m->config.root, "hidden_act_param");
    if (json_is_number(threshold) && json_number_value(threshold) != 0)
        hearth_log(
            HEARTH_LOG_WARNING,
            "%s: FATReLU with threshold %g becomes ReLU, as in PowerInfer's files: neurons between 0 and the "
            "threshold stay on",
            m->config.path, json_number_value(threshold));
}

static int read_activation(struct hearth_hf_model *m, const char *wanted, struct hearth_error *err)
{
    static const char *const keys[] = {"hidden_activation", "hidden_act", "activation", "activation_function",
                                       "mlp_hidden_act"};
    if (wanted || m->family->activation)
        return use_activation(m, wanted ? wanted : m->family->activation, err);
    const char *name = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && !name; i++) {
        const int rc = hearth_json_str(&m->config, m->config.root, keys[i], false, &name, err);
        if (rc)
            return rc;
    }
    if (!name)
        name = m->family->defaults.activation ? m->family->defaults.activation : "silu";
    const int rc = use_activation(m, name, err);
    if (!rc && !strcasecmp(name, "fatrelu"))
        warn_of_threshold(m);
    return rc;
}

// ---- rotation

// What models with latent attention multiply scores by. Where both numbers are the same, cosines and sines stay as
// they are.
static int read_mscale(struct hearth_hf_model *m, const json_t *rope, struct hearth_error *err)
{
    double of_rotation = 0, of_scores = 0;
    int rc = hearth_json_f64(&m->config, rope, "mscale", false, &of_rotation, err);
    if (!rc)
        rc = hearth_json_f64(&m->config, rope, "mscale_all_dim", false, &of_scores, err);
    if (rc || (of_rotation == 0 && of_scores == 0))
        return rc;
    if (!m->family->latent || of_rotation != of_scores ||
        json_is_number(json_object_get(rope, "attention_factor")))
        return unsupported(m, "rope_scaling",
                           m->family->latent ? "YaRN whose mscale is not its mscale_all_dim is not supported"
                                             : "YaRN with mscale is not supported in this family",
                           err);
    m->yarn_log = 0.1 * of_scores;
    return HEARTH_OK;
}

static int read_yarn(struct hearth_hf_model *m, const json_t *rope, struct hearth_error *err)
{
    const struct {
        const char *key;
        double *out;
    } numbers[] = {{"beta_fast", &m->beta_fast},
                   {"beta_slow", &m->beta_slow},
                   {"attention_factor", &m->attn_factor},
                   {"extrapolation_factor", &m->ext_factor}};
    if (json_is_false(json_object_get(rope, "truncate")) != m->family->rope_exact)
        return unsupported(m, "rope_scaling",
                           m->family->rope_exact ? "YaRN with truncation is not supported in this family"
                                                 : "YaRN without truncation is not supported in this family",
                           err);
    int rc = read_mscale(m, rope, err);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !rc; i++)
        rc = hearth_json_f64(&m->config, rope, numbers[i].key, false, numbers[i].out, err);
    return rc;
}

static int read_llama3(struct hearth_hf_model *m, const json_t *rope, struct hearth_error *err)
{
    m->low_freq_factor = 1;
    m->high_freq_factor = 4;
    int rc = hearth_json_f64(&m->config, rope, "low_freq_factor", false, &m->low_freq_factor, err);
    if (!rc)
        rc = hearth_json_f64(&m->config, rope, "high_freq_factor", false, &m->high_freq_factor, err);
    if (!rc && (!(m->low_freq_factor > 0) || !(m->high_freq_factor >= m->low_freq_factor)))
        rc = hearth_fail(err, HEARTH_E_FORMAT,
                         "%s: \"low_freq_factor\" must not be greater than \"high_freq_factor\"",
                         m->config.path);
    return rc;
}

// Of layers without a window, where the others have heads of another size.
static int read_full_rope(struct hearth_hf_model *m, const json_t *rope, const char *type, double share,
                          struct hearth_error *err)
{
    double factor = 1;
    m->rope_share = 1;
    if (!strcmp(type, "proportional")) {
        m->rope = HEARTH_HF_ROPE_PROPORTIONAL;
        m->rope_share = share;
    } else if (strcmp(type, "default") != 0) {
        return unsupported(m, "rope_parameters",
                           "rotations that are neither default nor proportional are "
                           "not supported in this family",
                           err);
    }
    const int rc = hearth_json_f64(&m->config, rope, "factor", false, &factor, err);
    if (rc)
        return rc;
    return factor == 1 && share >= 0 && share <= 1
               ? HEARTH_OK
               : unsupported(m, "rope_parameters",
                             "a rotation with a factor, or of more than a whole head, is not supported", err);
}

// The base for texts that are longer by the factor alpha: short ones have it, too.
static int read_alpha(struct hearth_hf_model *m, const json_t *rope, struct hearth_error *err)
{
    double alpha = 0;
    const int rc = hearth_json_f64(&m->config, rope, "alpha", true, &alpha, err);
    if (rc)
        return rc;
    if (!(alpha > 0) || m->head_dim <= 2)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: the \"alpha\" of the rotation must be positive",
                           m->config.path);
    m->rope = HEARTH_HF_ROPE_ALPHA;
    m->rope_theta *= pow(alpha, (double)m->head_dim / (m->head_dim - 2.0));
    m->n_ctx = m->n_ctx_orig = 256 * 1024; // what these models are for; config.json does not say it
    return HEARTH_OK;
}

static int read_rope_type(struct hearth_hf_model *m, const json_t *rope, const char *type,
                          struct hearth_error *err)
{
    if (!strcmp(type, "default") || (!strcmp(type, "mrope") && m->sections[0]))
        return HEARTH_OK;
    if (m->family->rope_long && (!strcmp(type, "longrope") || !strcmp(type, "su"))) {
        m->rope = HEARTH_HF_ROPE_LONG;
        m->short_factors = json_object_get(rope, "short_factor");
        m->long_factors = json_object_get(rope, "long_factor");
        return HEARTH_OK;
    }
    int rc = hearth_json_f64(&m->config, rope, "factor", true, &m->rope_factor, err);
    if (rc)
        return rc;
    if (!(m->rope_factor > 0))
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: the \"factor\" of the rotation must be positive",
                           m->config.path);
    if (!strcmp(type, "linear")) {
        m->rope = HEARTH_HF_ROPE_LINEAR;
    } else if (!strcmp(type, "dynamic") && m->family->rope_alpha) {
        rc = read_alpha(m, rope, err);
    } else if (!strcmp(type, "dynamic") && m->family->rope_dynamic) {
        m->rope_factor = 0;
    } else if (!strcmp(type, "yarn")) {
        m->rope = HEARTH_HF_ROPE_YARN;
        rc = read_yarn(m, rope, err);
    } else if (!strcmp(type, "llama3")) {
        m->rope = HEARTH_HF_ROPE_LLAMA3;
        m->n_ctx_orig = m->n_ctx_orig ? m->n_ctx_orig : 8192;
        rc = read_llama3(m, rope, err);
    } else {
        rc = hearth_fail(
            err, HEARTH_E_UNSUPPORTED,
            "%s: RoPE scaling of type \"%.40s\" is not supported (default, linear, yarn and llama3 are)",
            m->config.path, type);
    }
    return rc;
}

// The base of layers with a window, in the form of transformers 5 or of earlier ones.
static int read_rope_of_windows(struct hearth_hf_model *m, const json_t *rope, struct hearth_error *err)
{
    const json_t *own = json_object_get(rope, "sliding_attention");
    m->rope_theta_window = m->family->defaults.rope_theta_window;
    int rc = hearth_json_f64(&m->config, m->config.root, "rope_local_base_freq", false, &m->rope_theta_window,
                             err);
    if (!rc && json_is_object(own) && json_object_get(own, "rope_type") &&
        !hearth_json_is(json_object_get(own, "rope_type"), "default"))
        rc = unsupported(m, "rope_parameters", "scaled rotations of layers with a window are not supported",
                         err);
    if (!rc && json_is_object(own))
        rc = hearth_json_f64(&m->config, own, "rope_theta", false, &m->rope_theta_window, err);
    return rc;
}

// A share of each head rotates.
static int read_part(struct hearth_hf_model *m, double share, struct hearth_error *err)
{
    const bool is_part = share > 0 && share < 1; // what is none may be too large for an integer
    m->n_rot = is_part ? (uint32_t)(share * m->head_dim) : 0;
    if (!m->n_rot || m->n_rot % 2)
        return hearth_fail(err, HEARTH_E_FORMAT,
                           "%s: \"partial_rotary_factor\" %g of %u dimensions cannot be", m->config.path,
                           share, m->head_dim);
    return HEARTH_OK;
}

// Texts have one position where images have three, so the sections of these do not matter.
static void read_sections(struct hearth_hf_model *m, const json_t *rope)
{
    const json_t *sections = json_object_get(rope, "mrope_section");
    for (size_t i = 0; i < json_array_size(sections) && i < 4; i++)
        m->sections[i] = (uint32_t)json_integer_value(json_array_get(sections, i));
}

static int read_rope(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *root = m->config.root, *rope = json_object_get(root, "rope_parameters");
    if (!json_is_object(rope))
        rope = json_object_get(root, "rope_scaling");
    if (m->family->rope_by_kind) {
        int of_windows = read_rope_of_windows(m, rope, err);
        if (of_windows)
            return of_windows;
        rope = json_is_object(json_object_get(rope, "full_attention"))
                   ? json_object_get(rope, "full_attention")
                   : rope;
    } else if (json_object_get(rope, "full_attention") || json_object_get(rope, "sliding_attention")) {
        return unsupported(m, "rope_parameters", "rotations that differ by layer are not supported", err);
    }
    if (json_object_get(rope, "mrope_section") && !m->family->rope_partial)
        return unsupported(m, "rope_scaling", "rotations of images are not supported", err);
    read_sections(m, rope);
    const bool by_heads = m->family->window_heads, silent = !json_is_object(rope);
    const char *type = by_heads && silent ? "proportional" : "default";
    double share = by_heads && !silent ? 1 : or_else(m->family->defaults.rope_share, 1);
    m->rope_theta = or_else(m->family->defaults.rope_theta, 10000);
    int rc = hearth_json_f64(&m->config, root, "rope_theta", false, &m->rope_theta, err);
    if (!rc)
        rc = hearth_json_f64(&m->config, rope, "rope_theta", false, &m->rope_theta, err);
    if (!rc)
        rc = hearth_json_f64(&m->config, root, "partial_rotary_factor", false, &share, err);
    if (!rc)
        rc = hearth_json_f64(&m->config, rope, "partial_rotary_factor", false, &share, err);
    if (!rc && share != 1 && !by_heads)
        rc = m->family->rope_partial ? read_part(m, share, err)
                                     : unsupported(m, "partial_rotary_factor",
                                                   "heads that are rotated in part are not supported", err);
    if (!rc)
        rc = u32(m, "original_max_position_embeddings", false, &m->n_ctx_orig, err);
    if (!rc)
        rc =
            hearth_json_u32(&m->config, rope, "original_max_position_embeddings", false, &m->n_ctx_orig, err);
    if (!rc)
        rc = hearth_json_str(&m->config, rope, "type", false, &type, err);
    if (!rc)
        rc = hearth_json_str(&m->config, rope, "rope_type", false, &type, err);
    if (!rc && by_heads)
        return read_full_rope(m, rope, type, share, err);
    return rc ? rc : read_rope_type(m, rope, type, err);
}

// ---- sliding window

// Of so many layers the last one has no window.
static int read_period(struct hearth_hf_model *m, const json_t *types, struct hearth_error *err)
{
    uint32_t period = m->family->window_period;
    const char *letters = json_string_value(json_object_get(m->config.root, "sliding_window_pattern"));
    int rc = letters ? HEARTH_OK : u32(m, "sliding_window_pattern", false, &period, err);
    if (letters && strcmp(letters, "LLLG") != 0 && !json_is_array(types))
        rc = unsupported(m, "sliding_window_pattern", "other than LLLG is not supported", err);
    for (size_t i = 0; i < json_array_size(types); i++)
        if (!hearth_json_is(json_array_get(types, i), "sliding_attention")) {
            period = (uint32_t)i + 1;
            break;
        }
    for (size_t i = 0; i < json_array_size(types) && !rc; i++)
        if (!period ||
            hearth_json_is(json_array_get(types, i), "sliding_attention") != (i % period != period - 1))
            rc = unsupported(m, "layer_types",
                             "windows in another order than all but each n-th layer are not "
                             "supported",
                             err);
    m->window_period = period;
    return rc;
}

// How many of Qwen's layers have the window: those from max_window_layers on. Those with experts have no such number.
static int read_sliding(struct hearth_hf_model *m, size_t *sliding, struct hearth_error *err)
{
    uint32_t first = strcmp(m->family->arch, "qwen3moe") ? 28 : 0;
    const int rc = u32(m, "max_window_layers", false, &first, err);
    *sliding = first >= m->n_layer ? 0 : m->n_layer - first;
    return rc;
}

static int read_window(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *root = m->config.root, *types = json_object_get(root, "layer_types"), *type;
    // Qwen's models and SmolLM3 have a window in config.json, and say beside it that it is not used.
    const bool is_qwen = !strncmp(m->family->arch, "qwen", 4) || m->family->window_asked;
    if (is_qwen && !json_is_true(json_object_get(root, "use_sliding_window")))
        return HEARTH_OK;
    if (!json_is_null(json_object_get(root, "sliding_window"))) // which says that there is none
        m->window = is_qwen ? 4096 : m->family->defaults.window;
    int rc = u32(m, "sliding_window", false, &m->window, err);
    if (rc || !m->window || m->family->window_heads)
        return rc;
    size_t i, sliding = 0;
    json_array_foreach(types, i, type) sliding += hearth_json_is(type, "sliding_attention");
    if (is_qwen && !json_is_array(types))
        rc = read_sliding(m, &sliding, err);
    else if (!json_is_array(types))
        sliding = m->n_layer;
    if (m->family->window_period)
        return rc ? rc : read_period(m, types, err);
    if (!rc && sliding == 0)
        m->window = 0;
    else if (!rc && sliding != m->n_layer)
        rc = unsupported(m, "sliding_window", "windows that differ by layer are not supported", err);
    return rc;
}

// ---- all

static void take_defaults(struct hearth_hf_model *m)
{
    const struct hearth_hf_defaults *d = &m->family->defaults;
    m->n_vocab = d->n_vocab;
    m->n_ctx = d->n_ctx;
    m->n_embd = d->n_embd;
    m->n_layer = d->n_layer;
    m->n_head = d->n_head;
    m->n_ff = d->n_ff;
    m->n_dense = d->n_dense;
    m->tied = d->tied;
    m->norm_eps = or_else(d->norm_eps, 1e-6);
}

static int read_heads(struct hearth_hf_model *m, struct hearth_error *err)
{
    const struct hearth_hf_defaults *d = &m->family->defaults;
    int rc = HEARTH_OK;
    if (!json_object_get(m->config.root, "num_attention_heads")) // Falcon's old name
        rc = u32(m, "n_head", false, &m->n_head, err);
    if (!rc)
        rc = u32(m, "num_attention_heads", !m->n_head, &m->n_head, err);
    m->n_head_kv = d->n_head_kv ? d->n_head_kv : m->n_head;
    return rc ? rc : u32(m, "num_key_value_heads", false, &m->n_head_kv, err);
}

static int read_head_dim(struct hearth_hf_model *m, struct hearth_error *err)
{
    const uint32_t by_default = m->family->defaults.head_dim;
    m->own_head_dim = by_default || json_is_integer(json_object_get(m->config.root, "head_dim"));
    m->head_dim = by_default ? by_default : m->n_embd / m->n_head;
    return u32(m, "head_dim", false, &m->head_dim, err);
}

static int read_neurons(struct hearth_hf_model *m, struct hearth_error *err)
{
    const json_t *list = json_object_get(m->config.root, "intermediate_size"), *n;
    size_t i;
    if (!m->family->neuron_list || !json_is_array(list))
        return u32(m, "intermediate_size", false, &m->n_ff, err);
    json_array_foreach(
        list, i,
        n) if (json_integer_value(n) != json_integer_value(json_array_get(list, 0)) ||
               json_integer_value(n) <= 0 ||
               json_integer_value(n) >
                   INT32_MAX) return unsupported(m, "intermediate_size",
                                                 "layers with other numbers of neurons are not supported",
                                                 err);
    m->n_ff = (uint32_t)json_integer_value(json_array_get(list, 0));
    return HEARTH_OK;
}

static int read_sizes(struct hearth_hf_model *m, struct hearth_error *err)
{
    int rc = u32(m, "vocab_size", !m->n_vocab, &m->n_vocab, err);
    if (!rc)
        rc = u32(m, "hidden_size", !m->n_embd, &m->n_embd, err);
    if (!rc && !json_object_get(m->config.root, "num_hidden_layers")) // Falcon's old name
        rc = u32(m, "n_layer", false, &m->n_layer, err);
    if (!rc)
        rc = u32(m, "num_hidden_layers", !m->n_layer && !m->family->one_part, &m->n_layer, err);
    if (m->family->one_part && !m->n_layer) // the list tells it
        m->n_layer = (uint32_t)json_array_size(json_object_get(m->config.root, "layers_block_type"));
    if (!rc)
        rc = read_heads(m, err);
    if (!rc)
        rc = u32(m, "max_position_embeddings", false, &m->n_ctx, err);
    if (!rc)
        rc = read_neurons(m, err);
    if (rc)
        return rc;
    if (!m->n_vocab || !m->n_embd || !m->n_layer || !m->n_head || !m->n_head_kv || m->n_layer > 4096 ||
        m->n_head % m->n_head_kv)
        return hearth_fail(err, HEARTH_E_FORMAT,
                           "%s: sizes of zero, too many layers, or heads that do not divide", m->config.path);
    return read_head_dim(m, err);
}

static int check(const struct hearth_hf_model *m, struct hearth_error *err)
{
    if (!m->n_ctx)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"max_position_embeddings\" is missing",
                           m->config.path);
    if (!m->n_ff && !m->n_ff_exp)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"intermediate_size\" is missing", m->config.path);
    if (m->n_expert && !m->n_ff_exp)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: experts without neurons cannot be", m->config.path);
    if (!m->head_dim || m->head_dim % 2 || m->head_dim > 65536)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: heads of %u dimensions cannot be", m->config.path,
                           m->head_dim);
    return HEARTH_OK;
}

int hearth_hf_model_open(struct hearth_hf_model *m, const char *folder, const char *activation,
                         struct hearth_error *err)
{
    *m = (struct hearth_hf_model){.folder = folder, .has_rope = true, .renorm = true};
    int rc = hearth_json_file_open(&m->config, folder, "config.json", true, err);
    if (!rc)
        rc = find_family(m, err);
    if (!rc) {
        use_text_config(m);
        take_defaults(m);
        rc = read_sizes(m, err);
    }
    if (!rc && m->outer)
        rc = hearth_json_bool(&m->config, m->outer, "tie_word_embeddings", &m->tied, err);
    if (!rc)
        rc = hearth_json_bool(&m->config, m->config.root, "tie_word_embeddings", &m->tied, err);
    if (!rc)
        rc = hearth_json_f64(&m->config, m->config.root, "rms_norm_eps", false, &m->norm_eps, err);
    if (!rc)
        rc = read_activation(m, activation, err);
    if (!rc)
        rc = read_rope(m, err);
    if (!rc)
        rc = read_window(m, err);
    if (!rc && m->family->read)
        rc = m->family->read(m, err);
    if (!rc)
        rc = hearth_hf_f8_config(m, err);
    return rc ? rc : check(m, err);
}

void hearth_hf_model_close(struct hearth_hf_model *m)
{
    if (m->outer)
        m->config.root = m->outer; // which has the other
    hearth_json_file_close(&m->config);
}
