// SPDX-License-Identifier: MIT
// Names of temporary files: "PATH.0123abcd.part", beside what they are to become.
#ifndef HEARTH_BASE_TEMP_NAME_H
#define HEARTH_BASE_TEMP_NAME_H

#include <stdbool.h>
#include <stddef.h>

// Bytes that such a name is longer.
#define HEARTH_TEMP_SUFFIX 14

// Another one at each call, in temp[strlen(path) + HEARTH_TEMP_SUFFIX + 1].
void hearth_temp_name(char *temp, const char *path);
// How long the name is without its last part; 0: it is no temporary file's.
size_t hearth_temp_name_length(const char *name);
// Whether the first n bytes of a name end so, with something before.
bool hearth_name_ends_with(const char *name, size_t n, const char *end);

#endif
