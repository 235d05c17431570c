// SPDX-License-Identifier: MIT
// What somebody may have meant who wrote an unknown option or command.
#ifndef HEARTH_CLI_SUGGEST_H
#define HEARTH_CLI_SUGGEST_H

#include "cli/options.h"

// Prints a usage error about an option that `cmd` does not have, with what may be meant; returns its status.
int hearth_suggest_option(const struct hearth_command *cmd, const char *spelling);
// Whether `word` is probably a slip for `meant`: at most two edits, of a word that is not much shorter.
bool hearth_suggest_slip(const char *word, const char *meant);
// The same about a command.
int hearth_suggest_command(const char *name);

#endif
