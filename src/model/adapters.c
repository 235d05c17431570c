// SPDX-License-Identifier: MIT
// Adapters: found out what they change, checked against the model, read into memory.
#include "model/adapters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/free_memory.h"
#include "model/ffn.h"
#include "model/load.h"

#define MAX_RANK ((uint64_t)1 << 16)
// Places that one tensor of the model may have: fused ones have three.
#define MAX_PLACES 4

struct hearth_adapters {
    struct hearth_region memory;
    size_t used;
    struct hearth_change *changes;
    size_t n_changes, most_ranks;
    uint64_t bytes;
    uint32_t crc;
    struct hearth_gguf **files; // while they are being opened
    size_t n_files;
};

struct opening {
    struct hearth_model *m;
    struct hearth_adapters *a;
    struct hearth_gguf *g;
    float alpha, scale;
    struct hearth_error *err;
};

// ---- what a file is

static int is_not(const struct opening *o, const char *key, const char *wanted, const char *got, size_t n)
{
    return hearth_fail(o->err, HEARTH_E_FORMAT, "%s: %s is \"%.*s\", not \"%s\": it is no LoRA adapter",
                       hearth_gguf_path(o->g), key, (int)(n < 60 ? n : 60), got, wanted);
}

static int check_text(const struct opening *o, const char *key, const char *wanted)
{
    struct hearth_str text = {"", 0};
    int rc = hearth_gguf_str(o->g, key, false, &text, o->err);
    if (!rc && (text.n != strlen(wanted) || memcmp(text.s, wanted, text.n)))
        rc = is_not(o, key, wanted, text.s, text.n);
    return rc;
}

static int check_file(struct opening *o)
{
    struct hearth_str arch = {"", 0};
    const char *path = hearth_gguf_path(o->g), *own = o->m->arch->name;
    int rc = check_text(o, "general.type", "adapter");
    if (!rc)
        rc = check_text(o, "adapter.type", "lora");
    if (!rc)
        rc = hearth_gguf_str(o->g, "general.architecture", true, &arch, o->err);
    if (!rc)
        rc = hearth_gguf_f32(o->g, "adapter.lora.alpha", false, &o->alpha, o->err);
    if (rc)
        return rc;
    if (arch.n != strlen(own) || memcmp(arch.s, own, arch.n))
        return hearth_fail(o->err, HEARTH_E_INVALID,
                           "%s: the adapter is for models of architecture \"%.*s\", and %s is \"%s\"", path,
                           (int)(arch.n < 60 ? arch.n : 60), arch.s, hearth_gguf_path(o->m->gguf), own);
    if (!isfinite(o->alpha))
        return hearth_fail(o->err, HEARTH_E_FORMAT, "%s: adapter.lora.alpha is no finite number", path);
    if (hearth_gguf_find(o->g, "adapter.alora.invocation_tokens"))
        return hearth_fail(o->err, HEARTH_E_UNSUPPORTED,
                           "%s: the adapter is to be applied behind certain tokens only "
                           "(adapter.alora.invocation_tokens), which is not supported",
                           path);
    return HEARTH_OK;
}

// ---- what it changes

// "blk.0.attn_q.weight" of "blk.0.attn_q.weight.lora_a"; 0: the tensor is of another kind.
static size_t stem_of(const struct hearth_gguf_tensor *t, char kind)
{
    const char suffix[] = {'.', 'l', 'o', 'r', 'a', '_', kind};
    const size_t n = t->name.n;
    return n > sizeof suffix && !memcmp(t->name.s + n - sizeof suffix, suffix, sizeof suffix)
               ? n - sizeof suffix
               : 0;
}

// The tensor's other half.
static const struct hearth_gguf_tensor *other_of(const struct opening *o, const struct hearth_gguf_tensor *t,
                                                 size_t stem, char kind)
{
    char name[160];
    if (stem + 8 > sizeof name)
        return NULL;
    snprintf(name, sizeof name, "%.*s.lora_%c", (int)stem, t->name.s, kind);
    return hearth_gguf_tensor(o->g, name);
}

// Whether the experts of this weight are a tensor each: then its item is the first one's.
static bool is_apart(const struct opening *o, const struct hearth_item *item)
{
    return item->of_experts && !item->bundle && item->tensor->ne[2] != (uint64_t)o->m->hp.n_expert;
}

// Why products with this matrix cannot be changed; NULL: they can.
static const char *why_not(const struct opening *o, const struct hearth_layer *l,
                           const struct hearth_weight *w)
{
    if (o->m->items[w->item].vector)
        return "it is no matrix";
    const struct hearth_item *item = &o->m->items[w->item];
    if (is_apart(o, item))
        return "experts are matrices of their own there: convert the model to one with joint ones";
    if (!l)
        return w == &o->m->weights.position_embd  ? "positions are looked up"
               : w == &o->m->weights.token_layers ? "what tokens give layers is looked up"
               : w == &o->m->weights.gram_table   ? "what n-grams give is looked up"
                                                  : NULL;
    if (w == &o->m->weights.streams_in || w == &o->m->weights.streams_out)
        return "it is of several streams";
    if (w == &l->predict_by || w == &l->correct_by)
        return "streams are weighed by it";
    if (w == &l->ffn_by_token)
        return "it is a table of experts";
    if (w == &l->attn_kv_up || w == &l->attn_k_up || w == &l->attn_v_up)
        return "attention applies it head by head";
    if (w == &l->rec_conv || w == &l->gram_conv)
        return "it is a convolution";
    const struct hearth_ffn f = hearth_ffn_of(&o->m->hp, l);
    if (w == f.down_t || w == f.fc1 || w == f.fc2 || (hearth_has(f.down_t) && (w == f.gate || w == f.up)))
        return "the feed-forward part is computed neuron by neuron: take the model without ffn_down_t";
    return NULL;
}

struct place {
    struct hearth_layer *layer; // NULL: of none
    struct hearth_weight *w;
};

// Whether the weight is made of the tensor, or of rows of it.
static bool has_tensor(const struct opening *o, const struct hearth_weight *w,
                       const struct hearth_gguf_tensor *t)
{
    const struct hearth_item *item = &o->m->items[w->item];
    for (int i = is_apart(o, item) ? o->m->hp.n_expert - 1 : 0; i > 0; i--)
        if (item[i].tensor == t)
            return true;
    return !item->bundle && item->tensor == t;
}

// Adds the weights among w[0..n) that are the tensor, or rows of it.
static int find_in(const struct opening *o, struct hearth_weight *w, size_t n, struct hearth_layer *layer,
                   const struct hearth_gguf_tensor *t, struct place *places, int count)
{
    for (size_t i = 0; i < n; i++)
        if (hearth_has(&w[i]) && has_tensor(o, &w[i], t) && count < MAX_PLACES)
            places[count++] = (struct place){layer, &w[i]};
    return count;
}

static int find_places(const struct opening *o, const struct hearth_gguf_tensor *t, struct place *places)
{
    struct hearth_weights *all = &o->m->weights;
    int n = find_in(o, hearth_global_weights(all), HEARTH_GLOBAL_WEIGHTS, NULL, t, places, 0);
    for (int i = 0; i < o->m->hp.n_layer && !n; i++)
        n = find_in(o, hearth_layer_weights(&all->layers[i]), HEARTH_LAYER_WEIGHTS, &all->layers[i], t,
                    places, 0);
    // A tied head has the table's numbers, not its changes: those are learned for what is looked up.
    for (int i = 0; i < n && places[0].w == &all->token_embd; i++)
        if (places[i].w == &all->output)
            places[i] = places[--n];
    return n;
}

static int is_another(const struct opening *o, const char *name, size_t n, const char *what)
{
    return hearth_fail(o->err, HEARTH_E_INVALID, "%s: the adapter changes %.*s, %s %s: %s",
                       hearth_gguf_path(o->g), (int)n, name, what, hearth_gguf_path(o->m->gguf),
                       o->m->pack ? "it is a pack, so give the model that it was made of"
                                  : "the adapter is for another model");
}

// Whether A and B fit the tensor t of the model, of which an embedding table has rows that are looked up.
static int check_pair(const struct opening *o, const struct hearth_gguf_tensor *a,
                      const struct hearth_gguf_tensor *b, const struct hearth_gguf_tensor *t, bool embedding)
{
    const char *path = hearth_gguf_path(o->g);
    const uint64_t k = embedding ? a->ne[1] : a->ne[0], n = b->ne[1], want_k = t->ne[embedding],
                   want_n = t->ne[!embedding], rank = b->ne[0];
    if (k != want_k || n != want_n || a->ne[2] != t->ne[2] || b->ne[2] != t->ne[2] || a->ne[3] != 1 ||
        b->ne[3] != 1)
        return hearth_fail(o->err, HEARTH_E_INVALID,
                           "%s: the adapter changes %s as %llu x %llu x %llu, and in %s it is %llu x %llu x "
                           "%llu: the adapter is for another model",
                           path, t->name.s, (unsigned long long)k, (unsigned long long)n,
                           (unsigned long long)a->ne[2], hearth_gguf_path(o->m->gguf),
                           (unsigned long long)want_k, (unsigned long long)want_n,
                           (unsigned long long)t->ne[2]);
    if (rank != a->ne[!embedding] || rank > MAX_RANK)
        return hearth_fail(o->err, HEARTH_E_FORMAT,
                           "%s: %s has rank %llu, and %s %llu: they must be equal, and at most %llu", path,
                           a->name.s, (unsigned long long)a->ne[!embedding], b->name.s,
                           (unsigned long long)rank, (unsigned long long)MAX_RANK);
    return HEARTH_OK;
}

// ---- memory

// Matrices that have no blocks stay as they are; those that do become f32, so that inputs need not be rounded.
static uint32_t type_in_memory(const struct hearth_kernels *kernels, uint32_t type)
{
    return !hearth_type_info(type)->unit_elems && kernels->step[type] && kernels->prompt[type]
               ? type
               : HEARTH_TYPE_F32;
}

static uint64_t bytes_of(const struct hearth_kernels *kernels, const struct hearth_gguf_tensor *t)
{
    const uint64_t bytes =
        hearth_type_bytes(type_in_memory(kernels, t->type), t->ne[0]) * t->ne[1] * t->ne[2];
    return (bytes + 63) / 64 * 64;
}

static int read_numbers(const struct opening *o, const struct hearth_gguf_tensor *t, uint32_t type,
                        uint8_t *to)
{
    if (type == t->type)
        return hearth_gguf_read(o->g, t, to, 0, (size_t)t->bytes, o->err);
    uint8_t *raw = malloc((size_t)t->bytes);
    int rc = raw ? hearth_gguf_read(o->g, t, raw, 0, (size_t)t->bytes, o->err)
                 : hearth_fail(o->err, HEARTH_E_MEMORY, "no memory for tensor %s", t->name.s);
    if (!rc)
        hearth_type_info(t->type)->decode(raw, (float *)(void *)to, (size_t)(t->ne[0] * t->ne[1] * t->ne[2]));
    free(raw);
    return rc;
}

// Takes one matrix, of all experts.
static int take(struct opening *o, const struct hearth_gguf_tensor *t, struct hearth_weight *w)
{
    struct hearth_adapters *a = o->a;
    const struct hearth_kernels *kernels = &o->m->kernels;
    const uint32_t type = type_in_memory(kernels, t->type);
    if (!hearth_type_info(t->type)->decode)
        return hearth_fail(o->err, HEARTH_E_UNSUPPORTED, "%s: tensor %s has type %s, which is not supported",
                           hearth_gguf_path(o->g), t->name.s, hearth_type_info(t->type)->name);
    uint8_t *to = (uint8_t *)a->memory.base + a->used;
    int rc = read_numbers(o, t, type, to);
    if (rc)
        return rc;
    *w = (struct hearth_weight){.data = to,
                                .type = type,
                                .k = (size_t)t->ne[0],
                                .n = (size_t)t->ne[1],
                                .stride = hearth_type_bytes(type, t->ne[0])};
    if (o->scale != 0.0f)
        a->crc = hearth_crc32c(hearth_crc32c(a->crc, t->name.s, t->name.n), to, w->stride * w->n * t->ne[2]);
    a->used += (size_t)bytes_of(kernels, t);
    return HEARTH_OK;
}

// ---- applying

static size_t ranks_of(const struct hearth_weight *w)
{
    size_t ranks = 0;
    for (const struct hearth_change *c = w->change; c; c = c->next)
        ranks += c->b.k;
    return ranks;
}

// Has a weight know of a change, before those that it knows already. Rows of a fused matrix take theirs of B.
static void add_change(struct hearth_adapters *a, struct hearth_weight *w,
                       const struct hearth_weight *embedding, const struct hearth_change *whole)
{
    struct hearth_change *c = &a->changes[a->n_changes++];
    const size_t first = w->at / w->stride;
    *c = *whole;
    if (w != embedding && w->n < whole->b.n) {
        c->b.data = (const uint8_t *)whole->b.data + first * whole->b.stride;
        c->b.n = w->n;
        c->b.apart = w->apart ? whole->b.n * whole->b.stride : 0;
    }
    c->next = w->change;
    w->change = c;
    const size_t ranks = ranks_of(w);
    a->most_ranks = ranks > a->most_ranks ? ranks : a->most_ranks;
}

// One pair, with half A given.
static int apply(struct opening *o, const struct hearth_gguf_tensor *ta, size_t stem)
{
    const struct hearth_gguf_tensor *tb = other_of(o, ta, stem, 'b');
    struct place places[MAX_PLACES];
    char name[160];
    if (!tb)
        return hearth_fail(o->err, HEARTH_E_FORMAT, "%s: %s has no %.*s.lora_b beside it",
                           hearth_gguf_path(o->g), ta->name.s, (int)stem, ta->name.s);
    snprintf(name, sizeof name, "%.*s", (int)stem, ta->name.s);
    const struct hearth_gguf_tensor *t = hearth_gguf_tensor(o->m->gguf, name);
    const int n = t ? find_places(o, t, places) : 0;
    if (!n)
        return is_another(o, ta->name.s, stem, t ? "which is not used in" : "which there is none of in");
    const bool embedding = places[0].w == &o->m->weights.token_embd;
    for (int i = 0; i < n; i++) {
        const char *reason = why_not(o, places[i].layer, places[i].w);
        if (reason)
            return hearth_fail(o->err, HEARTH_E_UNSUPPORTED,
                               "%s: the adapter changes %s, which no adapter can here: %s",
                               hearth_gguf_path(o->g), name, reason);
    }
    struct hearth_change change = {0};
    int rc = check_pair(o, ta, tb, t, embedding);
    if (!rc)
        rc = take(o, ta, &change.a);
    if (!rc)
        rc = take(o, tb, &change.b);
    if (rc)
        return rc;
    change.scale = o->alpha != 0.0f ? o->scale * o->alpha / (float)change.b.k : o->scale;
    if (!isfinite(change.scale))
        return hearth_fail(o->err, HEARTH_E_INVALID, "%s: a scale of %g with an alpha of %g is no number",
                           hearth_gguf_path(o->g), (double)o->scale, (double)o->alpha);
    if (o->scale == 0.0f)
        return HEARTH_OK;
    o->a->crc = hearth_crc32c(o->a->crc, &change.scale, sizeof change.scale);
    for (int i = 0; i < n; i++)
        add_change(o->a, places[i].w, &o->m->weights.token_embd, &change);
    return HEARTH_OK;
}

static int apply_all(struct opening *o)
{
    int rc = check_file(o);
    const uint64_t n = hearth_gguf_n_tensors(o->g);
    if (!rc && !n)
        rc = hearth_fail(o->err, HEARTH_E_FORMAT, "%s: the adapter is empty", hearth_gguf_path(o->g));
    for (uint64_t i = 0; i < n && !rc; i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(o->g, i);
        const size_t stem = stem_of(t, 'a'), stem_b = stem_of(t, 'b');
        if (stem)
            rc = apply(o, t, stem);
        else if (!stem_b)
            rc = hearth_fail(o->err, HEARTH_E_UNSUPPORTED,
                             "%s: tensor %s is neither lora_a nor lora_b of a matrix: the adapter needs "
                             "something this build does not do",
                             hearth_gguf_path(o->g), t->name.s);
        else if (!other_of(o, t, stem_b, 'a'))
            rc = hearth_fail(o->err, HEARTH_E_FORMAT, "%s: %s has no %.*s.lora_a beside it",
                             hearth_gguf_path(o->g), t->name.s, (int)stem_b, t->name.s);
    }
    return rc;
}

// ---- opening

// What all files take, and no more than is free.
static int take_memory(struct hearth_model *m, struct hearth_adapters *a, struct hearth_error *err)
{
    size_t tensors = 0;
    for (size_t i = 0; i < a->n_files; i++)
        for (uint64_t k = 0; k < hearth_gguf_n_tensors(a->files[i]); k++, tensors++)
            a->bytes += bytes_of(&m->kernels, hearth_gguf_tensor_at(a->files[i], k));
    const struct hearth_free_memory f = hearth_free_memory("", true);
    const uint64_t most = hearth_free_memory_to_take(&f, true);
    if (a->bytes > most)
        return hearth_fail(err, HEARTH_E_MEMORY, "the adapters take %.1f MiB, and %.1f MiB are free (%s)",
                           (double)a->bytes / (1 << 20), (double)most / (1 << 20), f.what);
    a->changes = hearth_calloc(tensors * MAX_PLACES, sizeof *a->changes);
    if (!a->changes)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the list of what adapters change");
    a->bytes += (uint64_t)tensors * MAX_PLACES * sizeof *a->changes;
    return hearth_region_open(&a->memory, (size_t)a->bytes, "adapters", err);
}

static int open_files(struct hearth_adapters *a, const struct hearth_adapter *adapters, size_t n,
                      struct hearth_error *err)
{
    a->files = hearth_calloc(n, sizeof *a->files);
    if (!a->files)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for adapters");
    for (size_t i = 0; i < n; i++) {
        if (!adapters || !adapters[i].path)
            return hearth_fail_param(err, HEARTH_E_INVALID, "adapters", "adapter %zu has no path", i);
        if (!isfinite(adapters[i].scale))
            return hearth_fail_param(err, HEARTH_E_INVALID, "adapters",
                                     "the scale of adapter %s must be a finite number", adapters[i].path);
        int rc = hearth_gguf_open(&a->files[i], adapters[i].path, err);
        if (rc)
            return rc;
        a->n_files++;
    }
    return HEARTH_OK;
}

static void close_files(struct hearth_adapters *a)
{
    for (size_t i = 0; i < a->n_files; i++)
        hearth_gguf_close(&a->files[i]);
    free(a->files);
    a->files = NULL;
    a->n_files = 0;
}

int hearth_adapters_open(struct hearth_model *m, const struct hearth_adapter *adapters, size_t n,
                         struct hearth_error *err)
{
    struct hearth_adapters *a = m->adapters = hearth_calloc(1, sizeof *a);
    int rc = a ? HEARTH_OK : hearth_fail(err, HEARTH_E_MEMORY, "no memory for adapters");
    if (!rc)
        rc = open_files(a, adapters, n, err);
    if (!rc)
        rc = take_memory(m, a, err);
    // Changes are put before others, so the last adapter begins.
    for (size_t i = n; i-- > 0 && !rc;) {
        struct opening o = {.m = m, .a = a, .g = a->files[i], .scale = adapters[i].scale, .err = err};
        rc = apply_all(&o);
    }
    if (a)
        close_files(a);
    return rc;
}

void hearth_adapters_close(struct hearth_adapters **adapters)
{
    struct hearth_adapters *a = *adapters;
    if (!a)
        return;
    hearth_region_close(&a->memory);
    free(a->changes);
    free(a);
    *adapters = NULL;
}

uint64_t hearth_adapters_memory(const struct hearth_adapters *a)
{
    return a ? sizeof *a + a->bytes : 0;
}

uint32_t hearth_adapters_crc(const struct hearth_adapters *a)
{
    return a ? a->crc : 0;
}

size_t hearth_adapters_most_ranks(const struct hearth_adapters *a)
{
    return a ? a->most_ranks : 0;
}
