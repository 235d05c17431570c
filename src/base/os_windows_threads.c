// SPDX-License-Identifier: MIT
// Windows: threads and conditions of the compiler's library, whose conditions know the time of day alone.
#include <errno.h>
#include <time.h>

#include "base/os.h"
#include "base/os_threads.h"
#include "base/os_windows.h"

// Most that is waited at once: setting the time may lengthen a wait by as much.
#define TURN_NS UINT64_C(200000000)

int hearth_thread_start(pthread_t *out, size_t stack, void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc)
        return rc;
    (void)pthread_attr_setstacksize(&attr, stack);
    rc = pthread_create(out, &attr, run, arg);
    pthread_attr_destroy(&attr);
    return rc;
}

void hearth_thread_wake_soon(void)
{
    (void)SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_HIGHEST);
}

void hearth_condition_open(pthread_cond_t *condition)
{
    pthread_cond_init(condition, NULL);
}

bool hearth_condition_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t ns)
{
    const uint64_t now = hearth_now_ns(), left = ns > now ? ns - now : 0;
    const uint64_t turn = left < TURN_NS ? left : TURN_NS;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    const uint64_t end = (uint64_t)until.tv_nsec + turn;
    until.tv_sec += (time_t)(end / 1000000000u);
    until.tv_nsec = (long)(end % 1000000000u);
    const bool late = pthread_cond_timedwait(condition, mutex, &until) == ETIMEDOUT;
    return !late || turn < left; // or it looks again
}
