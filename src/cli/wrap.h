// SPDX-License-Identifier: MIT
// Text in lines that fit a width.
#ifndef HEARTH_CLI_WRAP_H
#define HEARTH_CLI_WRAP_H

#include <stddef.h>

// The text (UTF-8) in lines of at most `width` columns, a character each, broken at blanks, which go; lines that
// are new begin with `indent` blanks. The text's own newlines stay. A word that is longer than a line stays
// whole. `at`: the column at which the text begins. A new string, which the caller frees; NULL: no memory.
char *hearth_wrap(const char *text, size_t width, size_t indent, size_t at);

#endif
