// SPDX-License-Identifier: MIT
// --grammar, --json-schema and their files: what the text is to be.
#ifndef HEARTH_CLI_CONSTRAINT_H
#define HEARTH_CLI_CONSTRAINT_H

#include "cli/common.h"

// Reads the grammar that the options ask for, in GBNF, and adds it to *gbnf; none: nothing. Prints any error,
// which `cmd` has made, and returns an exit status.
int hearth_cli_read_constraint(const struct hearth_options *o, const struct hearth_command *cmd,
                               struct hearth_buffer *gbnf);

#endif
