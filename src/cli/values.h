// SPDX-License-Identifier: MIT
// The values of options: from text to fields of struct hearth_options.
#ifndef HEARTH_CLI_VALUES_H
#define HEARTH_CLI_VALUES_H

#include "cli/options.h"

// Stores the value. False: the text is not a value of this option.
bool hearth_value_set(const struct hearth_option *opt, const char *text, struct hearth_options *o);

// Describes the values that an option accepts, for messages: "a whole number from 1 to 256".
void hearth_value_describe(const struct hearth_option *opt, char *out, size_t size);

// Says what is wrong with a text that hearth_value_set() did not take: "must be a whole number from 1 to 256".
void hearth_value_complain(const struct hearth_option *opt, const char *text, char *out, size_t size);

#endif
