// SPDX-License-Identifier: MIT
// Arguments that are written one by one, as JSON.
#ifndef HEARTH_CALLS_FIELDS_H
#define HEARTH_CALLS_FIELDS_H

#include <jansson.h>
#include <stdbool.h>

#include "schema/text.h"

// An argument and its value as a member of an object, "name": value, which the caller frees; NULL: no memory.
// The value is a text where the schema of the tool's parameters says so, or where it is no JSON.
char *hearth_call_member(const json_t *parameters, const char *name, size_t n_name, const char *value,
                         size_t n_value);

// Adds a value as JSON; without one, the text has failed.
void hearth_call_add_json(struct hearth_text *t, const json_t *value);

// Whether a schema is one of texts alone.
bool hearth_call_is_text(const json_t *schema);

// The schema of the parameters of the tool of this name; NULL: there is none.
const json_t *hearth_call_parameters(const json_t *tools, const char *name, size_t n);

// The function of an entry of tools: {"name", "description", "parameters", "strict"}; NULL: it is none.
const json_t *hearth_call_function(const json_t *tool);

#endif
