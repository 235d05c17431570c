// SPDX-License-Identifier: MIT
// Hyper-parameters of several residual streams and of n-grams.
#include <limits.h>

#include "model/hparams.h"

// Numbers of n-grams, at least n of them.
static int find_numbers(const struct reader *r, const char *name, int n, const struct hearth_gguf_kv **found)
{
    const struct key key = key_of(r, name);
    const struct hearth_gguf_kv *kv = *found = hearth_gguf_find(r->g, key.text);
    if (kv && kv->type == HEARTH_GGUF_ARRAY && !kv->strings && kv->count >= (uint64_t)n)
        return HEARTH_OK;
    return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s must be an array of %d numbers or more",
                       hearth_gguf_path(r->g), key.text, n);
}

// How n-grams become rows of the table.
static int read_hash(const struct reader *r, struct hearth_grams *g)
{
    const struct hearth_gguf_kv *by = NULL, *first = NULL, *count = NULL;
    int rc = find_numbers(r, "ple.layer_multipliers", g->size, &by);
    if (!rc)
        rc = find_numbers(r, "ple.head_offsets", g->n, &first);
    if (!rc)
        rc = find_numbers(r, "ple.head_vocab_sizes", g->n, &count);
    for (int i = 0; i < g->size && !rc; i++)
        g->by[i] = hearth_gguf_kv_u64(by, (uint64_t)i);
    for (int i = 0; i < g->n && !rc; i++) {
        const uint64_t from = hearth_gguf_kv_u64(first, (uint64_t)i),
                       n = hearth_gguf_kv_u64(count, (uint64_t)i);
        if (!n || n > INT32_MAX || from > INT32_MAX - n)
            return hearth_fail(
                r->err, HEARTH_E_FORMAT,
                "%s: n-grams have rows %llu to %llu of a table, which makes no sense: the file "
                "is damaged or was converted wrongly",
                hearth_gguf_path(r->g), (unsigned long long)from, (unsigned long long)(from + n));
        g->first[i] = (uint32_t)from;
        g->count[i] = (uint32_t)n;
        g->rows = from + n > g->rows ? (uint32_t)(from + n) : g->rows;
    }
    return rc;
}

// n-grams, which may feed a layer.
static int read_grams(const struct reader *r, struct hearth_hparams *hp)
{
    const struct key key = key_of(r, "ple.layers");
    const struct hearth_gguf_kv *kv = hearth_gguf_find(r->g, key.text);
    struct hearth_grams *g = &hp->grams;
    if (!kv || (kv->type == HEARTH_GGUF_ARRAY && !kv->count))
        return HEARTH_OK;
    const int64_t layer = kv->type == HEARTH_GGUF_ARRAY && !kv->strings ? hearth_gguf_kv_i64(kv, 0) : -1;
    if (layer < 0 || layer >= hp->n_layer || kv->count != 1)
        return hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                           "%s: %s must name one layer: n-grams that feed others are not supported",
                           hearth_gguf_path(r->g), key.text);
    g->layer = (int)layer;
    int rc = read_range(r, "ple.ngram_size", true, 2, HEARTH_GRAM_MOST, &g->size);
    if (!rc)
        rc = read_range(r, "ple.heads_per_ngram", true, 1, HEARTH_GRAM_HEADS / (g->size - 1), &g->heads);
    if (!rc)
        rc = read_range(r, "ple.conv_kernel", true, 1, 16, &g->n_taps);
    if (!rc)
        rc = read_range(r, "ple.eos_token_id", true, 0, INT_MAX, &g->eos);
    if (!rc)
        rc = read_size(r, "embedding_length_per_layer_input", 1 << 14, &g->dim);
    g->n = (g->size - 1) * g->heads;
    g->apart = g->size;
    return rc ? rc : read_hash(r, g);
}

// Streams of which one is computed. Files do not say how narrow is what goes past attention: its first matrix does.
static int read_predicted(const struct reader *r, struct hearth_hparams *hp)
{
    static const char past[] = "blk.0.laurel_l.weight";
    struct hearth_streams *s = &hp->streams;
    int rc = read_range(r, "altup.num_inputs", true, 2, 16, &s->n);
    if (!rc)
        rc = read_range(r, "altup.active_idx", true, 0, s->n - 1, &s->active);
    const struct hearth_gguf_tensor *t = hearth_gguf_tensor(r->g, past);
    if (!rc && (!t || t->ne[1] < 1 || t->ne[1] > 1 << 16))
        rc =
            hearth_fail(r->err, HEARTH_E_FORMAT, "%s: tensor %s is missing or too large: the file is damaged",
                        hearth_gguf_path(r->g), past);
    const struct hearth_gguf_tensor *back = hearth_gguf_tensor(r->g, "blk.0.laurel_r.weight");
    if (!rc && back && back->ne[0] != t->ne[1])
        rc = hearth_fail(r->err, HEARTH_E_FORMAT,
                         "%s: tensors %s and %s do not go together: the file is damaged",
                         hearth_gguf_path(r->g), past, back->name.s);
    if (!rc && !hp->n_embd_layer)
        rc = hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s is missing: the file is incomplete",
                         hearth_gguf_path(r->g), key_of(r, "embedding_length_per_layer_input").text);
    if (rc)
        return rc;
    s->predicts = true;
    s->rank = (int)t->ne[1];
    return HEARTH_OK;
}

// Streams that are kept, all of which weigh.
static int read_kept(const struct reader *r, struct hearth_streams *s)
{
    s->joint = true;
    int rc = read_range(r, "hyper_connection.count", true, 2, 16, &s->n);
    if (!rc)
        rc = read_float(r, "hyper_connection.epsilon", true, 0.0f, 1.0f, &s->eps);
    if (!rc)
        rc = read_float(r, "hyper_connection.magnitude", true, 0.0f, 1e6f, &s->back);
    s->back_eps = s->eps;
    return rc;
}

int hearth_streams_read(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    if (arch->predicts)
        return read_predicted(r, hp);
    if (arch->kept)
        return read_kept(r, &hp->streams);
    if (!arch->streams)
        return HEARTH_OK;
    int rc = read_range(r, "hyper_connection.count", true, 2, 16, &hp->streams.n);
    if (!rc)
        rc = read_size(r, "hyper_connection.low_rank", 1 << 16, &hp->streams.rank);
    return rc ? rc : read_grams(r, hp);
}
