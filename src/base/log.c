// SPDX-License-Identifier: MIT
// Log messages go into the program's sink.
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/threads.h"

// Held while the sink runs: so its messages come one at a time, and none after it was replaced.
static atomic_flag log_lock = ATOMIC_FLAG_INIT;
static hearth_log_fn log_fn;
static void *log_arg;

static void lock_log(void)
{
    unsigned turns = 0;
    while (atomic_flag_test_and_set_explicit(&log_lock, memory_order_acquire))
        hearth_pool_relax(&turns);
}

static void unlock_log(void)
{
    atomic_flag_clear_explicit(&log_lock, memory_order_release);
}

void hearth_log_set(hearth_log_fn fn, void *arg)
{
    lock_log();
    log_fn = fn;
    log_arg = arg;
    unlock_log();
}

void hearth_log(enum hearth_log_level level, const char *fmt, ...)
{
    char message[500];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    hearth_make_printable(message);
    lock_log();
    if (log_fn)
        log_fn(log_arg, level, message);
    unlock_log();
}
