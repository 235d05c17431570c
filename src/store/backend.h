// SPDX-License-Identifier: MIT
// The interface of the store's backends, and the system calls on files.
#ifndef HEARTH_STORE_BACKEND_H
#define HEARTH_STORE_BACKEND_H

#include "store/store.h"

// One attempt at a read. It may bring fewer bytes of [offset, offset + length) than asked for.
struct hearth_attempt {
    uint64_t offset;
    void *dst;
    uint32_t length;
    uint32_t slot; // the store's number of the read
};

struct hearth_attempt_done {
    uint32_t slot;
    int64_t result; // bytes, or -errno
};

struct hearth_io_file {
    intptr_t fd; // as the system numbers open files; -1: none
    bool direct;
    uint32_t align;
    uint64_t size;
};

// At most `depth` attempts are in flight. `state` belongs to the backend; open leaves it NULL on failure.
struct hearth_io_backend {
    const char *name;
    int (*open)(void **state, const struct hearth_io_file *file, unsigned depth, struct hearth_error *err);
    void (*close)(void *state);
    void (*add_memory)(void *state, void *base, size_t size);
    void (*start)(void *state, const struct hearth_attempt *attempt); // may be held back until flush
    void (*flush)(void *state);
    // Collects at most `max` ended attempts; waits for one if `wait`. Never fails: errors belong to attempts.
    int (*reap)(void *state, struct hearth_attempt_done *done, int max, bool wait);
};

extern const struct hearth_io_backend hearth_io_pread;
#ifdef HEARTH_HAVE_LIBURING
extern const struct hearth_io_backend hearth_io_uring;
#endif

int hearth_io_file_open(struct hearth_io_file *out, const char *path, bool buffered,
                        struct hearth_error *err);
void hearth_io_file_close(struct hearth_io_file *file);
// Drops these bytes from the page cache (buffered files).
void hearth_io_file_forget(const struct hearth_io_file *file, uint64_t offset, uint64_t length);

#endif
