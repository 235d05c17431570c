// SPDX-License-Identifier: MIT
// Texts made from the option table: help, man pages, shell completion.
#ifndef HEARTH_CLI_GENERATE_H
#define HEARTH_CLI_GENERATE_H

#include "cli/options.h"

// Prints the help of one sub-command, or with NULL of the program, to standard output.
void hearth_generate_help(const struct hearth_command *cmd);

// Prints "man" (the page of the sub-command `name`, or with NULL hearth(1)), "bash", "zsh" or "fish" to
// standard output. False when `what` or `name` is unknown.
bool hearth_generate(const char *what, const char *name);

#endif
