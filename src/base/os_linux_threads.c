// SPDX-License-Identifier: MIT
// Linux: conditions with the monotonic clock, and threads with a short slice.
#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/os_threads.h"

// A thread that wakes pushes aside those whose slice is longer than its own (Linux 6.12; sched_setattr(2)). Usual ones
// are some milliseconds long, which older kernels from 6.6 on may let it wait, too.
#define SLICE_NS 100000

// struct sched_attr, version 0. Not all C libraries have it.
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

void hearth_thread_wake_soon(void)
{
    struct attributes a = {0};
    if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) != 0 || a.policy != SCHED_OTHER)
        return;
    a.runtime = SLICE_NS;
    (void)syscall(SYS_sched_setattr, 0, &a, 0);
}

void hearth_condition_open(pthread_cond_t *condition)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attr);
    pthread_condattr_destroy(&attr);
}

bool hearth_condition_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t ns)
{
    const struct timespec until = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    return pthread_cond_timedwait(condition, mutex, &until) != ETIMEDOUT;
}
