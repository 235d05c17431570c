// SPDX-License-Identifier: MIT
// Prompts of a model whose neurons are not all in memory: a space is gone through in pieces, the resident
// prefix first, each read while the one before is computed. What the neuron cache holds is copied from there;
// only small gaps are read over.
#include "engine/neurons.h"

#include <string.h>

#include "base/threads.h"
#include "sparse/cache.h"

static uint64_t place_of(const struct hearth_neurons *n, uint32_t space, size_t neuron)
{
    return n->spaces[space].file_offset + neuron * n->spaces[space].bundle_bytes;
}

static uint8_t *buffer_of(const struct hearth_neurons *n, int buffer)
{
    return (uint8_t *)n->pieces.base + (size_t)buffer * n->piece_bytes;
}

// What the first byte of the piece's buffer stands for in the file.
static uint64_t origin_of(const struct hearth_neurons *n, const struct hearth_neuron_reading *r)
{
    return place_of(n, r->space, r->at) & ~((uint64_t)hearth_reader_align(n->reader) - 1);
}

static bool is_cached(const struct hearth_neurons *n, uint32_t space, size_t neuron)
{
    return hearth_cache_state(n->cache, space, (uint32_t)neuron) == HEARTH_CACHE_PRESENT;
}

// Lists the stretches of the piece that are not in memory. Returns how many.
static size_t list_extents(const struct hearth_neurons *n, const struct hearth_neuron_reading *r, int buffer)
{
    const uint64_t align = hearth_reader_align(n->reader), origin = origin_of(n, r);
    struct hearth_extent *extents = n->extents[buffer];
    size_t count = 0;
    for (size_t j = r->at; j < r->at + r->n; j++) {
        if (is_cached(n, r->space, j))
            continue;
        const uint64_t begin = place_of(n, r->space, j) & ~(align - 1), end = place_of(n, r->space, j + 1);
        struct hearth_extent *last = count ? &extents[count - 1] : NULL;
        if (!last || begin > last->offset + last->length + HEARTH_READER_GAP) {
            last = &extents[count++];
            *last = (struct hearth_extent){.offset = begin, .dst = buffer_of(n, buffer) + (begin - origin)};
        }
        hearth_extent_reach(last, end, align);
    }
    return count;
}

static void start(struct hearth_neurons *n, struct hearth_neuron_reading reading)
{
    const int buffer = !n->piece_buffer;
    struct hearth_reader_job *job = &n->jobs[buffer];
    hearth_reader_wait(n->reader, job, NULL); // one that nobody wanted any more
    n->reading = reading;
    job->extents = n->extents[buffer];
    job->n = list_extents(n, &reading, buffer);
    hearth_reader_start(n->reader, job);
}

// The piece of a space that begins at neuron `at`, behind the resident prefix.
static struct hearth_neuron_reading piece_at(const struct hearth_neurons *n, uint32_t space, size_t at)
{
    const size_t left = n->n_neurons - at;
    return (struct hearth_neuron_reading){
        .space = space, .at = at, .n = left < n->piece_neurons ? left : n->piece_neurons};
}

// Starts on what comes after this piece: in the same space, or else in the next.
static void start_next(struct hearth_neurons *n, const struct hearth_neuron_reading *r)
{
    uint32_t space = r->space;
    size_t at = r->at + r->n;
    while (at >= n->n_neurons && ++space < n->n_spaces)
        at = n->resident[space];
    n->reading.n = 0;
    if (space < n->n_spaces)
        start(n, piece_at(n, space, at));
}

struct copy_job {
    const struct hearth_neurons *n;
    const struct hearth_neuron_reading *r;
    const struct hearth_reader_job *read;
    uint8_t *to; // of the piece's origin
    size_t each;
};

// Copies the bundles of the piece that were not read.
static void copy_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct copy_job *j = arg;
    const struct hearth_neurons *n = j->n;
    const uint64_t origin = origin_of(n, j->r);
    const size_t first = j->r->at + (size_t)task * j->each, stride = n->spaces[j->r->space].bundle_bytes;
    const size_t end = first + j->each < j->r->at + j->r->n ? first + j->each : j->r->at + j->r->n;
    size_t k = 0;
    for (size_t i = first; i < end; i++) {
        const uint64_t place = place_of(n, j->r->space, i);
        const struct hearth_extent *e = j->read->extents;
        while (k < j->read->n && e[k].offset + e[k].need <= place)
            k++;
        if (k == j->read->n || place < e[k].offset)
            memcpy(j->to + (place - origin), hearth_cache_bundle(n->cache, j->r->space, (uint32_t)i), stride);
    }
}

static void copy_cached(struct hearth_neurons *n, const struct hearth_neuron_reading *r, int buffer)
{
    struct copy_job j = {.n = n, .r = r, .read = &n->jobs[buffer], .to = buffer_of(n, buffer), .each = 64};
    hearth_parallel(n->c, copy_task, &j, (int)((r->n + j.each - 1) / j.each));
}

static void rows_of(const struct hearth_neurons *n, const struct hearth_neuron_reading *r,
                    const uint8_t *bundles, struct hearth_neuron_piece *piece)
{
    const struct hearth_space *space = &n->prefixes[r->space];
    const struct hearth_bundle *b = &n->bundles[r->space / n->experts];
    struct hearth_weight *const parts[HEARTH_PARTS] = {&piece->gate, &piece->up, &piece->down_t};
    *piece = (struct hearth_neuron_piece){space->gate, space->up, space->down_t, r->at, r->n};
    for (int part = 0; part < HEARTH_PARTS; part++) {
        parts[part]->n = r->n;
        if (!bundles || !b->bytes[part])
            continue;
        parts[part]->data = bundles + b->at[part];
        parts[part]->stride = b->stride;
    }
}

bool hearth_neurons_next(struct hearth_neurons *n, uint32_t space, size_t at,
                         struct hearth_neuron_piece *piece)
{
    hearth_neurons_settle(n);
    if (at >= n->n_neurons || hearth_fault_look(n->c->fault))
        return false;
    const size_t resident = n->resident[space];
    const struct hearth_neuron_reading prefix = {.space = space, .n = resident};
    const struct hearth_neuron_reading want = at < resident ? prefix : piece_at(n, space, at);
    if (at < resident) {
        if (n->reading.space != space || n->reading.at != resident || !n->reading.n)
            start_next(n, &prefix);
        rows_of(n, &prefix, NULL, piece);
        return true;
    }
    const bool ahead = n->reading.n && n->reading.space == space && n->reading.at == at;
    if (!ahead)
        start(n, want);
    const int buffer = !n->piece_buffer;
    struct hearth_error err = {0};
    int rc = hearth_reader_wait(n->reader, &n->jobs[buffer], &err);
    if (rc && ahead) { // what was read ahead in vain is tried again now
        start(n, want);
        rc = hearth_reader_wait(n->reader, &n->jobs[buffer], &err);
    }
    if (rc) {
        hearth_fault_raise(n->c->fault, &err);
        n->reading.n = 0;
        return false;
    }
    n->piece_buffer = buffer;
    copy_cached(n, &want, buffer);
    start_next(n, &want);
    rows_of(n, &want, buffer_of(n, buffer) + (place_of(n, space, at) - origin_of(n, &want)), piece);
    return true;
}
