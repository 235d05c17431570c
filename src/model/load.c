// SPDX-License-Identifier: MIT
// Loading: tensors are bound and checked first, then all bytes are read in one parallel pass into huge pages.
#include "model/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/threads.h"

// Bytes read by one task. Large enough for the disk to stream, small enough to keep all threads busy to the
// end.
#define CHUNK ((uint64_t)8 << 20)

// What direct reads want source and destination to agree in.
#define PAGE 4096

// One tensor to be brought into memory.
struct item {
    const struct hearth_gguf_tensor *tensor;
    size_t offset; // in the region
    bool to_f32;   // a vector stored in another format
};

struct loader {
    struct hearth_model *model;
    struct item *items;
    size_t n_items, cap_items;
    size_t bytes;      // of the region so far
    uint64_t n_params; // elements of all bound tensors
    struct hearth_error *err;
};

static uint64_t dim_value(const struct hearth_hparams *hp, enum hearth_dim dim)
{
    switch (dim) {
    case HEARTH_DIM_NONE:
        return 1;
    case HEARTH_DIM_EMBD:
        return (uint64_t)hp->n_embd;
    case HEARTH_DIM_FF:
        return (uint64_t)hp->n_ff;
    case HEARTH_DIM_Q:
        return (uint64_t)hp->n_head * (uint64_t)hp->head_dim;
    case HEARTH_DIM_KV:
        return (uint64_t)hp->n_head_kv * (uint64_t)hp->head_dim;
    case HEARTH_DIM_VOCAB:
        return (uint64_t)hp->n_vocab;
    case HEARTH_DIM_ROT2:
        return (uint64_t)hp->n_rot / 2;
    }
    return 0;
}

static int check_shape(struct loader *l, const char *name, const struct hearth_gguf_tensor *t,
                       const struct hearth_binding *b)
{
    const struct hearth_hparams *hp = &l->model->hp;
    uint64_t k = dim_value(hp, b->k), n = dim_value(hp, b->n);
    if (t->ne[0] != k || t->ne[1] != n || t->ne[2] != 1 || t->ne[3] != 1)
        return hearth_fail(
            l->err, HEARTH_E_FORMAT,
            "%s: tensor %s is %llu x %llu where the hyper-parameters say %llu x %llu: the file is "
            "damaged or was converted wrongly",
            hearth_gguf_path(l->model->gguf), name, (unsigned long long)t->ne[0],
            (unsigned long long)t->ne[1], (unsigned long long)k, (unsigned long long)n);
    return HEARTH_OK;
}

static int check_type(struct loader *l, const char *name, const struct hearth_gguf_tensor *t, bool vector)
{
    const struct hearth_type_info *info = hearth_type_info(t->type);
    bool ok =
        vector ? info->decode != NULL : l->model->kernels.step[t->type] && l->model->kernels.prompt[t->type];
    if (ok)
        return HEARTH_OK;
    return hearth_fail(
        l->err, HEARTH_E_UNSUPPORTED,
        "%s: tensor %s has type %s, which is not supported; use a file in F16, BF16, Q8_0, Q4_0 or a "
        "K-quant",
        hearth_gguf_path(l->model->gguf), name, info->name);
}

static int add_item(struct loader *l, const struct hearth_gguf_tensor *t, bool vector, size_t *offset)
{
    if (l->n_items == l->cap_items) {
        size_t cap = l->cap_items ? 2 * l->cap_items : 256;
        struct item *grown = hearth_reallocarray(l->items, cap, sizeof *grown);
        if (!grown)
            return hearth_fail(l->err, HEARTH_E_MEMORY, "no memory for the tensor list");
        l->items = grown;
        l->cap_items = cap;
    }
    bool to_f32 = vector && t->type != HEARTH_TYPE_F32;
    size_t bytes = to_f32 ? hearth_type_bytes(HEARTH_TYPE_F32, t->ne[0]) : (size_t)t->bytes;
    if (l->bytes > SIZE_MAX / 2 || bytes > SIZE_MAX / 2)
        return hearth_fail(l->err, HEARTH_E_FORMAT, "%s: tensors add up to more than can be addressed",
                           hearth_gguf_path(l->model->gguf));
    // In step with the file's pages, so that direct reads need no copy. (A region starts on a page.)
    l->bytes += (size_t)(t->offset - l->bytes) % PAGE;
    *offset = l->bytes;
    l->items[l->n_items++] = (struct item){t, l->bytes, to_f32};
    l->bytes += bytes;
    return HEARTH_OK;
}

// Binds one tensor. Until the region exists, `data` holds the offset plus one (so that 0 stays "absent").
static int bind(struct loader *l, const char *name, const struct hearth_binding *b, struct hearth_weight *w)
{
    const struct hearth_gguf_tensor *t = hearth_gguf_tensor(l->model->gguf, name);
    if (!t) {
        if (b->optional)
            return HEARTH_OK;
        return hearth_fail(l->err, HEARTH_E_FORMAT, "%s: tensor %s is missing: the file is incomplete",
                           hearth_gguf_path(l->model->gguf), name);
    }
    bool vector = b->n == HEARTH_DIM_NONE;
    size_t offset = 0;
    int rc = check_shape(l, name, t, b);
    if (!rc)
        rc = check_type(l, name, t, vector);
    if (!rc)
        rc = add_item(l, t, vector, &offset);
    if (rc)
        return rc;
    w->type = vector ? HEARTH_TYPE_F32 : t->type;
    w->k = (size_t)t->ne[0];
    w->n = (size_t)t->ne[1];
    w->stride = hearth_type_bytes(w->type, w->k);
    w->data = (const void *)(offset + 1);
    l->n_params += t->ne[0] * t->ne[1];
    return HEARTH_OK;
}

static struct hearth_weight *field_of(void *base, size_t offset)
{
    return (struct hearth_weight *)(void *)((char *)base + offset);
}

static int bind_all(struct loader *l)
{
    struct hearth_model *m = l->model;
    for (const struct hearth_binding *b = m->arch->globals; b->name; b++) {
        int rc = bind(l, b->name, b, field_of(m, b->field));
        if (rc)
            return rc;
    }
    for (int i = 0; i < m->hp.n_layer; i++)
        for (const struct hearth_binding *b = m->arch->layer; b->name; b++) {
            char name[96];
            snprintf(name, sizeof name, "blk.%d.%s", i, b->name);
            int rc = bind(l, name, b, field_of(&m->layers[i], b->field));
            if (rc)
                return rc;
        }
    return HEARTH_OK;
}

static void resolve(struct hearth_weight *w, const uint8_t *base)
{
    if (w->data)
        w->data = base + ((size_t)w->data - 1);
}

static void resolve_all(struct hearth_model *m)
{
    const uint8_t *base = m->weights.base;
    for (const struct hearth_binding *b = m->arch->globals; b->name; b++)
        resolve(field_of(m, b->field), base);
    for (int i = 0; i < m->hp.n_layer; i++)
        for (const struct hearth_binding *b = m->arch->layer; b->name; b++)
            resolve(field_of(&m->layers[i], b->field), base);
}

// A piece of a tensor for one task.
struct chunk {
    const struct item *item;
    uint64_t from;
    size_t bytes;
};

struct read_job {
    const struct hearth_model *model;
    const struct chunk *chunks;
    struct hearth_error *errors; // [workers]
};

static void read_chunk(void *arg, int task, int worker)
{
    struct read_job *job = arg;
    const struct chunk *c = &job->chunks[task];
    struct hearth_error *err = &job->errors[worker];
    if (err->code)
        return;
    const struct hearth_gguf *g = job->model->gguf;
    const struct hearth_gguf_tensor *t = c->item->tensor;
    uint8_t *dst = (uint8_t *)job->model->weights.base + c->item->offset;
    if (!c->item->to_f32) {
        hearth_file_read_direct(hearth_gguf_file(g, t->part), dst + c->from, c->bytes, t->offset + c->from,
                                err);
        return;
    }
    void *raw = malloc((size_t)t->bytes);
    if (!raw) {
        hearth_fail(err, HEARTH_E_MEMORY, "no memory for tensor %s", t->name.s);
        return;
    }
    if (!hearth_gguf_read(g, t, raw, 0, (size_t)t->bytes, err))
        hearth_type_info(t->type)->decode(raw, (float *)(void *)dst, (size_t)t->ne[0]);
    free(raw);
}

static size_t list_chunks(const struct loader *l, struct chunk *out)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n_items; i++) {
        const struct item *item = &l->items[i];
        uint64_t step = item->to_f32 ? item->tensor->bytes : CHUNK;
        for (uint64_t from = 0; from < item->tensor->bytes; from += step) {
            uint64_t left = item->tensor->bytes - from;
            if (out)
                out[n] = (struct chunk){item, from, (size_t)(left < step ? left : step)};
            n++;
        }
    }
    return n;
}

static int read_all(struct loader *l, const struct hearth_model_params *params)
{
    size_t n = list_chunks(l, NULL);
    struct chunk *chunks = hearth_calloc(n, sizeof *chunks);
    int n_threads = params->n_threads > 0 ? params->n_threads : hearth_cpu_count();
    struct hearth_error *errors = hearth_calloc((size_t)n_threads, sizeof *errors);
    struct hearth_pool *pool = NULL;
    int rc = chunks && errors ? HEARTH_OK : hearth_fail(l->err, HEARTH_E_MEMORY, "no memory for loading");
    if (!rc)
        rc = hearth_pool_open(&pool, n_threads, l->err);
    if (!rc)
        list_chunks(l, chunks);

    // Rounds, so that progress is reported and an error stops the reading soon.
    const size_t round = 8 * (size_t)n_threads;
    for (size_t from = 0; !rc && from < n; from += round) {
        struct read_job job = {l->model, chunks + from, errors};
        hearth_pool_run(pool, read_chunk, &job, (int)(n - from < round ? n - from : round));
        for (int i = 0; i < n_threads && !rc; i++)
            if (errors[i].code)
                rc = hearth_fail(l->err, errors[i].code, "%s", errors[i].message);
        size_t done = from + round < n ? from + round : n;
        if (!rc && params->progress && !params->progress(params->progress_arg, (float)done / (float)n))
            rc = hearth_fail(l->err, HEARTH_E_INTERRUPTED, "loading was interrupted");
    }
    hearth_pool_close(&pool);
    free(errors);
    free(chunks);
    return rc;
}

int hearth_model_load(struct hearth_model *m, const struct hearth_model_params *params,
                      struct hearth_error *err)
{
    struct loader l = {.model = m, .err = err};
    int rc = bind_all(&l);
    if (!rc)
        rc = hearth_region_open(&m->weights, l.bytes, "the model's weights", err);
    if (!rc) {
        resolve_all(m);
        rc = read_all(&l, params);
    }
    if (!rc && !m->output.data)
        m->output = m->token_embd;
    m->info.n_params = l.n_params;
    free(l.items);
    return rc;
}
