// SPDX-License-Identifier: MIT
// Prompts of a model whose neurons are not all in memory: a space is gone through in chunks, the resident
// prefix first, each read while the one before is computed. What the neuron cache holds is copied from there;
// only small gaps are read over.
#include "weights/neuron_chunks.h"

#include <string.h>

// Consecutive neurons of a space.
struct chunk {
    uint32_t space;
    size_t at, n;
};

// The chunk that begins at a neuron, behind the resident prefix.
static struct chunk chunk_at(const struct hearth_neurons *n, uint32_t space, size_t at)
{
    const size_t left = n->spaces[space].n_neurons - at;
    return (struct chunk){space, at, left < n->chunk_neurons ? left : n->chunk_neurons};
}

static uint64_t key_of(const struct hearth_neurons *n, uint32_t space, size_t at)
{
    return (uint64_t)space * n->n_neurons + at;
}

static struct chunk chunk_of(const struct hearth_neurons *n, uint64_t key)
{
    return chunk_at(n, (uint32_t)(key / n->n_neurons), (size_t)(key % n->n_neurons));
}

static uint64_t place_of(const struct hearth_neurons *n, uint32_t space, size_t neuron)
{
    return n->spaces[space].file_offset + neuron * n->spaces[space].bundle_bytes;
}

static uint8_t *buffer_of(const struct hearth_neurons *n, int buffer)
{
    return (uint8_t *)n->buffers.base + (size_t)buffer * n->buffer_bytes;
}

// What the first byte of the chunk's buffer stands for in the file.
static uint64_t origin_of(const struct hearth_neurons *n, const struct chunk *c)
{
    return place_of(n, c->space, c->at) & ~((uint64_t)hearth_reader_align(n->setup.reader) - 1);
}

static bool is_cached(const struct hearth_neurons *n, uint32_t space, size_t neuron)
{
    return hearth_cache_state(n->cache, space, (uint32_t)neuron) == HEARTH_CACHE_PRESENT;
}

// The parts of the chunk that are not in memory. Returns how many.
static size_t list_missing(const struct hearth_neurons *n, const struct chunk *c, int buffer)
{
    const uint64_t align = hearth_reader_align(n->setup.reader), origin = origin_of(n, c);
    struct hearth_extent *extents = n->extents[buffer];
    size_t count = 0;
    for (size_t j = c->at; j < c->at + c->n; j++) {
        if (is_cached(n, c->space, j))
            continue;
        const uint64_t begin = place_of(n, c->space, j) & ~(align - 1), end = place_of(n, c->space, j + 1);
        struct hearth_extent *last = count ? &extents[count - 1] : NULL;
        if (!last || begin > last->offset + last->length + HEARTH_READER_GAP) {
            last = &extents[count++];
            *last = (struct hearth_extent){.offset = begin, .dst = buffer_of(n, buffer) + (begin - origin)};
        }
        hearth_extent_reach(last, end, align);
    }
    return count;
}

static void list_extents(void *arg, uint64_t key, int buffer, struct hearth_reader_job *job)
{
    struct hearth_neurons *n = arg;
    job->extents = n->extents[buffer];
    if (n->warm) {
        const struct hearth_cache_range *r = &n->warm[key];
        n->extents[buffer][0] = hearth_extent_of(0, r->offset, r->length,
                                                 hearth_reader_align(n->setup.reader), buffer_of(n, buffer));
        job->n = 1;
        return;
    }
    const struct chunk c = chunk_of(n, key);
    job->n = list_missing(n, &c, buffer);
}

// What comes after neuron `at`: in the same space, or else in the next, unless that is a device's.
static uint64_t key_behind(const struct hearth_neurons *n, uint32_t space, size_t at)
{
    while (at >= n->spaces[space].n_neurons) {
        if (++space == n->n_spaces || n->spaces[space].elsewhere)
            return HEARTH_AHEAD_NONE;
        at = n->resident[space];
    }
    return key_of(n, space, at);
}

struct copy_job {
    const struct hearth_neurons *n;
    const struct chunk *c;
    const struct hearth_reader_job *read;
    uint8_t *to; // of the chunk's origin
    size_t each;
};

// Copies the bundles of the chunk that were not read.
static void copy_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct copy_job *j = arg;
    const struct hearth_neurons *n = j->n;
    const struct chunk *c = j->c;
    const uint64_t origin = origin_of(n, c);
    const size_t first = c->at + (size_t)task * j->each, stride = n->spaces[c->space].bundle_bytes;
    const size_t end = first + j->each < c->at + c->n ? first + j->each : c->at + c->n;
    size_t k = 0;
    for (size_t i = first; i < end; i++) {
        const uint64_t place = place_of(n, c->space, i);
        const struct hearth_extent *e = j->read->extents;
        while (k < j->read->n && e[k].offset + e[k].need <= place)
            k++;
        if (k == j->read->n || place < e[k].offset)
            memcpy(j->to + (place - origin), hearth_cache_bundle(n->cache, c->space, (uint32_t)i), stride);
    }
}

static void copy_cached(struct hearth_neurons *n, const struct chunk *c, int buffer)
{
    struct copy_job j = {
        .n = n, .c = c, .read = &n->chunks.jobs[buffer], .to = buffer_of(n, buffer), .each = 64};
    const int tasks = (int)((c->n + j.each - 1) / j.each);
    if (tasks == 1)
        copy_task(&j, 0, 0);
    else
        hearth_pool_run(n->setup.now->pool, copy_task, &j, tasks);
}

// Points the want to neurons of its space: to bundles, or (NULL) to the prefix.
static void point(const struct hearth_neurons *n, struct hearth_want *want, const struct chunk *c,
                  const uint8_t *bundles)
{
    const struct hearth_space *space = &n->prefixes[c->space];
    const struct hearth_bundle *b = &n->bundles[c->space / n->experts];
    struct hearth_weight *const parts[HEARTH_PARTS] = {&want->gate, &want->up, &want->down};
    want->gate = space->gate;
    want->up = space->up;
    want->down = space->down_t;
    if (n->setup.model->pack->gates_apart) {
        want->gate = n->setup.weights->layers[c->space].ffn_gate;
        want->gate.data = hearth_space_row(&want->gate, c->at);
        want->gate.n = c->n;
    }
    want->from = (uint32_t)c->at;
    want->count = (uint32_t)c->n;
    for (int part = 0; part < HEARTH_PARTS; part++) {
        if (!b->bytes[part])
            continue;
        parts[part]->n = c->n;
        if (!bundles)
            continue;
        parts[part]->data = bundles + b->at[part];
        parts[part]->stride = b->stride;
    }
}

void hearth_neuron_chunks_request(struct hearth_neurons *n, const struct hearth_request *r)
{
    if (n->keep_space != r->wants[0].space) // of an evaluation that failed
        n->n_keep = 0;
    n->request = *r;
    n->want = 0;
    n->next = 0;
}

// Whether the cache still has what was left out when the chunk was listed: steps may have come between.
static bool is_complete(const struct hearth_neurons *n, const struct chunk *c,
                        const struct hearth_reader_job *job)
{
    const struct hearth_extent *e = job->extents;
    size_t k = 0;
    for (size_t i = c->at; i < c->at + c->n; i++) {
        const uint64_t place = place_of(n, c->space, i);
        while (k < job->n && e[k].offset + e[k].need <= place)
            k++;
        if ((k == job->n || place < e[k].offset) && !is_cached(n, c->space, i))
            return false;
    }
    return true;
}

// Puts those of the chunk's neurons that a step will want to the cache's reserve, as far as it goes: so they
// are read once for both classes.
static void keep_hinted(struct hearth_neurons *n, const struct chunk *c, const uint8_t *bundles)
{
    const size_t stride = n->spaces[c->space].bundle_bytes;
    if (c->space != n->keep_space) // another expert
        return;
    for (; n->keep_at < n->n_keep && n->keep[n->keep_at] < c->at + c->n; n->keep_at++) {
        const uint32_t id = n->keep[n->keep_at];
        struct hearth_cache_read read;
        if (id < c->at ||
            !hearth_cache_prefetch(n->cache, c->space, &id, 1, HEARTH_NEURON_KEEP_FREE(n), &read, 1))
            continue;
        memcpy(hearth_cache_bundle(n->cache, c->space, id), bundles + (id - c->at) * stride, stride);
        hearth_cache_done(n->cache, &read, true);
    }
}

// The chunk that begins at n->next. False: the evaluation has failed.
static bool get_chunk(struct hearth_neurons *n, struct hearth_want *want)
{
    const size_t resident = n->resident[want->space];
    if (n->in_use != HEARTH_AHEAD_NONE)
        hearth_ahead_release(&n->chunks, n->in_use);
    n->in_use = HEARTH_AHEAD_NONE;
    if (n->next < resident) {
        const struct chunk prefix = {want->space, 0, resident};
        hearth_ahead_start(&n->chunks, key_behind(n, want->space, resident));
        point(n, want, &prefix, NULL);
        return true;
    }
    const struct chunk c = chunk_at(n, want->space, n->next);
    const uint64_t key = key_of(n, c.space, c.at);
    const struct hearth_reader_job *job = hearth_ahead_job(&n->chunks, key);
    struct hearth_error err = {0};
    int buffer;
    if (job && !is_complete(n, &c, job))
        hearth_ahead_drop(&n->chunks, key);
    if (hearth_ahead_get(&n->chunks, key, key_behind(n, c.space, c.at + c.n), &buffer, &err)) {
        hearth_fault_stop(n->setup.now->fault, &err);
        return false;
    }
    n->in_use = key;
    const uint8_t *bundles = buffer_of(n, buffer) + (place_of(n, c.space, c.at) - origin_of(n, &c));
    copy_cached(n, &c, buffer);
    keep_hinted(n, &c, bundles);
    point(n, want, &c, bundles);
    return true;
}

struct hearth_want *hearth_neuron_chunks_next(struct hearth_neurons *n, uint32_t *count)
{
    *count = 0;
    if (n->want < n->request.n && n->next >= n->spaces[n->request.wants[n->want].space].n_neurons) {
        n->want++;
        n->next = 0;
    }
    if (n->want >= n->request.n || hearth_fault_look(n->setup.now->fault))
        return NULL;
    struct hearth_want *want = &n->request.wants[n->want];
    if (!get_chunk(n, want))
        return NULL;
    n->next = want->from + want->count;
    *count = 1;
    return want;
}

void hearth_neuron_chunks_end(struct hearth_neurons *n)
{
    if (n->in_use != HEARTH_AHEAD_NONE)
        hearth_ahead_release(&n->chunks, n->in_use);
    n->in_use = HEARTH_AHEAD_NONE;
    n->n_keep = n->keep_at = 0;
}

void hearth_neuron_chunks_finish(struct hearth_neurons *n)
{
    hearth_neuron_chunks_end(n);
    hearth_ahead_finish(&n->chunks);
}

void hearth_neuron_chunks_hint(struct hearth_neurons *n, uint32_t space, const uint32_t *ids, uint32_t count)
{
    n->keep_space = space;
    n->keep = ids;
    n->n_keep = count;
    n->keep_at = 0;
}

// ---- opening

static bool is_to_stop(void *arg)
{
    const struct hearth_neurons *n = arg;
    return hearth_source_is_to_stop(&n->setup, n->loaded);
}

void hearth_neuron_chunks_begin(struct hearth_neurons *n)
{
    hearth_ahead_begin(&n->chunks, n->setup.reader, list_extents, is_to_stop, n);
    n->in_use = HEARTH_AHEAD_NONE;
}

int hearth_neuron_chunks_read(struct hearth_neurons *n, const struct hearth_cache_range *ranges,
                              size_t n_ranges,
                              void (*keep)(struct hearth_neurons *n, const struct hearth_cache_range *range,
                                           const uint8_t *bundles),
                              struct hearth_error *err)
{
    const struct hearth_load_options *load = &n->setup.model->load;
    int rc = HEARTH_OK, buffer;
    n->warm = ranges;
    for (size_t i = 0; i < n_ranges && !rc; i++) {
        rc = hearth_ahead_get(&n->chunks, i, i + 1 < n_ranges ? i + 1 : HEARTH_AHEAD_NONE, &buffer, err);
        if (!rc) {
            const struct hearth_extent *e = &n->extents[buffer][0];
            keep(n, &ranges[i], (const uint8_t *)e->dst + (ranges[i].offset - e->offset));
        }
        hearth_ahead_release(&n->chunks, i);
        n->loaded = (float)(i + 1) / (float)n_ranges;
        if (!rc && load->progress && !load->progress(load->progress_arg, n->loaded))
            rc = hearth_fail(err, HEARTH_E_INTERRUPTED, "loading was interrupted");
    }
    if (rc != HEARTH_E_INTERRUPTED) // else all is closed, which ends reads sooner
        hearth_ahead_finish(&n->chunks);
    n->warm = NULL;
    return rc;
}
