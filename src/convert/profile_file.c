// SPDX-License-Identifier: MIT
// Reading a profile.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "convert/profile.h"
#include "model/model.h"

#define MAX_LAYERS  4096
#define MAX_FF      (4u << 20)
#define MAX_EXPERTS 4096

static int bad(const struct hearth_profile *p, struct hearth_error *err, const char *what)
{
    return hearth_fail(err, HEARTH_E_FORMAT,
                       "%s: %s; the profile is damaged: make it again with hearth profile",
                       hearth_gguf_path(p->g), what);
}

static const struct hearth_gguf_tensor *find(const struct hearth_profile *p, uint32_t layer, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    return hearth_gguf_tensor(p->g, full);
}

static bool are_shares(const struct hearth_gguf_kv *kv, uint64_t n)
{
    bool are = kv->type == HEARTH_GGUF_ARRAY && kv->element == HEARTH_GGUF_F32 && kv->count == n;
    for (uint64_t i = 0; i < n && are; i++) {
        const double x = hearth_gguf_kv_f64(kv, i);
        are = x >= 0 && x <= 1;
    }
    return are;
}

static int read_keys(struct hearth_profile *p, struct hearth_error *err)
{
    uint32_t version = 0;
    if (!hearth_gguf_find(p->g, "hearth.profile.version"))
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: not a profile; make one with hearth profile",
                           hearth_gguf_path(p->g));
    int rc = hearth_gguf_u32(p->g, "hearth.profile.version", true, &version, err);
    if (!rc && version != HEARTH_PROFILE_VERSION && version != HEARTH_PROFILE_WIDTHS)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                           "%s: a profile of version %u, this build knows versions %d and %d",
                           hearth_gguf_path(p->g), version, HEARTH_PROFILE_VERSION, HEARTH_PROFILE_WIDTHS);
    p->widths = version == HEARTH_PROFILE_WIDTHS;
    if (!rc)
        rc = hearth_gguf_u32(p->g, "hearth.profile.layers", true, &p->n_layer, err);
    if (!rc)
        rc = hearth_gguf_u64(p->g, "hearth.profile.tokens", true, &p->tokens, err);
    if (!rc)
        rc = hearth_gguf_f32(p->g, "hearth.profile.repeats", false, &p->repeats, err);
    if (rc)
        return rc;
    if (!(p->repeats >= 0 && p->repeats <= 1))
        return bad(p, err, "the key hearth.profile.repeats is impossible");
    if (p->n_layer < 1 || p->n_layer > MAX_LAYERS)
        return bad(p, err, "the number of layers is impossible");
    const struct hearth_gguf_kv *kv = hearth_gguf_find(p->g, "hearth.profile.batches");
    const uint64_t most = sizeof p->batches / sizeof *p->batches;
    if (!kv || kv->type != HEARTH_GGUF_ARRAY || !kv->data || kv->count < 1 || kv->count > most)
        return bad(p, err, "the key hearth.profile.batches is missing or impossible");
    p->n_batches = (uint32_t)kv->count;
    for (uint32_t i = 0; i < p->n_batches; i++) {
        const int64_t v = hearth_gguf_kv_i64(kv, i);
        if ((i == 0 && v != 1) || v > UINT16_MAX || (i && v <= p->batches[i - 1]))
            return bad(p, err, "the key hearth.profile.batches is impossible");
        p->batches[i] = (uint32_t)v;
    }
    p->layer_repeats = hearth_gguf_find(p->g, "hearth.profile.layer_repeats");
    if (p->layer_repeats && !are_shares(p->layer_repeats, p->n_layer))
        return bad(p, err, "the key hearth.profile.layer_repeats is impossible");
    p->magnitudes = hearth_gguf_find(p->g, "hearth.profile.magnitudes");
    if (p->magnitudes && !hearth_are_magnitudes(p->magnitudes, (int)p->n_layer))
        return bad(p, err, "the key hearth.profile.magnitudes is impossible");
    return HEARTH_OK;
}

static int check_tensors(struct hearth_profile *p, struct hearth_error *err)
{
    for (uint32_t i = 0; i < p->n_layer; i++) {
        const struct hearth_gguf_tensor *counts = find(p, i, "ffn_counts"),
                                        *visits = find(p, i, "ffn_visits");
        if (!counts || !visits)
            return bad(p, err, "a layer's counts are missing");
        if ((i == 0 || p->widths) && counts->ne[0] <= MAX_FF && counts->ne[1] <= MAX_EXPERTS) {
            p->n_ff = counts->ne[0] > p->n_ff ? (uint32_t)counts->ne[0] : p->n_ff;
            p->n_expert = i == 0 ? (uint32_t)counts->ne[1] : p->n_expert;
        }
        if (counts->type != HEARTH_TYPE_I32 || counts->ne[0] > p->n_ff || !counts->ne[0] ||
            (counts->ne[0] != p->n_ff && !p->widths) || counts->ne[1] != p->n_expert ||
            counts->ne[2] != p->n_batches || counts->ne[3] != 1 || visits->type != HEARTH_TYPE_I32 ||
            visits->ne[0] != p->n_expert || visits->ne[1] != p->n_batches || visits->ne[2] != 1 ||
            visits->ne[3] != 1)
            return bad(p, err, "the counts of a layer have another shape than the first one's");
    }
    return HEARTH_OK;
}

int hearth_profile_open(struct hearth_profile **out, const char *path, struct hearth_error *err)
{
    *out = NULL;
    struct hearth_profile *p = hearth_calloc(1, sizeof *p);
    if (!p)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for a profile", path);
    int rc = hearth_gguf_open(&p->g, path, err);
    if (!rc)
        rc = read_keys(p, err);
    if (!rc)
        rc = check_tensors(p, err);
    if (rc)
        hearth_profile_close(&p);
    *out = p;
    return rc;
}

void hearth_profile_close(struct hearth_profile **p)
{
    if (!*p)
        return;
    hearth_gguf_close(&(*p)->g);
    free(*p);
    *p = NULL;
}

uint32_t hearth_profile_neurons(const struct hearth_profile *p, uint32_t layer)
{
    return (uint32_t)find(p, layer, "ffn_counts")->ne[0];
}

int hearth_profile_read(const struct hearth_profile *p, uint32_t layer, int32_t *counts, int32_t *visits,
                        struct hearth_error *err)
{
    const struct hearth_gguf_tensor *c = find(p, layer, "ffn_counts"), *v = find(p, layer, "ffn_visits");
    int rc = hearth_gguf_read(p->g, c, counts, 0, (size_t)c->bytes, err);
    if (!rc)
        rc = hearth_gguf_read(p->g, v, visits, 0, (size_t)v->bytes, err);
    if (rc)
        return rc;
    for (size_t space = 0; space < (size_t)p->n_batches * p->n_expert; space++) {
        const int32_t *at = counts + space * c->ne[0];
        for (uint64_t j = 0; j < c->ne[0]; j++)
            if (at[j] < 0 || at[j] > visits[space])
                return bad(p, err, "a neuron was active more often than its space was used");
    }
    return HEARTH_OK;
}
