// SPDX-License-Identifier: MIT
// Questions to the person at the terminal.
#ifndef HEARTH_CLI_ASK_H
#define HEARTH_CLI_ASK_H

#include <stdbool.h>

#include "base/error.h"

// Whether there is somebody to ask: standard input, output and error are all terminals, and the program is
// not in the background.
bool hearth_can_ask(void);

enum hearth_answer { HEARTH_ANSWER_NO, HEARTH_ANSWER_YES, HEARTH_ANSWER_NONE, HEARTH_ANSWER_INTERRUPTED };

// Asks, "hearth: ... [Y/n] ", until the answer can be understood. Just Enter is yes; the end of input is
// HEARTH_ANSWER_NONE; Ctrl-C is HEARTH_ANSWER_INTERRUPTED, once hearth_cli_catch_interrupt() was called.
enum hearth_answer hearth_ask(const char *fmt, ...) HEARTH_PRINTF(1, 2);

#endif
