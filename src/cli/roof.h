// SPDX-License-Identifier: MIT
// The memory roof: how fast this machine's threads together can read memory. Generation cannot be faster than
// this allows, so speeds are shown beside it.
#ifndef HEARTH_CLI_ROOF_H
#define HEARTH_CLI_ROOF_H

#include "base/memory.h"
#include "base/threads.h"

struct hearth_roof {
    struct hearth_region region; // what is streamed
    struct hearth_pool *pool;
    uint64_t *sums; // [n_tasks]
    int n_tasks;
    double *samples; // [n of room] GB/s (1e9)
    size_t n, room;
};

// Makes ready for streaming `bytes` of memory (at least 1 MiB) with n_threads, and for n_samples figures.
int hearth_roof_open(struct hearth_roof *r, size_t bytes, int n_threads, size_t n_samples,
                     struct hearth_error *err);
// Gives the memory back; figures stay until hearth_roof_close(), which takes a zeroed struct too.
void hearth_roof_stop(struct hearth_roof *r);
void hearth_roof_close(struct hearth_roof *r);

// Streams several times; the median pass becomes the next sample.
void hearth_roof_measure(struct hearth_roof *r);
// The median of the samples from number `first` on, 0 without any: what a machine whose rate is not steady
// sustains.
double hearth_roof_since(const struct hearth_roof *r, size_t first);

#endif
