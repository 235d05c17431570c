// SPDX-License-Identifier: MIT
// An open device, and which ones a text means: for accel.c, choose.c, weight.c and tests alone.
#ifndef HEARTH_ACCEL_INSIDES_H
#define HEARTH_ACCEL_INSIDES_H

#include "accel/accel.h"

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
};

// Those of a list of n that "all" means, [HEARTH_ACCEL_MOST]; returns how many.
int hearth_accel_all(int *numbers, const struct hearth_accel_info *list, int n);

#endif
