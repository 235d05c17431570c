// SPDX-License-Identifier: MIT
// The first error of an evaluation, from any thread: raised where it happens, seen by whoever would go on
// working, and taken by the thread that evaluates.
#ifndef HEARTH_BASE_FAULT_H
#define HEARTH_BASE_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"

// Begins as zeros.
struct hearth_fault {
    _Atomic bool raised;
    struct hearth_error error; // of the first; read by hearth_fault_take() alone
};

// Has the evaluation fail. Later errors are dropped. Any thread.
void hearth_fault_raise(struct hearth_fault *f, const struct hearth_error *err);

// Whether the evaluation has failed. Any thread.
static inline bool hearth_fault_is_raised(const struct hearth_fault *f)
{
    return atomic_load_explicit(&f->raised, memory_order_relaxed);
}

// How the evaluation went: HEARTH_OK, or the code of the error, which is forgotten then. For the thread that
// evaluates, when no other thread may raise one.
int hearth_fault_take(struct hearth_fault *f, struct hearth_error *err);

#endif
