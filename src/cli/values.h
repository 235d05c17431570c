// SPDX-License-Identifier: MIT
// The values of options: from text to fields of struct hearth_options.
#ifndef HEARTH_CLI_VALUES_H
#define HEARTH_CLI_VALUES_H

#include "cli/options.h"

// Stores the value; lists grow by it. False: the text is not a value of this option.
bool hearth_value_set(const struct hearth_option *opt, const char *text, struct hearth_options *o);
// Empties a list, before values that replace its default; other values stay.
void hearth_value_clear(const struct hearth_option *opt, struct hearth_options *o);

// The choices of an option for people: "f16|f32" as "f16, f32".
void hearth_value_choices(const char *choices, char *out, size_t size);

// Describes the values that an option accepts, for messages: "a whole number from 1 to 256".
void hearth_value_describe(const struct hearth_option *opt, char *out, size_t size);

// Says what is wrong with a text that hearth_value_set() did not take: "must be a whole number from 1 to
// 256".
void hearth_value_complain(const struct hearth_option *opt, const char *text, char *out, size_t size);

#endif
