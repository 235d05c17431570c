// SPDX-License-Identifier: MIT
// The warm start: the hottest cold neurons get the slots, and one pass forward through the file reads them.
#include <stdlib.h>

#include "sparse/cache_internal.h"

// A growing list, used only before generation starts.
struct list {
    struct hearth_cache_range *at;
    size_t n, cap;
};

static bool append(struct list *l, const struct hearth_cache_range *r)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 256;
        struct hearth_cache_range *more = hearth_reallocarray(l->at, cap, sizeof *more);
        if (!more)
            return false;
        l->at = more;
        l->cap = cap;
    }
    l->at[l->n++] = *r;
    return true;
}

static int by_share(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// The key of a share in 0..1. Ascending keys put the hottest neurons first; of equal ones, the lower id.
static uint64_t hotness_key(float share, uint32_t neuron)
{
    double inverse = 1 - (share > 0 ? share < 1 ? (double)share : 1.0 : 0.0);
    return (uint64_t)(inverse * 4294967295.0) << 32 | neuron;
}

// Gives slots to the hottest absent neurons, up to the quota.
static void choose(struct hearth_cache *c, struct hearth_cache_space *s, const float *share, uint64_t *keys)
{
    uint32_t n = 0;
    for (uint32_t i = s->resident; i < s->n_neurons; i++)
        if (s->mark[i] == HEARTH_CACHE_ABSENT)
            keys[n++] = share ? hotness_key(share[i], i) : i;
    if (share)
        qsort(keys, n, sizeof *keys, by_share);
    for (uint32_t i = 0; i < n && s->n_cached < s->quota; i++)
        if (!hearth_cache_insert(c, s, (uint32_t)keys[i]))
            return;
}

static struct hearth_cache_range range_of(const struct hearth_cache *c, const struct hearth_cache_space *s,
                                          uint32_t first, uint32_t n)
{
    return (struct hearth_cache_range){.offset = s->file_offset + (uint64_t)first * s->stride,
                                       .length = (uint64_t)n * s->stride,
                                       .space = (uint32_t)(s - c->spaces),
                                       .first = first,
                                       .n = n};
}

// Lists ranges that cover the wanted neurons, in order.
static bool list_space(const struct hearth_cache *c, const struct hearth_cache_space *s, bool with_resident,
                       uint64_t max_bytes, uint64_t max_gap, struct list *out)
{
    uint64_t most = max_bytes / s->stride ? max_bytes / s->stride : 1, gap = max_gap / s->stride;
    uint32_t first = 0, last = 0; // [first, last): the wanted neurons so far
    for (uint32_t i = with_resident ? 0 : s->resident; i < s->n_neurons; i++) {
        if (i >= s->resident && (s->mark[i] & HEARTH_CACHE_STATE_BITS) != HEARTH_CACHE_LOADING)
            continue;
        bool joins = last > first && i - last <= gap && i + 1 - first <= most;
        if (!joins && last > first) {
            struct hearth_cache_range r = range_of(c, s, first, last - first);
            if (!append(out, &r))
                return false;
        }
        if (!joins)
            first = i;
        last = i + 1;
    }
    struct hearth_cache_range r = range_of(c, s, first, last - first);
    return last == first || append(out, &r);
}

static int by_offset(const void *a, const void *b)
{
    const struct hearth_cache_range *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

int hearth_cache_warm_start(struct hearth_cache *c, const float *const *shares, bool with_resident,
                            uint64_t max_bytes, uint64_t max_gap, struct hearth_cache_range **ranges,
                            size_t *n_ranges, struct hearth_error *err)
{
    *ranges = NULL;
    *n_ranges = 0;
    uint32_t widest = 0;
    for (uint32_t i = 0; i < c->n_spaces; i++)
        widest = c->spaces[i].n_neurons > widest ? c->spaces[i].n_neurons : widest;
    uint64_t *keys = hearth_calloc(widest, sizeof *keys);
    struct list list = {0};
    bool ok = keys != NULL;
    for (uint32_t i = 0; i < c->n_spaces && ok; i++) {
        choose(c, &c->spaces[i], shares ? shares[i] : NULL, keys);
        ok = list_space(c, &c->spaces[i], with_resident, max_bytes, max_gap, &list);
    }
    free(keys);
    if (!ok) {
        free(list.at);
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the neuron cache's warm start");
    }
    if (list.n)
        qsort(list.at, list.n, sizeof *list.at, by_offset);
    *ranges = list.at;
    *n_ranges = list.n;
    return HEARTH_OK;
}
