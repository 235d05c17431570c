// SPDX-License-Identifier: MIT
// Memory: checked arithmetic, huge-page regions for weights and KV, an arena for everything sized up front.
#ifndef HEARTH_BASE_MEMORY_H
#define HEARTH_BASE_MEMORY_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

// a * b and a + b. Returns false on overflow, and leaves *out as it was.
static inline bool hearth_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool hearth_add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
// Rounds n up to a multiple of align, a power of two. The caller makes sure that n + align does not overflow.
static inline size_t hearth_round_up(size_t n, size_t align)
{
    assert(align && (align & (align - 1)) == 0);
    return (n + align - 1) & ~(align - 1);
}

// calloc and realloc with an overflow check. NULL when out of memory. The caller frees the result
// with free().
void *hearth_calloc(size_t n, size_t size);

// hearth_calloc() of which every page is there at once, for memory that a budget is to know of. Out of
// memory: NULL, and *enough becomes false, so that one look is enough after many.
static inline void *hearth_take(size_t n, size_t size, bool *enough)
{
    void *memory = hearth_calloc(n, size);
    if (memory)
        memset(memory, 0, n * size);
    else
        *enough = false;
    return memory;
}

void *hearth_reallocarray(void *p, size_t n, size_t size);
char *hearth_strndup(const char *s, size_t n);
// Where `what` first is among the n bytes at `in`; NULL: nowhere.
void *hearth_find_bytes(const void *in, size_t n, const void *what, size_t n_what);

// A region of zeroed anonymous memory. If it is at least 2 MiB large, it is aligned to 2 MiB and advised to
// use huge pages, but for its end: with pages of 4 KiB, streaming weights loses a large part of the bandwidth
// to TLB misses.
struct hearth_region {
    void *base;
    size_t size;   // bytes usable
    size_t mapped; // bytes mapped (internal)
    void *map;     // start of the mapping (internal)
};
// `what` names the use of the memory in the error message. HEARTH_E_MEMORY. The region is the
// caller's to close.
int hearth_region_open(struct hearth_region *r, size_t size, const char *what, struct hearth_error *err);
void hearth_region_close(struct hearth_region *r);
// Bytes of memory that a region of this size takes once all of it has been written to.
uint64_t hearth_region_bytes(uint64_t size);
// The same of its first n bytes: huge pages come whole.
uint64_t hearth_region_bytes_of(const struct hearth_region *r, size_t n);

// A bump allocator over one region. Two passes run the same code: with base == NULL it only adds up sizes.
struct hearth_arena {
    uint8_t *base;
    size_t used;
    size_t size;
    struct hearth_arena_rows *rows; // where hearth_arena_take_rows() takes from; NULL: the arena itself
};
// Takes n * size bytes, aligned to 64. NULL while measuring (base == NULL) or when full. On
// overflow `used` saturates.
// Builds with the address sanitizer have a red zone behind each piece (base/poison.h).
void *hearth_arena_take(struct hearth_arena *a, size_t n, size_t size);

#define HEARTH_ARENA_ROWS 128

// An arena for arrays of rows whose first rows are used all the time, the others now and then: the memory of
// those others can go back to the system in between. Its region has small pages.
struct hearth_arena_rows {
    struct hearth_arena arena;
    struct {
        uint8_t *at;
        size_t size;
    } rare[HEARTH_ARENA_ROWS]; // [n] the others, once there is memory; what does not fit in stays
    int n;
    size_t rare_bytes; // that hearth_arena_discard() gives back at least
};
// Gives whole units within [p, p + size) back to the system, which is all of it but less than 128 KiB; they
// read as zeros then. p lies in mapped memory.
void hearth_discard_inside(void *p, size_t size);
// Takes `rows` rows of `size` bytes, of which the first `often` are used all the time.
void *hearth_arena_take_rows(struct hearth_arena *a, size_t rows, size_t often, size_t size);
// Gives the memory of the other rows back to the system; they read as zeros then.
void hearth_arena_discard(const struct hearth_arena_rows *rows);

#endif
