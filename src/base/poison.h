// SPDX-License-Identifier: MIT
// Memory that nobody may touch for now, in builds with the address sanitizer: it reports whoever does. In
// other builds nothing happens. Poison lies on whole units of 8 bytes; what was poisoned is to be made good
// again before it goes back to the operating system.
//
// Kernels with vector instructions are not watched themselves, since that makes them fifty times slower (but
// by checkkernels, which has its own builds of them): who hands them weights or KV pages names the bytes that
// they read. What they write is not watched.
#ifndef HEARTH_BASE_POISON_H
#define HEARTH_BASE_POISON_H

#if defined(__SANITIZE_ADDRESS__)
#define HEARTH_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEARTH_POISONS 1
#endif
#endif

#ifdef HEARTH_POISONS
#include <sanitizer/asan_interface.h>
#include <stddef.h>
#include <stdint.h>
#define HEARTH_POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#define HEARTH_UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#define HEARTH_RED_ZONE       64 // bytes behind each piece of an arena
// A kernel is about to read n rows of `row` bytes, `stride` bytes apart.
#define HEARTH_ABOUT_TO_READ(p, n, stride, row) hearth_poison_try(p, n, stride, row)

static inline void hearth_poison_try(const void *p, size_t n, size_t stride, size_t row)
{
    for (size_t i = 0; i < n; i++) {
        const uintptr_t at = (uintptr_t)p + i * stride;
        const volatile uint8_t *bad = __asan_region_is_poisoned((void *)at, row);
        if (bad)
            (void)*bad; // which is reported
    }
}
#else
#define HEARTH_POISON(p, n)                     ((void)sizeof(p), (void)sizeof(n))
#define HEARTH_UNPOISON(p, n)                   ((void)sizeof(p), (void)sizeof(n))
#define HEARTH_RED_ZONE                         0
#define HEARTH_ABOUT_TO_READ(p, n, stride, row) ((void)0)
#endif

#endif
