// SPDX-License-Identifier: MIT
// Linux: conditions with the monotonic clock.
#include <errno.h>
#include <time.h>

#include "base/os_threads.h"

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
