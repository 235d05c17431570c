// SPDX-License-Identifier: MIT
// The neuron cache: steps (request, done, release) and changes between steps.
#include "sparse/cache.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sparse/cache_internal.h"

// ---- a step

#ifndef NDEBUG
// Used slots are those of the neurons that have one, and quotas of a size those of its spaces.
static bool adds_up(const struct hearth_cache *c)
{
    uint64_t cached = 0, used = 0, spaces = 0, classes = 0;
    for (uint32_t i = 0; i < c->n_spaces; i++) {
        assert(c->spaces[i].n_cached <= c->spaces[i].n_neurons);
        cached += c->spaces[i].n_cached;
        spaces += c->spaces[i].quota;
    }
    for (uint32_t i = 0; i < c->max_slabs; i++)
        used += c->slabs[i].n_used;
    for (uint32_t i = 0; i < c->n_classes; i++)
        classes += c->classes[i].quota;
    return cached == used && spaces == classes;
}
#endif

void hearth_cache_step(struct hearth_cache *c)
{
    assert(adds_up(c));
    c->step++;
}

static void visit(struct hearth_cache *c, struct hearth_cache_space *s)
{
    if (s->last_step != c->step)
        s->now++;
    s->last_step = c->step;
    if (s->now >= 2 * HEARTH_CACHE_AGE && c->policy->age)
        c->policy->age(c, s, HEARTH_CACHE_AGE);
}

static uint32_t state_of(const struct hearth_cache_space *s, uint32_t neuron)
{
    return s->mark[neuron] & HEARTH_CACHE_STATE_BITS;
}

// No slot is free. The space itself must give up some of its neurons for ids[0..n), but none of ids[0..n).
static bool make_room(struct hearth_cache *c, struct hearth_cache_space *s, const uint32_t *ids, uint32_t n)
{
    uint32_t before = s->n_cached, absent = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] < s->resident)
            continue;
        if (state_of(s, ids[i]) == HEARTH_CACHE_ABSENT)
            absent++;
        else
            s->mark[ids[i]] = (uint8_t)(s->mark[ids[i]] + HEARTH_CACHE_PIN);
    }
    c->policy->trim(c, s, absent);
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] >= s->resident && state_of(s, ids[i]) != HEARTH_CACHE_ABSENT)
            s->mark[ids[i]] = (uint8_t)(s->mark[ids[i]] - HEARTH_CACHE_PIN);
    return s->n_cached < before;
}

static struct hearth_cache_read read_of(const struct hearth_cache *c, struct hearth_cache_space *s,
                                        uint32_t neuron)
{
    uint64_t first = s->file_offset + (uint64_t)neuron * s->stride;
    uint64_t begin = first & ~((uint64_t)c->align - 1);
    uint64_t end = (first + s->stride + c->align - 1) & ~((uint64_t)c->align - 1);
    s->stats.bytes_read += end - begin;
    return (struct hearth_cache_read){.offset = begin,
                                      .length = (uint32_t)(end - begin),
                                      .need = (uint32_t)(first + s->stride - begin),
                                      .space = (uint32_t)(s - c->spaces),
                                      .neuron = neuron,
                                      .dst = hearth_cache_slot_base(c, s->slot[neuron])};
}

uint32_t hearth_cache_request(struct hearth_cache *c, uint32_t space, const uint32_t *ids, uint32_t n,
                              struct hearth_cache_read *reads, uint32_t max_reads, uint32_t *n_reads)
{
    struct hearth_cache_space *s = &c->spaces[space];
    visit(c, s);
    uint32_t listed = 0, i;
    for (i = 0; i < n; i++) {
        uint32_t neuron = ids[i];
        assert(neuron < s->n_neurons);
        if (neuron < s->resident) {
            s->stats.resident++;
            continue;
        }
        if (s->mark[neuron] / HEARTH_CACHE_PIN >= HEARTH_CACHE_MAX_PINS - 1)
            break;
        bool absent = state_of(s, neuron) == HEARTH_CACHE_ABSENT;
        if (absent && listed == max_reads)
            break;
        if (absent && !hearth_cache_insert(c, s, neuron) &&
            (!make_room(c, s, ids + i, n - i) || !hearth_cache_insert(c, s, neuron)))
            break;
        if (absent) {
            reads[listed++] = read_of(c, s, neuron);
            s->stats.misses++;
        } else if (state_of(s, neuron) == HEARTH_CACHE_LOADING) {
            s->stats.late_hits++;
        } else {
            s->stats.hits++;
        }
        c->policy->touch(c, s, neuron);
        s->mark[neuron] = (uint8_t)(s->mark[neuron] + HEARTH_CACHE_PIN);
    }
    *n_reads = listed;
    return i;
}

void hearth_cache_done(struct hearth_cache *c, const struct hearth_cache_read *read, bool ok)
{
    assert(read->space < c->n_spaces && read->neuron < c->spaces[read->space].n_neurons);
    struct hearth_cache_space *s = &c->spaces[read->space];
    if (state_of(s, read->neuron) != HEARTH_CACHE_LOADING)
        return;
    if (ok)
        __atomic_store_n(&s->mark[read->neuron],
                         (uint8_t)(s->mark[read->neuron] ^ HEARTH_CACHE_LOADING ^ HEARTH_CACHE_PRESENT),
                         __ATOMIC_RELAXED);
    else
        hearth_cache_remove(c, s, read->neuron);
}

void hearth_cache_scores(struct hearth_cache *c, uint32_t space, const float *scores)
{
    c->spaces[space].scores = scores;
}

static void trim_to_quota(struct hearth_cache *c, struct hearth_cache_space *s)
{
    if (s->n_cached > s->quota)
        c->policy->trim(c, s, s->n_cached - s->quota);
}

void hearth_cache_release(struct hearth_cache *c, uint32_t space, const uint32_t *ids, uint32_t n)
{
    struct hearth_cache_space *s = &c->spaces[space];
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] >= s->resident && s->mark[ids[i]] >= HEARTH_CACHE_PIN)
            s->mark[ids[i]] = (uint8_t)(s->mark[ids[i]] - HEARTH_CACHE_PIN);
    trim_to_quota(c, s);
}

uint32_t hearth_cache_prefetch(struct hearth_cache *c, uint32_t space, const uint32_t *ids, uint32_t n,
                               uint32_t keep_free, struct hearth_cache_read *reads, uint32_t max_reads)
{
    struct hearth_cache_space *s = &c->spaces[space];
    const struct hearth_cache_class *k = &c->classes[s->size_class];
    uint32_t listed = 0;
    for (uint32_t i = 0; i < n && listed < max_reads; i++) {
        if (ids[i] < s->resident || state_of(s, ids[i]) != HEARTH_CACHE_ABSENT)
            continue;
        if ((uint64_t)k->n_free + (uint64_t)c->n_unused * k->per_slab <= keep_free ||
            !hearth_cache_insert(c, s, ids[i]))
            break;
        reads[listed++] = read_of(c, s, ids[i]);
    }
    return listed;
}

enum hearth_cache_state hearth_cache_state(const struct hearth_cache *c, uint32_t space, uint32_t neuron)
{
    // Other threads may ask about a space while a read that nobody waits for ends in it, so the
    // load is atomic.
    const uint8_t mark = __atomic_load_n(&c->spaces[space].mark[neuron], __ATOMIC_RELAXED);
    return (enum hearth_cache_state)(mark & HEARTH_CACHE_STATE_BITS);
}

void *hearth_cache_bundle(const struct hearth_cache *c, uint32_t space, uint32_t neuron)
{
    const struct hearth_cache_space *s = &c->spaces[space];
    if (s->slot[neuron] == HEARTH_CACHE_NONE || c->no_memory)
        return NULL;
    uint64_t first = s->file_offset + (uint64_t)neuron * s->stride;
    return (uint8_t *)hearth_cache_slot_base(c, s->slot[neuron]) + (first & ((uint64_t)c->align - 1));
}

// ---- between steps

void hearth_cache_seed(struct hearth_cache *c, uint32_t space, const float *share)
{
    if (c->policy->seed)
        c->policy->seed(c, &c->spaces[space], share);
}

static int over_budget(const struct hearth_cache *c, struct hearth_error *err)
{
    uint64_t needed = hearth_cache_slabs_needed(c) * c->slab_bytes;
    return hearth_fail(err, HEARTH_E_BUDGET,
                       "the neuron cache has %llu bytes, but its quotas and reserve take %llu",
                       (unsigned long long)c->n_slabs * c->slab_bytes, (unsigned long long)needed);
}

int hearth_cache_set_quota(struct hearth_cache *c, uint32_t space, uint32_t quota, struct hearth_error *err)
{
    struct hearth_cache_space *s = &c->spaces[space];
    struct hearth_cache_class *k = &c->classes[s->size_class];
    uint32_t old = s->quota;
    assert(k->quota >= old);
    s->quota = quota < s->n_neurons ? quota : s->n_neurons;
    k->quota = k->quota - old + s->quota;
    // A smaller quota is always fine, even while several calls shrink the region.
    if (s->quota <= old || hearth_cache_slabs_needed(c) <= c->n_slabs)
        return HEARTH_OK;
    int rc = over_budget(c, err);
    k->quota = k->quota - s->quota + old;
    s->quota = old;
    return rc;
}

int hearth_cache_set_bytes(struct hearth_cache *c, uint64_t bytes, struct hearth_error *err)
{
    uint32_t old = c->n_slabs;
    uint64_t slabs = bytes / c->slab_bytes;
    if (slabs > c->max_slabs)
        return hearth_fail(err, HEARTH_E_INVALID,
                           "the neuron cache cannot grow to %llu bytes: it was opened for %llu",
                           (unsigned long long)bytes, (unsigned long long)c->max_slabs * c->slab_bytes);
    c->n_slabs = (uint32_t)slabs;
    if (c->n_slabs < old && hearth_cache_slabs_needed(c) > slabs) {
        int rc = over_budget(c, err);
        c->n_slabs = old;
        return rc;
    }
    hearth_cache_relist(c);
    return HEARTH_OK;
}

uint64_t hearth_cache_settle(struct hearth_cache *c, uint32_t max_bundles)
{
    uint32_t left = max_bundles;
    for (uint32_t i = 0; i < c->n_spaces && left; i++) {
        struct hearth_cache_space *s = &c->spaces[i];
        uint32_t before = s->n_cached, over = before > s->quota ? before - s->quota : 0;
        if (over)
            c->policy->trim(c, s, over < left ? over : left);
        left -= before - s->n_cached;
    }
    return hearth_cache_give_back(c, &left);
}

// ---- statistics

struct hearth_cache_stats hearth_cache_stats(const struct hearth_cache *c)
{
    struct hearth_cache_stats sum = {0};
    for (uint32_t i = 0; i < c->n_spaces; i++) {
        const struct hearth_cache_stats *s = &c->spaces[i].stats;
        sum.resident += s->resident;
        sum.hits += s->hits;
        sum.late_hits += s->late_hits;
        sum.misses += s->misses;
        sum.evictions += s->evictions;
        sum.bytes_read += s->bytes_read;
    }
    return sum;
}

uint32_t hearth_cache_quota(const struct hearth_cache *c, uint32_t space)
{
    return c->spaces[space].quota;
}

uint32_t hearth_cache_n_cached(const struct hearth_cache *c, uint32_t space)
{
    return c->spaces[space].n_cached;
}

uint64_t hearth_cache_bytes(const struct hearth_cache *c)
{
    return (uint64_t)c->n_slabs * c->slab_bytes;
}

uint64_t hearth_cache_table_bytes(const struct hearth_cache *c)
{
    return c->tables.size;
}

uint64_t hearth_cache_max_bytes(const struct hearth_cache *c)
{
    return (uint64_t)c->max_slabs * c->slab_bytes;
}

uint64_t hearth_cache_waste(const struct hearth_cache *c)
{
    return (uint64_t)c->n_classes * c->slab_bytes;
}

void *hearth_cache_region(const struct hearth_cache *c, size_t *bytes)
{
    *bytes = c->region.size;
    return c->region.base;
}
