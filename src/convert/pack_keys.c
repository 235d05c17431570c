// SPDX-License-Identifier: MIT
// What makes a GGUF a pack: its keys, and the tensors of bundles.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "convert/pack.h"

int hearth_pack_put_bundles(struct hearth_gguf_writer *w, uint32_t layer, const struct hearth_bundle *b,
                            uint32_t n_expert, struct hearth_error *err)
{
    char name[64];
    const uint64_t ne[3] = {b->stride, b->n, n_expert};
    snprintf(name, sizeof name, "blk.%u.ffn_bundles", layer);
    return hearth_gguf_put_tensor(w, name, HEARTH_TYPE_I8, 3, ne, err);
}

static int put_types(struct hearth_gguf_writer *w, const struct hearth_pack_facts *f,
                     struct hearth_error *err)
{
    static const char *const keys[HEARTH_PARTS] = {"hearth.pack.gate_type", "hearth.pack.up_type",
                                                   "hearth.pack.down_type"};
    uint32_t *types = hearth_calloc(f->n_layer, sizeof *types);
    int rc = types ? HEARTH_OK : hearth_fail(err, HEARTH_E_MEMORY, "no memory for a pack's header");
    for (int part = 0; part < HEARTH_PARTS && !rc; part++) {
        if (!f->layers[0].bytes[part])
            continue;
        for (uint32_t i = 0; i < f->n_layer; i++)
            types[i] = f->layers[i].type[part];
        rc = hearth_gguf_put_array(w, keys[part], HEARTH_GGUF_U32, types, f->n_layer, err);
    }
    free(types);
    return rc;
}

static int put_spaces(struct hearth_gguf_writer *w, const struct hearth_pack_facts *f,
                      struct hearth_error *err)
{
    const size_t n = (size_t)f->n_layer * f->n_expert;
    uint32_t *zeros = hearth_calloc(n, sizeof *zeros);
    float *crossover = hearth_calloc(n, sizeof *crossover);
    int rc =
        zeros && crossover ? HEARTH_OK : hearth_fail(err, HEARTH_E_MEMORY, "no memory for a pack's header");
    for (size_t i = 0; i < n && !rc; i++)
        crossover[i] = f->crossover > 0 ? f->crossover : HEARTH_PACK_CROSSOVER;
    if (!rc)
        rc = hearth_gguf_put_array(w, "hearth.pack.always", HEARTH_GGUF_U32, f->always ? f->always : zeros, n,
                                   err);
    if (!rc)
        rc = hearth_gguf_put_array(w, "hearth.pack.crossover", HEARTH_GGUF_F32, crossover, n, err);
    free(zeros);
    free(crossover);
    return rc;
}

static uint32_t version_of(const struct hearth_pack_facts *f)
{
    uint32_t version = f->gates_apart ? HEARTH_PACK_GATES : HEARTH_PACK_VERSION;
    for (uint32_t i = 1; i < f->n_layer; i++)
        if (f->layers[i].n != f->layers[0].n)
            return version + HEARTH_PACK_WIDTHS - HEARTH_PACK_VERSION;
    return version;
}

int hearth_pack_put_keys(struct hearth_gguf_writer *w, const struct hearth_pack_facts *f,
                         struct hearth_error *err)
{
    int rc = hearth_gguf_put_u32(w, "general.alignment", HEARTH_PACK_ALIGNMENT, err);
    if (!rc)
        rc = hearth_gguf_put_u32(w, "hearth.pack.version", version_of(f), err);
    if (!rc)
        rc = put_types(w, f, err);
    if (!rc && f->down_from)
        rc =
            hearth_gguf_put_array(w, "hearth.pack.down_from", HEARTH_GGUF_U32, f->down_from, f->n_layer, err);
    if (!rc)
        rc = put_spaces(w, f, err);
    if (!rc && f->predictor_input)
        rc = hearth_gguf_put_str(w, "hearth.pack.predictor_input", f->predictor_input,
                                 strlen(f->predictor_input), err);
    if (!rc && f->predictor_input)
        rc = hearth_gguf_put_f32(w, "hearth.sparse_threshold", f->sparse_threshold, err);
    return rc;
}
