// SPDX-License-Identifier: MIT
// The reader: long reads behind the caller's back. One thread of its own takes jobs in order and keeps the
// storage busy from one into the next, so that what a later layer needs arrives while this one is computed.
#ifndef HEARTH_STORE_READER_H
#define HEARTH_STORE_READER_H

#include "store/store.h"

struct hearth_reader;

// `length` bytes at `offset` of a file to dst, all multiples of hearth_reader_align(); of those bytes the
// first `need` must be there.
struct hearth_extent {
    uint32_t file;
    uint64_t offset;
    void *dst;
    size_t length, need;
};

// Has the extent, which begins at a multiple of `align` (a power of two), go on to byte `end` of its file.
static inline void hearth_extent_reach(struct hearth_extent *e, uint64_t end, uint64_t align)
{
    e->need = (size_t)(end - e->offset);
    e->length = (size_t)((end - e->offset + align - 1) & ~(align - 1));
}
// The least extent that begins at a multiple of `align` and has bytes [offset, offset + n).
static inline struct hearth_extent hearth_extent_of(uint32_t file, uint64_t offset, uint64_t n,
                                                    uint64_t align, void *dst)
{
    struct hearth_extent e = {.file = file, .offset = offset & ~(align - 1), .dst = dst};
    hearth_extent_reach(&e, offset + n, align);
    return e;
}

// Bytes between two stretches of a file that are read over rather than skipped: less than the storage does in
// the time of another request.
#define HEARTH_READER_GAP ((uint64_t)64 << 10)

// The caller's memory, which must stay as it is from start to wait. Begins as zeros.
struct hearth_reader_job {
    const struct hearth_extent *extents;
    size_t n;

    // The reader's.
    struct hearth_reader_job *next;
    size_t extent, at; // what is to be submitted next
    size_t in_flight;
    int code;
    bool running;
};

// Opens files by path; jobs number them in this order. Parameters as for a store.
int hearth_reader_open(struct hearth_reader **out, const char *const *paths, uint32_t n_paths,
                       const struct hearth_store_params *params, struct hearth_error *err);
// Jobs that have not ended are given up; memory they read to may be freed afterwards.
void hearth_reader_close(struct hearth_reader **reader);

uint32_t hearth_reader_align(const struct hearth_reader *reader);
const char *hearth_reader_io_name(const struct hearth_reader *reader);
bool hearth_reader_is_direct(const struct hearth_reader *reader); // as of stores; of all files

// Queues a job that is not running.
void hearth_reader_start(struct hearth_reader *reader, struct hearth_reader_job *job);
// Waits for a job that was started; one that is over already is fine. HEARTH_E_IO: the message names file,
// offset and reason. Start and wait are for one thread at a time.
int hearth_reader_wait(struct hearth_reader *reader, struct hearth_reader_job *job, struct hearth_error *err);
// Whether a job that was started is over, well or badly: waiting for it then takes no time.
bool hearth_reader_is_over(struct hearth_reader *reader, const struct hearth_reader_job *job);

// Of all files together; wait_ns is what callers spent in hearth_reader_wait().
struct hearth_store_stats hearth_reader_stats(struct hearth_reader *reader);

#endif
