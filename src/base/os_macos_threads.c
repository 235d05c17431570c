// SPDX-License-Identifier: MIT
// macOS: classes of threads, and conditions whose waits have a length, since none know the monotonic clock.
#include <errno.h>
#include <pthread/qos.h>
#include <time.h>

#include "base/os.h"
#include "base/os_threads.h"

void hearth_thread_wake_soon(void)
{
    (void)pthread_set_qos_class_self_np(QOS_CLASS_USER_INTERACTIVE, 0);
}

void hearth_condition_open(pthread_cond_t *condition)
{
    pthread_cond_init(condition, NULL);
}

bool hearth_condition_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t ns)
{
    const uint64_t now = hearth_now_ns(), left = ns > now ? ns - now : 0;
    const struct timespec wait = {.tv_sec = (time_t)(left / 1000000000u),
                                  .tv_nsec = (long)(left % 1000000000u)};
    return pthread_cond_timedwait_relative_np(condition, mutex, &wait) != ETIMEDOUT;
}
