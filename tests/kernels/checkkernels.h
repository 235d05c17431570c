// SPDX-License-Identifier: MIT
// checkkernels: shared between its parts. Every kernel variant against the C reference, bit for bit, and the
// reference against plain double precision.
#ifndef HEARTH_TESTS_CHECKKERNELS_H
#define HEARTH_TESTS_CHECKKERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/os.h"
#include "base/threads.h"
#include "kernels/kernels.h"

// A CPU level under test; [0] is the reference.
struct level {
    const char *name;
    struct hearth_kernels k;
};

extern struct level check_levels[8];
extern int check_n_levels;
extern int check_failures; // reported so far

// Uniform numbers from the program's seed.
uint32_t check_random(void);
static inline size_t check_below(size_t n)
{
    return check_random() % n;
}

// What guarded memory is filled with, and must be around it in the end.
#define CHECK_CANARY 0xc5

// n bytes that end (or, with at_start, begin) at an inaccessible page: touching one byte outside crashes.
// Freed by check_free_all(), which also checks that nothing else was written around them.
void *check_guarded(size_t n, bool at_start);
void check_free_all(void);

// Bytes of scratch that every level's kernels find enough for rows of k elements, a multiple of 64.
size_t check_scratch(size_t k);

// Fills x[n] with one of several kinds of numbers: ordinary, sparse, denormal, huge, a spike, zeros, negative
// zeros.
void check_fill(float *x, size_t n);
// Fills n_rows rows of k weights with random blocks whose decoded values are finite and below 1e4.
void check_fill_weights(uint32_t type, uint8_t *w, size_t stride, size_t k, size_t n_rows);

// Prints what failed, in printf's way, and counts it.
void check_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
// Same bits? On a difference prints where and both values.
bool check_same(const char *what, const char *level, const float *got, const float *want, size_t n);

void check_matmul(int rounds);
void check_axpy(int rounds);
void check_vector(int rounds);
void check_sparse(int rounds);
void check_attend(int rounds);
void check_exp(void);

// Speeds of kernels whose names hold `filter` (NULL: all), as a table and, with a path, as JSON.
void bench_kernels(const char *filter, const char *json);

// Multiplications a nanosecond that all threads together reach in a loop of nothing else: of bytes into
// 32-bit sums, or of floats. 0: there is no such loop for the level.
double bench_peak(struct hearth_pool *pool, unsigned flags, bool bytes);
void bench_report_open(const char *path, int threads, double roof);
// per_mac: multiplications that peak counts for each weight times activation.
void bench_report(const char *kernel, const char *level, size_t tokens, double gbs, double roof, double gmacs,
                  double per_mac, double peak);
void bench_report_close(void);

#endif
