// SPDX-License-Identifier: MIT
// Runs: see runs.h.
#include "engine/runs.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

// ---- hot path

void hearth_run_point(const struct hearth_runs *r, int i, struct hearth_weights *weights, uint8_t *base)
{
    const struct hearth_run *run = &r->runs[i];
    if (i >= r->n_layer) {
        weights->output.data = base + run->at[0];
        weights->output.n = run->n_rows;
        return;
    }
    struct hearth_weight *of_layer = hearth_layer_weights(&weights->layers[i]);
    for (size_t k = 0; k < HEARTH_LAYER_WEIGHTS; k++)
        if (run->at[k] != SIZE_MAX)
            of_layer[k].data = base + run->at[k];
}

// The run that streams next after i, going round; i itself when it is the only one.
static int next_streamed(const struct hearth_runs *r, int i)
{
    for (int k = 1; k < r->n; k++)
        if (!r->runs[(i + k) % r->n].resident)
            return (i + k) % r->n;
    return i;
}

static void start(struct hearth_runs *r, int buffer, int i)
{
    const struct hearth_run *run = &r->runs[i];
    struct hearth_extent *extents = r->job_extents[buffer];
    for (size_t k = 0; k < run->n_extents; k++) {
        extents[k] = run->extents[k];
        extents[k].dst = r->buffers[buffer] + run->extent_at[k];
    }
    r->jobs[buffer].extents = extents;
    r->jobs[buffer].n = run->n_extents;
    r->held[buffer] = i;
    hearth_reader_start(r->reader, &r->jobs[buffer]);
}

// Reads run i into the buffer, whatever is on its way there.
static void fetch(struct hearth_runs *r, int buffer, int i)
{
    if (r->held[buffer] >= 0)
        hearth_reader_wait(r->reader, &r->jobs[buffer], NULL);
    start(r, buffer, i);
}

int hearth_runs_begin(struct hearth_runs *r, int i, struct hearth_weights *weights, struct hearth_error *err)
{
    if (r->runs[i].resident) {
        if (i >= r->n_layer)
            hearth_run_point(r, i, weights, r->runs[i].base);
        return HEARTH_OK;
    }
    int buffer = r->held[0] == i ? 0 : r->held[1] == i ? 1 : -1;
    const bool ahead = buffer >= 0;
    if (!ahead) {
        buffer = r->busy[0] ? 1 : 0;
        fetch(r, buffer, i);
    }
    r->busy[buffer] = true;
    const int next = next_streamed(r, i);
    if (!r->busy[!buffer] && next != i && r->held[!buffer] != next)
        fetch(r, !buffer, next);
    int rc = hearth_reader_wait(r->reader, &r->jobs[buffer], err);
    if (rc && ahead) { // what was read ahead in vain is tried again now
        start(r, buffer, i);
        rc = hearth_reader_wait(r->reader, &r->jobs[buffer], err);
    }
    if (rc) { // what it holds is worth nothing
        r->held[buffer] = -1;
        r->busy[buffer] = false;
        return rc;
    }
    hearth_run_point(r, i, weights, r->buffers[buffer]);
    return HEARTH_OK;
}

void hearth_runs_end(struct hearth_runs *r, int i)
{
    for (int buffer = 0; buffer < 2; buffer++)
        if (r->held[buffer] == i)
            r->busy[buffer] = false;
}

// ---- opening

// A part of the file that a run needs, and the image place its first byte stands for.
struct part {
    const struct hearth_item *item;
    uint64_t offset, bytes;
};

static int by_place(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    const uint32_t fx = x->item->tensor->part, fy = y->item->tensor->part;
    if (fx != fy)
        return fx < fy ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// The items of the run, in the order of the file. Vectors are always in memory, elsewhere.
static size_t list_parts(const struct hearth_model *m, int layer, bool whole, struct part *out)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_items; i++) {
        const struct hearth_item *item = &m->items[i];
        if (item->layer == layer && !item->vector && (whole || !(item->bundle || item->of_experts)))
            out[n++] = (struct part){item, item->tensor->offset, item->tensor->bytes};
    }
    qsort(out, n, sizeof *out, by_place);
    return n;
}

// Where the bytes of an item are in the run's memory.
static size_t place_of(const struct hearth_run *run, const struct hearth_item *item)
{
    for (size_t i = 0; i < run->n_extents; i++) {
        const struct hearth_extent *e = &run->extents[i];
        const uint64_t at = item->tensor->offset;
        if (e->file == item->tensor->part && at >= e->offset && at < e->offset + e->length)
            return run->extent_at[i] + (size_t)(at - e->offset);
    }
    return 0;
}

static int lay_out_extents(struct hearth_run *run, const struct part *parts, size_t n, uint32_t align,
                           struct hearth_error *err)
{
    run->extents = hearth_calloc(n, sizeof *run->extents);
    run->extent_at = hearth_calloc(n, sizeof *run->extent_at);
    if (!run->extents || !run->extent_at)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the list of runs");
    const uint64_t page = align > HEARTH_IMAGE_PAGE ? align : HEARTH_IMAGE_PAGE;
    for (size_t i = 0; i < n; i++) {
        struct hearth_extent *last = run->n_extents ? &run->extents[run->n_extents - 1] : NULL;
        const uint64_t end = parts[i].offset + parts[i].bytes;
        if (!last || last->file != parts[i].item->tensor->part ||
            parts[i].offset > last->offset + last->length + HEARTH_READER_GAP) {
            last = &run->extents[run->n_extents++];
            *last =
                hearth_extent_of(parts[i].item->tensor->part, parts[i].offset, parts[i].bytes, page, NULL);
        }
        if (end - last->offset > last->need)
            hearth_extent_reach(last, end, page);
    }
    for (size_t i = 0; i < run->n_extents; i++) {
        run->extent_at[i] = run->bytes;
        run->bytes += run->extents[i].length;
    }
    return HEARTH_OK;
}

// Where the weight, which is a part of an item, begins in the run's memory; SIZE_MAX: it is of none.
static size_t find_weight(const struct hearth_run *run, const struct hearth_model *m,
                          const struct part *parts, size_t n, const struct hearth_weight *w)
{
    const struct hearth_item *item = hearth_item_of(m, w);
    size_t i = 0;
    while (i < n && parts[i].item != item)
        i++;
    if (!hearth_has(w) || i == n)
        return SIZE_MAX;
    if (!item->bundle)
        return place_of(run, item) + w->at;
    int part = 0;
    while (part < HEARTH_PARTS && (!item->bundle->bytes[part] || item->parts[part] != w->at))
        part++;
    return place_of(run, item) + item->bundle->at[part];
}

static int lay_out_layer(struct hearth_runs *r, const struct hearth_model *m, int i, bool whole,
                         uint32_t align, struct part *parts, struct hearth_error *err)
{
    struct hearth_run *run = &r->runs[i];
    const size_t n = list_parts(m, i, whole, parts);
    int rc = lay_out_extents(run, parts, n, align, err);
    if (rc)
        return rc;
    const struct hearth_weight *of_layer = hearth_layer_weights(&m->weights.layers[i]);
    for (size_t k = 0; k < HEARTH_LAYER_WEIGHTS; k++)
        run->at[k] = find_weight(run, m, parts, n, &of_layer[k]);
    r->max_extents = run->n_extents > r->max_extents ? run->n_extents : r->max_extents;
    return HEARTH_OK;
}

static int lay_out_head(struct hearth_run *run, const struct hearth_model *m, size_t first, size_t n_rows,
                        uint32_t align, struct hearth_error *err)
{
    const struct hearth_weight *w = &m->weights.output;
    const struct hearth_item *item = hearth_item_of(m, w);
    const struct part part = {item, item->tensor->offset + first * w->stride, n_rows * w->stride};
    run->first_row = first;
    run->n_rows = n_rows;
    int rc = lay_out_extents(run, &part, 1, align, err);
    if (!rc)
        run->at[0] = (size_t)(part.offset - run->extents[0].offset);
    return rc;
}

// Numbers 0..n-1 by their mirrored bits: any first few of them lie evenly in the whole.
static void spread(int *order, int n)
{
    int bits = 0, count = 0;
    while (1 << bits < n)
        bits++;
    for (int i = 0; i < 1 << bits; i++) {
        int mirrored = 0;
        for (int b = 0; b < bits; b++)
            mirrored |= (i >> b & 1) << (bits - 1 - b);
        if (mirrored < n)
            order[count++] = mirrored;
    }
}

// Rows of the head in a run, so that it fits where a layer does.
static size_t rows_of_part(const struct hearth_runs *r, const struct hearth_model *m, uint32_t align)
{
    const struct hearth_weight *w = &m->weights.output;
    const size_t edges = 2 * (align > HEARTH_IMAGE_PAGE ? align : HEARTH_IMAGE_PAGE);
    size_t room = 0;
    for (int i = 0; i < r->n_layer; i++)
        room = r->runs[i].bytes > room ? r->runs[i].bytes : room;
    const size_t rows = room > edges ? (room - edges) / w->stride : 0;
    return rows < 1 ? 1 : rows < w->n ? rows : w->n;
}

static int open_head(struct hearth_runs *r, const struct hearth_model *m, uint32_t align,
                     struct hearth_error *err)
{
    const size_t rows = rows_of_part(r, m, align), n = m->weights.output.n, parts = (n + rows - 1) / rows;
    struct hearth_run *more = hearth_reallocarray(r->runs, (size_t)r->n_layer + parts, sizeof *more);
    if (!more)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the list of runs");
    r->runs = more;
    memset(r->runs + r->n_layer, 0, parts * sizeof *more);
    int rc = HEARTH_OK;
    for (size_t first = 0; first < n && !rc; first += rows) {
        struct hearth_run *run = &r->runs[r->n++];
        rc = lay_out_head(run, m, first, n - first < rows ? n - first : rows, align, err);
    }
    return rc;
}

int hearth_runs_open(struct hearth_runs *r, const struct hearth_model *m, bool whole, uint32_t align,
                     struct hearth_error *err)
{
    *r = (struct hearth_runs){.n = m->hp.n_layer, .n_layer = m->hp.n_layer, .held = {-1, -1}};
    r->max_extents = 1;
    r->runs = hearth_calloc((size_t)r->n, sizeof *r->runs);
    r->order = hearth_calloc((size_t)r->n, sizeof *r->order);
    struct part *parts = hearth_calloc(m->n_items, sizeof *parts);
    int rc = r->runs && r->order && parts
                 ? HEARTH_OK
                 : hearth_fail(err, HEARTH_E_MEMORY, "no memory for the list of runs");
    for (int i = 0; i < r->n_layer && !rc; i++)
        rc = lay_out_layer(r, m, i, whole, align, parts, err);
    free(parts);
    if (!rc)
        rc = open_head(r, m, align, err);
    for (int k = 0; k < 2 && !rc; k++) {
        r->job_extents[k] = hearth_calloc(r->max_extents, sizeof *r->job_extents[k]);
        if (!r->job_extents[k])
            rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory for the list of runs");
    }
    if (!rc)
        spread(r->order, r->n_layer);
    return rc;
}

void hearth_runs_close(struct hearth_runs *r)
{
    hearth_reader_close(&r->reader);
    for (int i = 0; i < r->n && r->runs; i++) {
        free(r->runs[i].extents);
        free(r->runs[i].extent_at);
    }
    for (int k = 0; k < 2; k++)
        free(r->job_extents[k]);
    free(r->runs);
    free(r->order);
    *r = (struct hearth_runs){0};
}
