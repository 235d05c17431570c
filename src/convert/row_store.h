// SPDX-License-Identifier: MIT
// Rows of bytes that may be more than memory has room for: then they are in a scratch file.
#ifndef HEARTH_CONVERT_ROW_STORE_H
#define HEARTH_CONVERT_ROW_STORE_H

#include "base/memory.h"
#include "base/os.h"

struct hearth_row_store {
    size_t row_bytes;
    uint64_t n;
    struct hearth_region memory; // or
    struct hearth_scratch *file;
};

// n rows of zeros: in memory, all of which is there when this returns, where they take at most `most` bytes,
// else in a scratch file in the folder of `beside`. Begins as zeros itself; closing may follow an error.
int hearth_row_store_open(struct hearth_row_store *s, size_t row_bytes, uint64_t n, uint64_t most,
                          const char *beside, struct hearth_error *err);
void hearth_row_store_close(struct hearth_row_store *s);

// Rows [first, first + n). Any thread, for different rows.
int hearth_row_store_write(struct hearth_row_store *s, uint64_t first, uint64_t n, const void *src,
                           struct hearth_error *err);
int hearth_row_store_read(struct hearth_row_store *s, uint64_t first, uint64_t n, void *dst,
                          struct hearth_error *err);

#endif
