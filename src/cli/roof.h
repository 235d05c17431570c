// SPDX-License-Identifier: MIT
// The memory roof: how fast this machine's threads together can read memory. Generation cannot be faster than
// this allows, so speeds are shown beside it.
#ifndef HEARTH_CLI_ROOF_H
#define HEARTH_CLI_ROOF_H

#include <stddef.h>

#include "base/error.h"

// Streams `bytes` of memory (at least 1 MiB) several times with n_threads and gives the best pass in GB/s
// (1e9).
int hearth_roof_measure(size_t bytes, int n_threads, double *gb_per_second, struct hearth_error *err);

#endif
