// SPDX-License-Identifier: MIT
// Tags and free text in grammars. A tag that is a control token of the model is named as one.
#ifndef HEARTH_CALLS_TAGS_H
#define HEARTH_CALLS_TAGS_H

#include "schema/text.h"

struct hearth_call_tag {
    char *text;
    size_t n;
    hearth_token token;
};

// The control tokens of a vocabulary that may be parts of a format.
struct hearth_call_tags {
    struct hearth_call_tag *v;
    size_t n, cap;
    bool thinks, channels; // there is a token "<think>", or "<|channel>", of any kind
};

// HEARTH_E_MEMORY. Call hearth_call_tags_free() in any case.
int hearth_call_tags_find(struct hearth_call_tags *tags, const struct hearth_model *model,
                          struct hearth_error *err);
void hearth_call_tags_free(struct hearth_call_tags *tags);

// Adds s[0..n) as it must come: texts in quotes, tokens by number.
void hearth_call_add_literal(struct hearth_text *t, const struct hearth_call_tags *tags, const char *s,
                             size_t n);

// Adds rules "NAME0", "NAME1", ...: any text up to and including the tag, then rule `next`. may_end: the text
// may end before the tag, too.
void hearth_call_add_until(struct hearth_text *t, const struct hearth_call_tags *tags, const char *name,
                           const char *tag, const char *next, bool may_end);
// Adds rules "NAME0", "NAME1", ...: any text that does not begin with `start`, which is ASCII; it may be
// empty.
void hearth_call_add_unlike(struct hearth_text *t, const char *name, const char *start);

#endif
