// SPDX-License-Identifier: MIT
// The form that a request wants its answer to have.
#include "serve/response_format.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "calls/grammar.h"
#include "schema/schema.h"
#include "serve/fields.h"

static bool from_schema(struct hearth_exchange *x, const char *field, const json_t *schema, char **gbnf)
{
    struct hearth_error err = {0};
    json_t *any = json_loads(HEARTH_SCHEMA_ANY_OBJECT, 0, NULL);
    // Text that is none of a chat, and content that has begun, are the value alone.
    const bool bare = !x->chat || x->continued;
    const struct hearth_call_format none = {0};
    const struct hearth_call_grammar_params params = {.format = bare ? &none : &x->server->calls,
                                                      .model = x->server->served.model,
                                                      .prompt = bare ? NULL : x->prompt_end.data,
                                                      .n_prompt = bare ? 0 : x->prompt_end.n};
    const int rc = any ? hearth_form_grammar(gbnf, &params, schema ? schema : any, &err) : HEARTH_E_MEMORY;
    json_decref(any);
    if (rc == HEARTH_E_MEMORY)
        hearth_exchange_error(x, 500, NULL, "out of memory");
    else if (rc)
        hearth_exchange_error(x, 400, field, "%s: %s", field, err.message);
    return !rc;
}

static bool is_text(const json_t *format)
{
    const char *type = json_string_value(json_object_get(format, "type"));
    return type && !strcmp(type, "text");
}

// {"type": "json_object" | "json_schema"}, the schema beside it, or one level deeper.
static bool from_format(struct hearth_exchange *x, const char *field, const json_t *format, char **gbnf)
{
    const char *type = json_string_value(json_object_get(format, "type"));
    const json_t *deeper = json_object_get(format, "json_schema"),
                 *schema = json_object_get(format, "schema");
    if (json_object_get(deeper, "schema"))
        schema = json_object_get(deeper, "schema");
    if (type && !strcmp(type, "json_object"))
        return from_schema(x, field, schema, gbnf);
    if (type && !strcmp(type, "json_schema") && schema)
        return from_schema(x, field, schema, gbnf);
    hearth_exchange_error(
        x, 400, field, "%s: the type is text, json_object or json_schema, and the last has a schema", field);
    return false;
}

// Calls of tools are valid under their schemas.
static bool from_tools(struct hearth_exchange *x, char **gbnf)
{
    struct hearth_error err = {0};
    const struct hearth_call_grammar_params params = {.format = &x->server->calls,
                                                      .model = x->server->served.model,
                                                      .tools = x->tools,
                                                      .required = x->must_call,
                                                      .only = x->only_tool,
                                                      .parallel = !x->one_call,
                                                      .prompt = x->prompt_end.data,
                                                      .n_prompt = x->prompt_end.n};
    const int rc = hearth_call_grammar(gbnf, &params, &err);
    if (rc)
        hearth_exchange_error(x, rc == HEARTH_E_MEMORY ? 500 : 400, "tools", "tools: %s", err.message);
    return !rc;
}

bool hearth_response_format(struct hearth_exchange *x, char **gbnf)
{
    const json_t *grammar = hearth_request_field(x, "grammar"),
                 *schema = hearth_request_field(x, "json_schema");
    const json_t *format = hearth_request_field(x, "response_format");
    const json_t *text = json_object_get(hearth_request_field(x, "text"), "format");
    format = is_text(format) ? NULL : format; // asks for nothing
    text = is_text(text) ? NULL : text;
    grammar = json_is_string(grammar) && !json_string_length(grammar) ? NULL : grammar;
    *gbnf = NULL;
    if (!!grammar + !!schema + (format || text) > 1) {
        hearth_exchange_error(x, 400, "grammar",
                              "grammar, json_schema and response_format exclude each other");
        return false;
    }
    if (x->must_call && (grammar || schema || format || text)) {
        hearth_exchange_error(x, 400, "tool_choice",
                              "tool_choice: an answer that must be a call can have no other form");
        return false;
    }
    if (grammar && !json_is_string(grammar)) {
        hearth_exchange_error(x, 400, "grammar", "grammar: a text is wanted");
        return false;
    }
    if (schema)
        return from_schema(x, "json_schema", schema, gbnf);
    if (format || text)
        return from_format(x, format ? "response_format" : "text", format ? format : text, gbnf);
    // Where each message has a header, the grammar begins before it.
    const bool behind = x->continued && !x->must_call && x->server->calls.style == HEARTH_CALLS_HARMONY;
    if (!grammar)
        return !x->tools || behind || from_tools(x, gbnf);
    x->whole_form = true;
    *gbnf = hearth_strndup(json_string_value(grammar), json_string_length(grammar));
    if (!*gbnf)
        hearth_exchange_error(x, 500, NULL, "out of memory");
    return *gbnf != NULL;
}
