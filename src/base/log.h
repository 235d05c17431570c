// SPDX-License-Identifier: MIT
// Things worth telling the user that are not errors. The library never prints: programs install a sink.
#ifndef HEARTH_BASE_LOG_H
#define HEARTH_BASE_LOG_H

#include "base/error.h"

enum hearth_log_level { HEARTH_LOG_WARNING, HEARTH_LOG_INFO, HEARTH_LOG_DEBUG };

typedef void (*hearth_log_fn)(void *arg, enum hearth_log_level level, const char *message);

// Process-wide; call before other threads start. NULL (the default) drops everything.
void hearth_log_set(hearth_log_fn fn, void *arg);
void hearth_log(enum hearth_log_level level, const char *fmt, ...) HEARTH_PRINTF(2, 3);

#endif
