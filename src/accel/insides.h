// SPDX-License-Identifier: MIT
// An open device, and which ones a text means: for accel.c, lists.c, choose.c, speed.c, weight.c and tests alone.
#ifndef HEARTH_ACCEL_INSIDES_H
#define HEARTH_ACCEL_INSIDES_H

#include "accel/accel.h"

// Kernels and copies (lists.c).
struct hearth_accel_list {
    uint8_t *data; // [bytes] of `cap` that there is room for
    size_t bytes, cap;
    uint64_t hash;
    uint64_t used;  // the list's number when it came last
    int times;      // that it came, until it was recorded
    void *record;   // the back end's; NULL: none was made
    bool was_begun; // that record was
};
// Lists that are remembered: places, and how many of one place. A layer has two in a step, for each number of rows.
#define HEARTH_ACCEL_LISTS      128
#define HEARTH_ACCEL_LISTS_WAYS 8

struct hearth_accel_lists {
    bool is_open, refused; // one is being written; the device cannot record any
    struct hearth_accel_list now, known[HEARTH_ACCEL_LISTS][HEARTH_ACCEL_LISTS_WAYS];
    uint64_t clock;
};

struct hearth_accel {
    const struct hearth_accel_backend *backend;
    void *state;
    struct hearth_accel_info info;
    struct hearth_accel_stats stats;
    int rc; // of the first failure
    struct hearth_error error;
    long fail_at;     // calls until one fails, for tests; 0: none does
    uint8_t *scratch; // [scratch_bytes] to convert weights (weight.c); NULL: none were
    size_t scratch_bytes;
    struct hearth_accel_lists lists;
};

// Into the list that is open. False: none is, and the caller does it at once, if nothing has failed.
bool hearth_accel_list_run(struct hearth_accel *a, enum hearth_accel_kernel kernel,
                           const struct hearth_accel_arg *args, int n_args, const size_t groups[3]);
bool hearth_accel_list_copy(struct hearth_accel *a, void *to, size_t to_at, void *from, size_t from_at,
                            size_t n);
void hearth_accel_forget_lists(struct hearth_accel *a);

// Whether it has_one: times a product both ways (speed.c). Takes some milliseconds, and up to 72 MiB of its memory.
void hearth_accel_compare_one(struct hearth_accel *a);

// Those of a list of n that "all" means, [HEARTH_ACCEL_MOST]; returns how many.
int hearth_accel_all(int *numbers, const struct hearth_accel_info *list, int n);

#endif
