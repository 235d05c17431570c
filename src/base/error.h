// SPDX-License-Identifier: MIT
// Filling struct hearth_error, the only way in which library code reports a failure.
#ifndef HEARTH_BASE_ERROR_H
#define HEARTH_BASE_ERROR_H

#include "hearth.h"

#if defined(__GNUC__)
#define HEARTH_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define HEARTH_PRINTF(fmt, args)
#endif

// Writes code and message to *err (err may be NULL) and returns code, so that callers can `return
// hearth_fail(err, HEARTH_E_FORMAT, "...")`. A message names the file and the remedy, without a final dot or
// newline. Control characters (of quoted names) become question marks. Thread-safe for different *err.
int hearth_fail(struct hearth_error *err, int code, const char *fmt, ...) HEARTH_PRINTF(3, 4);

// The same about a parameter, such as "n_ctx", which the message names, too; a string in static storage.
int hearth_fail_param(struct hearth_error *err, int code, const char *param, const char *fmt, ...)
    HEARTH_PRINTF(4, 5);

// Puts words, at most 99 bytes, and ": " before the message of what has failed with this code; returns the
// code.
int hearth_fail_in(struct hearth_error *err, int code, const char *fmt, ...) HEARTH_PRINTF(3, 4);

// The same as hearth_fail() for a failed system call: appends the text of errno_value.
int hearth_fail_errno(struct hearth_error *err, int errno_value, const char *fmt, ...) HEARTH_PRINTF(3, 4);

// For messages, which quote names and texts from files: these must not control the terminal. Control
// characters (C0, DEL and, as UTF-8, C1) become question marks. An incomplete UTF-8 character at the end is
// removed.
void hearth_make_printable(char *text);

#endif
