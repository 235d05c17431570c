// SPDX-License-Identifier: MIT
// The memory roof: the speed at which all threads together read memory. Generation cannot be
// faster, so its speed is shown beside it.
#ifndef HEARTH_PLAN_ROOF_H
#define HEARTH_PLAN_ROOF_H

#include "base/memory.h"
#include "base/threads.h"

struct hearth_roof {
    struct hearth_region region; // the memory that is read, unless it is somebody else's
    const uint64_t *data;        // that memory
    struct hearth_pool *pool;
    uint64_t *sums; // [n_tasks]
    int n_tasks;
    bool several;    // streams that a thread reads at once
    double *samples; // GB/s (1e9); room for `room` samples, n are set
    size_t n, room;
};

// Bytes that no cache of this machine holds: reading so many, again and again, reads memory. 256 MiB, more
// where caches are large.
size_t hearth_roof_bytes(void);
// Prepares reading `bytes` of memory (at least 1 MiB) with n_threads, and room for n_samples.
// HEARTH_E_INVALID, HEARTH_E_MEMORY.
int hearth_roof_open(struct hearth_roof *r, size_t bytes, int n_threads, size_t n_samples,
                     struct hearth_error *err);
// The same over memory that has been written to and that outlives *r.
int hearth_roof_open_over(struct hearth_roof *r, const struct hearth_region *memory, int n_threads,
                          size_t n_samples, struct hearth_error *err);
// Frees the memory; the samples stay until hearth_roof_close(), which accepts a zeroed struct too.
void hearth_roof_stop(struct hearth_roof *r);
void hearth_roof_close(struct hearth_roof *r);

// Of n values, 1 at least, which it sorts.
double hearth_median(double *values, size_t n);

// Reads the memory several times. The median pass becomes the next sample.
void hearth_roof_measure(struct hearth_roof *r);
// Reads the memory again and again, several times and for about `ns`. Returns the speed of the median pass of
// those that had their processors for themselves, or of the best one where none had, GB/s (1e9). *share
// becomes the largest share of the threads' time in which a pass was running at all, 0 to 1: the rest went to
// other programs.
double hearth_roof_usual(struct hearth_roof *r, uint64_t ns, double *share);
// The median of the samples from number `first` on, or 0 without any. It is the sustained speed
// of a machine whose speed varies.
double hearth_roof_since(const struct hearth_roof *r, size_t first);

#endif
