// SPDX-License-Identifier: MIT
// JSON strings from any bytes.
#ifndef HEARTH_SCHEMA_JSON_STRING_H
#define HEARTH_SCHEMA_JSON_STRING_H

#include <jansson.h>
#include <stddef.h>

// A string from any bytes; bytes that are not UTF-8 become U+FFFD. NULL: no memory.
json_t *hearth_json_string(const char *s, size_t n);

#endif
