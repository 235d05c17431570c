// SPDX-License-Identifier: MIT
// The walk through a schema: each part of it becomes a rule.
#include "schema/schema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "schema/insides.h"
#include "schema/words.h"
#include "text/unicode.h"

enum {
    MAX_DEPTH = 200,   // schemas in schemas
    MAX_RULES = 12000, // a grammar may have some more
    MAX_ALTERNATIVES = 1000,
    MAX_MADE = 200000, // words and alternatives of schemas that are made of others
    MAX_SEEN = 10000000,
    MAX_TYPES = 100
};

// What rules of schemas are made of. Blanks are few, as models like to go on with them: a space, or a new
// line with its indentation, but no empty line.
const char hearth_schema_base[] =
    "space ::= \"\" | \" \" | \"\\n\" [ \\t]{0,20}\n"
    "value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
    "object ::= \"{\" space (pair (\",\" space pair)*)? \"}\"\n"
    "pair ::= string space \":\" space value space\n"
    "array ::= \"[\" space (value space (\",\" space value space)*)? \"]\"\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "char ::= plain | \"\\\\\" ([\\\"\\\\/bfnrt] | \"u\" code)\n"
    "plain ::= [^\\\"\\\\\\x00-\\x1F]\n"
    "code ::= [1-9A-CE-Fa-ce-f] hex{3} | [Dd] ([0-7] hex{2} | [89ABab] hex{2} \"\\\\u\" [Dd] [C-Fc-f] hex{2}) |\n"
    " \"0\" ([1-9A-Fa-f] hex{2} | \"0\" ([1-9A-Fa-f] hex | \"0\" [1-9A-Fa-f]))\n"
    "hex ::= [0-9A-Fa-f]\n"
    "whole ::= \"0\" | [1-9] [0-9]{0,14}\n"
    "integer ::= \"-\"? whole\n"
    "number ::= \"-\"? whole (\".\" [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?\n"
    "two ::= [0-9]{2}\n"
    "fourth ::= \"0\" [48] | [2468] [048] | [13579] [26]\n"
    "leap ::= two fourth | fourth \"00\"\n"
    "year ::= [1-9] [0-9]{3} | \"0\" [1-9] two | \"00\" [1-9] [0-9] | \"000\" [1-9]\n"
    "day28 ::= \"0\" [1-9] | \"1\" [0-9] | \"2\" [0-8]\n"
    "date ::= year \"-\" ((\"0\" [13578] | \"1\" [02]) \"-\" (day28 | \"29\" | \"3\" [01]) |\n"
    " (\"0\" [469] | \"11\") \"-\" (day28 | \"29\" | \"30\") | \"02-\" day28) | leap \"-02-29\"\n"
    "clock ::= ([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9]\n"
    "time ::= clock \":\" [0-5] [0-9] (\".\" [0-9]{1,6})? (\"Z\" | [-+] clock)\n"
    "duration ::= \"P\" (count \"W\" | days hours? | hours)\n"
    "days ::= count \"Y\" (count \"M\")? (count \"D\")? | count \"M\" (count \"D\")? | count \"D\"\n"
    "hours ::= \"T\" (count \"H\" (count \"M\" (count \"S\")?)? | count \"M\" (count \"S\")? | count \"S\")\n"
    "count ::= \"0\" | [1-9] [0-9]{0,3}\n"
    "label ::= [a-zA-Z0-9] ([a-zA-Z0-9-]{0,20} [a-zA-Z0-9])?\n"
    "hostname ::= label (\".\" label){0,4}\n"
    "octet ::= [0-9] | [1-9] [0-9] | \"1\" two | \"2\" ([0-4] [0-9] | \"5\" [0-5])\n";

// Converts a schema and returns the rule of its values, without blanks behind them, or a negative code.
static int convert(struct hearth_conversion *c, const json_t *schema);

// Adds the rule "rN ::= body" and takes the body's memory. Returns N, or a negative code.
static int add_rule(struct hearth_conversion *c, struct hearth_text *body)
{
    const int rule = c->n_rules++;
    if (rule >= MAX_RULES) {
        hearth_text_free(body);
        return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED, "the schema is too large");
    }
    hearth_text_format(&c->rules, "r%d ::= ", rule);
    hearth_text_add(&c->rules, body->s ? body->s : "\"\"");
    hearth_text_add(&c->rules, "\n");
    const bool failed = body->failed || c->rules.failed;
    hearth_text_free(body);
    return failed ? hearth_schema_no_memory(c) : rule;
}

int hearth_schema_keep(struct hearth_conversion *c, json_t *made)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    if (!made || json_array_append_new(c->made, made))
        return hearth_schema_no_memory(c);
    c->n_made += 1 + json_object_size(made);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        c->n_made += json_array_size(json_object_get(made, lists[i]));
    if (c->n_made > MAX_MADE)
        return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED, "the schema is too large, or has no end");
    return HEARTH_OK;
}

int hearth_schema_see(struct hearth_conversion *c, size_t n)
{
    if (n > MAX_SEEN - c->n_seen)
        return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED,
                                  "the schema has too much in it that must all hold");
    c->n_seen += n;
    return HEARTH_OK;
}

json_t *hearth_schema_names(const json_t *list)
{
    json_t *names = json_object();
    for (size_t i = 0; names && i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name && json_object_set_new(names, name, json_true())) {
            json_decref(names);
            return NULL;
        }
    }
    return names;
}

// ---- places

// A name as a part of a JSON pointer, cut where it is long: between characters.
static void add_part(struct hearth_conversion *c, const char *name)
{
    enum { LONGEST = 60 };
    size_t n = strlen(name), at = strlen(c->path);
    if (n > LONGEST)
        for (n = LONGEST; n && ((uint8_t)name[n] & 0xC0) == 0x80;)
            n--;
    if (at + 2 * n + 2 > sizeof c->path)
        return;
    c->path[at++] = '/';
    for (size_t i = 0; i < n; i++) {
        if (name[i] == '~' || name[i] == '/')
            c->path[at++] = '~';
        c->path[at++] = name[i] == '~' ? '0' : name[i] == '/' ? '1' : name[i];
    }
    c->path[at] = '\0';
}

static size_t enter(struct hearth_conversion *c, const char *word, const char *name)
{
    const size_t before = strlen(c->path);
    add_part(c, word);
    if (name)
        add_part(c, name);
    return before;
}

static void leave(struct hearth_conversion *c, size_t before)
{
    c->path[before] = '\0';
}

static int convert_at(struct hearth_conversion *c, const json_t *schema, const char *word, const char *name)
{
    const size_t before = enter(c, word, name);
    const int rule = convert(c, schema);
    leave(c, before);
    return rule;
}

static int convert_index(struct hearth_conversion *c, const json_t *schema, const char *word, size_t i)
{
    char index[24];
    snprintf(index, sizeof index, "%zu", i);
    return convert_at(c, schema, word, index);
}

// ---- constants

static int add_constant(struct hearth_conversion *c, const json_t *value, struct hearth_text *out, int depth)
{
    if (depth > MAX_DEPTH)
        return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED, "a constant that nests too deep");
    if (json_is_array(value) || json_is_object(value)) {
        const bool is_object = json_is_object(value);
        const char *name, *comma = "";
        json_t *part;
        size_t i;
        int rc = HEARTH_OK;
        hearth_text_add(out, is_object ? "\"{\" space" : "\"[\" space");
        json_array_foreach((json_t *)(uintptr_t)value, i, part)
        {
            hearth_text_add(out, comma);
            rc = rc ? rc : add_constant(c, part, out, depth + 1);
            hearth_text_add(out, " space");
            comma = " \",\" space";
        }
        json_object_foreach((json_t *)(uintptr_t)value, name, part)
        {
            json_t *key = json_string(name);
            hearth_text_add(out, comma);
            rc = rc ? rc : add_constant(c, key, out, depth + 1);
            json_decref(key);
            hearth_text_add(out, " space \":\" space");
            rc = rc ? rc : add_constant(c, part, out, depth + 1);
            hearth_text_add(out, " space");
            comma = " \",\" space";
        }
        hearth_text_add(out, is_object ? " \"}\"" : " \"]\"");
        return rc;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    if (!text)
        return hearth_schema_no_memory(c);
    hearth_text_add(out, " ");
    hearth_text_quote(out, text, strlen(text));
    free(text);
    return HEARTH_OK;
}

static bool is_whole(const json_t *value)
{
    return json_is_integer(value) ||
           (json_is_real(value) && json_real_value(value) == nearbyint(json_real_value(value)));
}

// Whether a value is of a type of JSON schemas.
static bool is_of_type(const json_t *value, const char *type)
{
    return !strcmp(type, "object")    ? json_is_object(value)
           : !strcmp(type, "array")   ? json_is_array(value)
           : !strcmp(type, "string")  ? json_is_string(value)
           : !strcmp(type, "number")  ? json_is_number(value)
           : !strcmp(type, "integer") ? is_whole(value)
           : !strcmp(type, "boolean") ? json_is_boolean(value)
                                      : !strcmp(type, "null") && json_is_null(value);
}

static bool has_type(const json_t *schema, const json_t *value)
{
    const json_t *type = json_object_get(schema, "type");
    bool found = !type || (json_is_string(type) && is_of_type(value, json_string_value(type))) ||
                 (json_is_null(value) && json_is_true(json_object_get(schema, "nullable")));
    for (size_t i = 0; i < json_array_size(type); i++) {
        const char *name = json_string_value(json_array_get(type, i));
        found |= name && is_of_type(value, name);
    }
    return found;
}

static int convert_values(struct hearth_conversion *c, const json_t *schema, const json_t *values)
{
    struct hearth_text body = {0};
    const char *bar = "";
    const char *word;
    json_t *value;
    size_t i;
    if (!json_is_array(values))
        return hearth_schema_fail(c, HEARTH_E_FORMAT, "enum must be a list of values");
    json_object_foreach((json_t *)(uintptr_t)schema, word, value)
    {
        const char *type = hearth_schema_type_of(word);
        if (type && *type)
            return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED,
                                      "%s beside enum or const: leave one of them out", word);
    }
    json_array_foreach((json_t *)(uintptr_t)values, i, value)
    {
        if (!has_type(schema, value))
            continue;
        hearth_text_add(&body, bar);
        const int rc = add_constant(c, value, &body, 0);
        if (rc) {
            hearth_text_free(&body);
            return rc;
        }
        bar = " |";
    }
    if (!*bar)
        return hearth_schema_fail(
            c, HEARTH_E_INVALID,
            "none of the values of enum or const is valid: they must be of the type, and there must be one");
    return add_rule(c, &body);
}

// ---- arrays

int hearth_schema_count(struct hearth_conversion *c, const json_t *schema, const char *word, long long *count)
{
    const json_t *v = json_object_get(schema, word);
    if (!v)
        return HEARTH_OK;
    const double value = json_is_number(v) ? json_number_value(v) : -1;
    if (!(value >= 0 && value <= 1e9) || value != (double)(long long)value)
        return hearth_schema_fail(c, HEARTH_E_FORMAT, "%s must be a whole number, 0 or more", word);
    *count = (long long)value;
    return HEARTH_OK;
}

struct array {
    long long min, max; // max -1: any number
    const json_t *prefix;
    int item; // rule of items behind the prefix; -1: there are none
};

static int read_array(struct hearth_conversion *c, const json_t *schema, struct array *a)
{
    const json_t *items = json_object_get(schema, "items");
    *a = (struct array){.max = -1, .prefix = json_object_get(schema, "prefixItems"), .item = -1};
    int rc = hearth_schema_count(c, schema, "minItems", &a->min);
    if (!rc)
        rc = hearth_schema_count(c, schema, "maxItems", &a->max);
    if (rc)
        return rc;
    if (json_is_true(json_object_get(schema, "uniqueItems")))
        return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED, "uniqueItems is not supported: leave it out");
    if (json_is_array(items))
        return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED,
                                  "a list in items is not supported: it is called prefixItems now");
    if (a->prefix && !json_is_array(a->prefix))
        return hearth_schema_fail(c, HEARTH_E_FORMAT, "prefixItems must be a list of schemas");
    const long long n = (long long)json_array_size(a->prefix);
    const bool open = items ? !json_is_false(items) : !n || a->min > n;
    if (open && (a->max < 0 || a->max > n)) {
        a->item = items ? convert_at(c, items, "items", NULL) : convert(c, json_object_get(schema, "items"));
        if (a->item < 0)
            return a->item;
    }
    if (a->item < 0 && (a->max < 0 || a->max > n))
        a->max = n;
    if (a->max >= 0 && a->max < a->min)
        return hearth_schema_fail(
            c, HEARTH_E_INVALID,
            "no array is as long as minItems: maxItems is less, or prefixItems ends before");
    return HEARTH_OK;
}

// Items behind n others: what follows the last of the prefix.
static void add_items(const struct array *a, long long n, struct hearth_text *body)
{
    if (a->item < 0 || a->max == n)
        return;
    const long long min = a->min > n ? a->min - n : 0;
    hearth_text_add(body, n ? " (\",\" space " : " ");
    if (n) {
        hearth_text_format(body, "r%d space){%lld,", a->item, min);
        if (a->max >= 0)
            hearth_text_format(body, "%lld", a->max - n);
        hearth_text_add(body, "}");
        return;
    }
    hearth_text_format(body, "(r%d space (\",\" space r%d space){%lld,", a->item, a->item, min ? min - 1 : 0);
    if (a->max >= 0)
        hearth_text_format(body, "%lld", a->max - 1);
    hearth_text_add(body, min ? "})" : "})?");
}

static int convert_array(struct hearth_conversion *c, const json_t *schema)
{
    struct array a;
    const int rc = read_array(c, schema, &a);
    if (rc)
        return rc;
    const size_t n = json_array_size(a.prefix);
    struct hearth_text tail = {0};
    int tail_rule = -1;
    add_items(&a, (long long)n, &tail);
    for (size_t i = n; i-- > 0;) {
        if (a.max >= 0 && (long long)i >= a.max)
            continue;
        const int item = convert_index(c, json_array_get(a.prefix, i), "prefixItems", i);
        if (item < 0) {
            hearth_text_free(&tail);
            return item;
        }
        tail_rule = add_rule(c, &tail);
        if (tail_rule < 0)
            return tail_rule;
        const char *comma = i ? "\",\" space " : "", *end = (long long)i < a.min ? "" : "?";
        hearth_text_format(&tail, " (%sr%d space r%d)%s", comma, item, tail_rule, end);
    }
    struct hearth_text body = {0};
    hearth_text_add(&body, "\"[\" space");
    hearth_text_add(&body, tail.s ? tail.s : "");
    body.failed |= tail.failed;
    hearth_text_free(&tail);
    hearth_text_add(&body, " \"]\"");
    return add_rule(c, &body);
}

// ---- objects

// Bytes of a property's name, where others must differ from it.
#define MAX_NAME 1000

// Rule of what may come behind the first `at` bytes, which names[0..n) have in common, so that it becomes
// none of these names. They are sorted.
static int other_names(struct hearth_conversion *c, const char **names, size_t n, size_t at)
{
    struct hearth_text body = {0}, firsts = {0};
    size_t i = 0;
    if (at > MAX_NAME) // a rule for each of its characters, and a call within a call
        return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED,
                                  "a property's name of more than %d bytes beside others that may be added",
                                  MAX_NAME);
    if (names[0][at]) // else the empty rest would make it that name
        hearth_text_add(&body, "\"\" | ");
    else
        i = 1;
    while (i < n) {
        uint32_t cp = 0;
        const char *first = names[i] + at;
        const size_t length = hearth_utf8_decode(first, strlen(first), &cp);
        size_t same = i;
        while (same < n && !strncmp(names[same] + at, first, length))
            same++;
        const int rule = other_names(c, names + i, same - i, at + length);
        if (rule < 0) {
            hearth_text_free(&body);
            hearth_text_free(&firsts);
            return rule;
        }
        hearth_text_quote(&body, first, length);
        hearth_text_format(&body, " r%d | ", rule);
        hearth_text_char(&firsts, cp);
        i = same;
    }
    hearth_text_add(&body, "[^\\\"\\\\\\x00-\\x1F");
    hearth_text_add(&body, firsts.s ? firsts.s : "");
    hearth_text_add(&body, "] plain*");
    body.failed |= firsts.failed;
    hearth_text_free(&firsts);
    return add_rule(c, &body);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Whether a name is written without escapes.
static bool is_plain(const char *name)
{
    for (; *name; name++)
        if ((uint8_t)*name < 0x20 || *name == '"' || *name == '\\')
            return false;
    return true;
}

// Adds the name of a property that is none of those listed. It has no escapes, so it cannot be one that has.
static int add_other_name(struct hearth_conversion *c, const json_t *properties, struct hearth_text *out)
{
    const char *name, **names = hearth_calloc(json_object_size(properties) + 1, sizeof *names);
    json_t *value;
    size_t n = 0;
    if (!names)
        return hearth_schema_no_memory(c);
    json_object_foreach((json_t *)(uintptr_t)properties, name, value) if (is_plain(name)) names[n++] = name;
    qsort(names, n, sizeof *names, by_bytes);
    const int rule = n ? other_names(c, names, n, 0) : 0;
    free(names);
    if (n && rule >= 0)
        hearth_text_format(out, "\"\\\"\" r%d \"\\\"\"", rule);
    else
        hearth_text_add(out, "string");
    return rule < 0 ? rule : HEARTH_OK;
}

// The rule of an additional property, name and value; -1: there are none. *failed: a code.
static int additional_rule(struct hearth_conversion *c, const json_t *schema, const json_t *properties,
                           int *failed)
{
    const json_t *additional = json_object_get(schema, "additionalProperties");
    const bool open = additional ? !json_is_false(additional) : !json_object_size(properties);
    if (!open)
        return -1;
    struct hearth_text body = {0};
    *failed = add_other_name(c, properties, &body);
    hearth_text_add(&body, " space \":\" space ");
    if (!*failed && json_is_object(additional) && json_object_size(additional)) {
        const int rule = convert_at(c, additional, "additionalProperties", NULL);
        *failed = rule < 0 ? rule : 0;
        hearth_text_format(&body, "r%d space", rule);
    } else {
        hearth_text_add(&body, "value space");
    }
    if (*failed) {
        hearth_text_free(&body);
        return -1;
    }
    const int rule = add_rule(c, &body);
    *failed = rule < 0 ? rule : 0;
    return rule;
}

// The rule of a listed property, name and value.
static int property_rule(struct hearth_conversion *c, const char *name, const json_t *schema)
{
    const int value = convert_at(c, schema, "properties", name);
    if (value < 0)
        return value;
    struct hearth_text body = {0};
    json_t *key = json_string(name);
    char *text = key ? json_dumps(key, JSON_ENCODE_ANY) : NULL;
    json_decref(key);
    if (!text)
        return hearth_schema_no_memory(c);
    hearth_text_quote(&body, text, strlen(text));
    free(text);
    hearth_text_format(&body, " space \":\" space r%d space", value);
    return add_rule(c, &body);
}

// The properties, in their order, from the last to the first. `after`: what may come behind property i when
// one is written already. `start`: the same when none is.
static int add_members(struct hearth_conversion *c, const json_t *schema, const json_t *properties, int extra,
                       struct hearth_text *start)
{
    struct hearth_text after = {0};
    if (extra >= 0) {
        hearth_text_format(&after, " (\",\" space r%d)*", extra);
        hearth_text_format(start, " (r%d (\",\" space r%d)*)?", extra, extra);
    }
    const size_t n = json_object_size(properties);
    const char *name, **names = hearth_calloc(n + 1, sizeof *names);
    json_t *value;
    json_t *required_names = hearth_schema_names(json_object_get(schema, "required"));
    size_t k = 0;
    int rc = names && required_names ? HEARTH_OK : hearth_schema_no_memory(c);
    json_object_foreach((json_t *)(uintptr_t)properties, name, value) if (names) names[k++] = name;
    while (!rc && k-- > 0) {
        const bool required = json_object_get(required_names, names[k]);
        const int property = property_rule(c, names[k], json_object_get(properties, names[k]));
        const int rest = property < 0 ? property : add_rule(c, &after);
        const int empty = rest < 0 || required ? rest : add_rule(c, start);
        rc = empty < 0 ? empty : HEARTH_OK;
        if (rc)
            break;
        hearth_text_free(start);
        hearth_text_format(&after, required ? " \",\" space r%d r%d" : " (\",\" space r%d)? r%d", property,
                           rest);
        hearth_text_format(start, " (r%d r%d", property, rest);
        if (!required)
            hearth_text_format(start, " | r%d", empty);
        hearth_text_add(start, ")");
    }
    free(names);
    json_decref(required_names);
    hearth_text_free(&after);
    return rc;
}

// Properties that are required but not listed are as the additional ones.
static int list_required(struct hearth_conversion *c, const json_t *schema, json_t *properties)
{
    const json_t *required = json_object_get(schema, "required"),
                 *additional = json_object_get(schema, "additionalProperties");
    if (required && !json_is_array(required))
        return hearth_schema_fail(c, HEARTH_E_FORMAT,
                                  "required must be a list of names, such as [\"a\", \"b\"]");
    if (json_array_size(required) > MAX_RULES) // each would have rules
        return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED, "required has more than %d names", MAX_RULES);
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        if (!name)
            return hearth_schema_fail(c, HEARTH_E_FORMAT,
                                      "required must be a list of names, such as [\"a\", \"b\"]");
        if (json_object_get(properties, name))
            continue;
        if (json_is_false(additional))
            return hearth_schema_fail(c, HEARTH_E_INVALID,
                                      "\"%.60s\" is required, but may not be there: list it in properties",
                                      name);
        if (json_is_object(additional) ? json_object_set(properties, name, (json_t *)(uintptr_t)additional)
                                       : json_object_set_new(properties, name, json_true()))
            return hearth_schema_no_memory(c);
    }
    return HEARTH_OK;
}

static int convert_object(struct hearth_conversion *c, const json_t *schema)
{
    const json_t *listed = json_object_get(schema, "properties"),
                 *least = json_object_get(schema, "minProperties");
    if (listed && !json_is_object(listed))
        return hearth_schema_fail(c, HEARTH_E_FORMAT,
                                  "properties must be an object of names and their schemas");
    if (least && !(json_is_integer(least) && json_integer_value(least) == 0))
        return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED,
                                  "minProperties is not supported: name properties in required instead");
    json_t *properties = listed ? json_copy((json_t *)(uintptr_t)listed) : json_object();
    int rc = hearth_schema_keep(c, properties);
    if (!rc)
        rc = list_required(c, schema, properties);
    struct hearth_text start = {0}, body = {0};
    const int extra = rc ? -1 : additional_rule(c, schema, properties, &rc);
    if (!rc)
        rc = add_members(c, schema, properties, extra, &start);
    hearth_text_add(&body, "\"{\" space");
    hearth_text_add(&body, start.s ? start.s : "");
    body.failed |= start.failed;
    hearth_text_add(&body, " \"}\"");
    hearth_text_free(&start);
    if (rc) {
        hearth_text_free(&body);
        return rc;
    }
    return add_rule(c, &body);
}

// ---- types

static int convert_type(struct hearth_conversion *c, const json_t *schema, const char *type)
{
    struct hearth_text body = {0};
    int rc = HEARTH_OK;
    if (!strcmp(type, "object"))
        return convert_object(c, schema);
    if (!strcmp(type, "array"))
        return convert_array(c, schema);
    if (!strcmp(type, "string"))
        rc = hearth_schema_string(c, schema, &body);
    else if (!strcmp(type, "integer") || !strcmp(type, "number"))
        rc = hearth_schema_number(c, schema, type[0] == 'i', &body);
    else if (!strcmp(type, "boolean"))
        hearth_text_add(&body, "(\"true\" | \"false\")");
    else if (!strcmp(type, "null"))
        hearth_text_add(&body, "\"null\"");
    else
        rc = hearth_schema_fail(
            c, HEARTH_E_FORMAT,
            "there is no type \"%.40s\": string, number, integer, boolean, object, array and null are types",
            type);
    if (rc) {
        hearth_text_free(&body);
        return rc;
    }
    return add_rule(c, &body);
}

// Adds a rule as one more alternative; returns 0 or the code that `rule` is.
static int add_alternative(struct hearth_text *body, int rule)
{
    if (rule < 0)
        return rule;
    hearth_text_format(body, body->n ? " | r%d" : "r%d", rule);
    return HEARTH_OK;
}

// The types that keywords are about, where "type" says nothing.
static int add_types_of_words(struct hearth_conversion *c, const json_t *schema, struct hearth_text *body)
{
    static const char *const types[] = {"object", "array", "string", "number"};
    const char *word;
    json_t *value;
    int rc = HEARTH_OK;
    for (size_t i = 0; i < 4 && !rc; i++) {
        bool found = false;
        json_object_foreach((json_t *)(uintptr_t)schema, word, value)
        {
            const char *type = hearth_schema_type_of(word);
            found |= type && !strcmp(type, types[i]);
        }
        if (found)
            rc = add_alternative(body, convert_type(c, schema, types[i]));
    }
    return rc;
}

static int convert_types(struct hearth_conversion *c, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    struct hearth_text body = {0};
    int rc = HEARTH_OK;
    if (json_is_string(type))
        rc = add_alternative(&body, convert_type(c, schema, json_string_value(type)));
    else if (json_is_array(type))
        for (size_t i = 0; i < json_array_size(type) && !rc; i++) {
            const char *name = json_string_value(json_array_get(type, i));
            rc = add_alternative(
                &body, name ? convert_type(c, schema, name)
                            : hearth_schema_fail(c, HEARTH_E_FORMAT, "a type is a name, such as \"string\""));
        }
    else if (type)
        rc = hearth_schema_fail(c, HEARTH_E_FORMAT,
                                "a type is a name, such as \"string\", or a list of names");
    else
        rc = add_types_of_words(c, schema, &body);
    if (!rc && type && !body.n)
        rc = hearth_schema_fail(c, HEARTH_E_INVALID,
                                "no type is possible here: what is asked for together excludes each other");
    if (!rc && body.n && json_is_true(json_object_get(schema, "nullable")))
        hearth_text_add(&body, " | \"null\"");
    if (rc) {
        hearth_text_free(&body);
        return rc;
    }
    if (!body.n)
        hearth_text_add(&body, "value");
    return add_rule(c, &body);
}

// ---- combinations

// The schema without one keyword; NULL: it has failed.
static json_t *without(struct hearth_conversion *c, const json_t *schema, const char *word)
{
    json_t *rest = json_copy((json_t *)(uintptr_t)schema);
    const char *name;
    json_t *value;
    void *next;
    if (hearth_schema_keep(c, rest))
        return NULL;
    json_object_del(rest, word);
    json_object_foreach_safe(rest, next, name, value) if (hearth_schema_is_note(name))
        json_object_del(rest, name);
    return rest;
}

static int convert_any_of(struct hearth_conversion *c, const json_t *schema, const char *word)
{
    const json_t *list = json_object_get(schema, word);
    json_t *rest = without(c, schema, word), *part;
    struct hearth_text body = {0};
    size_t i;
    int rc = rest ? HEARTH_OK : c->err->code;
    if (!json_is_array(list) || !json_array_size(list) || json_array_size(list) > MAX_ALTERNATIVES)
        return hearth_schema_fail(c, HEARTH_E_FORMAT, "%s must be a list of 1 to %d schemas", word,
                                  MAX_ALTERNATIVES);
    json_array_foreach((json_t *)(uintptr_t)list, i, part)
    {
        if (rc || json_is_false(part))
            continue;
        const json_t *merged = part;
        if (json_object_size(rest))
            merged = hearth_schema_merge(c, rest, part);
        const int rule = merged ? convert_index(c, merged, word, i) : c->err->code;
        // What contradicts the rest of the schema is just no alternative.
        if (rule == HEARTH_E_INVALID)
            *c->err = (struct hearth_error){0};
        else
            rc = add_alternative(&body, rule);
    }
    if (!rc && !body.n)
        rc = hearth_schema_fail(c, HEARTH_E_INVALID,
                                "nothing is valid under %s: all of it contradicts what is beside it", word);
    if (rc) {
        hearth_text_free(&body);
        return rc;
    }
    return add_rule(c, &body);
}

// What a schema that is just a "$ref" names, so that its properties come in their order; else the schema.
static const json_t *named_schema(struct hearth_conversion *c, const json_t *schema)
{
    for (int i = 0; i < MAX_DEPTH && schema; i++) {
        const char *ref = json_string_value(json_object_get(schema, "$ref"));
        if (!ref || json_object_size(schema) != 1)
            break;
        schema = hearth_schema_find(c, ref);
    }
    return schema;
}

static int convert_all_of(struct hearth_conversion *c, const json_t *schema)
{
    const json_t *list = json_object_get(schema, "allOf"), *merged = without(c, schema, "allOf");
    if (!json_is_array(list))
        return hearth_schema_fail(c, HEARTH_E_FORMAT, "allOf must be a list of schemas");
    if (json_array_size(list) > MAX_ALTERNATIVES)
        return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED, "allOf is too large, or has no end");
    for (size_t i = 0; i < json_array_size(list) && merged; i++) {
        const json_t *part = named_schema(c, json_array_get(list, i));
        merged = part ? hearth_schema_merge(c, merged, part) : NULL;
    }
    return merged ? convert(c, merged) : c->err->code;
}

// ---- references

// A rule for what "$ref" names, made when it is first named: the rule is known before its body, so schemas
// may name themselves.
static int convert_ref(struct hearth_conversion *c, const json_t *schema)
{
    const json_t *target = hearth_schema_find(c, json_string_value(json_object_get(schema, "$ref")));
    if (!target)
        return c->err->code;
    for (int i = 0; i < c->n_refs; i++)
        if (c->refs[i].schema == target)
            return c->refs[i].rule;
    if (c->n_refs == c->cap_refs) {
        const int larger = c->cap_refs ? c->cap_refs * 2 : 16;
        struct known_ref *refs = hearth_reallocarray(c->refs, (size_t)larger, sizeof *refs);
        if (!refs)
            return hearth_schema_no_memory(c);
        c->refs = refs;
        c->cap_refs = larger;
    }
    const int rule = c->n_rules++, index = c->n_refs;
    c->refs[c->n_refs++] = (struct known_ref){target, rule};
    const int body = convert_at(c, target, "$ref", NULL);
    if (body >= 0) {
        hearth_text_format(&c->rules, "r%d ::= r%d\n", rule, body);
        return rule;
    }
    // Rules that nothing leads to any more may name it.
    hearth_text_format(&c->rules, "r%d ::= \"\"\n", rule);
    return c->refs[index].rule = body;
}

static int resolve_and_merge(struct hearth_conversion *c, const json_t *schema)
{
    const json_t *ref = json_object_get(schema, "$ref");
    if (!json_is_string(ref))
        return hearth_schema_fail(c, HEARTH_E_FORMAT, "$ref must be a text, such as \"#/$defs/name\"");
    const json_t *rest = without(c, schema, "$ref");
    if (!rest)
        return c->err->code;
    if (!json_object_size(rest))
        return convert_ref(c, schema);
    const json_t *target = hearth_schema_find(c, json_string_value(ref));
    const json_t *merged = target ? hearth_schema_merge(c, target, rest) : NULL;
    return merged ? convert(c, merged) : c->err->code;
}

// ---- the walk

static int check_words(struct hearth_conversion *c, const json_t *schema)
{
    const char *word;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, word, value)
    {
        if (!hearth_schema_is_note(word) && !hearth_schema_type_of(word))
            return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED, "%.60s is not supported: leave it out", word);
    }
    if (json_array_size(json_object_get(schema, "type")) > MAX_TYPES)
        return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED, "type has more than %d names", MAX_TYPES);
    return HEARTH_OK;
}

static int convert_object_schema(struct hearth_conversion *c, const json_t *schema)
{
    const int rc = check_words(c, schema);
    if (rc)
        return rc;
    if (json_object_get(schema, "$ref"))
        return resolve_and_merge(c, schema);
    if (json_object_get(schema, "allOf"))
        return convert_all_of(c, schema);
    if (json_object_get(schema, "anyOf"))
        return convert_any_of(c, schema, "anyOf");
    if (json_object_get(schema, "oneOf"))
        return convert_any_of(c, schema, "oneOf");
    if (json_object_get(schema, "const")) {
        json_t *merged = hearth_schema_merge(c, schema, json_true()); // it becomes an enum
        return merged ? convert_values(c, merged, json_object_get(merged, "enum")) : c->err->code;
    }
    if (json_object_get(schema, "enum"))
        return convert_values(c, schema, json_object_get(schema, "enum"));
    return convert_types(c, schema);
}

static int convert(struct hearth_conversion *c, const json_t *schema)
{
    if (!schema || json_is_true(schema)) {
        struct hearth_text body = {0};
        hearth_text_add(&body, "value");
        return add_rule(c, &body);
    }
    if (json_is_false(schema))
        return hearth_schema_fail(c, HEARTH_E_INVALID, "nothing is valid here, as the schema is false");
    if (!json_is_object(schema))
        return hearth_schema_fail(c, HEARTH_E_FORMAT,
                                  "a schema is an object such as {\"type\": \"string\"}, true or false");
    if (c->depth == MAX_DEPTH)
        return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED, "schemas nest too deep here, or without an end");
    c->depth++;
    const int rule = convert_object_schema(c, schema);
    c->depth--;
    return rule;
}

int hearth_schema_add(struct hearth_text *rules, int *n_rules, const json_t *schema, struct hearth_error *err)
{
    struct hearth_error own = {0};
    struct hearth_conversion c = {
        .root = schema, .made = json_array(), .n_rules = *n_rules, .err = err ? err : &own};
    *c.err = (struct hearth_error){0};
    int rule = c.made ? convert(&c, schema) : hearth_schema_no_memory(&c);
    if (rule >= 0) {
        hearth_text_add(rules, c.rules.s);
        *n_rules = c.n_rules;
        if (rules->failed)
            rule = hearth_schema_no_memory(&c);
    }
    hearth_text_free(&c.rules);
    json_decref(c.made);
    free(c.refs);
    return rule;
}

int hearth_schema_to_gbnf(char **out, const char *json, size_t len, struct hearth_error *err)
{
    *out = NULL;
    json_error_t where;
    json_t *root = json_loadb(json, len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    if (!root)
        return hearth_fail(err, HEARTH_E_FORMAT, "the schema is no JSON: line %d, column %d: %s", where.line,
                           where.column, where.text);
    struct hearth_text text = {0};
    int n_rules = 0;
    const int rule = hearth_schema_add(&text, &n_rules, root, err);
    json_decref(root);
    if (rule >= 0) {
        hearth_text_format(&text, "root ::= r%d\n", rule);
        hearth_text_add(&text, hearth_schema_base);
    }
    if (rule < 0 || text.failed) {
        hearth_text_free(&text);
        return rule < 0 ? rule : hearth_fail(err, HEARTH_E_MEMORY, "no memory for the grammar of a schema");
    }
    *out = text.s;
    return HEARTH_OK;
}
