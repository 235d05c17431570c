// SPDX-License-Identifier: MIT
// Things worth telling the user that are not errors: they go to the sink of hearth_log_set().
#ifndef HEARTH_BASE_LOG_H
#define HEARTH_BASE_LOG_H

#include "base/error.h"

// Any thread. One line, no trailing dot or newline; control characters become question marks.
void hearth_log(enum hearth_log_level level, const char *fmt, ...) HEARTH_PRINTF(2, 3);

#endif
