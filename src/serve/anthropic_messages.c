// SPDX-License-Identifier: MIT
// Anthropic's messages and tools as those of OpenAI.
#include "serve/anthropic_messages.h"

#include <stdlib.h>
#include <string.h>

#include "serve/fields.h"

static const char *type_of(const json_t *block)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    return type ? type : "";
}

static bool refuse(struct hearth_exchange *x, const char *what)
{
    hearth_exchange_error(x, 400, "messages", "messages: %s", what);
    return false;
}

// Adds a block's text. False: it is no block of text.
static bool add_block(struct hearth_out *out, const json_t *block)
{
    const json_t *text = json_object_get(block, "text");
    if (strcmp(type_of(block), "text") != 0 || !json_is_string(text))
        return false;
    if (out->n)
        hearth_out_text(out, "\n");
    hearth_out_add(out, json_string_value(text), json_string_length(text));
    return true;
}

// Adds a content's text: a string, or blocks of text. False: there is something else in it.
static bool add_text(struct hearth_out *out, const json_t *content)
{
    json_t *block;
    size_t i;
    if (json_is_string(content))
        hearth_out_add(out, json_string_value(content), json_string_length(content));
    json_array_foreach(content, i, block)
    {
        if (!add_block(out, block))
            return false;
    }
    return true;
}

static bool add_message(struct hearth_exchange *x, json_t *to, const char *role, struct hearth_out *text)
{
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", hearth_exchange_string(text));
    hearth_out_free(text);
    if (message && !json_array_append_new(to, message))
        return true;
    hearth_exchange_error(x, 500, NULL, "out of memory");
    return false;
}

// ---- the user's blocks: text, and what tools answered

static bool add_result(struct hearth_exchange *x, json_t *to, const json_t *block)
{
    struct hearth_out text = {0};
    const char *id = json_string_value(json_object_get(block, "tool_use_id"));
    if (!id || !add_text(&text, json_object_get(block, "content"))) {
        hearth_out_free(&text);
        return refuse(x, "the result of a tool wants tool_use_id, and text as its content");
    }
    if (!add_message(x, to, "tool", &text))
        return false;
    json_t *message = json_array_get(to, json_array_size(to) - 1);
    return json_object_set_new(message, "tool_call_id", json_string(id)) == 0;
}

static bool add_user(struct hearth_exchange *x, json_t *to, const json_t *content)
{
    struct hearth_out text = {0};
    json_t *block;
    size_t i;
    bool ok = true;
    if (json_is_string(content))
        add_text(&text, content);
    json_array_foreach(content, i, block)
    {
        const char *type = type_of(block);
        if (!strcmp(type, "tool_result"))
            ok = ok && add_result(x, to, block);
        else if (ok && !add_block(&text, block))
            ok = refuse(x, "models here read text only");
    }
    if (ok && (text.n || json_is_string(content)))
        ok = add_message(x, to, "user", &text);
    hearth_out_free(&text);
    return ok;
}

// ---- the model's blocks: text, thoughts, calls of tools

static json_t *make_call(const json_t *block)
{
    const char *id = json_string_value(json_object_get(block, "id"));
    const char *name = json_string_value(json_object_get(block, "name"));
    json_t *input = json_object_get(block, "input");
    char *arguments = input ? json_dumps(input, 0) : NULL;
    json_t *call = id && name && arguments
                       ? json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type", "function", "function",
                                   "name", name, "arguments", arguments)
                       : NULL;
    free(arguments);
    return call;
}

static bool add_assistant(struct hearth_exchange *x, json_t *to, const json_t *content)
{
    struct hearth_out text = {0}, thoughts = {0};
    json_t *calls = json_array(), *block;
    size_t i;
    bool ok = true;
    if (json_is_string(content))
        add_text(&text, content);
    json_array_foreach(content, i, block)
    {
        const char *type = type_of(block);
        if (!strcmp(type, "thinking"))
            add_text(&thoughts, json_object_get(block, "thinking"));
        else if (!strcmp(type, "tool_use"))
            ok = ok && (!json_array_append_new(calls, make_call(block)) ||
                        refuse(x, "tool_use wants id, name and input"));
        else if (strcmp(type, "redacted_thinking") != 0 && ok && !add_block(&text, block))
            ok = refuse(x, "models here read text only");
    }
    ok = ok && add_message(x, to, "assistant", &text);
    json_t *message = json_array_get(to, json_array_size(to) - 1);
    if (ok && thoughts.n)
        json_object_set_new(message, "reasoning_content", hearth_exchange_string(&thoughts));
    if (ok && json_array_size(calls))
        json_object_set(message, "tool_calls", calls);
    json_decref(calls);
    hearth_out_free(&text);
    hearth_out_free(&thoughts);
    return ok;
}

// ---- the whole request

static bool add_system(struct hearth_exchange *x, json_t *to)
{
    struct hearth_out text = {0};
    const json_t *system = hearth_request_field(x, "system");
    if (!system)
        return true;
    if (!add_text(&text, system)) {
        hearth_out_free(&text);
        return refuse(x, "system: text is wanted");
    }
    return add_message(x, to, "system", &text);
}

json_t *hearth_anthropic_messages(struct hearth_exchange *x)
{
    json_t *given = hearth_request_field(x, "messages"), *all = json_array(), *message;
    size_t i;
    bool ok =
        json_is_array(given) && json_array_size(given) ? add_system(x, all) : refuse(x, "field required");
    json_array_foreach(given, i, message)
    {
        const char *role = json_string_value(json_object_get(message, "role"));
        const json_t *content = json_object_get(message, "content");
        if (!ok)
            break;
        if (!role || !(json_is_string(content) || json_is_array(content)))
            ok = refuse(x, "each wants role and content");
        else if (!strcmp(role, "user"))
            ok = add_user(x, all, content);
        else if (!strcmp(role, "assistant"))
            ok = add_assistant(x, all, content);
        else
            ok = refuse(x, "the roles are user and assistant");
    }
    if (ok)
        return all;
    json_decref(all);
    return NULL;
}

json_t *hearth_anthropic_tools(struct hearth_exchange *x)
{
    json_t *given = hearth_request_field(x, "tools"), *tool, *all;
    size_t i;
    if (!given)
        return NULL;
    all = json_array();
    json_array_foreach(given, i, tool)
    {
        json_t *name = json_object_get(tool, "name"), *about = json_object_get(tool, "description");
        json_t *schema = json_object_get(tool, "input_schema");
        if (!json_is_string(name) || !json_is_object(schema)) {
            hearth_exchange_error(
                x, 400, "tools", "tools: each wants name and input_schema; there are no tools of the server");
            json_decref(all);
            return NULL;
        }
        json_array_append_new(all, json_pack("{s:s, s:{s:O, s:O*, s:O, s:O*}}", "type", "function",
                                             "function", "name", name, "description", about, "parameters",
                                             schema, "strict", json_object_get(tool, "strict")));
    }
    return all;
}
