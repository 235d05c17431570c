// SPDX-License-Identifier: MIT
// Errors and log messages: formatting into the caller's struct, or into the program's sink.
#include "base/error.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int hearth_fail(struct hearth_error *err, int code, const char *fmt, ...)
{
    if (err) {
        va_list args;
        va_start(args, fmt);
        err->code = code;
        vsnprintf(err->message, sizeof err->message, fmt, args);
        va_end(args);
    }
    return code;
}

int hearth_fail_errno(struct hearth_error *err, int errno_value, const char *fmt, ...)
{
    if (err) {
        char reason[128];
        // The GNU strerror_r may return a static string instead of filling the buffer.
        const char *text = strerror_r(errno_value, reason, sizeof reason);
        va_list args;
        va_start(args, fmt);
        err->code = HEARTH_E_IO;
        int n = vsnprintf(err->message, sizeof err->message, fmt, args);
        va_end(args);
        if (n >= 0 && (size_t)n < sizeof err->message)
            snprintf(err->message + n, sizeof err->message - (size_t)n, ": %s", text);
    }
    return HEARTH_E_IO;
}

static hearth_log_fn log_fn;
static void *log_arg;

void hearth_log_set(hearth_log_fn fn, void *arg)
{
    log_fn = fn;
    log_arg = arg;
}

void hearth_log(enum hearth_log_level level, const char *fmt, ...)
{
    if (!log_fn)
        return;
    char message[500];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    log_fn(log_arg, level, message);
}
