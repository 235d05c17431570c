// SPDX-License-Identifier: MIT
// For operations.c and its like: how kernels are run.
#ifndef HEARTH_ACCEL_RUN_H
#define HEARTH_ACCEL_RUN_H

#include "accel/operations.h"

#define M(m)     HEARTH_ARG_M(m)
#define I(n)     HEARTH_ARG_I(n)
#define F(x)     HEARTH_ARG_F(x)
#define GROUP    HEARTH_ACCEL_GROUP
#define RUN(...) HEARTH_ACCEL_RUN(__VA_ARGS__)
// Activations that an item quantises.
#define FEW 4

// For a kernel that has no use for it.
static const struct hearth_accel_memory none;

// Of `each` things, for n of them.
static inline size_t groups(size_t n, size_t each)
{
    return (n + each - 1) / each;
}

#endif
