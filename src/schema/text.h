// SPDX-License-Identifier: MIT
// Text that grows, in the language of grammars.
#ifndef HEARTH_SCHEMA_TEXT_H
#define HEARTH_SCHEMA_TEXT_H

#include "base/error.h"

// A growing string. After a failure it stays as it was, and `failed` is set.
struct hearth_text {
    char *s;
    size_t n, cap;
    bool failed;
};

void hearth_text_add(struct hearth_text *t, const char *s);
void hearth_text_add_n(struct hearth_text *t, const char *s, size_t n);
void hearth_text_format(struct hearth_text *t, const char *fmt, ...) HEARTH_PRINTF(2, 3);
// A text in GBNF's quotes, of UTF-8.
void hearth_text_quote(struct hearth_text *t, const char *s, size_t n);
// A character in a class, escaped.
void hearth_text_char(struct hearth_text *t, uint32_t cp);
void hearth_text_free(struct hearth_text *t);

#endif
