// SPDX-License-Identifier: MIT
// The input of OpenAI's responses as messages and tools of its chat completions.
#include "serve/response_input.h"

#include <string.h>

#include "serve/fields.h"

static const char *text_field(const json_t *item, const char *name)
{
    const char *text = json_string_value(json_object_get(item, name));
    return text ? text : "";
}

static bool refuse(struct hearth_exchange *x, const char *what)
{
    hearth_exchange_error(x, 400, "input", "input: %s", what);
    return false;
}

// A content's text: a string, or parts of text.
static bool add_text(struct hearth_out *out, const json_t *content)
{
    json_t *part;
    size_t i;
    if (json_is_string(content)) {
        hearth_out_add(out, json_string_value(content), json_string_length(content));
        return true;
    }
    json_array_foreach(content, i, part)
    {
        const char *type = text_field(part, "type");
        const json_t *text = json_object_get(part, strcmp(type, "refusal") ? "text" : "refusal");
        if ((!strstr(type, "text") && strcmp(type, "refusal") != 0) || !json_is_string(text))
            return false;
        hearth_out_add(out, json_string_value(text), json_string_length(text));
    }
    return json_is_array(content);
}

static json_t *last_assistant(const json_t *messages)
{
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    return json_array_size(messages) && !strcmp(text_field(last, "role"), "assistant") ? last : NULL;
}

static bool add_message(struct hearth_exchange *x, json_t *to, const char *role, const json_t *content)
{
    struct hearth_out text = {0};
    const bool ok = add_text(&text, content);
    json_t *last = last_assistant(to);
    if (!ok)
        refuse(x, "models here read text only");
    else if (last && !strcmp(role, "assistant") && !json_string_length(json_object_get(last, "content")))
        json_object_set_new(last, "content", hearth_exchange_string(&text)); // after its thoughts
    else
        json_array_append_new(
            to, json_pack("{s:s, s:o}", "role", role, "content", hearth_exchange_string(&text)));
    hearth_out_free(&text);
    return ok;
}

// Calls and thoughts belong to a message of the model, which may have to be made.
static json_t *want_assistant(json_t *to)
{
    json_t *last = last_assistant(to);
    if (last)
        return last;
    json_array_append_new(to, json_pack("{s:s, s:s}", "role", "assistant", "content", ""));
    return last_assistant(to);
}

static void add_call(json_t *to, const json_t *item)
{
    json_t *message = want_assistant(to), *calls = json_object_get(message, "tool_calls");
    json_t *call =
        json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", text_field(item, "call_id"), "type", "function",
                  "function", "name", text_field(item, "name"), "arguments", text_field(item, "arguments"));
    if (!calls) {
        calls = json_array();
        json_object_set_new(message, "tool_calls", calls);
    }
    json_array_append_new(calls, call);
}

static bool add_result(struct hearth_exchange *x, json_t *to, const json_t *item)
{
    if (!add_message(x, to, "tool", json_object_get(item, "output")))
        return false;
    json_t *message = json_array_get(to, json_array_size(to) - 1);
    return !json_object_set_new(message, "tool_call_id", json_string(text_field(item, "call_id")));
}

static void add_thoughts(json_t *to, const json_t *item)
{
    struct hearth_out text = {0};
    if (add_text(&text, json_object_get(item, "content")) && text.n)
        json_object_set_new(want_assistant(to), "reasoning_content", hearth_exchange_string(&text));
    hearth_out_free(&text);
}

static bool add_item(struct hearth_exchange *x, json_t *to, const json_t *item)
{
    const char *type = text_field(item, "type"), *role = text_field(item, "role");
    if (!strcmp(type, "function_call"))
        add_call(to, item);
    else if (!strcmp(type, "function_call_output"))
        return add_result(x, to, item);
    else if (!strcmp(type, "reasoning"))
        add_thoughts(to, item);
    else if (*role && (!*type || !strcmp(type, "message")))
        return add_message(x, to, role, json_object_get(item, "content"));
    else
        return refuse(x, "items are messages, function_call, function_call_output or reasoning");
    return true;
}

json_t *hearth_response_messages(struct hearth_exchange *x)
{
    const json_t *input = hearth_request_field(x, "input"),
                 *instructions = hearth_request_field(x, "instructions");
    json_t *all = json_array(), *item;
    size_t i;
    bool ok =
        json_is_string(input) || json_is_array(input) || refuse(x, "a text or an array of items is wanted");
    if (ok && instructions)
        ok = add_message(x, all, "system", instructions);
    if (ok && json_is_string(input))
        ok = add_message(x, all, "user", input);
    json_array_foreach(input, i, item) ok = ok && add_item(x, all, item);
    if (ok)
        return all;
    json_decref(all);
    return NULL;
}

// The fields of a function lie in the tool itself here. Other kinds are tools of OpenAI's servers, which
// there are none of: agents offer them along with their own.
json_t *hearth_response_tools(struct hearth_exchange *x)
{
    json_t *given = hearth_request_field(x, "tools"), *tool, *all = json_array();
    size_t i;
    json_array_foreach(given, i, tool)
    {
        if (strcmp(text_field(tool, "type"), "function") != 0)
            continue;
        json_t *function = json_copy(tool);
        json_object_del(function, "type");
        json_array_append_new(all, json_pack("{s:s, s:o}", "type", "function", "function", function));
    }
    if (json_array_size(all))
        return all;
    json_decref(all);
    return NULL;
}
