// SPDX-License-Identifier: MIT
// Settings of config.json that several families have.
#ifndef HEARTH_CONVERT_HF_SETTINGS_H
#define HEARTH_CONVERT_HF_SETTINGS_H

#include "convert/hf_readers.h"

static inline int u32(const struct hearth_hf_model *m, const char *key, bool required, uint32_t *out,
                      struct hearth_error *err)
{
    return hearth_json_u32(&m->config, m->config.root, key, required, out, err);
}

// A setting that must have this value, or be absent if that is its default.
static inline int expect(const struct hearth_hf_model *m, const char *key, bool value, bool by_default,
                         struct hearth_error *err)
{
    bool is = by_default;
    const int rc = hearth_json_bool(&m->config, m->config.root, key, &is, err);
    if (rc || is == value)
        return rc;
    return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: \"%s\": %s is not supported", m->config.path, key,
                       value ? "false" : "true");
}

// A number that must have this value, or be absent if that is its default.
static inline int expect_number(const struct hearth_hf_model *m, const char *key, double value,
                                double by_default, struct hearth_error *err)
{
    double is = by_default;
    const int rc = hearth_json_f64(&m->config, m->config.root, key, false, &is, err);
    if (rc || is == value)
        return rc;
    return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: \"%s\": %g is not supported, %g is", m->config.path,
                       key, is, value);
}

// Functions of routers as GGUF numbers them.
enum { SOFTMAX = 1, SIGMOID = 2 };

// How many experts there are, under this name, and how many a token uses.
static inline int read_experts(struct hearth_hf_model *m, const char *count, struct hearth_error *err)
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

// Experts in all layers, as Qwen's models say it.
static inline int read_qwen_experts(struct hearth_hf_model *m, bool renorm, struct hearth_error *err)
{
    uint32_t every = 1;
    m->renorm = renorm; // unless the file says it
    int rc = read_experts(
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

#endif
