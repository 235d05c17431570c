// SPDX-License-Identifier: MIT
// The first screen of --help: the options that people need, in 24 lines of 80 columns.
#ifndef HEARTH_CLI_HELP_H
#define HEARTH_CLI_HELP_H

#include "cli/options.h"

// Prints the help of a sub-command, or with NULL of the program, to standard output. `how` is the word that
// follows --help: with "all" every option is in it, else (it may be NULL) only the most important ones.
void hearth_help(const struct hearth_command *cmd, const char *how);

#endif
