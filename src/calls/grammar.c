// SPDX-License-Identifier: MIT
// The rules of a format: "calls" is all calls, "call" one with what is before and behind it, "body" one without
// what is before, "after" what follows the tag that begins a call in free text.
#include "calls/grammar.h"

#include <stdlib.h>
#include <string.h>

#include "calls/answer.h"
#include "calls/fields.h"
#include "calls/marked.h"
#include "calls/scan.h"
#include "calls/tags.h"
#include "schema/schema.h"

struct rules {
    const struct hearth_call_grammar_params *p;
    const struct hearth_call_format *f;
    struct hearth_call_tags tags;
    struct hearth_text text;    // of all rules
    struct hearth_text schemas; // the rules of arguments
    int n_rules, n_tools, n_marked;
    struct hearth_error *err;
};

static void literal_to(struct rules *r, struct hearth_text *t, const char *s)
{
    if (*s)
        hearth_call_add_literal(t, &r->tags, s, strlen(s));
}

static void literal(struct rules *r, const char *s)
{
    literal_to(r, &r->text, s);
}

// ---- arguments

// The rule of a tool's arguments, or a negative code.
static int add_arguments(struct rules *r, const json_t *function)
{
    const json_t *schema = json_object_get(function, "parameters");
    json_t *none = json_pack("{s:s, s:{}, s:b}", "type", "object", "properties", "additionalProperties", 0),
           *any = json_pack("{s:s}", "type", "object");
    int rule = none && any ? hearth_schema_add(&r->schemas, &r->n_rules, schema ? schema : none, r->err)
                           : hearth_fail(r->err, HEARTH_E_MEMORY, "no memory for a tool's schema");
    if (rule < 0 && rule != HEARTH_E_MEMORY && !json_is_true(json_object_get(function, "strict")))
        rule = hearth_schema_add(&r->schemas, &r->n_rules, any, r->err);
    json_decref(none);
    json_decref(any);
    return rule < 0 ? hearth_fail_in(r->err, rule, "the tool %.60s",
                                     json_string_value(json_object_get(function, "name")))
                    : rule;
}

// ---- one call

// Arguments that a call ends with: blanks may follow them where it has a mark at its end.
static void add_last(struct rules *r, int arguments)
{
    hearth_text_format(&r->text, r->f->end[0] ? "r%d space " : "r%d ", arguments);
}

static void add_object(struct rules *r, const char *name, int arguments)
{
    const struct hearth_call_format *f = r->f;
    char part[256];
    if (f->arguments_first) {
        snprintf(part, sizeof part, "{\"%s\": ", f->arguments_key);
        literal(r, part);
        hearth_text_format(&r->text, "r%d space ", arguments);
        literal(r, ", \"name\": \"");
        literal(r, name);
        literal(r, "\"");
    } else {
        literal(r, "{\"name\": \"");
        literal(r, name);
        snprintf(part, sizeof part, "\", \"%s\": ", f->arguments_key);
        literal(r, part);
        hearth_text_format(&r->text, "r%d space ", arguments);
    }
    if (f->call_ids)
        hearth_text_add(&r->text, "\", \\\"id\\\": \\\"\" [a-zA-Z0-9]{9} \"\\\"\" ");
    literal(r, "}");
}

static void add_named(struct rules *r, const char *name, int arguments)
{
    if (r->f->numbered)
        literal(r, "functions.");
    literal(r, name);
    if (r->f->numbered)
        hearth_text_add(&r->text, "\":\" [0-9]{1,3} ");
    literal(r, r->f->between);
    add_last(r, arguments);
}

// ---- arguments in tags

static bool is_required(const json_t *parameters, const char *name)
{
    const json_t *required = json_object_get(parameters, "required");
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *is = json_string_value(json_array_get(required, i));
        if (is && !strcmp(is, name))
            return true;
    }
    return false;
}

// Adds what a value that is JSON may be. Its schema may refer to definitions of the parameters.
static void add_value(struct rules *r, struct hearth_text *t, const json_t *parameters, json_t *schema)
{
    json_t *whole = json_is_object(schema) ? json_copy(schema) : json_object(),
           *definitions = json_object_get(parameters, "$defs");
    if (definitions)
        json_object_set(whole, "$defs", definitions);
    const int rule = hearth_schema_add(&r->schemas, &r->n_rules, whole, NULL);
    json_decref(whole);
    if (rule < 0)
        hearth_text_add(t, "value space ");
    else
        hearth_text_format(t, "r%d space ", rule);
}

// The rule of the i-th argument of a tool, which leads on to the next one's.
static void add_field(struct rules *r, struct hearth_text *t, int tool, int i, const json_t *parameters,
                      const char *name, json_t *schema)
{
    const struct hearth_call_format *f = r->f;
    char next[64], text[64];
    snprintf(next, sizeof next, "f%d-%d", tool, i + 1);
    snprintf(text, sizeof text, "s%d-%d-", tool, i);
    hearth_text_format(t, "f%d-%d ::= ", tool, i);
    literal_to(r, t, f->field);
    literal_to(r, t, name);
    literal_to(r, t, f->field_middle);
    const bool is_text = hearth_call_is_text(schema),
               is_free = is_text && !json_array_size(json_object_get(schema, "enum"));
    if (is_text && !is_free) {
        const json_t *values = json_object_get(schema, "enum");
        for (size_t k = 0; k < json_array_size(values); k++) {
            hearth_text_add(t, k ? "| " : "(");
            const char *value = json_string_value(json_array_get(values, k));
            literal_to(r, t, value ? value : "");
        }
        hearth_text_add(t, ") ");
    } else if (!is_text) {
        add_value(r, t, parameters, schema);
    }
    if (is_free) {
        hearth_text_format(t, "%s0", text);
    } else {
        literal_to(r, t, f->field_end);
        hearth_text_add(t, next);
    }
    hearth_text_format(t, is_required(parameters, name) ? "\n" : " | %s\n", next);
    if (is_free)
        hearth_call_add_until(t, &r->tags, text, f->field_end, next, false);
}

static void add_fields(struct rules *r, const json_t *function)
{
    const json_t *parameters = json_object_get(function, "parameters");
    const char *name;
    json_t *schema;
    struct hearth_text t = {0};
    const int tool = r->n_tools++;
    int i = 0;
    literal(r, json_string_value(json_object_get(function, "name")));
    literal(r, r->f->between);
    hearth_text_format(&r->text, "f%d-0 ", tool);
    json_object_foreach(json_object_get(parameters, "properties"), name, schema)
        add_field(r, &t, tool, i++, parameters, name, schema);
    hearth_text_format(&t, "f%d-%d ::= \"\"\n", tool, i);
    if (t.failed)
        r->schemas.failed = true;
    else
        hearth_text_add(&r->schemas, t.s);
    hearth_text_free(&t);
}

// ---- arguments with plain keys and marks round texts

// A schema that no grammar is made of becomes any object, unless its tool is strict.
static int add_marked(struct rules *r, const json_t *function)
{
    const bool strict = json_is_true(json_object_get(function, "strict"));
    struct hearth_marked_rules m = {.tags = &r->tags,
                                    .mark = r->f->mark,
                                    .n_schemas = &r->n_rules,
                                    .n_rules = &r->n_marked,
                                    .err = r->err};
    const int rule = hearth_marked_add(&r->schemas, &m, json_object_get(function, "parameters"), strict);
    if (rule < 0 && (strict || rule == HEARTH_E_MEMORY))
        return hearth_fail_in(r->err, rule, "the tool %.60s",
                              json_string_value(json_object_get(function, "name")));
    literal(r, json_string_value(json_object_get(function, "name")));
    if (rule < 0)
        hearth_text_add(&r->text, "mobject ");
    else
        hearth_text_format(&r->text, "m%d ", rule);
    return HEARTH_OK;
}

// ---- messages

// The name may come before the channel or behind it.
static void add_message(struct rules *r, const char *name, int arguments)
{
    hearth_text_add(&r->text, "(");
    literal(r, " to=functions.");
    literal(r, name);
    literal(r, "<|channel|>commentary");
    hearth_text_add(&r->text, "| ");
    literal(r, "<|channel|>commentary to=functions.");
    literal(r, name);
    hearth_text_add(&r->text, ") (");
    literal(r, " <|constrain|>json");
    hearth_text_add(&r->text, "| \" json\")? ");
    literal(r, "<|message|>");
    add_last(r, arguments);
}

static int add_body(struct rules *r, const json_t *function)
{
    static void (*const styles[])(struct rules *, const char *, int) = {
        [HEARTH_CALLS_OBJECT] = add_object,
        [HEARTH_CALLS_NAMED] = add_named,
        [HEARTH_CALLS_HARMONY] = add_message,
    };
    const char *name = json_string_value(json_object_get(function, "name"));
    for (const char *c = name; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
              strchr("_-.", *c)))
            return hearth_fail(r->err, HEARTH_E_INVALID,
                               "the tool %.60s: a name has letters, digits, _, - and .", name);
    if (r->f->style == HEARTH_CALLS_FIELDS) {
        add_fields(r, function);
        return HEARTH_OK;
    }
    if (r->f->style == HEARTH_CALLS_MARKED)
        return add_marked(r, function);
    const int arguments = add_arguments(r, function);
    if (arguments >= 0)
        styles[r->f->style](r, name, arguments);
    return arguments < 0 ? arguments : HEARTH_OK;
}

// body ::= (one of the tools) end
static int add_bodies(struct rules *r)
{
    const char *before = "body ::= (";
    int n = 0;
    for (size_t i = 0; i < json_array_size(r->p->tools); i++) {
        const json_t *function = hearth_call_function(json_array_get(r->p->tools, i));
        if (!function ||
            (r->p->only && strcmp(r->p->only, json_string_value(json_object_get(function, "name"))) != 0))
            continue;
        hearth_text_add(&r->text, before);
        const int rc = add_body(r, function);
        if (rc)
            return rc;
        before = " | ";
        n++;
    }
    if (!n && r->p->only)
        return hearth_fail(r->err, HEARTH_E_INVALID, "there is no tool %.60s", r->p->only);
    if (!n)
        return hearth_fail(r->err, HEARTH_E_INVALID, "there are no tools to be called");
    hearth_text_add(&r->text, ") ");
    literal(r, r->f->end);
    hearth_text_add(&r->text, "\n");
    return HEARTH_OK;
}

// ---- all calls

static void add_more(struct rules *r)
{
    hearth_text_add(&r->text, "more ::= ");
    if (r->f->parallel && r->p->parallel) {
        hearth_text_add(&r->text, "(");
        literal(r, r->f->separator);
        hearth_text_add(&r->text, "call)* ");
    }
    literal(r, r->f->closing[0] ? r->f->closing : "");
    hearth_text_add(&r->text, "\"\"\n");
}

static void add_calls(struct rules *r)
{
    const struct hearth_call_format *f = r->f;
    hearth_text_add(&r->text, "call ::= ");
    literal(r, f->begin);
    hearth_text_add(&r->text, "body\ncalls ::= ");
    literal(r, f->opening);
    hearth_text_add(&r->text, "call more\n");
    add_more(r);
}

// What follows the trigger, which is the first part of opening or, without one, of begin.
static void add_after(struct rules *r)
{
    const char *first = r->f->opening[0] ? r->f->opening : r->f->begin;
    const char *rest = strstr(first, r->f->trigger);
    hearth_text_add(&r->text, "after ::= ");
    literal(r, rest ? rest + strlen(r->f->trigger) : "");
    hearth_text_add(&r->text, r->f->opening[0] ? "call more\n" : "body more\n");
}

static void add_tagged(struct rules *r)
{
    add_calls(r);
    if (r->p->required) {
        hearth_text_add(&r->text, "answer ::= calls\nlater ::= [ \\n]{0,3} calls\n");
        return;
    }
    add_after(r);
    hearth_call_add_until(&r->text, &r->tags, "free", r->f->trigger, "after", true);
    hearth_text_add(&r->text, "answer ::= free0\nlater ::= free0\n");
}

// An object alone, perhaps behind a control token that says so.
static void add_bare(struct rules *r)
{
    static const char python[] = "<|python_tag|>";
    struct hearth_text *t = &r->text;
    bool has_tag = false;
    for (size_t i = 0; i < r->tags.n; i++)
        has_tag |= !strcmp(r->tags.v[i].text, python);
    add_calls(r);
    hearth_text_add(t, "later ::= [ \\n]{0,3} answer\nanswer ::= ");
    if (has_tag) {
        literal(r, python);
        hearth_text_add(t, "? ");
    }
    hearth_text_add(t, r->p->required ? "calls\n" : "calls | free0\n");
    if (!r->p->required)
        hearth_call_add_unlike(t, "free", r->f->arguments_first ? "{\"parameters\": " : "{\"name\": \"");
}

// The header of the message that is the answer.
static void add_final(struct rules *r)
{
    literal(r, "<|channel|>final");
    hearth_text_add(&r->text, "(");
    literal(r, " <|constrain|>json");
    hearth_text_add(&r->text, ")? ");
    literal(r, "<|message|>");
}

// Messages that come before the answer.
static void add_before(struct rules *r)
{
    struct hearth_text *t = &r->text;
    hearth_text_add(t, "before ::= ");
    literal(r, "<|channel|>");
    hearth_text_add(t, "(\"analysis\" | \"commentary\") ");
    literal(r, "<|message|>");
    hearth_text_add(t, "said0\nagain ::= ");
    literal(r, "<|start|>assistant");
    hearth_text_add(t, "answer\n");
    hearth_call_add_until(t, &r->tags, "said", "<|end|>", "again", false);
}

static void add_harmony(struct rules *r)
{
    hearth_text_add(&r->text, "answer ::= before | ");
    if (!r->p->required) {
        add_final(r);
        hearth_text_add(&r->text, ".* | ");
    }
    hearth_text_add(&r->text, "body\n");
    add_before(r);
}

// ---- the whole answer

// Thoughts come first: those that the prompt has begun, or others where the model knows them.
static void add_root(struct rules *r)
{
    const char *close = hearth_answer_begun_thoughts(r->p->prompt, r->p->n_prompt);
    struct hearth_text *t = &r->text;
    const char *open, *own;
    hearth_answer_thoughts(r->f, &open, &own);
    const bool thinks = r->f->style == HEARTH_CALLS_MARKED ? r->tags.channels : r->tags.thinks;
    if (r->f->style == HEARTH_CALLS_HARMONY || (!close && !thinks)) {
        hearth_text_add(t, "root ::= answer\n");
        return;
    }
    hearth_text_add(t, "root ::= ");
    if (!close) {
        hearth_text_add(t, "answer | ");
        literal(r, open);
    }
    hearth_text_add(t, "thought0\n");
    hearth_call_add_until(t, &r->tags, "thought", close ? close : own, "later", false);
}

static int add_all(struct rules *r)
{
    const int rc = add_bodies(r);
    if (rc)
        return rc;
    if (r->f->style == HEARTH_CALLS_HARMONY)
        add_harmony(r);
    else if (r->f->trigger[0])
        add_tagged(r);
    else
        add_bare(r);
    add_root(r);
    hearth_text_add(&r->text, r->schemas.s ? r->schemas.s : "");
    if (r->f->style == HEARTH_CALLS_MARKED)
        hearth_marked_add_base(&r->text, &r->tags, r->f->mark);
    hearth_text_add(&r->text, hearth_schema_base);
    return r->text.failed || r->schemas.failed
               ? hearth_fail(r->err, HEARTH_E_MEMORY, "no memory for the grammar of calls")
               : HEARTH_OK;
}

// ---- a form

static int add_form(struct rules *r, const json_t *schema)
{
    const char *close = hearth_answer_begun_thoughts(r->p->prompt, r->p->n_prompt);
    struct hearth_text *t = &r->text;
    int n_rules = 0;
    const int rule = hearth_schema_add(&r->schemas, &n_rules, schema, r->err);
    if (rule < 0)
        return rule;
    if (r->f->style == HEARTH_CALLS_HARMONY) {
        hearth_text_add(t, "root ::= answer\nanswer ::= before | ");
        add_final(r);
        hearth_text_format(t, "r%d\n", rule);
        add_before(r);
    } else if (close) {
        hearth_text_format(t, "root ::= thought0\nlater ::= [ \\n]{0,3} r%d\n", rule);
        hearth_call_add_until(t, &r->tags, "thought", close, "later", false);
    } else {
        hearth_text_format(t, "root ::= r%d\n", rule);
    }
    hearth_text_add(t, r->schemas.s ? r->schemas.s : "");
    hearth_text_add(t, hearth_schema_base);
    return t->failed || r->schemas.failed
               ? hearth_fail(r->err, HEARTH_E_MEMORY, "no memory for the grammar of a form")
               : HEARTH_OK;
}

static int make(char **gbnf, const struct hearth_call_grammar_params *params, const json_t *schema,
                struct hearth_error *err)
{
    struct rules r = {.p = params, .f = params->format, .err = err};
    *gbnf = NULL;
    int rc = hearth_call_tags_find(&r.tags, params->model, err);
    if (!rc)
        rc = schema ? add_form(&r, schema) : add_all(&r);
    hearth_call_tags_free(&r.tags);
    hearth_text_free(&r.schemas);
    if (rc)
        hearth_text_free(&r.text);
    *gbnf = rc ? NULL : r.text.s;
    return rc;
}

int hearth_call_grammar(char **gbnf, const struct hearth_call_grammar_params *params,
                        struct hearth_error *err)
{
    return make(gbnf, params, NULL, err);
}

int hearth_form_grammar(char **gbnf, const struct hearth_call_grammar_params *params, const json_t *schema,
                        struct hearth_error *err)
{
    return make(gbnf, params, schema, err);
}
