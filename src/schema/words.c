// SPDX-License-Identifier: MIT
// The table of keywords.
#include "schema/words.h"

#include <stddef.h>
#include <string.h>

static const char *const notes[] = {
    "title",    "description", "default",    "examples",         "example",         "$schema",
    "$id",      "id",          "$comment",   "$anchor",          "$defs",           "definitions",
    "readOnly", "writeOnly",   "deprecated", "contentMediaType", "contentEncoding", "$vocabulary"};

static const struct {
    const char *word, *type;
} words[] = {
    {"type", ""},
    {"enum", ""},
    {"const", ""},
    {"anyOf", ""},
    {"oneOf", ""},
    {"allOf", ""},
    {"$ref", ""},
    {"nullable", ""},
    {"properties", "object"},
    {"required", "object"},
    {"additionalProperties", "object"},
    {"minProperties", "object"},
    {"items", "array"},
    {"prefixItems", "array"},
    {"minItems", "array"},
    {"maxItems", "array"},
    {"uniqueItems", "array"},
    {"minLength", "string"},
    {"maxLength", "string"},
    {"pattern", "string"},
    {"format", "string"},
    {"minimum", "number"},
    {"maximum", "number"},
    {"exclusiveMinimum", "number"},
    {"exclusiveMaximum", "number"},
};

bool hearth_schema_is_note(const char *word)
{
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++)
        if (!strcmp(notes[i], word))
            return true;
    return false;
}

const char *hearth_schema_type_of(const char *word)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strcmp(words[i].word, word))
            return words[i].type;
    return NULL;
}
