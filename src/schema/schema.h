// SPDX-License-Identifier: MIT
// JSON schemas as grammars. docs/grammar.md says which keywords there are and what they become.
#ifndef HEARTH_SCHEMA_SCHEMA_H
#define HEARTH_SCHEMA_SCHEMA_H

#include <jansson.h>

#include "hearth.h"
#include "schema/text.h"

// What "response_format": {"type": "json_object"} asks for, as a schema.
#define HEARTH_SCHEMA_ANY_OBJECT "{\"type\": \"object\"}"

// Makes a grammar in GBNF, a string that the caller frees, of a JSON schema. Whatever the grammar allows is
// valid under the schema; of what is valid, it allows what docs/grammar.md says. Errors: HEARTH_E_FORMAT (no
// JSON, or no schema), HEARTH_E_UNSUPPORTED (a keyword that no grammar is made of, named with its place),
// HEARTH_E_INVALID (nothing is valid), HEARTH_E_MEMORY. Threads: any.
int hearth_schema_to_gbnf(char **out, const char *json, size_t len, struct hearth_error *err);

// For grammars that hold several schemas. Adds the rules of a schema to a text of them, numbered from
// *n_rules on, which goes up: 0 at first. Returns the number N of the rule "rN", which is its values without
// blanks around them, or a negative code, as above; the text is as it was then. Needs hearth_schema_base in
// the text, once.
int hearth_schema_add(struct hearth_text *rules, int *n_rules, const json_t *schema,
                      struct hearth_error *err);
extern const char hearth_schema_base[];

#endif
