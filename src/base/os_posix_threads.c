// SPDX-License-Identifier: MIT
// Linux and macOS: threads that get no signals.
#include <signal.h>

#include "base/os_threads.h"

int hearth_thread_start(pthread_t *out, size_t stack, void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int rc = pthread_attr_init(&attr);
    if (rc)
        return rc;
    (void)pthread_attr_setstacksize(&attr, stack); // the usual one will do as well
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // the new thread inherits it
    rc = pthread_create(out, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}
