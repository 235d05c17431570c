// SPDX-License-Identifier: MIT
// Reads the facts of a pack, and checks them against its tensors.
#include "model/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "gguf/checksums.h"
#include "model/arch.h"

#define MAX_LAYERS  4096
#define MAX_FF      (4u << 20) // the limits of hparams.c
#define MAX_EMBD    (1u << 20)
#define MAX_EXPERTS 4096

static const char *const type_keys[HEARTH_PARTS] = {"hearth.pack.gate_type", "hearth.pack.up_type",
                                                    "hearth.pack.down_type"};

bool hearth_gguf_is_pack(const struct hearth_gguf *g)
{
    return hearth_gguf_find(g, "hearth.pack.version") != NULL;
}

bool hearth_pack_owns(const struct hearth_gguf_tensor *t)
{
    static const char *const names[] = {"ffn_bundles", "ffn_order", "ffn_counts", "ffn_visits"};
    const char *dot = strrchr(t->name.s, '.');
    if (strncmp(t->name.s, "blk.", 4) != 0 || !dot)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(dot + 1, names[i]) == 0)
            return true;
    return false;
}

const struct hearth_gguf_tensor *hearth_pack_tensor(const struct hearth_pack *p, uint32_t layer,
                                                    const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    return hearth_gguf_tensor(p->g, full);
}

uint64_t hearth_pack_elements(const struct hearth_pack *p, const struct hearth_gguf_tensor *t)
{
    if (strcmp(t->name.s, HEARTH_CHECKSUMS_NAME) == 0)
        return 0;
    if (!p || !hearth_pack_owns(t))
        return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
    for (uint32_t i = 0; i < p->n_layer; i++)
        if (p->layers[i].tensor == t)
            return (uint64_t)p->n_embd * p->layers[i].n * p->n_expert * (p->gated ? 3 : 2);
    return 0;
}

int hearth_bundle_lay_out(struct hearth_bundle *b, uint64_t n_embd, uint32_t gate, uint32_t up, uint32_t down,
                          struct hearth_error *err)
{
    const uint32_t types[HEARTH_PARTS] = {gate, up, down};
    *b = (struct hearth_bundle){0};
    size_t at = 0;
    for (int part = 0; part < HEARTH_PARTS; part++) {
        b->type[part] = types[part];
        b->at[part] = at;
        if (part == HEARTH_PART_GATE && gate == HEARTH_TYPE_END)
            continue;
        const struct hearth_type_info *info = hearth_type_info(types[part]);
        b->bytes[part] = info && n_embd <= MAX_EMBD ? hearth_type_bytes(types[part], n_embd) : 0;
        if (!b->bytes[part])
            return hearth_fail(
                err, HEARTH_E_INVALID,
                "rows of %llu numbers cannot be in the format %s, so there are no bundles of them",
                (unsigned long long)n_embd, info ? info->name : "(unknown)");
        at += b->bytes[part];
    }
    b->stride = hearth_round_up(at, HEARTH_BUNDLE_ALIGN);
    return HEARTH_OK;
}

// ---- reading

static int damaged(const struct hearth_pack *p, struct hearth_error *err, const char *what)
{
    return hearth_fail(err, HEARTH_E_FORMAT, "%s: %s; the pack is damaged: make it again with hearth pack",
                       hearth_gguf_path(p->g), what);
}

// An array of n integers of any type; NULL: absent.
static int find_array(const struct hearth_pack *p, const char *key, bool required, uint64_t n,
                      const struct hearth_gguf_kv **out, struct hearth_error *err)
{
    char what[96];
    const struct hearth_gguf_kv *kv = hearth_gguf_find(p->g, key);
    *out = kv;
    if (!kv && !required)
        return HEARTH_OK;
    const bool numbers = kv && kv->type == HEARTH_GGUF_ARRAY && kv->data && kv->element != HEARTH_GGUF_F32 &&
                         kv->element != HEARTH_GGUF_F64 && kv->element != HEARTH_GGUF_BOOL;
    if (numbers && kv->count == n)
        return HEARTH_OK;
    snprintf(what, sizeof what, "the key %.40s must be an array of %llu integers", key,
             (unsigned long long)n);
    return damaged(p, err, what);
}

static int read_type(const struct hearth_pack *p, const struct hearth_gguf_kv *kv, uint32_t layer,
                     uint32_t *out, struct hearth_error *err)
{
    const int64_t v = hearth_gguf_kv_i64(kv, layer);
    if (v < 0 || v > UINT32_MAX || !hearth_type_info((uint32_t)v))
        return damaged(p, err, "a key names an unknown number format");
    *out = (uint32_t)v;
    return HEARTH_OK;
}

// Layers that guess tokens ahead have no bundles: they lie behind the others and are not used.
static int leave_out_extra_layers(struct hearth_pack *p, struct hearth_str name, struct hearth_error *err)
{
    const struct hearth_arch *arch = hearth_arch_find(name);
    uint32_t extra = 0;
    char key[128];
    if (!arch || !arch->extra_layers)
        return HEARTH_OK;
    snprintf(key, sizeof key, "%s.nextn_predict_layers", arch->name);
    const int rc = hearth_gguf_u32_of_layers(p->g, key, false, &extra, err);
    if (!rc && extra >= p->n_layer)
        return damaged(p, err, "all of its layers only guess tokens ahead");
    p->n_layer -= rc ? 0 : extra;
    return rc;
}

// The version, the number of layers and their width.
static int read_sizes(struct hearth_pack *p, struct hearth_error *err)
{
    uint32_t version = 0;
    struct hearth_str arch = {"", 0};
    char key[128];
    int rc = hearth_gguf_u32(p->g, "hearth.pack.version", true, &version, err);
    if (rc)
        return rc;
    if (version < HEARTH_PACK_VERSION || version > HEARTH_PACK_VERSIONS)
        return hearth_fail(
            err, HEARTH_E_UNSUPPORTED,
            "%s: a pack of version %u, this build knows versions %d to %d: pack the model again, or use "
            "a newer Hearth",
            hearth_gguf_path(p->g), version, HEARTH_PACK_VERSION, HEARTH_PACK_VERSIONS);
    p->gates_apart = (version - HEARTH_PACK_VERSION) & (HEARTH_PACK_GATES - HEARTH_PACK_VERSION);
    p->widths = (version - HEARTH_PACK_VERSION) & (HEARTH_PACK_WIDTHS - HEARTH_PACK_VERSION);
    if (hearth_gguf_n_shards(p->g) != 1)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: a pack must be one file, not a split one",
                           hearth_gguf_path(p->g));
    rc = hearth_gguf_str(p->g, "general.architecture", true, &arch, err);
    if (rc)
        return rc;
    snprintf(key, sizeof key, "%.*s.block_count", (int)(arch.n < 60 ? arch.n : 60), arch.s);
    rc = hearth_gguf_u32(p->g, key, true, &p->n_layer, err);
    if (rc)
        return rc;
    snprintf(key, sizeof key, "%.*s.embedding_length", (int)(arch.n < 60 ? arch.n : 60), arch.s);
    rc = hearth_gguf_u32(p->g, key, true, &p->n_embd, err);
    if (!rc && (p->n_layer < 1 || p->n_layer > MAX_LAYERS || p->n_embd < 1 || p->n_embd > MAX_EMBD))
        rc = damaged(p, err, "the number of layers or the width is impossible");
    return rc ? rc : leave_out_extra_layers(p, arch, err);
}

static int check_bundles(struct hearth_pack *p, uint32_t layer, struct hearth_error *err)
{
    struct hearth_bundle *b = &p->layers[layer];
    const struct hearth_gguf_tensor *t = hearth_pack_tensor(p, layer, "ffn_bundles");
    char what[128];
    snprintf(what, sizeof what, "tensor blk.%u.ffn_bundles is missing or does not have the pack's shape",
             layer);
    if (!t || t->type != HEARTH_TYPE_I8 || t->ne[3] != 1)
        return damaged(p, err, what);
    if (t->ne[1] > MAX_FF || t->ne[2] > MAX_EXPERTS)
        return damaged(p, err, what);
    b->n = (uint32_t)t->ne[1];
    p->n_ff = layer == 0 || b->n > p->n_ff ? b->n : p->n_ff;
    p->n_expert = layer == 0 ? (uint32_t)t->ne[2] : p->n_expert;
    // A stride may be larger than needed: a later version may want coarser reads.
    if ((b->n != p->layers[0].n && !p->widths) || !b->n || t->ne[2] != p->n_expert ||
        t->ne[0] % HEARTH_BUNDLE_ALIGN || t->ne[0] < b->stride || t->ne[0] > b->stride + (1u << 20) ||
        t->offset % HEARTH_BUNDLE_ALIGN)
        return damaged(p, err, what);
    b->stride = (size_t)t->ne[0];
    b->tensor = t;
    return HEARTH_OK;
}

// Gates apart are one matrix a layer. The rest of it is checked when it is bound.
static int check_gates(const struct hearth_pack *p, uint32_t layer, struct hearth_error *err)
{
    const struct hearth_gguf_tensor *t = hearth_pack_tensor(p, layer, "ffn_gate.weight");
    if (!p->gates_apart || (t && !p->gated && p->n_expert == 1 && t->ne[1] == p->layers[layer].n))
        return HEARTH_OK;
    return damaged(p, err, "its gates are not apart from the bundles, as its version says");
}

static int read_layers(struct hearth_pack *p, struct hearth_error *err)
{
    const struct hearth_gguf_kv *kv[HEARTH_PARTS];
    p->gated = hearth_gguf_find(p->g, type_keys[HEARTH_PART_GATE]) != NULL;
    p->layers = hearth_calloc(p->n_layer, sizeof *p->layers);
    if (!p->layers)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for %u layers", hearth_gguf_path(p->g),
                           p->n_layer);
    for (int part = 0; part < HEARTH_PARTS; part++) {
        int rc = find_array(p, type_keys[part], part != HEARTH_PART_GATE, p->n_layer, &kv[part], err);
        if (rc)
            return rc;
    }
    for (uint32_t i = 0; i < p->n_layer; i++) {
        uint32_t type[HEARTH_PARTS] = {HEARTH_TYPE_END};
        int rc = HEARTH_OK;
        for (int part = 0; part < HEARTH_PARTS && !rc; part++)
            if (kv[part])
                rc = read_type(p, kv[part], i, &type[part], err);
        if (rc)
            return rc;
        if (hearth_bundle_lay_out(&p->layers[i], p->n_embd, type[0], type[1], type[2], NULL))
            return damaged(p, err, "a layer's rows do not fit their number formats");
        rc = check_bundles(p, i, err);
        if (!rc)
            rc = check_gates(p, i, err);
        if (rc)
            return rc;
    }
    return HEARTH_OK;
}

static int read_down_from(struct hearth_pack *p, struct hearth_error *err)
{
    const struct hearth_gguf_kv *kv;
    int rc = find_array(p, "hearth.pack.down_from", false, p->n_layer, &kv, err);
    if (rc || !kv)
        return rc;
    p->down_from = hearth_calloc(p->n_layer, sizeof *p->down_from);
    if (!p->down_from)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for %u layers", hearth_gguf_path(p->g),
                           p->n_layer);
    for (uint32_t i = 0; i < p->n_layer && !rc; i++)
        rc = read_type(p, kv, i, &p->down_from[i], err);
    return rc;
}

static int read_batches(struct hearth_pack *p, struct hearth_error *err)
{
    const struct hearth_gguf_kv *kv = hearth_gguf_find(p->g, "hearth.pack.batches");
    int rc = find_array(p, "hearth.pack.batches", false, kv ? kv->count : 0, &kv, err);
    if (!rc)
        rc = hearth_gguf_f32(p->g, "hearth.pack.repeats", false, &p->repeats, err);
    if (!rc && !(p->repeats >= 0 && p->repeats <= 1))
        return damaged(p, err, "the key hearth.pack.repeats is impossible");
    if (rc || !kv)
        return rc;
    if (kv->count < 1 || kv->count > HEARTH_PACK_BATCHES)
        return damaged(p, err, "the key hearth.pack.batches has an impossible length");
    p->n_batches = (uint32_t)kv->count;
    for (uint32_t i = 0; i < p->n_batches; i++) {
        const int64_t v = hearth_gguf_kv_i64(kv, i);
        if (v < 1 || v > UINT16_MAX || (i && v <= p->batches[i - 1]))
            return damaged(p, err, "the batch sizes of the key hearth.pack.batches are impossible");
        p->batches[i] = (uint32_t)v;
    }
    return HEARTH_OK;
}

// Checks that a tensor has integers and this shape, or that it is absent and not required.
static int check_integers(const struct hearth_pack *p, uint32_t layer, const char *name, bool required,
                          const uint64_t *ne, struct hearth_error *err)
{
    const struct hearth_gguf_tensor *t = hearth_pack_tensor(p, layer, name);
    char what[128];
    if (!t && !required)
        return HEARTH_OK;
    if (t && t->type == HEARTH_TYPE_I32 && t->ne[0] == ne[0] && t->ne[1] == ne[1] && t->ne[2] == ne[2] &&
        t->ne[3] == 1)
        return HEARTH_OK;
    snprintf(what, sizeof what, "tensor blk.%u.%s is missing or does not have the pack's shape", layer, name);
    return damaged(p, err, what);
}

static int check_statistics(const struct hearth_pack *p, struct hearth_error *err)
{
    const bool counted = p->n_batches > 0;
    for (uint32_t i = 0; i < p->n_layer; i++) {
        const uint64_t n = p->layers[i].n, order[3] = {n, p->n_expert, 1},
                       counts[3] = {n, p->n_expert, p->n_batches}, visits[3] = {p->n_expert, p->n_batches, 1};
        int rc = check_integers(p, i, "ffn_order", false, order, err);
        if (!rc)
            rc = check_integers(p, i, "ffn_counts", counted, counts, err);
        if (!rc)
            rc = check_integers(p, i, "ffn_visits", counted, visits, err);
        if (rc)
            return rc;
    }
    return HEARTH_OK;
}

int hearth_pack_open(struct hearth_pack **out, const struct hearth_gguf *g, struct hearth_error *err)
{
    *out = NULL;
    struct hearth_pack *p = hearth_calloc(1, sizeof *p);
    if (!p)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for a pack", hearth_gguf_path(g));
    p->g = g;
    int rc = read_sizes(p, err);
    if (!rc)
        rc = read_layers(p, err);
    if (!rc)
        rc = read_down_from(p, err);
    if (!rc)
        rc = read_batches(p, err);
    if (!rc)
        rc = check_statistics(p, err);
    if (rc)
        hearth_pack_close(&p);
    *out = p;
    return rc;
}

void hearth_pack_close(struct hearth_pack **pack)
{
    struct hearth_pack *p = *pack;
    if (!p)
        return;
    free(p->layers);
    free(p->down_from);
    free(p);
    *pack = NULL;
}

int hearth_pack_order(const struct hearth_pack *p, uint32_t layer, uint32_t expert, int32_t *order,
                      struct hearth_error *err)
{
    const struct hearth_gguf_tensor *t = hearth_pack_tensor(p, layer, "ffn_order");
    const uint32_t n = p->layers[layer].n;
    if (!t) {
        for (uint32_t i = 0; i < n; i++)
            order[i] = (int32_t)i;
        return HEARTH_OK;
    }
    const size_t bytes = (size_t)n * sizeof *order;
    bool *seen = hearth_calloc(n, sizeof *seen);
    int rc = seen ? hearth_gguf_read(p->g, t, order, expert * bytes, bytes, err)
                  : hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for an order", hearth_gguf_path(p->g));
    for (uint32_t i = 0; i < n && !rc; i++) {
        if (order[i] < 0 || (uint32_t)order[i] >= n || seen[order[i]]) {
            char what[96];
            snprintf(what, sizeof what, "tensor blk.%u.ffn_order is not a permutation", layer);
            rc = damaged(p, err, what);
            break;
        }
        seen[order[i]] = true;
    }
    free(seen);
    return rc;
}
