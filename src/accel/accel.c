// SPDX-License-Identifier: MIT
// What all back ends have in common: the first failure is kept, and what was done is counted.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "accel/insides.h"
#include "base/memory.h"

void hearth_accel_close(struct hearth_accel **accel)
{
    struct hearth_accel *a = *accel;
    assert(!a || a->stats.bytes == 0);
    if (a)
        hearth_accel_forget_lists(a);
    if (a && a->state)
        a->backend->close(a->state);
    if (a)
        free(a->scratch);
    free(a);
    *accel = NULL;
}

const struct hearth_accel_info *hearth_accel_describe(const struct hearth_accel *a)
{
    return &a->info;
}

uint64_t hearth_accel_free_memory(const struct hearth_accel *a)
{
    const uint64_t bytes = a->backend->free_memory ? a->backend->free_memory(a->state) : 0;
    return bytes && bytes < a->info.memory ? bytes : a->info.memory;
}

struct hearth_accel_stats hearth_accel_stats(const struct hearth_accel *a)
{
    return a->stats;
}

// ---- failures

int hearth_accel_take(struct hearth_accel *a, struct hearth_error *err)
{
    const int rc = a->rc;
    if (rc && err)
        *err = a->error;
    a->rc = HEARTH_OK;
    return rc;
}

bool hearth_accel_has_failed(const struct hearth_accel *a)
{
    return a->rc != HEARTH_OK;
}

void hearth_accel_fail_at(struct hearth_accel *a, long n)
{
    a->fail_at = n;
}

size_t hearth_accel_group_of(enum hearth_accel_kernel kernel)
{
    switch (kernel) {
    case HEARTH_ACCEL_norm:
    case HEARTH_ACCEL_choose_experts:
    case HEARTH_ACCEL_place_latent:
    case HEARTH_ACCEL_attend:
    case HEARTH_ACCEL_attend_blocks:
    case HEARTH_ACCEL_attend_rows:
    case HEARTH_ACCEL_attend_rows_any:
        return 256;
// Kernels of a family, for all forms.
#define FORMS(family)                                                                                        \
    case HEARTH_ACCEL_##family##_4_32h:                                                                      \
    case HEARTH_ACCEL_##family##_8_32h:                                                                      \
    case HEARTH_ACCEL_##family##_4_32:                                                                       \
    case HEARTH_ACCEL_##family##_8_32:                                                                       \
    case HEARTH_ACCEL_##family##_4_16:                                                                       \
    case HEARTH_ACCEL_##family##_8_16
        FORMS(matrix) : FORMS(one) : return 256;
        FORMS(step) : return 128;
#undef FORMS
    default:
        return HEARTH_ACCEL_GROUP;
    }
}

// Whether the device is to be called.
static bool works(struct hearth_accel *a)
{
    if (a->rc)
        return false;
    if (a->fail_at && --a->fail_at == 0)
        a->rc = hearth_fail(&a->error, HEARTH_E_UNSUPPORTED, "%s fails, as a test wants it to", a->info.name);
    return !a->rc;
}

// ---- memory, copies, kernels

struct hearth_accel_memory hearth_accel_alloc(struct hearth_accel *a, size_t bytes)
{
    struct hearth_accel_memory m = {NULL, bytes};
    if (!works(a))
        return (struct hearth_accel_memory){0};
    if (bytes > a->info.largest)
        a->rc = hearth_fail(&a->error, HEARTH_E_MEMORY, "%s has no pieces of memory of %zu MiB", a->info.name,
                            bytes >> 20);
    else
        a->rc = a->backend->alloc(a->state, bytes ? bytes : 4, &m.handle, &a->error);
    if (a->rc)
        return (struct hearth_accel_memory){0};
    a->stats.bytes += bytes;
    return m;
}

void hearth_accel_free(struct hearth_accel *a, struct hearth_accel_memory *m)
{
    if (m->handle) {
        a->backend->release(a->state, m->handle);
        a->stats.bytes -= m->size;
    }
    *m = (struct hearth_accel_memory){0};
}

void *hearth_accel_alloc_host(struct hearth_accel *a, size_t bytes)
{
    if (!a->backend->alloc_host)
        return hearth_calloc(bytes, 1);
    void *p = a->backend->alloc_host(a->state, bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

void hearth_accel_free_host(struct hearth_accel *a, void *p)
{
    if (p && a->backend->release_host)
        a->backend->release_host(a->state, p);
    else
        free(p);
}

void hearth_accel_write(struct hearth_accel *a, const struct hearth_accel_memory *to, size_t at,
                        const void *from, size_t n)
{
    if (!n || !works(a))
        return;
    a->rc = a->backend->write(a->state, to->handle, at, from, n, &a->error);
    a->stats.bytes_up += n;
}

void *hearth_accel_begin_write(struct hearth_accel *a, const struct hearth_accel_memory *to, size_t at,
                               const void *from, size_t n)
{
    void *event = NULL;
    if (!n || !works(a))
        return NULL;
    if (a->backend->write_beside)
        a->rc = a->backend->write_beside(a->state, to->handle, at, from, n, &event, &a->error);
    else
        a->rc = a->backend->write(a->state, to->handle, at, from, n, &a->error);
    a->stats.bytes_up += n;
    return event;
}

void hearth_accel_read(struct hearth_accel *a, const struct hearth_accel_memory *from, size_t at, void *to,
                       size_t n)
{
    if (!n || !works(a))
        return;
    a->rc = a->backend->read(a->state, from->handle, at, to, n, NULL, &a->error);
    a->stats.bytes_down += n;
    a->stats.waits++;
}

void *hearth_accel_begin_read(struct hearth_accel *a, const struct hearth_accel_memory *from, size_t at,
                              void *to, size_t n)
{
    void *event = NULL;
    if (!n || !works(a))
        return NULL;
    a->rc = a->backend->read(a->state, from->handle, at, to, n, &event, &a->error);
    a->stats.bytes_down += n;
    return event;
}

void hearth_accel_wait(struct hearth_accel *a, void *event)
{
    if (!event)
        return;
    a->stats.waits++;
    const bool failed = a->rc != HEARTH_OK;
    struct hearth_error error = {0};
    // In any case: the bytes' destination is the caller's again.
    const int rc = a->backend->wait(a->state, event, &error);
    if (failed || !rc)
        return;
    a->rc = rc;
    a->error = error;
}

void hearth_accel_copy(struct hearth_accel *a, const struct hearth_accel_memory *to, size_t to_at,
                       const struct hearth_accel_memory *from, size_t from_at, size_t n)
{
    if (!n || !works(a) || hearth_accel_list_copy(a, to->handle, to_at, from->handle, from_at, n) || a->rc)
        return;
    a->rc = a->backend->copy(a->state, to->handle, to_at, from->handle, from_at, n, &a->error);
}

void hearth_accel_run(struct hearth_accel *a, enum hearth_accel_kernel kernel,
                      const struct hearth_accel_arg *args, int n_args, size_t x, size_t y, size_t z)
{
    if (!x || !y || !z || !works(a))
        return;
    const size_t groups[3] = {x, y, z};
    a->stats.runs++;
    if (!hearth_accel_list_run(a, kernel, args, n_args, groups) && !a->rc)
        a->rc = a->backend->run(a->state, kernel, args, n_args, groups, &a->error);
}

void hearth_accel_flush(struct hearth_accel *a)
{
    if (!a->rc)
        a->rc = a->backend->flush(a->state, &a->error);
}
