// SPDX-License-Identifier: MIT
// Hyper-parameters: read from config.json, written under GGUF's keys.
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
                                           {"gelu_pytorch_tanh", "gelu_tanh"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcasecmp(names[i][0], name)) {
            m->activation = names[i][1];
            return HEARTH_OK;
        }
    return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                       "%s: activation \"%.40s\" is not supported; silu, relu, drelu, fatrelu, gelu and "
                       "gelu_pytorch_tanh are",
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
    static const char *const keys[] = {"hidden_activation", "hidden_act", "activation",
                                       "activation_function"};
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
    if (!rc && (!(m->low_freq_factor > 0) || !(m->high_freq_factor > m->low_freq_factor)))
        rc = hearth_fail(err, HEARTH_E_FORMAT,
                         "%s: \"low_freq_factor\" must be less than \"high_freq_factor\"", m->config.path);
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
    const bool is_qwen = !strncmp(m->family->arch, "qwen", 4) || !strcmp(m->family->arch, "smollm3");
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

static int read_sizes(struct hearth_hf_model *m, struct hearth_error *err)
{
    int rc = u32(m, "vocab_size", !m->n_vocab, &m->n_vocab, err);
    if (!rc)
        rc = u32(m, "hidden_size", !m->n_embd, &m->n_embd, err);
    if (!rc && !json_object_get(m->config.root, "num_hidden_layers")) // Falcon's old name
        rc = u32(m, "n_layer", false, &m->n_layer, err);
    if (!rc)
        rc = u32(m, "num_hidden_layers", !m->n_layer, &m->n_layer, err);
    if (!rc)
        rc = read_heads(m, err);
    if (!rc)
        rc = u32(m, "max_position_embeddings", false, &m->n_ctx, err);
    if (!rc)
        rc = u32(m, "intermediate_size", false, &m->n_ff, err);
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

// ---- writing

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
    if (latent)
        put_u32(p, "expert_shared_count", m->n_ff_shared / m->n_ff_exp);
    else if (m->n_ff_shared)
        put_u32(p, "expert_shared_feed_forward_length", m->n_ff_shared);
    if (m->n_dense || latent)
        put_u32(p, "leading_dense_block_count", m->n_dense);
    if (m->n_group)
        put_u32(p, "expert_group_count", m->n_group);
    if (m->n_group)
        put_u32(p, "expert_group_used_count", m->n_group_used);
    put_given(p, "expert_weights_scale", m->expert_scale);
    if (m->gating)
        put_u32(p, "expert_gating_func", m->gating);
    // With latent attention weights do not add up to 1 unless the file says so.
    if ((m->renorm == latent || m->family->grouped) && !p->rc)
        p->rc = hearth_gguf_put_bool(p->w, key_of(m, "expert_weights_norm"), m->renorm, p->err);
}

static void put_recurrence(struct putting *p)
{
    const struct hearth_hf_model *m = p->m;
    if (!m->family->has_delta) {
        put_u32(p, "shortconv.l_cache", m->n_taps);
        return;
    }
    put_u32(p, "full_attention_interval", m->full_interval);
    uint8_t recurs[4096 + 64]; // the layer for guesses attends, whatever the interval says of its number
    for (uint32_t i = 0; i < hearth_hf_n_blocks(m); i++)
        recurs[i] = i < m->n_layer && hearth_hf_is_recurrent(m, i);
    if (hearth_hf_n_blocks(m) > m->n_layer && !p->rc)
        p->rc = hearth_gguf_put_array(p->w, key_of(m, "attention.recurrent_layers"), HEARTH_GGUF_BOOL, recurs,
                                      hearth_hf_n_blocks(m), p->err);
    put_u32(p, "ssm.conv_kernel", m->n_taps);
    put_u32(p, "ssm.state_size", m->rec_dim);
    put_u32(p, "ssm.group_count", m->rec_keys);
    put_u32(p, "ssm.time_step_rank", m->rec_heads);
    put_u32(p, "ssm.inner_size", m->rec_heads * m->rec_dim);
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
    if (!by_kind && (!m->n_taps || m->family->has_delta)) {
        put_u32(p, "attention.head_count_kv", m->n_head_kv);
        return;
    }
    for (uint32_t i = 0; i < m->n_layer; i++)
        heads[i] = hearth_hf_listed_kv(m, i);
    put_array(p, "attention.head_count_kv", by_kind ? HEARTH_GGUF_I32 : HEARTH_GGUF_U32, heads);
}

static void put_neurons(struct putting *p)
{
    const struct hearth_hf_model *m = p->m;
    uint32_t neurons[4096];
    if (!m->wide_borrowers) {
        if (m->n_ff)
            put_u32(p, "feed_forward_length", m->n_ff);
        return;
    }
    for (uint32_t i = 0; i < m->n_layer; i++)
        neurons[i] = hearth_hf_neurons(m, i);
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

// What an architecture computes unless the file names another activation.
static const char *own_activation(const struct hearth_hf_model *m)
{
    static const char *const own[][2] = {{"bamboo", "drelu"},     {"falcon", "gelu"},
                                         {"opt", "relu"},         {"gemma2", "gelu_tanh"},
                                         {"gemma3", "gelu_tanh"}, {"gemma4", "gelu_tanh"}};
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
    if (m->n_taps)
        put_recurrence(&p);
    if (m->n_expert)
        put_experts(&p);
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
