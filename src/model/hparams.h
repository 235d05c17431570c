// SPDX-License-Identifier: MIT
// Hyper-parameters: what the files that read them share. Each key lies under "<arch>.".
#ifndef HEARTH_MODEL_HPARAMS_H
#define HEARTH_MODEL_HPARAMS_H

#include <stdio.h>

#include "model/arch.h"

#define MAX_DIM   (1 << 20)
#define MAX_HEADS 4096

struct reader {
    const struct hearth_gguf *g;
    const char *arch;
    struct hearth_error *err;
};

struct key {
    char text[128];
};

static inline struct key key_of(const struct reader *r, const char *name)
{
    struct key k;
    snprintf(k.text, sizeof k.text, "%s.%s", r->arch, name);
    return k;
}

// Reads "<arch>.<name>", an integer in low..high. *out keeps its value if an optional key is absent.
static inline int read_range(const struct reader *r, const char *name, bool required, int low, int high,
                             int *out)
{
    struct key key = key_of(r, name);
    uint32_t value = (uint32_t)*out;
    int rc = hearth_gguf_u32_of_layers(r->g, key.text, required, &value, r->err);
    if (rc)
        return rc;
    if (value > (uint32_t)high || (int)value < low)
        return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s is %u, must be %d to %d", hearth_gguf_path(r->g),
                           key.text, value, low, high);
    *out = (int)value;
    return HEARTH_OK;
}

static inline int read_size(const struct reader *r, const char *name, int max, int *out)
{
    return read_range(r, name, true, 1, max, out);
}

// Reads a number in low..high. *out keeps its value if the key is absent.
static inline int read_float(const struct reader *r, const char *name, bool required, float low, float high,
                             float *out)
{
    struct key key = key_of(r, name);
    int rc = hearth_gguf_f32(r->g, key.text, required, out, r->err);
    if (!rc && !(*out >= low && *out <= high))
        return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s is %g, must be a number from %g to %g",
                           hearth_gguf_path(r->g), key.text, (double)*out, (double)low, (double)high);
    return rc;
}

// Of a layer, what a key says that has a number for each or one for all.
static inline int64_t number_of(const struct hearth_gguf_kv *kv, int layer)
{
    return hearth_gguf_kv_i64(kv, kv->type == HEARTH_GGUF_ARRAY ? (uint64_t)layer : 0);
}

// Finds such a key; *found is NULL where there is none.
static inline int find_of_layers(const struct reader *r, const char *name, const struct hearth_hparams *hp,
                                 const struct hearth_gguf_kv **found)
{
    const struct key key = key_of(r, name);
    const struct hearth_gguf_kv *kv = *found = hearth_gguf_find(r->g, key.text);
    const bool numbers = kv && !kv->strings && kv->type != HEARTH_GGUF_STRING;
    if (!kv || (numbers && (kv->type != HEARTH_GGUF_ARRAY || kv->count >= (uint64_t)hp->n_layer)))
        return HEARTH_OK;
    return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s must be a number, or one for each layer",
                       hearth_gguf_path(r->g), key.text);
}

// Key/value heads, where a layer with 0 of them does not attend; and what the layers compute that do not
// (hparams_recurrence.c). Where layers are one part only, which those with a feed-forward part are.
int hearth_kv_heads_read(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp);
int hearth_recurrence_read(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp);

// Layers that may lack parts and differ in numbers of heads and of neurons (hparams_uneven.c): the heads once the most of
// queries are known; whether one matrix can stand for attention, once the size of heads is; neurons.
int hearth_uneven_heads_read(const struct reader *r, struct hearth_hparams *hp);
int hearth_linear_check(const struct reader *r, const struct hearth_hparams *hp);
int hearth_uneven_ff_read(const struct reader *r, struct hearth_hparams *hp);

// Several residual streams, and n-grams (hparams_streams.c).
int hearth_streams_read(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp);

// What chooses positions (hparams_chooser.c): once rotation, recurrent layers and norms are known.
int hearth_chooser_read(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp);
// Balanced streams, positions of one vector and what blends them (hparams_blend.c): once rotation is known.
int hearth_blender_read(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp);

#endif
