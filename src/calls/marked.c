// SPDX-License-Identifier: MIT
// A rule for each schema. Rules are lines of their own, so those of a schema's parts come before its own.
#include "calls/marked.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "schema/schema.h"

enum { MAX_DEPTH = 32, MAX_RULES = 10000 };

struct maker {
    struct hearth_text *t; // whole rules
    const struct hearth_marked_rules *m;
    const json_t *root;
    bool strict;
    int depth;
};

static int value_rule(struct maker *k, const json_t *schema);

// ---- rules

static int no_memory(const struct maker *k)
{
    return hearth_fail(k->m->err, HEARTH_E_MEMORY, "no memory for the grammar of a tool's arguments");
}

// Makes a rule of what it is, which is freed; `rc`: whether that could be made.
static int add_rule(struct maker *k, struct hearth_text *body, int rc)
{
    const int rule = (*k->m->n_rules)++;
    if (!rc && (body->failed || k->t->failed))
        rc = no_memory(k);
    if (!rc && rule >= MAX_RULES)
        rc = hearth_fail(k->m->err, HEARTH_E_UNSUPPORTED, "the schema is too large");
    if (!rc)
        hearth_text_format(k->t, "m%d ::= ", rule);
    if (!rc)
        hearth_text_add(k->t, body->s ? body->s : "\"\"");
    hearth_text_add(k->t, rc ? "" : "\n");
    hearth_text_free(body);
    return rc ? rc : rule;
}

static void add_text(const struct maker *k, struct hearth_text *body, const char *s)
{
    hearth_call_add_literal(body, k->m->tags, s, strlen(s));
}

// ---- what can be said

static int cannot(const struct maker *k, const char *key)
{
    return hearth_fail(k->m->err, HEARTH_E_UNSUPPORTED,
                       "the schema: %.40s is not supported in this model's calls", key);
}

// With `strict`, whether nothing in the schema is left out. Numbers have rules that know all.
static int check_keys(const struct maker *k, const json_t *schema)
{
    static const char *const known[] = {"type",     "enum",        "const",      "properties", "required",
                                        "items",    "anyOf",       "oneOf",      "$ref",       "$defs",
                                        "title",    "description", "default",    "$id",        "$schema",
                                        "examples", "nullable",    "definitions"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, key, value)
    {
        bool is_known = !strcmp(key, "additionalProperties") && json_is_false(value);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            is_known |= !strcmp(key, known[i]);
        if (k->strict && !is_known)
            return cannot(k, key);
    }
    return HEARTH_OK;
}

// The schema that another one refers to; NULL: it refers to none that is here.
static const json_t *resolve(const struct maker *k, const json_t *schema)
{
    static const char *const places[][2] = {{"#/$defs/", "$defs"}, {"#/definitions/", "definitions"}};
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    for (size_t i = 0; ref && i < 2; i++) {
        const size_t n = strlen(places[i][0]);
        if (!strncmp(ref, places[i][0], n))
            return json_object_get(json_object_get(k->root, places[i][1]), ref + n);
    }
    return NULL;
}

// ---- values

// One of some constants.
static void add_constants(const struct maker *k, struct hearth_text *body, const json_t *values)
{
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *value = json_array_get(values, i);
        const char *text = json_string_value(value);
        char *word =
            text || json_is_object(value) || json_is_array(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
        hearth_text_add(body, i ? "| " : "");
        if (text) {
            add_text(k, body, k->m->mark);
            add_text(k, body, text);
            add_text(k, body, k->m->mark);
        } else {
            hearth_text_add(body, word ? "" : "mvalue ");
            if (word)
                add_text(k, body, word);
        }
        free(word);
    }
}

static int add_list(struct maker *k, struct hearth_text *body, const json_t *schema)
{
    const json_t *items = json_object_get(schema, "items");
    const int rule = json_is_object(items) ? value_rule(k, items) : -1;
    if (json_is_object(items) && rule < 0)
        return rule;
    char name[32] = "mvalue";
    if (rule >= 0)
        snprintf(name, sizeof name, "m%d", rule);
    hearth_text_format(body, "\"[\" (%s (\",\" %s)*)? \"]\" ", name, name);
    return HEARTH_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcasecmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_required(const json_t *schema, const char *name)
{
    const json_t *required = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *is = json_string_value(json_array_get(required, i));
        if (is && !strcmp(is, name))
            return true;
    }
    return false;
}

// The rule of members from this one on, behind others or as the first.
static int add_member(struct maker *k, const char *name, int value, bool required, bool first, int behind,
                      int without)
{
    struct hearth_text body = {0};
    hearth_text_add(&body, first ? "" : "\",\" ");
    add_text(k, &body, name);
    hearth_text_format(&body, "\":\" m%d ", value);
    if (behind >= 0)
        hearth_text_format(&body, "m%d ", behind);
    if (!required && without >= 0)
        hearth_text_format(&body, "| m%d", without);
    else if (!required)
        hearth_text_add(&body, "| \"\"");
    return add_rule(k, &body, HEARTH_OK);
}

// Members in the order of their names, from the last one on, so that each rule knows those behind it.
static int add_members(struct maker *k, struct hearth_text *body, const json_t *schema, const char **names,
                       size_t n)
{
    const json_t *properties = json_object_get(schema, "properties");
    int first = -1, later = -1; // the rules from here on where nothing, or something, came before
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = n; i-- > 0;) {
        const bool required = is_required(schema, names[i]);
        const int value = value_rule(k, json_object_get(properties, names[i]));
        const int next = value < 0 ? value : add_member(k, names[i], value, required, true, later, first);
        const int next_later =
            next < 0 ? next : add_member(k, names[i], value, required, false, later, later);
        if (next_later < 0)
            return next_later;
        first = next;
        later = next_later;
    }
    hearth_text_format(body, "\"{\" m%d \"}\" ", first);
    return HEARTH_OK;
}

static int add_object(struct maker *k, struct hearth_text *body, const json_t *schema)
{
    const json_t *properties = json_object_get(schema, "properties");
    const size_t n = json_object_size(properties);
    if (!n) {
        hearth_text_add(body, properties || json_is_false(json_object_get(schema, "additionalProperties"))
                                  ? "\"{}\" "
                                  : "mobject ");
        return HEARTH_OK;
    }
    const char **names = hearth_calloc(n, sizeof *names);
    const char *name;
    json_t *value;
    size_t i = 0;
    if (!names)
        return no_memory(k);
    json_object_foreach((json_t *)(uintptr_t)properties, name, value) names[i++] = name;
    const int rc = add_members(k, body, schema, names, n);
    free(names);
    return rc;
}

// Numbers and names are as JSON has them.
static int add_json(struct maker *k, struct hearth_text *body, const json_t *schema, const char *type)
{
    json_t *own = json_copy((json_t *)(uintptr_t)schema);
    if (!own || json_object_set_new(own, "type", json_string(type))) {
        json_decref(own);
        return no_memory(k);
    }
    json_object_del(own, "nullable");
    const int rule = hearth_schema_add(k->t, k->m->n_schemas, own, k->strict ? k->m->err : NULL);
    json_decref(own);
    if (rule < 0 && k->strict)
        return rule;
    if (rule < 0)
        hearth_text_add(body, "mvalue ");
    else
        hearth_text_format(body, "r%d ", rule);
    return HEARTH_OK;
}

static int add_type(struct maker *k, struct hearth_text *body, const json_t *schema, const char *type)
{
    if (!strcmp(type, "integer") || !strcmp(type, "number") || !strcmp(type, "boolean") ||
        !strcmp(type, "null"))
        return add_json(k, body, schema, type);
    const int rc = check_keys(k, schema);
    if (rc)
        return rc;
    if (!strcmp(type, "array"))
        return add_list(k, body, schema);
    if (!strcmp(type, "object"))
        return add_object(k, body, schema);
    hearth_text_add(body, strcmp(type, "string") ? "mvalue " : "mtext ");
    return HEARTH_OK;
}

// Any of several schemas.
static int add_choice(struct maker *k, struct hearth_text *body, const json_t *schemas)
{
    for (size_t i = 0; i < json_array_size(schemas); i++) {
        const int rule = value_rule(k, json_array_get(schemas, i));
        if (rule < 0)
            return rule;
        hearth_text_format(body, "%sm%d ", i ? "| " : "", rule);
    }
    return HEARTH_OK;
}

static int add_types(struct maker *k, struct hearth_text *body, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type"), *any = json_object_get(schema, "anyOf");
    int rc = HEARTH_OK;
    if (json_is_string(type)) {
        rc = add_type(k, body, schema, json_string_value(type));
    } else if (json_array_size(type)) {
        for (size_t i = 0; i < json_array_size(type) && !rc; i++) {
            const char *one = json_string_value(json_array_get(type, i));
            hearth_text_add(body, i ? "| " : "");
            rc = add_type(k, body, schema, one ? one : "");
        }
    } else {
        any = any ? any : json_object_get(schema, "oneOf");
        rc = check_keys(k, schema);
        if (!rc && json_array_size(any))
            rc = add_choice(k, body, any);
        else if (!rc)
            rc = add_type(k, body, schema, json_object_get(schema, "properties") ? "object" : "");
    }
    if (!rc && json_is_true(json_object_get(schema, "nullable")))
        hearth_text_add(body, "| \"null\" ");
    return rc;
}

// The rule of values under a schema, or a negative code.
static int value_rule(struct maker *k, const json_t *schema)
{
    struct hearth_text body = {0};
    const json_t *values = json_object_get(schema, "enum"), *constant = json_object_get(schema, "const"),
                 *other = resolve(k, schema);
    int rc = HEARTH_OK;
    if (json_object_get(schema, "$ref") && !other && k->strict)
        rc = cannot(k, "$ref");
    if (++k->depth > MAX_DEPTH) {
        rc = k->strict ? cannot(k, "a schema that refers to itself") : HEARTH_OK;
        hearth_text_add(&body, "mvalue");
    } else if (other && !rc) {
        rc = value_rule(k, other);
        if (rc >= 0)
            hearth_text_format(&body, "m%d", rc);
        rc = rc < 0 ? rc : HEARTH_OK;
    } else if (json_array_size(values)) {
        add_constants(k, &body, values);
    } else if (constant) {
        json_t *list = json_pack("[O]", constant);
        add_constants(k, &body, list);
        json_decref(list);
    } else if (!rc) {
        rc = add_types(k, &body, schema);
    }
    k->depth--;
    return add_rule(k, &body, rc);
}

static int add_schema(struct hearth_text *t, const struct hearth_marked_rules *m, const json_t *schema,
                      bool strict)
{
    struct maker k = {.t = t, .m = m, .root = schema, .strict = strict};
    struct hearth_text none = {0};
    const json_t *known = resolve(&k, schema), *own = known ? known : schema;
    if (!own) {
        hearth_text_add(&none, "\"{}\"");
        return add_rule(&k, &none, HEARTH_OK);
    }
    const int rc = add_object(&k, &none, own);
    return add_rule(&k, &none, rc ? rc : check_keys(&k, own));
}

int hearth_marked_add(struct hearth_text *t, const struct hearth_marked_rules *m, const json_t *schema,
                      bool strict)
{
    const size_t n = t->n;
    const int n_rules = *m->n_rules;
    const int rule = add_schema(t, m, schema, strict);
    if (rule < 0 && t->s) { // the rules that there are have no use, and would be counted
        t->n = n;
        t->s[n] = '\0';
        *m->n_rules = n_rules;
    }
    return rule;
}

void hearth_marked_add_base(struct hearth_text *t, const struct hearth_call_tags *tags, const char *mark)
{
    hearth_text_add(t, "mtext ::= ");
    hearth_call_add_literal(t, tags, mark, strlen(mark));
    hearth_text_add(t, "minside0\n");
    hearth_call_add_until(t, tags, "minside", mark, "mnothing", false);
    hearth_text_add(t, "mnothing ::= \"\"\n"
                       "mvalue ::= mtext | number | \"true\" | \"false\" | \"null\" | mlist | mobject\n"
                       "mlist ::= \"[\" (mvalue (\",\" mvalue)*)? \"]\"\n"
                       "mobject ::= \"{\" (mpair (\",\" mpair)*)? \"}\"\n"
                       "mpair ::= [a-zA-Z0-9_.-]{1,64} \":\" mvalue\n");
}
