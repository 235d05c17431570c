// SPDX-License-Identifier: MIT
// The reader: long reads in the background. A thread of its own takes jobs in order and keeps the storage
// busy from one job to the next. So the weights of a later layer arrive while this one is computed.
#ifndef HEARTH_STORE_READER_H
#define HEARTH_STORE_READER_H

#include "store/store.h"

struct hearth_reader;

// A read of `length` bytes at `offset` of a file to dst, all multiples of hearth_reader_align(). The first
// `need` bytes must be there; the file may end before the rest.
struct hearth_extent {
    uint32_t file;
    uint64_t offset;
    void *dst;
    size_t length, need;
};

// Extends the extent to byte `end` of its file, rounded up to `align` (a power of two). The
// extent begins at a multiple of `align`.
static inline void hearth_extent_reach(struct hearth_extent *e, uint64_t end, uint64_t align)
{
    e->need = (size_t)(end - e->offset);
    e->length = (size_t)((end - e->offset + align - 1) & ~(align - 1));
}
// The smallest extent that begins at a multiple of `align` and contains bytes [offset, offset + n).
static inline struct hearth_extent hearth_extent_of(uint32_t file, uint64_t offset, uint64_t n,
                                                    uint64_t align, void *dst)
{
    struct hearth_extent e = {.file = file, .offset = offset & ~(align - 1), .dst = dst};
    hearth_extent_reach(&e, offset + n, align);
    return e;
}

// Gaps of up to this many bytes are read along: this takes the storage less time than another request.
#define HEARTH_READER_GAP ((uint64_t)64 << 10)

// The memory of a job is the caller's and must not change from start to wait. It begins as zeros.
struct hearth_reader_job {
    const struct hearth_extent *extents;
    size_t n;

    // The reader's own fields.
    struct hearth_reader_job *next;
    size_t extent, at; // the next bytes to submit
    size_t in_flight;
    struct hearth_read_done failed; // the first read that failed,
    uint32_t failed_file;           // and its file
    int code;
    bool running;
};

// Opens files by path; an extent's `file` is an index in this order. Parameters as for a store.
// Errors name the path. The reader is the caller's to close.
int hearth_reader_open(struct hearth_reader **out, const char *const *paths, uint32_t n_paths,
                       const struct hearth_store_params *params, struct hearth_error *err);
// Gives up jobs that have not ended and closes the files. The memory of the jobs may be freed afterwards.
void hearth_reader_close(struct hearth_reader **reader);

uint32_t hearth_reader_align(const struct hearth_reader *reader);
const char *hearth_reader_io_name(const struct hearth_reader *reader);
bool hearth_reader_is_direct(const struct hearth_reader *reader); // same as for stores, over all files

// Queues a job that is not running. Returns at once.
void hearth_reader_start(struct hearth_reader *reader, struct hearth_reader_job *job);
// Waits for a job that was started, even if it has ended already. HEARTH_E_IO: the message names
// file, offset and reason. One thread at a time may call start and wait.
int hearth_reader_wait(struct hearth_reader *reader, struct hearth_reader_job *job, struct hearth_error *err);
// Asked by who waits, now and then: whether to stop waiting.
struct hearth_reader_stop {
    bool (*wanted)(void *arg); // NULL: never
    void *arg;
};
// The same, but also returns when that is wanted, with HEARTH_E_INTERRUPTED: the job goes on, and its memory
// stays the reader's until it is over.
int hearth_reader_wait_or_stop(struct hearth_reader *reader, struct hearth_reader_job *job,
                               struct hearth_reader_stop stop, struct hearth_error *err);
// Whether a job that was started has ended, with success or not. Waiting for it then takes no time.
bool hearth_reader_is_over(struct hearth_reader *reader, const struct hearth_reader_job *job);

// Statistics of all files together. wait_ns is the time that callers spent in hearth_reader_wait().
struct hearth_store_stats hearth_reader_stats(struct hearth_reader *reader);

#endif
