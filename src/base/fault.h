// SPDX-License-Identifier: MIT
// The first error of an evaluation, from any thread: raised where it happens, seen by whoever would go on
// working, and taken by the thread that evaluates. Also the request to cancel an evaluation, which becomes
// its error where that thread looks at it and nowhere else: so nothing between two looks sees half of it.
#ifndef HEARTH_BASE_FAULT_H
#define HEARTH_BASE_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"

// A signal handler may store only what needs no lock.
_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "hearth_fault_cancel() is for signal handlers");

// Begins as zeros.
struct hearth_fault {
    _Atomic bool raised;
    _Atomic bool cancelled;    // a request that has cancelled no evaluation yet
    struct hearth_error error; // of the first; read by hearth_fault_take() alone
};

// Has the evaluation fail. Later errors are dropped. Any thread.
void hearth_fault_raise(struct hearth_fault *f, const struct hearth_error *err);

// Asks for the end of the evaluation that runs, or else of the next one. Any thread, and signal handlers.
static inline void hearth_fault_cancel(struct hearth_fault *f)
{
    atomic_store(&f->cancelled, true);
}

// Forgets such a request; returns whether there was one.
static inline bool hearth_fault_forget(struct hearth_fault *f)
{
    return atomic_exchange(&f->cancelled, false);
}

// Whether the evaluation is to be given up, because it has failed or somebody wants it to end. For the thread
// that evaluates, where it can stop: it then has failed with HEARTH_E_INTERRUPTED.
bool hearth_fault_look(struct hearth_fault *f);

// The same for that thread when it has stopped working with this error, which is raised, unless it is
// HEARTH_E_INTERRUPTED because of a request.
void hearth_fault_stop(struct hearth_fault *f, const struct hearth_error *err);

// Whether it has failed, or will at the next look: what it computes until then is thrown away. Any thread.
static inline bool hearth_fault_is_near(const struct hearth_fault *f)
{
    return atomic_load_explicit(&f->raised, memory_order_relaxed) ||
           atomic_load_explicit(&f->cancelled, memory_order_relaxed);
}

// Whether the evaluation has failed. Any thread.
static inline bool hearth_fault_is_raised(const struct hearth_fault *f)
{
    return atomic_load_explicit(&f->raised, memory_order_relaxed);
}

// How the evaluation went: HEARTH_OK, or the code of the error, which is forgotten then. For the thread that
// evaluates, when no other thread may raise one.
int hearth_fault_take(struct hearth_fault *f, struct hearth_error *err);

#endif
