// SPDX-License-Identifier: MIT
// What POSIX threads do not do alike on all systems. (Windows has them by a library of the compiler's.)
#ifndef HEARTH_BASE_OS_THREADS_H
#define HEARTH_BASE_OS_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Starts a thread with a stack of so many bytes. Signals are not for it, but for the program's own threads. Returns 0,
// or the error's number.
int hearth_thread_start(pthread_t *out, size_t stack, void *(*run)(void *), void *arg);

// The calling thread sleeps most of the time, and is to run as soon as something wakes it, though others compute on all
// processors. Where the system has no way that everybody may go, nothing changes.
void hearth_thread_wake_soon(void);

// A condition whose waits end by the clock of hearth_now_ns(): setting the time makes nobody wait. To be destroyed with
// pthread_cond_destroy().
void hearth_condition_open(pthread_cond_t *condition);
// Waits as pthread_cond_wait() does, until that time at most. False: the time has come.
bool hearth_condition_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t ns);

#endif
