// SPDX-License-Identifier: MIT
// Texts generated from the option table: help, man pages, shell completion.
#ifndef HEARTH_CLI_GENERATE_H
#define HEARTH_CLI_GENERATE_H

#include "cli/options.h"

// Prints the help of a sub-command with all its options, or with NULL of the program, to standard output. It
// is as wide as the terminal, if that has fewer than 96 columns.
void hearth_generate_help(const struct hearth_command *cmd);

// Prints parts of it: how to call it, and the examples.
void hearth_generate_usage(const struct hearth_command *cmd);
void hearth_generate_examples(const struct hearth_command *cmd);

// Prints to standard output: "man" (the page of the sub-command `name`; NULL: hearth(1)), "bash",
// "zsh" or "fish". False: `what` or `name` is unknown.
bool hearth_generate(const char *what, const char *name);

#endif
