// SPDX-License-Identifier: MIT
// JSON output by jansson: what it does not do by itself.
#ifndef HEARTH_CLI_JSON_H
#define HEARTH_CLI_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

// A string of any bytes: what is not UTF-8 becomes U+FFFD. NULL when out of memory.
json_t *hearth_json_string(const char *s, size_t n);
// A number; JSON has no NaN and no infinity, which become null.
json_t *hearth_json_real(double v);
// Prints the value and a newline, on one line or indented, and releases it. False when building (value NULL)
// or printing failed.
bool hearth_json_print(json_t *value, FILE *to, bool indented);

#endif
