// SPDX-License-Identifier: MIT
// Lists of an option's spellings, such as "-n, --predict".
#ifndef HEARTH_CLI_SPELLING_H
#define HEARTH_CLI_SPELLING_H

#include <stdbool.h>

enum { HEARTH_SPELLING_MAX = 40 };

// Steps through a list. Copies the next spelling to `out` and returns the rest of the list; NULL: the end.
const char *hearth_spelling_next(const char *list, char out[HEARTH_SPELLING_MAX]);
bool hearth_spelling_in(const char *list, const char *spelling);
// The name that a list is known by: its last long spelling, or else its last.
void hearth_spelling_long(const char *list, char out[HEARTH_SPELLING_MAX]);

#endif
