// SPDX-License-Identifier: MIT
// The list of architectures and what their hyper-parameters have in common.
#include "model/arch.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const struct hearth_arch *const archs[] = {&hearth_arch_llama};

const struct hearth_arch *hearth_arch_find(struct hearth_str name, const char **known)
{
    *known = "llama";
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        if (strlen(archs[i]->name) == name.n && !memcmp(archs[i]->name, name.s, name.n))
            return archs[i];
    return NULL;
}

// Reads "<arch>.<key>" into a positive int no larger than `max`.
static int read_int(const struct hearth_gguf *g, const char *arch, const char *key, bool required, int max,
                    int *out, struct hearth_error *err)
{
    char full[128];
    snprintf(full, sizeof full, "%s.%s", arch, key);
    uint32_t value = (uint32_t)*out;
    int rc = hearth_gguf_u32(g, full, required, &value, err);
    if (rc)
        return rc;
    if (value < 1 || value > (uint32_t)max)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: %s is %u, must be 1 to %d", hearth_gguf_path(g), full,
                           value, max);
    *out = (int)value;
    return HEARTH_OK;
}

static int read_float(const struct hearth_gguf *g, const char *arch, const char *key, bool required,
                      float *out, struct hearth_error *err)
{
    char full[128];
    snprintf(full, sizeof full, "%s.%s", arch, key);
    int rc = hearth_gguf_f32(g, full, required, out, err);
    if (!rc && !(*out > 0.0f && *out < 1e30f))
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: %s is %g, must be a positive number",
                           hearth_gguf_path(g), full, (double)*out);
    return rc;
}

static int read_rope_scaling(struct hearth_hparams *hp, const struct hearth_gguf *g, const char *arch,
                             struct hearth_error *err)
{
    char key[128];
    struct hearth_str type = {"", 0};
    snprintf(key, sizeof key, "%s.rope.scaling.type", arch);
    int rc = hearth_gguf_str(g, key, false, &type, err);
    if (rc)
        return rc;

    // Files from before rope.scaling.* say only the linear factor.
    float factor = 1.0f;
    rc = read_float(g, arch, "rope.scale_linear", false, &factor, err);
    bool linear = factor != 1.0f;
    if (!rc && type.n) {
        if (type.n == 6 && !memcmp(type.s, "linear", 6)) {
            linear = true;
            rc = read_float(g, arch, "rope.scaling.factor", true, &factor, err);
        } else if (type.n == 4 && !memcmp(type.s, "none", 4)) {
            linear = false;
        } else {
            return hearth_fail(
                err, HEARTH_E_UNSUPPORTED,
                "%s: RoPE scaling of type \"%.*s\" is not supported (none, linear and the llama3 "
                "frequency table are)",
                hearth_gguf_path(g), (int)(type.n > 40 ? 40 : type.n), type.s);
        }
    }
    hp->rope_scale = linear ? 1.0f / factor : 1.0f;
    return rc;
}

static int read_activation(struct hearth_hparams *hp, const struct hearth_gguf *g, const char *arch,
                           struct hearth_error *err)
{
    static const struct {
        const char *name;
        enum hearth_activation activation;
    } names[] = {{"silu", HEARTH_ACT_SILU}, {"relu", HEARTH_ACT_RELU}, {"drelu", HEARTH_ACT_DRELU}};
    char key[128];
    struct hearth_str text = {"silu", 4};
    snprintf(key, sizeof key, "%s.feed_forward.activation", arch);
    int rc = hearth_gguf_str(g, key, false, &text, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i].name) == text.n && !memcmp(names[i].name, text.s, text.n)) {
            hp->activation = names[i].activation;
            return HEARTH_OK;
        }
    return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: %s is \"%.*s\"; supported are silu, relu and drelu",
                       hearth_gguf_path(g), key, (int)(text.n > 40 ? 40 : text.n), text.s);
}

int hearth_hparams_read_common(struct hearth_hparams *hp, const struct hearth_gguf *g, const char *arch,
                               struct hearth_error *err)
{
    const int max_dim = 1 << 20;
    int rc = read_int(g, arch, "context_length", true, INT_MAX, &hp->n_ctx_train, err);
    if (!rc)
        rc = read_int(g, arch, "embedding_length", true, max_dim, &hp->n_embd, err);
    if (!rc)
        rc = read_int(g, arch, "block_count", true, 4096, &hp->n_layer, err);
    if (!rc)
        rc = read_int(g, arch, "feed_forward_length", true, 4 * max_dim, &hp->n_ff, err);
    if (!rc)
        rc = read_int(g, arch, "attention.head_count", true, 4096, &hp->n_head, err);
    if (rc)
        return rc;

    hp->n_head_kv = hp->n_head;
    hp->head_dim = hp->n_embd / hp->n_head;
    rc = read_int(g, arch, "attention.head_count_kv", false, 4096, &hp->n_head_kv, err);
    if (!rc)
        rc = read_int(g, arch, "attention.key_length", false, 4096, &hp->head_dim, err);
    int value_dim = hp->head_dim;
    if (!rc)
        rc = read_int(g, arch, "attention.value_length", false, 4096, &value_dim, err);
    hp->n_rot = hp->head_dim;
    if (!rc)
        rc = read_int(g, arch, "rope.dimension_count", false, 4096, &hp->n_rot, err);
    hp->rope_theta = 10000.0f;
    if (!rc)
        rc = read_float(g, arch, "rope.freq_base", false, &hp->rope_theta, err);
    if (!rc)
        rc = read_rope_scaling(hp, g, arch, err);
    if (!rc)
        rc = read_activation(hp, g, arch, err);
    if (rc)
        return rc;

    const char *path = hearth_gguf_path(g);
    if (hp->n_head % hp->n_head_kv)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: %d attention heads cannot share %d key/value heads",
                           path, hp->n_head, hp->n_head_kv);
    if (hp->head_dim < 1)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: embedding_length %d is less than head_count %d", path,
                           hp->n_embd, hp->n_head);
    if (value_dim != hp->head_dim)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                           "%s: keys of %d and values of %d dimensions are not supported, they must be equal",
                           path, hp->head_dim, value_dim);
    if (hp->n_rot > hp->head_dim || hp->n_rot % 2)
        return hearth_fail(err, HEARTH_E_FORMAT,
                           "%s: rope.dimension_count %d must be even and at most the head size %d", path,
                           hp->n_rot, hp->head_dim);
    return HEARTH_OK;
}
