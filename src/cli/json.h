// SPDX-License-Identifier: MIT
// JSON output: additions to jansson.
#ifndef HEARTH_CLI_JSON_H
#define HEARTH_CLI_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "schema/json_string.h"

// A number. JSON has no NaN and no infinity; they become null.
json_t *hearth_json_real(double v);
// Prints the value and a newline, on one line or indented, and releases the value. False:
// building (value NULL) or printing failed.
bool hearth_json_print(json_t *value, FILE *to, bool indented);
// What a command with --json answers: prints the value, indented, to standard output, and releases it. Prints
// any error and returns an exit status.
int hearth_json_answer(json_t *value);

#endif
