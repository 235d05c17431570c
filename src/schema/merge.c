// SPDX-License-Identifier: MIT
// Schemas that must all hold become one schema, keyword by keyword.
#include <stdlib.h>
#include <string.h>

#include "schema/insides.h"
#include "schema/schema.h"
#include "schema/words.h"

// Pairs that two lists of alternatives make at most.
#define MAX_PAIRS 1000

// ---- references

// "~1" and "~0" of JSON pointers and %XX of URIs, in place.
static void unescape(char *s)
{
    char *to = s;
    for (; *s; s++) {
        unsigned hex;
        if (*s == '~' && (s[1] == '0' || s[1] == '1'))
            *to++ = *++s == '0' ? '~' : '/';
        else if (*s == '%' && sscanf(s + 1, "%2x", &hex) == 1 && hex && s[1] && s[2]) {
            *to++ = (char)hex;
            s += 2;
        } else
            *to++ = *s;
    }
    *to = '\0';
}

const json_t *hearth_schema_find(struct hearth_conversion *c, const char *ref)
{
    const json_t *at = c->root;
    if (ref[0] != '#' || (ref[1] && ref[1] != '/')) {
        hearth_schema_fail(c, HEARTH_E_UNSUPPORTED, "$ref \"%.80s\": only places in the schema itself, #/...",
                           ref);
        return NULL;
    }
    for (const char *part = ref + 1; at && *part == '/';) {
        const size_t n = strcspn(++part, "/");
        char name[256];
        if (n >= sizeof name) {
            at = NULL;
            break;
        }
        memcpy(name, part, n);
        name[n] = '\0';
        unescape(name);
        at = json_is_array(at) ? json_array_get(at, (size_t)strtoul(name, NULL, 10))
                               : json_object_get(at, name);
        part += n;
    }
    if (!at)
        hearth_schema_fail(c, HEARTH_E_FORMAT, "$ref \"%.80s\": there is no such place", ref);
    return at;
}

// ---- keywords

// [a, b] as what must hold both; NULL: no memory.
static json_t *both(const json_t *a, const json_t *b)
{
    return json_pack("{s:[O,O]}", "allOf", (json_t *)(uintptr_t)a, (json_t *)(uintptr_t)b);
}

static bool contains(const json_t *list, const json_t *value)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), value))
            return true;
    return false;
}

// Counts values of which each is compared with `times` others.
static bool see(struct hearth_conversion *c, size_t n, size_t times)
{
    return hearth_schema_see(c, !times || n <= SIZE_MAX / times ? n * times : SIZE_MAX) == HEARTH_OK;
}

// A "type", which may be a single name, as a list.
static json_t *as_list(const json_t *v)
{
    return json_is_array(v) ? json_copy((json_t *)(uintptr_t)v) : json_pack("[O]", (json_t *)(uintptr_t)v);
}

static json_t *common_types(struct hearth_conversion *c, const json_t *a, const json_t *b)
{
    json_t *x = as_list(a), *y = as_list(b), *out = json_array(), *integer = json_string("integer"),
           *number = json_string("number");
    const bool few = see(c, json_array_size(x), json_array_size(y));
    for (size_t i = 0; few && i < json_array_size(x); i++) {
        json_t *type = json_array_get(x, i);
        if (contains(y, type) || (json_equal(type, integer) && contains(y, number)))
            json_array_append(out, type);
        else if (json_equal(type, number) && contains(y, integer))
            json_array_append(out, integer);
    }
    json_decref(x);
    json_decref(y);
    json_decref(integer);
    json_decref(number);
    if (!few) {
        json_decref(out);
        return NULL;
    }
    return out;
}

static json_t *common_values(struct hearth_conversion *c, const json_t *a, const json_t *b)
{
    json_t *out = see(c, json_array_size(a), json_array_size(b)) ? json_array() : NULL;
    for (size_t i = 0; out && i < json_array_size(a); i++)
        if (contains(b, json_array_get(a, i)))
            json_array_append(out, json_array_get(a, i));
    return out;
}

static json_t *all_names(struct hearth_conversion *c, const json_t *a, const json_t *b)
{
    const bool few = see(c, json_array_size(a) + json_array_size(b), 1);
    json_t *out = few ? json_copy((json_t *)(uintptr_t)a) : NULL,
           *known = out ? hearth_schema_names(a) : NULL;
    for (size_t i = 0; known && i < json_array_size(b); i++) {
        const char *name = json_string_value(json_array_get(b, i));
        if (!name || !json_object_get(known, name)) // what is no name is refused later
            json_array_append(out, json_array_get(b, i));
    }
    json_decref(known);
    return out;
}

static json_t *narrower(const json_t *a, const json_t *b, bool larger)
{
    const bool first = (json_number_value(a) > json_number_value(b)) == larger;
    return json_incref((json_t *)(uintptr_t)(first ? a : b));
}

// What both say with the same word, as a new value; NULL: that cannot be said.
static json_t *merge_word(struct hearth_conversion *c, const char *word, const json_t *a, const json_t *b)
{
    if (!strcmp(word, "type"))
        return common_types(c, a, b);
    if (!strcmp(word, "enum"))
        return common_values(c, a, b);
    if (!strcmp(word, "required"))
        return all_names(c, a, b);
    if (!strcmp(word, "items") || !strcmp(word, "additionalProperties"))
        return json_is_false(a) || json_is_false(b) ? json_false() : both(a, b);
    if (!strncmp(word, "min", 3) || !strcmp(word, "exclusiveMinimum"))
        return narrower(a, b, true);
    if (!strncmp(word, "max", 3) || !strcmp(word, "exclusiveMaximum"))
        return narrower(a, b, false);
    return json_equal((json_t *)(uintptr_t)a, (json_t *)(uintptr_t)b) ? json_incref((json_t *)(uintptr_t)a)
                                                                      : NULL;
}

// ---- properties

// Properties of one schema that the other does not list come under that one's additionalProperties.
static int add_properties(struct hearth_conversion *c, json_t *to, const json_t *from, const json_t *other)
{
    const json_t *listed = json_object_get(other, "properties"),
                 *additional = json_object_get(other, "additionalProperties");
    const char *name;
    json_t *schema;
    json_object_foreach(json_object_get(from, "properties"), name, schema)
    {
        json_t *there = json_object_get(listed, name);
        int failed = 0;
        if (json_object_get(to, name))
            continue;
        if (there)
            failed = json_object_set_new(to, name, both(schema, there));
        else if (json_is_false(additional))
            failed = 0;
        else if (json_is_object(additional))
            failed = json_object_set_new(to, name, both(schema, additional));
        else
            failed = json_object_set(to, name, schema);
        if (failed)
            return hearth_schema_no_memory(c);
    }
    return HEARTH_OK;
}

static int merge_properties(struct hearth_conversion *c, json_t *merged, const json_t *a, const json_t *b)
{
    if (!json_object_get(a, "properties") && !json_object_get(b, "properties"))
        return HEARTH_OK;
    json_t *properties = json_object();
    int rc = hearth_schema_see(c, json_object_size(json_object_get(a, "properties")) +
                                      json_object_size(json_object_get(b, "properties")));
    if (!rc)
        rc = add_properties(c, properties, a, b);
    if (!rc)
        rc = add_properties(c, properties, b, a);
    if (json_object_set_new(merged, "properties", properties) && !rc)
        rc = hearth_schema_no_memory(c);
    return rc;
}

// ---- combinations

// One of a and one of b; NULL: too many pairs.
static json_t *all_pairs(const json_t *a, const json_t *b)
{
    if (!json_is_array(a) || !json_is_array(b) || json_array_size(a) * json_array_size(b) > MAX_PAIRS)
        return NULL;
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(a); i++)
        for (size_t k = 0; k < json_array_size(b); k++)
            json_array_append_new(out, both(json_array_get(a, i), json_array_get(b, k)));
    return out;
}

static json_t *joined(const json_t *a, const json_t *b)
{
    json_t *out = json_copy((json_t *)(uintptr_t)a);
    json_array_extend(out, (json_t *)(uintptr_t)b);
    return out;
}

// ---- whole schemas

// A second "$ref" goes into "allOf".
static int add_ref(struct hearth_conversion *c, json_t *merged, const json_t *ref)
{
    json_t *list = json_pack("[{s:O}]", "$ref", (json_t *)(uintptr_t)ref),
           *known = json_object_get(merged, "allOf");
    const int failed = json_object_set_new(merged, "allOf", known ? joined(known, list) : json_incref(list));
    json_decref(list);
    return failed ? hearth_schema_no_memory(c) : HEARTH_OK;
}

static int set_word(struct hearth_conversion *c, json_t *merged, const char *word, const json_t *value)
{
    // A constant is a list of one value.
    if (!strcmp(word, "const")) {
        json_t *list = json_pack("[O]", (json_t *)(uintptr_t)value), *known = json_object_get(merged, "enum");
        const int failed =
            json_object_set_new(merged, "enum", known ? common_values(c, known, list) : json_incref(list));
        json_decref(list);
        return !failed ? HEARTH_OK : c->err->code ? c->err->code : hearth_schema_no_memory(c);
    }
    json_t *known = json_object_get(merged, word), *made;
    if (!known)
        return json_object_set(merged, word, (json_t *)(uintptr_t)value) ? hearth_schema_no_memory(c)
                                                                         : HEARTH_OK;
    if (!strcmp(word, "anyOf") || !strcmp(word, "oneOf"))
        made = all_pairs(known, value);
    else if (!strcmp(word, "allOf"))
        made = joined(known, value);
    else if (!strcmp(word, "$ref"))
        return add_ref(c, merged, value);
    else
        made = merge_word(c, word, known, value);
    if (!made && c->err->code)
        return c->err->code;
    if (!made)
        return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED,
                                  "two different values of %s for one place, or very many", word);
    return json_object_set_new(merged, word, made) ? hearth_schema_no_memory(c) : HEARTH_OK;
}

static int add_words(struct hearth_conversion *c, json_t *merged, const json_t *from)
{
    const char *word;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)from, word, value)
    {
        if (hearth_schema_is_note(word) || !strcmp(word, "properties"))
            continue;
        const int rc = set_word(c, merged, word, value);
        if (rc)
            return rc;
    }
    return HEARTH_OK;
}

json_t *hearth_schema_merge(struct hearth_conversion *c, const json_t *a, const json_t *b)
{
    json_t *merged = json_object();
    if (hearth_schema_keep(c, merged))
        return NULL;
    if (json_is_false(a) || json_is_false(b)) {
        hearth_schema_fail(c, HEARTH_E_INVALID, "nothing is valid here");
        return NULL;
    }
    const json_t *sides[2] = {a, b};
    for (int i = 0; i < 2; i++)
        if (json_is_object(sides[i]) && add_words(c, merged, sides[i]))
            return NULL;
    if (json_is_object(a) && json_is_object(b)) {
        if (merge_properties(c, merged, a, b))
            return NULL;
    } else if (json_is_object(a) || json_is_object(b)) {
        json_t *properties = json_object_get(json_is_object(a) ? a : b, "properties");
        if (properties && json_object_set(merged, "properties", properties)) {
            hearth_schema_no_memory(c);
            return NULL;
        }
    }
    return merged;
}
