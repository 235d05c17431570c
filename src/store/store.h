// SPDX-License-Identifier: MIT
// The store: asynchronous reads from the file of a model that is larger than memory, around the page cache.
//
// A caller submits reads, goes on computing, and reaps what has arrived. Small random reads (bundles) and
// long ones (whole matrices) are alike; many small ones are given to the operating system together. Two
// backends do the same: io_uring, and a pool of threads that call pread. Nothing is allocated after open.
//
// What can go wrong with a read is dealt with here: short reads are continued, interrupted ones and those for
// which the system had no room are tried again, an I/O error is tried a few times more and then told for that
// one read. A read that succeeded has all its bytes.
//
// One thread at a time uses a store.
#ifndef HEARTH_STORE_STORE_H
#define HEARTH_STORE_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct hearth_store;

enum hearth_io { HEARTH_IO_AUTO, HEARTH_IO_URING, HEARTH_IO_PREAD };

// Other storage than there is: completions are delayed to what a device with these limits would reach. Reads
// that go on where the last one ended cost bytes alone; others cost at least a share of a second of `iops`.
struct hearth_throttle {
    double iops; // random reads a second; 0: no limit
    double mbps; // million bytes a second; 0: no limit
};
// "ufs4", "ufs3", "nvme" or "IOPS,MBPS" (either may be 0). HEARTH_E_INVALID says what is allowed.
int hearth_throttle_parse(struct hearth_throttle *out, const char *text, struct hearth_error *err);

// For tests: what the storage does wrong, in chances out of 1000 for each completion, drawn from `seed`.
struct hearth_store_faults {
    uint32_t seed;
    int shorts;            // fewer bytes than asked for
    int retries;           // EINTR or EAGAIN
    int errors;            // EIO
    const atomic_bool *on; // they happen only while this is true; NULL: always
};

struct hearth_store_params {
    enum hearth_io io;
    unsigned depth;                           // reads in flight at most; 0: 64
    const struct hearth_throttle *throttle;   // NULL: none
    const struct hearth_store_faults *faults; // NULL: none
    bool buffered;                            // through the page cache, which is told to forget
};

// Opens `path` for reading. With HEARTH_IO_AUTO the backend that reads this file faster is taken. Errors name
// the path.
int hearth_store_open(struct hearth_store **out, const char *path, const struct hearth_store_params *params,
                      struct hearth_error *err);
void hearth_store_close(struct hearth_store **store); // waits for reads in flight

uint64_t hearth_store_size(const struct hearth_store *store); // of the file, bytes
// Offsets, lengths and addresses of reads are multiples of this power of two, at most 65536.
uint32_t hearth_store_align(const struct hearth_store *store);
unsigned hearth_store_depth(const struct hearth_store *store);
bool hearth_store_is_direct(const struct hearth_store *store);      // false: the page cache is in between
const char *hearth_store_io_name(const struct hearth_store *store); // "io_uring" or "pread"

// Tells that reads will go to [base, base + size), which saves the kernel work on each. A hint: may do
// nothing.
void hearth_store_register(struct hearth_store *store, void *base, size_t size);

struct hearth_read {
    uint64_t offset; // of the file
    void *dst;
    uint32_t length; // bytes to read,
    uint32_t need;   // of which so many must be there: the file may end before the rest
    uint64_t tag;    // the caller's own
};

// Starts as many of reads[n] as there is room for, from the front; returns how many. None waits.
int hearth_store_submit(struct hearth_store *store, const struct hearth_read *reads, int n);

struct hearth_read_done {
    uint64_t tag;
    int code; // HEARTH_OK, or HEARTH_E_IO: hearth_store_error() says what happened to the last such one
};

// Reads that have ended since, at most `max`. Waits until there are `at_least` (or none is left in flight);
// 0: does not wait. Returns how many.
int hearth_store_reap(struct hearth_store *store, struct hearth_read_done *done, int max, int at_least);

int hearth_store_in_flight(const struct hearth_store *store); // not yet reaped
// Path, offset and reason of the last failed read.
const char *hearth_store_error(const struct hearth_store *store);

// Submits and waits for one read of any size, in pieces; nothing else may be in flight.
int hearth_store_read(struct hearth_store *store, uint64_t offset, void *dst, size_t length, size_t need,
                      struct hearth_error *err);

struct hearth_store_stats {
    uint64_t reads, bytes; // completed
    uint64_t retries;      // further attempts, of whatever reason
    uint64_t wait_ns;      // spent waiting in reap
};
struct hearth_store_stats hearth_store_stats(const struct hearth_store *store);

#endif
