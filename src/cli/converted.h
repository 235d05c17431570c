// SPDX-License-Identifier: MIT
// What quantize and convert say in the same words.
#ifndef HEARTH_CLI_CONVERTED_H
#define HEARTH_CLI_CONVERTED_H

#include "convert/quantize.h"

// Prints which types there are, in place of `name`, and returns an exit status.
int hearth_unknown_type(const char *command, const char *name);
// Says what was written.
void hearth_report_converted(const char *path, const struct hearth_quantize_result *result);

#endif
