// SPDX-License-Identifier: MIT
// What the files of this room share: the state of a conversion.
#ifndef HEARTH_SCHEMA_INSIDES_H
#define HEARTH_SCHEMA_INSIDES_H

#include <jansson.h>

#include "schema/text.h"

struct hearth_conversion {
    const json_t *root;
    struct hearth_text rules; // finished ones, a line each
    json_t *made;             // array that keeps schemas alive that were made on the way
    struct known_ref {
        const json_t *schema;
        int rule;
    } * refs; // schemas that "$ref" has named
    int n_refs, cap_refs;
    int n_rules, depth;
    size_t n_made;  // words and alternatives of what was made
    size_t n_seen;  // values and names that were looked at to make it
    char path[256]; // where we are in the schema, as far as there is room
    struct hearth_error *err;
};

// Says what is wrong at the current place; returns the code.
int hearth_schema_fail(struct hearth_conversion *c, int code, const char *fmt, ...) HEARTH_PRINTF(3, 4);
int hearth_schema_no_memory(struct hearth_conversion *c);
// Keeps a schema that was made on the way, NULL included, until the conversion ends. Those that grow without
// end are refused.
int hearth_schema_keep(struct hearth_conversion *c, json_t *made);
// Counts what is looked at to make schemas of others: that takes at most some seconds in all.
int hearth_schema_see(struct hearth_conversion *c, size_t n);
// The names of a list as the keys of an object; NULL: no memory.
json_t *hearth_schema_names(const json_t *list);

// ---- merge.c
// A schema that is valid where both are. It lives as long as the conversion. NULL: it has failed.
json_t *hearth_schema_merge(struct hearth_conversion *c, const json_t *a, const json_t *b);
// What "$ref" names; NULL: it has failed.
const json_t *hearth_schema_find(struct hearth_conversion *c, const char *ref);

// ---- strings.c
// Adds what a string may be, in its quotes and without the blanks behind it.
// A whole number that the schema gives under this word, 0 or more; *count stays where it gives none.
int hearth_schema_count(struct hearth_conversion *c, const json_t *schema, const char *word,
                        long long *count);
int hearth_schema_string(struct hearth_conversion *c, const json_t *schema, struct hearth_text *out);

// ---- numbers.c
// Adds what a number may be. `whole`: integers only.
int hearth_schema_number(struct hearth_conversion *c, const json_t *schema, bool whole,
                         struct hearth_text *out);

// ---- pattern.c
// Adds the inside of a string that a regular expression finds something in.
int hearth_schema_pattern(struct hearth_conversion *c, const char *pattern, size_t n,
                          struct hearth_text *out);

#endif
