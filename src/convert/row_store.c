// SPDX-License-Identifier: MIT
// Rows of bytes: see row_store.h.
#include "convert/row_store.h"

#include <assert.h>
#include <string.h>

int hearth_row_store_read(struct hearth_row_store *s, uint64_t first, uint64_t n, void *dst,
                          struct hearth_error *err)
{
    assert(first <= s->n && n <= s->n - first);
    if (s->file)
        return hearth_scratch_read(s->file, dst, (size_t)n * s->row_bytes, first * s->row_bytes, err);
    memcpy(dst, (const uint8_t *)s->memory.base + first * s->row_bytes, (size_t)n * s->row_bytes);
    return HEARTH_OK;
}

int hearth_row_store_write(struct hearth_row_store *s, uint64_t first, uint64_t n, const void *src,
                           struct hearth_error *err)
{
    assert(first <= s->n && n <= s->n - first);
    if (s->file)
        return hearth_scratch_write(s->file, src, (size_t)n * s->row_bytes, first * s->row_bytes, err);
    memcpy((uint8_t *)s->memory.base + first * s->row_bytes, src, (size_t)n * s->row_bytes);
    return HEARTH_OK;
}

int hearth_row_store_open(struct hearth_row_store *s, size_t row_bytes, uint64_t n, uint64_t most,
                          const char *beside, struct hearth_error *err)
{
    size_t bytes;
    *s = (struct hearth_row_store){.row_bytes = row_bytes, .n = n};
    if (n > INT64_MAX / row_bytes)
        return hearth_fail(err, HEARTH_E_MEMORY, "%llu rows of %zu bytes are too many", (unsigned long long)n,
                           row_bytes);
    bytes = (size_t)n * row_bytes;
    if (bytes > most)
        return hearth_scratch_open(&s->file, beside, err);
    const int rc = hearth_region_open(&s->memory, bytes, "a store of rows", err);
    if (!rc)
        memset(s->memory.base, 0, bytes);
    return rc;
}

void hearth_row_store_close(struct hearth_row_store *s)
{
    hearth_region_close(&s->memory);
    hearth_scratch_close(&s->file);
}
