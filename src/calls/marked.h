// SPDX-License-Identifier: MIT
// Grammars of arguments that are written as an object with plain keys, in the order of their names, and marks round
// texts.
#ifndef HEARTH_CALLS_MARKED_H
#define HEARTH_CALLS_MARKED_H

#include <jansson.h>

#include "calls/tags.h"

struct hearth_marked_rules {
    const struct hearth_call_tags *tags;
    const char *mark;
    int *n_schemas; // rules "r0", "r1", ... of values that are JSON so far
    int *n_rules;   // rules "m0", "m1", ... so far
    struct hearth_error *err;
};

// Adds rules for objects under the schema (NULL: without members) and returns the number of theirs, or a negative
// code. What such grammars cannot enforce, as patterns of texts, is left out, unless `strict`: then
// HEARTH_E_UNSUPPORTED. HEARTH_E_MEMORY.
int hearth_marked_add(struct hearth_text *t, const struct hearth_marked_rules *m, const json_t *schema,
                      bool strict);
// Adds the rules that those refer to, once in a grammar.
void hearth_marked_add_base(struct hearth_text *t, const struct hearth_call_tags *tags, const char *mark);

#endif
