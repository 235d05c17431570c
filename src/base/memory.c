// SPDX-License-Identifier: MIT
// Memory: checked allocation, huge-page regions, the measuring arena.
#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/poison.h"

#define HUGE_PAGE ((size_t)2 << 20)

void *hearth_calloc(size_t n, size_t size)
{
    // A request for zero bytes returns a pointer too, so that NULL always means "no memory".
    return calloc(n ? n : 1, size ? size : 1);
}

void *hearth_reallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (!hearth_mul_size(n, size, &bytes))
        return NULL;
    return realloc(p, bytes ? bytes : 1);
}

char *hearth_strndup(const char *s, size_t n)
{
    if (n == SIZE_MAX)
        return NULL;
    char *copy = malloc(n + 1);
    if (!copy)
        return NULL;
    memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

void *hearth_find_bytes(const void *in, size_t n, const void *what, size_t n_what)
{
    const char *at = in, *const first = what;
    if (!n_what)
        return (void *)(uintptr_t)at;
    for (const char *end = at + n; (size_t)(end - at) >= n_what; at++) {
        at = memchr(at, *first, (size_t)(end - at) - n_what + 1);
        if (!at)
            return NULL;
        if (!memcmp(at, what, n_what))
            return (void *)(uintptr_t)at;
    }
    return NULL;
}

int hearth_region_open(struct hearth_region *r, size_t size, const char *what, struct hearth_error *err)
{
    *r = (struct hearth_region){0};
    size_t align = size >= HUGE_PAGE ? HUGE_PAGE : 4096;
    if (size > SIZE_MAX - 2 * HUGE_PAGE)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: %zu bytes is more than can be addressed", what, size);
    size_t mapped = hearth_round_up(size ? size : 1, align) + align;
    void *map = hearth_os_map(mapped);
    if (!map)
        return hearth_fail(err, HEARTH_E_MEMORY,
                           "no memory for %s (%.1f MiB): free some, or use a smaller model or context", what,
                           (double)size / (1 << 20));
    r->map = map;
    r->mapped = mapped;
    r->base = (void *)hearth_round_up((size_t)map, align);
    r->size = size;
    assert((size_t)((uint8_t *)r->base - (uint8_t *)map) + size <= mapped);
    // A huge page at the end would take more memory than was asked for. Where pages are larger than 4 KiB,
    // huge ones are larger than 2 MiB, too, and would take more than is counted.
    if (align == HUGE_PAGE && hearth_os_page() == 4096) {
        const size_t whole = size / HUGE_PAGE * HUGE_PAGE;
        hearth_os_advise_huge(r->base, whole);
        hearth_os_advise_small((uint8_t *)r->base + whole, mapped - align - whole);
    }
    return HEARTH_OK;
}

void hearth_region_close(struct hearth_region *r)
{
    if (r->map) {
        HEARTH_UNPOISON(r->map, r->mapped); // another mapping may get these addresses
        hearth_os_unmap(r->map, r->mapped);
    }
    *r = (struct hearth_region){0};
}

uint64_t hearth_region_bytes(uint64_t size)
{
    const uint64_t page = hearth_os_page();
    return (size + page - 1) / page * page;
}

uint64_t hearth_region_bytes_of(const struct hearth_region *r, size_t n)
{
    const size_t whole = r->size / HUGE_PAGE * HUGE_PAGE, huge = (n + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    return n <= whole ? huge : hearth_region_bytes(n);
}

void *hearth_arena_take(struct hearth_arena *a, size_t n, size_t size)
{
    assert((uintptr_t)a->base % 64 == 0);
    size_t bytes, end;
    if (!hearth_mul_size(n, size, &bytes) || bytes > SIZE_MAX - 64 - HEARTH_RED_ZONE ||
        !hearth_add_size(a->used, hearth_round_up(bytes, 64) + (bytes ? HEARTH_RED_ZONE : 0), &end)) {
        a->used = SIZE_MAX;
        return NULL;
    }
    uint8_t *p = a->base && end <= a->size ? a->base + a->used : NULL;
    if (p && bytes) {
        const size_t whole = hearth_round_up(bytes, 64);
        HEARTH_UNPOISON(p, whole);
        HEARTH_POISON(p + whole, HEARTH_RED_ZONE);
    }
    a->used = end;
    return p;
}

// What hearth_os_discard() takes whole: a multiple of any system's page.
#define DISCARD_ALIGN ((size_t)64 << 10)

void hearth_discard_inside(void *p, size_t size)
{
    const size_t skip = (size_t) - (uintptr_t)p & (DISCARD_ALIGN - 1);
    if (size >= skip + DISCARD_ALIGN)
        hearth_os_discard((uint8_t *)p + skip, (size - skip) & ~(DISCARD_ALIGN - 1));
}

void *hearth_arena_take_rows(struct hearth_arena *a, size_t rows, size_t often, size_t size)
{
    struct hearth_arena_rows *r = a->rows;
    if (!r)
        return hearth_arena_take(a, rows, size);
    uint8_t *p = hearth_arena_take(&r->arena, rows, size);
    if (r->arena.used == SIZE_MAX) {
        a->used = SIZE_MAX;
        return NULL;
    }
    const size_t rare = rows > often ? (rows - often) * size : 0;
    if (rare < 2 * DISCARD_ALIGN || r->n == HEARTH_ARENA_ROWS)
        return p;
    r->rare_bytes += rare / DISCARD_ALIGN * DISCARD_ALIGN - DISCARD_ALIGN; // wherever it begins
    r->rare[r->n].at = p ? p + often * size : NULL;
    r->rare[r->n++].size = p ? rare : 0;
    return p;
}

void hearth_arena_discard(const struct hearth_arena_rows *r)
{
    for (int i = 0; i < r->n; i++)
        hearth_discard_inside(r->rare[i].at, r->rare[i].size);
}
