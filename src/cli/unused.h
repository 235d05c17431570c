// SPDX-License-Identifier: MIT
// Options that were given and change nothing, because of what else was given or not.
#ifndef HEARTH_CLI_UNUSED_H
#define HEARTH_CLI_UNUSED_H

#include "cli/options.h"

// Says which ones, and why: a line for each reason. given[offset]: the command line has set the field there.
void hearth_unused_note(const struct hearth_command *cmd, const struct hearth_options *o, const bool *given);

#endif
