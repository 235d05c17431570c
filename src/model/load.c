// SPDX-License-Identifier: MIT
// Loading: one parallel pass reads the bytes of bound tensors straight to their destinations.
#include "model/load.h"

#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/threads.h"

// Bytes read by one task. Large enough for the disk to stream, small enough to keep all threads busy to the
// end.
#define SPAN ((uint64_t)8 << 20)
// Loading is to stop soon when it is to: between two looks at that it reads for about so long.
#define ROUND_NS ((uint64_t)100 * 1000 * 1000)

// The bytes of a tensor that one task reads.
struct span {
    const struct hearth_target *target;
    uint64_t from;
    size_t bytes;
};

struct read_job {
    const struct hearth_model *model;
    const struct span *spans;
    uint8_t *buffers; // one for each worker, for what does not go straight to its destination
    size_t buffer_bytes;
    struct hearth_error *errors; // [workers]
};

void hearth_bundles_unpack(const struct hearth_bundle *b, const uint8_t *bundles, size_t n,
                           uint8_t *const to[HEARTH_PARTS])
{
    for (int part = 0; part < HEARTH_PARTS; part++)
        for (size_t i = 0; i < n && b->bytes[part]; i++)
            memcpy(to[part] + i * b->bytes[part], bundles + i * b->stride + b->at[part], b->bytes[part]);
}

// Bytes of a worker's buffer for a span of so many bytes. Addresses in it equal the file's modulo a page.
static size_t buffer_bytes(size_t span)
{
    return hearth_round_up(span, HEARTH_IMAGE_PAGE) + HEARTH_IMAGE_PAGE;
}

static void read_bundles(const struct hearth_model *m, const struct span *c, uint8_t *buffer,
                         struct hearth_error *err)
{
    const struct hearth_item *item = c->target->item;
    const struct hearth_bundle *b = item->bundle;
    const uint64_t first = c->from / b->stride, offset = item->tensor->offset + c->from;
    uint8_t *to[HEARTH_PARTS], *bundles = buffer + offset % HEARTH_IMAGE_PAGE;
    for (int part = 0; part < HEARTH_PARTS; part++)
        to[part] = c->target->image + item->parts[part] + first * b->bytes[part];
    if (!hearth_file_read_direct(hearth_gguf_file(m->gguf, item->tensor->shard), bundles, c->bytes, offset,
                                 err))
        hearth_bundles_unpack(b, bundles, c->bytes / b->stride, to);
}

static void read_span(void *arg, int task, int worker)
{
    struct read_job *job = arg;
    const struct span *c = &job->spans[task];
    struct hearth_error *err = &job->errors[worker];
    if (err->code)
        return;
    const struct hearth_gguf *g = job->model->gguf;
    const struct hearth_item *item = c->target->item;
    const struct hearth_gguf_tensor *t = item->tensor;
    uint8_t *buffer = job->buffers + (size_t)worker * job->buffer_bytes;
    if (item->bundle)
        read_bundles(job->model, c, buffer, err);
    else if (!item->to_f32)
        hearth_file_read_direct(hearth_gguf_file(g, t->shard), c->target->to + c->from, c->bytes,
                                t->offset + c->from, err);
    else if (!hearth_gguf_read(g, t, buffer, 0, (size_t)t->bytes, err))
        hearth_type_info(t->type)->decode(buffer, (float *)(void *)c->target->to,
                                          (size_t)(t->ne[0] * t->ne[1] * t->ne[2]));
}

// Bytes of an item that one task reads.
static uint64_t span_bytes(const struct hearth_item *item)
{
    if (item->to_f32)
        return item->tensor->bytes;
    if (!item->bundle)
        return SPAN;
    // Whole bundles, and whole pages.
    const uint64_t step = (uint64_t)item->bundle->stride * (HEARTH_IMAGE_PAGE / HEARTH_BUNDLE_ALIGN);
    return step < SPAN ? SPAN / step * step : step;
}

int hearth_load_threads(const struct hearth_model *m)
{
    return hearth_pool_threads(m->load.n_threads);
}

// Of the buffer that a worker needs for an item.
static size_t item_buffer_bytes(const struct hearth_item *item)
{
    const uint64_t step = span_bytes(item), all = item->tensor->bytes;
    return item->to_f32 || item->bundle ? buffer_bytes((size_t)(all < step ? all : step)) : 0;
}

uint64_t hearth_image_load_bytes(const struct hearth_model *m)
{
    const uint64_t n_threads = (uint64_t)hearth_load_threads(m);
    uint64_t most = 0;
    for (size_t i = 0; i < m->n_items; i++) {
        const uint64_t bytes = item_buffer_bytes(&m->items[i]);
        most = bytes > most ? bytes : most;
    }
    // And a block for each thread for the ends of what it reads.
    return hearth_region_bytes(n_threads * most) + n_threads * HEARTH_IMAGE_PAGE;
}

// The workers' buffers for these targets.
static int open_buffers(struct hearth_region *r, struct read_job *job, const struct hearth_target *targets,
                        size_t n_targets, int n_threads, struct hearth_error *err)
{
    for (size_t i = 0; i < n_targets; i++) {
        const size_t bytes = item_buffer_bytes(targets[i].item);
        job->buffer_bytes = bytes > job->buffer_bytes ? bytes : job->buffer_bytes;
    }
    if (!job->buffer_bytes)
        return HEARTH_OK;
    // Not of the heap, which may keep what is given back.
    const int rc = hearth_region_open(r, (size_t)n_threads * job->buffer_bytes, "loading", err);
    job->buffers = r->base;
    return rc;
}

static size_t list_spans(const struct hearth_target *targets, size_t n_targets, struct span *out)
{
    size_t n = 0;
    for (size_t i = 0; i < n_targets; i++) {
        const struct hearth_item *item = targets[i].item;
        const uint64_t step = span_bytes(item);
        for (uint64_t from = 0; from < item->tensor->bytes; from += step) {
            uint64_t left = item->tensor->bytes - from;
            if (out)
                out[n] = (struct span){&targets[i], from, (size_t)(left < step ? left : step)};
            n++;
        }
    }
    return n;
}

// Spans of the next round, where one of `round` spans took so long.
static size_t next_round(size_t round, uint64_t ns, int n_threads)
{
    if (ns < ROUND_NS / 2 && round < 8 * (size_t)n_threads)
        return 2 * round;
    return ns > ROUND_NS && round > 1 ? round / 2 : round;
}

int hearth_targets_read(const struct hearth_model *m, const struct hearth_target *targets, size_t n_targets,
                        struct hearth_error *err)
{
    const struct hearth_load_options *options = &m->load;
    size_t n = list_spans(targets, n_targets, NULL);
    struct span *spans = hearth_calloc(n, sizeof *spans);
    const int n_threads = hearth_load_threads(m);
    struct hearth_error *errors = hearth_calloc((size_t)n_threads, sizeof *errors);
    struct hearth_pool *pool = NULL;
    struct hearth_region buffers = {0};
    struct read_job job = {.model = m, .errors = errors};
    int rc = spans && errors ? HEARTH_OK : hearth_fail(err, HEARTH_E_MEMORY, "no memory for loading");
    if (!rc)
        rc = open_buffers(&buffers, &job, targets, n_targets, n_threads, err);
    if (!rc)
        rc = hearth_pool_open(&pool, n_threads, err);
    if (!rc)
        list_spans(targets, n_targets, spans);

    // In rounds, so that progress is reported and reading stops soon after an error.
    size_t round = 1, done = 0;
    while (!rc && done < n) {
        job.spans = spans + done;
        const size_t count = n - done < round ? n - done : round;
        const uint64_t start = hearth_now_ns();
        hearth_pool_run(pool, read_span, &job, (int)count);
        round = next_round(round, hearth_now_ns() - start, n_threads);
        for (int i = 0; i < n_threads && !rc; i++)
            if (errors[i].code)
                rc = hearth_fail(err, errors[i].code, "%s", errors[i].message);
        done += count;
        if (!rc && options->progress && !options->progress(options->progress_arg, (float)done / (float)n))
            rc = hearth_fail(err, HEARTH_E_INTERRUPTED, "loading was interrupted");
    }
    hearth_pool_close(&pool);
    hearth_region_close(&buffers);
    free(errors);
    free(spans);
    return rc;
}

const struct hearth_item *hearth_item_of(const struct hearth_model *m, const struct hearth_weight *w)
{
    return &m->items[w->item];
}

int hearth_expert_rows_read(const struct hearth_model *m, const struct hearth_weight *w, int expert,
                            size_t first, size_t n, void *rows, struct hearth_error *err)
{
    const struct hearth_item *item = hearth_item_of(m, w);
    const bool single = item->tensor->ne[2] == 1 && m->hp.n_expert > 1; // a tensor for each
    const uint64_t of_expert = single ? 0 : w->at + (uint64_t)expert * hearth_expert_stride(w);
    return hearth_gguf_read(m->gguf, item[single ? expert : 0].tensor, rows, of_expert + first * w->stride,
                            n * w->stride, err);
}

static void place(const struct hearth_model *m, struct hearth_weight *w, size_t n, const uint8_t *image)
{
    for (size_t i = 0; i < n; i++)
        if (hearth_has(&w[i]))
            w[i].data = image + m->items[w[i].item].offset + w[i].at;
}

static void place_all(const struct hearth_model *m, struct hearth_weights *w, const uint8_t *image)
{
    place(m, hearth_global_weights(w), HEARTH_GLOBAL_WEIGHTS, image);
    for (int i = 0; i < m->hp.n_layer; i++)
        place(m, hearth_layer_weights(&w->layers[i]), HEARTH_LAYER_WEIGHTS, image);
}

int hearth_image_load(const struct hearth_model *m, struct hearth_region *image,
                      struct hearth_weights *weights, struct hearth_error *err)
{
    struct hearth_target *targets = hearth_calloc(m->n_items, sizeof *targets);
    if (!targets)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the tensor list");
    int rc = hearth_region_open(image, m->image_bytes, "the model's weights", err);
    if (!rc) {
        uint8_t *base = image->base;
        for (size_t i = 0; i < m->n_items; i++)
            targets[i] = (struct hearth_target){&m->items[i], base + m->items[i].offset, base};
        place_all(m, weights, base);
        rc = hearth_targets_read(m, targets, m->n_items, err);
    }
    free(targets);
    return rc;
}
