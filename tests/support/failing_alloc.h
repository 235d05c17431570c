// SPDX-License-Identifier: MIT
// Test support: running out of memory. The linker sends the library's allocations through the functions below
// (--wrap), which fail the n-th one, alone or with all after it, for every n until the call succeeds. Leaks
// on the way are LeakSanitizer's business. Include it once a program, which is listed in CMakeLists.txt.
#ifndef HEARTH_TESTS_FAILING_ALLOC_H
#define HEARTH_TESTS_FAILING_ALLOC_H

#include "check.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "hearth.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

static bool armed, forever;
static long countdown; // allocations that still succeed
static long failures;

static bool fails(void)
{
    if (!armed || countdown-- > 0)
        return false;
    if (countdown < -1 && !forever) // only the n-th
        return false;
    failures++;
    return true;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return fails() ? NULL : __real_aligned_alloc(align, n);
}

void *__real_hearth_os_map(size_t size);
void *__wrap_hearth_os_map(size_t size);

void *__wrap_hearth_os_map(size_t size)
{
    return fails() ? NULL : __real_hearth_os_map(size);
}

static struct hearth_error alloc_error;

// Calls until no allocation fails any more: each one alone, then every step-th one with all behind it. Returns how many
// calls failed.
static inline int exhaust_memory_by(int (*call)(void), long step)
{
    int n_failed = 0;
    for (int mode = 0; mode < 2; mode++)
        for (long n = 0;; n += mode ? step : 1) {
            assert_true(n < 10000);
            alloc_error = (struct hearth_error){0};
            failures = 0;
            countdown = n;
            forever = mode == 1;
            armed = true;
            int rc = call();
            armed = false;
            if (rc) {
                assert_int_equal(rc, HEARTH_E_MEMORY);
                assert_int_equal(alloc_error.code, HEARTH_E_MEMORY);
                assert_true(strlen(alloc_error.message) > 0 && failures > 0);
                n_failed++;
            }
            if (failures == 0)
                break;
        }
    return n_failed;
}

static inline int exhaust_memory(int (*call)(void))
{
    return exhaust_memory_by(call, 1);
}

#endif
