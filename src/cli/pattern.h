// SPDX-License-Identifier: MIT
// Regular expressions, as far as they describe names: whether one is found in a text, in time that grows with the product
// of both lengths. Characters, . [sets] and their ranges, \d \w \s and what is none of these, groups, |, * + ? {m,n}, ^ $
// and \b. No look-ahead and no references to groups.
#ifndef HEARTH_CLI_PATTERN_H
#define HEARTH_CLI_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

struct hearth_pattern;

// Of the first n bytes of a text. NULL: it is none, *why saying why (of static storage), or there is no memory for it.
struct hearth_pattern *hearth_pattern_open(const char *text, size_t n, const char **why);
// Whether a part of the text is what the pattern describes.
bool hearth_pattern_is_in(struct hearth_pattern *p, const char *text);
void hearth_pattern_close(struct hearth_pattern *p); // may be NULL

#endif
