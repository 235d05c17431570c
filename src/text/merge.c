// SPDX-License-Identifier: MIT
// Pair merging: short words by scanning for the best pair, long ones with a heap.
#include "text/merge.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

// Up to this length, scanning all pairs is faster than keeping a heap. Both give the same symbols.
#define SHORT_WORD 40
#define NONE       UINT32_MAX

// A pair that could merge when it was found. It is stale once either side has changed. The
// lengths show it, because symbols only grow.
struct hearth_candidate {
    uint64_t order;  // rank, then position: lower is better
    uint32_t length; // of both sides together
    int32_t merged;
};

static void merge_short(struct hearth_symbol *s, size_t *count, const char *word, hearth_pair_fn pair,
                        const void *arg)
{
    size_t n = *count;
    for (size_t i = 0; i + 1 < n; i++)
        pair(arg, word, &s[i], &s[i + 1]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            if (s[i].rank < s[best].rank)
                best = i;
        }
        if (s[best].rank == HEARTH_NO_RANK)
            break;
        s[best].length += s[best + 1].length;
        s[best].id = s[best].merged;
        n--;
        memmove(&s[best + 1], &s[best + 2], (n - best - 1) * sizeof *s);
        if (best > 0)
            pair(arg, word, &s[best - 1], &s[best]);
        if (best + 1 < n)
            pair(arg, word, &s[best], &s[best + 1]);
    }
    *count = n;
}

static void sift_down(struct hearth_candidate *heap, size_t n, size_t i)
{
    struct hearth_candidate c = heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && heap[child + 1].order < heap[child].order)
            child++;
        if (heap[child].order >= c.order)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = c;
}

static void sift_up(struct hearth_candidate *heap, size_t i)
{
    struct hearth_candidate c = heap[i];
    while (i > 0 && heap[(i - 1) / 2].order > c.order) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = c;
}

// Appends the pair (s[left], its right neighbour) to the heap's array when it merges.
static bool append(struct hearth_merger *m, const char *word, uint32_t left, hearth_pair_fn pair,
                   const void *arg)
{
    struct hearth_symbol *s = &m->symbols[left];
    if (s->next == NONE)
        return true;
    pair(arg, word, s, &m->symbols[s->next]);
    if (s->rank == HEARTH_NO_RANK)
        return true;
    if (m->heap_n == m->heap_cap) {
        size_t cap = m->heap_cap ? m->heap_cap + m->heap_cap / 2 : 256;
        struct hearth_candidate *heap = hearth_reallocarray(m->heap, cap, sizeof *heap);
        if (!heap)
            return false;
        m->heap = heap;
        m->heap_cap = cap;
    }
    m->heap[m->heap_n++] = (struct hearth_candidate){(uint64_t)s->rank << 32 | left,
                                                     s->length + m->symbols[s->next].length, s->merged};
    return true;
}

static bool push(struct hearth_merger *m, const char *word, uint32_t left, hearth_pair_fn pair,
                 const void *arg)
{
    size_t before = m->heap_n;
    if (!append(m, word, left, pair, arg))
        return false;
    if (m->heap_n > before)
        sift_up(m->heap, before);
    return true;
}

static struct hearth_candidate pop(struct hearth_merger *m)
{
    assert(m->heap_n > 0);
    struct hearth_candidate top = m->heap[0];
    m->heap[0] = m->heap[--m->heap_n];
    if (m->heap_n > 1)
        sift_down(m->heap, m->heap_n, 0);
    return top;
}

static bool merge_long(struct hearth_merger *m, const char *word, size_t *count, hearth_pair_fn pair,
                       const void *arg)
{
    struct hearth_symbol *s = m->symbols;
    uint32_t n = (uint32_t)*count;
    for (uint32_t i = 0; i < n; i++) {
        s[i].prev = i ? i - 1 : NONE;
        s[i].next = i + 1 < n ? i + 1 : NONE;
    }
    m->heap_n = 0;
    for (uint32_t i = 0; i + 1 < n; i++) {
        if (!append(m, word, i, pair, arg))
            return false;
    }
    for (size_t i = m->heap_n / 2; i-- > 0;)
        sift_down(m->heap, m->heap_n, i);
    while (m->heap_n) {
        struct hearth_candidate c = pop(m);
        uint32_t left = (uint32_t)c.order, right = s[left].next;
        if (s[left].length == 0 || right == NONE || s[left].length + s[right].length != c.length)
            continue;
        s[left].length = c.length;
        s[left].id = c.merged;
        s[left].next = s[right].next;
        s[right].length = 0;
        if (s[right].next != NONE)
            s[s[right].next].prev = left;
        if (s[left].prev != NONE && !push(m, word, s[left].prev, pair, arg))
            return false;
        if (!push(m, word, left, pair, arg))
            return false;
    }
    size_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (s[i].length)
            s[kept++] = s[i];
    }
    *count = kept;
    return true;
}

bool hearth_merge(struct hearth_merger *m, const char *word, size_t n, hearth_pair_fn pair, const void *arg,
                  size_t *left)
{
    assert(n <= m->cap);
    *left = n;
    if (n > SHORT_WORD)
        return merge_long(m, word, left, pair, arg);
    if (n > 1)
        merge_short(m->symbols, left, word, pair, arg);
    return true;
}

bool hearth_merger_reserve(struct hearth_merger *m, size_t n)
{
    if (n <= m->cap)
        return true;
    if (n >= UINT32_MAX)
        return false;
    size_t cap = n < 256 ? 256 : n + n / 4;
    struct hearth_symbol *symbols = hearth_reallocarray(NULL, cap, sizeof *symbols);
    if (!symbols)
        return false;
    free(m->symbols);
    m->symbols = symbols;
    m->cap = cap;
    return true;
}

void hearth_merger_free(struct hearth_merger *m)
{
    free(m->symbols);
    free(m->heap);
    *m = (struct hearth_merger){0};
}
