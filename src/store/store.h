// SPDX-License-Identifier: MIT
// The store: asynchronous reads from the file of a model that is larger than memory. They bypass the page
// cache.
//
// A caller submits reads, goes on computing, and collects what has arrived. Small random reads (bundles) and
// long ones (whole matrices) work alike; many small ones go to the operating system in one call. There are
// two backends with the same results: io_uring, and a pool of threads that call pread. Nothing is allocated
// after open.
//
// The store handles failures of reads. It continues short reads and repeats interrupted ones, also those for
// which the system had no room. It repeats a read that ends with an I/O error a few times and then reports
// the error for this read. A successful read has all its bytes.
//
// One thread at a time may use a store.
#ifndef HEARTH_STORE_STORE_H
#define HEARTH_STORE_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/storage.h"

struct hearth_store;

// For tests: faults of the storage, in chances out of 1000 per completion, drawn from `seed`.
struct hearth_store_faults {
    uint32_t seed;
    int shorts;            // fewer bytes than asked for
    int retries;           // EINTR or EAGAIN
    int errors;            // EIO
    const atomic_bool *on; // faults happen only while this is true; NULL: always
};

struct hearth_store_params {
    enum hearth_io io;
    unsigned depth;                           // most reads in flight; 0: 64
    const struct hearth_throttle *throttle;   // NULL: none
    const struct hearth_store_faults *faults; // NULL: none
    bool buffered; // read through the page cache, and drop the bytes from it afterwards
    uint32_t gap;  // as hearth_store_gap() shall say; 0: what is known of the storage, or HEARTH_STORE_GAP
};

// Of common disks a request costs 10 to 15 us and 7 KiB more cost 2.
#define HEARTH_STORE_GAP 32768

// Small reads that are made as one, at most, gaps included, and of which such a read has the length.
#define HEARTH_READ_GROUP 16

// Opens `path` for reading. HEARTH_IO_AUTO chooses the backend that reads this file faster.
// Errors name the path. The store is the caller's to close.
int hearth_store_open(struct hearth_store **out, const char *path, const struct hearth_store_params *params,
                      struct hearth_error *err);
void hearth_store_close(struct hearth_store **store); // waits for reads in flight
// From now on a throttled store is as fast as it is, for reads in flight, too: who waits for them wants to
// end. Any thread.
void hearth_store_hurry(struct hearth_store *store);

uint64_t hearth_store_size(const struct hearth_store *store); // bytes of the file
// The alignment: offsets, lengths and addresses of reads are multiples of this power of two, at most 65536.
uint32_t hearth_store_align(const struct hearth_store *store);
unsigned hearth_store_depth(const struct hearth_store *store);
// Bytes that take the storage as long as another request does: gaps up to this size between small reads are
// worth reading over.
uint32_t hearth_store_gap(const struct hearth_store *store);
bool hearth_store_is_direct(const struct hearth_store *store);      // false: reads go through the page cache
const char *hearth_store_io_name(const struct hearth_store *store); // "io_uring" or "pread"

// Registers [base, base + size) as a target of reads, which saves the kernel work on each read. A
// hint: it may do nothing.
void hearth_store_register(struct hearth_store *store, void *base, size_t size);

struct hearth_read {
    uint64_t offset; // of the file
    void *dst;
    uint32_t length; // bytes to read
    uint32_t need;   // bytes that must be there: the file may end before the rest
    uint64_t tag;    // for the caller's own use
};

// Starts as many of reads[0..n) as there is room for, from the front, and returns their number. Never waits.
int hearth_store_submit(struct hearth_store *store, const struct hearth_read *reads, int n);

struct hearth_read_done {
    uint64_t tag;
    int code;        // HEARTH_OK, or HEARTH_E_IO:
    int why;         // its errno; 0: the file ends before
    uint64_t offset; // of the read,
    uint32_t length; // and its bytes
};

// Collects at most `max` reads that have ended and returns their number. Waits until there are
// `at_least` (or none is left in flight); 0: does not wait.
int hearth_store_reap(struct hearth_store *store, struct hearth_read_done *done, int max, int at_least);

int hearth_store_in_flight(const struct hearth_store *store); // not yet reaped
// Path, offset and reason of a read that failed. Returns its code. Thread-safe while the store is open.
int hearth_store_fail(const struct hearth_store *store, const struct hearth_read_done *done,
                      struct hearth_error *err);

struct hearth_store_stats {
    uint64_t reads, bytes; // completed
    uint64_t retries;      // further attempts, for any reason
    uint64_t wait_ns;      // spent waiting in reap
};
struct hearth_store_stats hearth_store_stats(const struct hearth_store *store);

#endif
