// SPDX-License-Identifier: MIT
#include "convert/pack_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

// A neuron that is active for at least this share of the tokens is computed without asking the predictor:
// asking costs more than the few products that it would save, and a wrong answer costs most here.
#define ALWAYS_SHARE 0.5
// The index's general.architecture.
#define ARCHITECTURE "generic.gpu_index"

// ---- by counts

static int compare_keys(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

uint32_t hearth_pack_by_counts(const int32_t *counts, int32_t visits, uint32_t n, uint64_t *keys,
                               int32_t *order)
{
    uint32_t always = 0;
    for (uint32_t i = 0; i < n; i++)
        keys[i] = (uint64_t)(INT32_MAX - counts[i]) << 32 | i;
    qsort(keys, n, sizeof *keys, compare_keys);
    for (uint32_t i = 0; i < n; i++)
        order[i] = (int32_t)(keys[i] & UINT32_MAX);
    while (visits > 0 && always < n && counts[order[always]] >= ALWAYS_SHARE * visits)
        always++;
    return always;
}

// ---- by an index

static bool is_index(const struct hearth_gguf *g)
{
    struct hearth_str arch = {NULL, 0};
    struct hearth_error ignored;
    return !hearth_gguf_str(g, "general.architecture", true, &arch, &ignored) &&
           arch.n == strlen(ARCHITECTURE) && !memcmp(arch.s, ARCHITECTURE, arch.n);
}

int hearth_gpu_index_open(struct hearth_gguf **out, const char *path, uint32_t n_layer,
                          struct hearth_error *err)
{
    struct hearth_error ignored;
    uint32_t layers = 0;
    *out = NULL;
    if (hearth_gguf_open(out, path, &ignored) || !is_index(*out)) {
        hearth_gguf_close(out);
        return HEARTH_OK;
    }
    int rc = hearth_gguf_u32(*out, ARCHITECTURE ".block_count", true, &layers, err);
    if (!rc && layers != n_layer)
        rc = hearth_fail(err, HEARTH_E_INVALID, "%s: the index is of a model with %u layers, this one has %u",
                         path, layers, n_layer);
    if (rc)
        hearth_gguf_close(out);
    return rc;
}

int hearth_gpu_index_order(const struct hearth_gguf *index, uint32_t layer, uint32_t n, int32_t *order,
                           struct hearth_error *err)
{
    char name[32];
    snprintf(name, sizeof name, "blk.%u.gpu_idx", layer);
    const char *path = hearth_gguf_path(index);
    const struct hearth_gguf_tensor *t = hearth_gguf_tensor(index, name);
    if (!t || t->type != HEARTH_TYPE_I32 || t->n_dims != 1 || t->ne[0] != n)
        return hearth_fail(
            err, HEARTH_E_INVALID,
            "%s: tensor %s is missing or has another shape: the index is of a model whose layers have "
            "another number of neurons than %u",
            path, name, n);
    int32_t *is_there = hearth_calloc(n, sizeof *is_there);
    if (!is_there)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for its neurons", path);
    int rc = hearth_gguf_read(index, t, is_there, 0, (size_t)t->bytes, err);
    uint32_t at = 0;
    for (int first = 1; first >= 0 && !rc; first--)
        for (uint32_t i = 0; i < n; i++)
            if ((is_there[i] != 0) == first)
                order[at++] = (int32_t)i;
    free(is_there);
    return rc;
}
