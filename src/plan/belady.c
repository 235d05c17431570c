// SPDX-License-Identifier: MIT
// Belady's optimum. Items in memory are in the list of the visit that needs them next. The latest
// list gives up its items first.
#include "plan/belady.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define NONE UINT32_MAX

struct hearth_belady {
    const uint32_t *ids;
    const uint64_t *starts;
    uint32_t n_visits, n_items;
    uint32_t *next_use;    // [starts[n_visits]] the next visit that has the id; n_visits: none
    uint32_t *head;        // [n_visits + 1] items in memory by their next visit
    uint32_t *prev, *next; // [n_items] neighbours in the list
    uint32_t *list;        // [n_items] the list of an item; NONE: not in memory
    bool *seen;            // [n_items] whether visits that are not counted have it
    uint64_t *bits[3];     // a bitmap of the lists that are not empty, a bitmap of its words that
                           // are not 0, and one more level
};

static void set_bits(struct hearth_belady *b, uint32_t list)
{
    for (int i = 0; i < 3; i++, list /= 64)
        b->bits[i][list / 64] |= UINT64_C(1) << list % 64;
}

static void clear_bits(struct hearth_belady *b, uint32_t list)
{
    for (int i = 0; i < 3; i++, list /= 64) {
        b->bits[i][list / 64] &= ~(UINT64_C(1) << list % 64);
        if (b->bits[i][list / 64])
            return;
    }
}

// The latest list that is not empty; there must be one.
static uint32_t latest(const struct hearth_belady *b)
{
    uint32_t word = b->n_visits / (64 * 64 * 64);
    while (!b->bits[2][word])
        word--;
    for (int i = 2; i >= 0; i--)
        word = word * 64 + 63 - (uint32_t)__builtin_clzll(b->bits[i][word]);
    return word;
}

static void link_item(struct hearth_belady *b, uint32_t item, uint32_t list)
{
    uint32_t old = b->head[list];
    b->list[item] = list;
    b->prev[item] = NONE;
    b->next[item] = old;
    b->head[list] = item;
    if (old != NONE)
        b->prev[old] = item;
    else
        set_bits(b, list);
}

static void unlink_item(struct hearth_belady *b, uint32_t item)
{
    uint32_t list = b->list[item], before = b->prev[item], after = b->next[item];
    assert(list <= b->n_visits);
    if (before != NONE)
        b->next[before] = after;
    else
        b->head[list] = after;
    if (after != NONE)
        b->prev[after] = before;
    if (b->head[list] == NONE)
        clear_bits(b, list);
    b->list[item] = NONE;
}

// The best that a cache can hold before visit `first`: of the items of earlier visits those that are needed
// soonest. Returns their number.
static uint64_t fill(struct hearth_belady *b, uint64_t capacity, uint32_t first)
{
    uint64_t n_held = 0;
    memset(b->seen, 0, b->n_items * sizeof *b->seen);
    for (uint64_t i = 0; i < b->starts[first]; i++)
        b->seen[b->ids[i]] = true;
    for (uint32_t v = first; v < b->n_visits; v++)
        for (uint64_t i = b->starts[v]; i < b->starts[v + 1]; i++) {
            if (n_held == capacity)
                return n_held;
            if (!b->seen[b->ids[i]] || b->list[b->ids[i]] != NONE)
                continue;
            link_item(b, b->ids[i], v);
            n_held++;
        }
    return n_held;
}

uint64_t hearth_belady_misses(struct hearth_belady *b, uint64_t capacity, uint32_t first)
{
    uint64_t misses = 0;
    memset(b->head, 0xFF, ((size_t)b->n_visits + 1) * sizeof *b->head);
    memset(b->list, 0xFF, (size_t)b->n_items * sizeof *b->list);
    for (size_t i = 0, n = (size_t)b->n_visits + 1; i < 3; i++) {
        n = n / 64 + 1;
        memset(b->bits[i], 0, n * sizeof **b->bits);
    }
    uint64_t n_held = fill(b, capacity, first);
    for (uint32_t v = first; v < b->n_visits; v++) {
        for (uint64_t i = b->starts[v]; i < b->starts[v + 1]; i++) {
            uint32_t item = b->ids[i];
            if (b->list[item] != NONE) {
                unlink_item(b, item);
            } else {
                misses++;
                n_held++;
            }
            assert(b->next_use[i] > v);
            link_item(b, item, b->next_use[i]);
        }
        for (; n_held > capacity; n_held--)
            unlink_item(b, b->head[latest(b)]);
    }
    return misses;
}

static bool allocate(struct hearth_belady *b)
{
    b->next_use = hearth_calloc((size_t)b->starts[b->n_visits], sizeof *b->next_use);
    b->head = hearth_calloc((size_t)b->n_visits + 1, sizeof *b->head);
    b->prev = hearth_calloc(b->n_items, sizeof *b->prev);
    b->next = hearth_calloc(b->n_items, sizeof *b->next);
    b->list = hearth_calloc(b->n_items, sizeof *b->list);
    b->seen = hearth_calloc(b->n_items, sizeof *b->seen);
    bool ok = b->next_use && b->head && b->prev && b->next && b->list && b->seen;
    for (size_t i = 0, n = (size_t)b->n_visits + 1; i < 3; i++) {
        n = n / 64 + 1;
        b->bits[i] = hearth_calloc(n, sizeof **b->bits);
        ok = ok && b->bits[i];
    }
    return ok;
}

int hearth_belady_open(struct hearth_belady **out, const uint32_t *ids, const uint64_t *starts,
                       uint32_t n_visits, uint32_t n_items, struct hearth_error *err)
{
    *out = NULL;
    struct hearth_belady *b = hearth_calloc(1, sizeof *b);
    if (b)
        *b = (struct hearth_belady){.ids = ids, .starts = starts, .n_visits = n_visits, .n_items = n_items};
    if (!b || !allocate(b)) {
        hearth_belady_close(&b);
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory to look for the best cache");
    }
    for (uint32_t i = 0; i < n_items; i++)
        b->list[i] = n_visits; // for now: the next visit that has the item
    for (uint32_t v = n_visits; v-- > 0;)
        for (uint64_t i = starts[v]; i < starts[v + 1]; i++) {
            b->next_use[i] = b->list[ids[i]];
            b->list[ids[i]] = v;
        }
    *out = b;
    return HEARTH_OK;
}

void hearth_belady_close(struct hearth_belady **belady)
{
    struct hearth_belady *b = *belady;
    *belady = NULL;
    if (!b)
        return;
    free(b->next_use);
    free(b->head);
    free(b->prev);
    free(b->next);
    free(b->list);
    free(b->seen);
    for (int i = 0; i < 3; i++)
        free(b->bits[i]);
    free(b);
}
