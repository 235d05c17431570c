// SPDX-License-Identifier: MIT
#include "calls/history.h"

#include <stdlib.h>
#include <string.h>

#include "calls/fields.h"
#include "schema/text.h"

// ---- texts

static bool is_role(const json_t *message, const char *role)
{
    const char *is = json_string_value(json_object_get(message, "role"));
    return is && !strcmp(is, role);
}

// Content is a text, parts with texts, or nothing.
static void add_content(struct hearth_text *t, const json_t *content)
{
    if (json_is_string(content))
        hearth_text_add_n(t, json_string_value(content), json_string_length(content));
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *text = json_object_get(json_array_get(content, i), "text");
        if (json_is_string(text))
            hearth_text_add_n(t, json_string_value(text), json_string_length(text));
    }
}

// A call as the model would write it.
static void add_call(struct hearth_text *t, const struct hearth_call_format *f, const char *name,
                     const char *arguments)
{
    switch (f->style) {
    case HEARTH_CALLS_OBJECT:
        hearth_text_add(t, f->begin);
        hearth_text_add(t, "{\"name\": \"");
        hearth_text_add(t, name);
        hearth_text_add(t, "\", \"");
        hearth_text_add(t, f->arguments_key);
        hearth_text_add(t, "\": ");
        hearth_text_add(t, arguments);
        hearth_text_add(t, "}");
        break;
    case HEARTH_CALLS_NAMED:
        hearth_text_add(t, f->begin);
        hearth_text_add(t, name);
        hearth_text_add(t, f->between);
        hearth_text_add(t, arguments);
        break;
    case HEARTH_CALLS_FIELDS: // such templates write calls and list tools
    case HEARTH_CALLS_MARKED:
        break;
    case HEARTH_CALLS_HARMONY:
        hearth_text_add(t, "<|channel|>commentary to=functions.");
        hearth_text_add(t, name);
        hearth_text_add(t, " <|constrain|>json<|message|>");
        hearth_text_add(t, arguments);
        hearth_text_add(t, "<|call|>");
        break;
    }
    hearth_text_add(t, f->end);
}

static json_t *take_text(struct hearth_text *t)
{
    json_t *value = t->failed ? NULL : json_stringn(t->s ? t->s : "", t->n);
    hearth_text_free(t);
    return value;
}

// ---- which tools there are

static void add_instructions(struct hearth_text *t, const struct hearth_call_format *f, const json_t *tools)
{
    hearth_text_add(t, "You can call functions. These are there, with JSON schemas of their arguments:\n");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = hearth_call_function(json_array_get(tools, i));
        if (!function)
            continue;
        hearth_call_add_json(t, function);
        hearth_text_add(t, "\n");
    }
    hearth_text_add(t, "To call one, answer in this form, and with nothing behind it:\n");
    hearth_text_add(t, f->opening);
    add_call(t, f, "NAME", "{ARGUMENTS}");
    hearth_text_add(t, f->closing);
}

// Puts the instructions behind the system's message, or makes one.
static bool instruct(json_t *messages, const struct hearth_call_format *f, const json_t *tools)
{
    json_t *first = json_array_get(messages, 0);
    const bool there = is_role(first, "system") || is_role(first, "developer");
    struct hearth_text t = {0};
    if (there) {
        add_content(&t, json_object_get(first, "content"));
        hearth_text_add(&t, "\n\n");
    }
    add_instructions(&t, f, tools);
    json_t *content = take_text(&t);
    if (!content)
        return false;
    if (there)
        return !json_object_set_new(first, "content", content);
    return !json_array_insert_new(messages, 0, json_pack("{s:s, s:o}", "role", "system", "content", content));
}

// ---- earlier calls and results

// The calls of a message of the assistant's behind its content.
static bool write_calls(json_t *message, const struct hearth_call_format *f)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    struct hearth_text t = {0};
    add_content(&t, json_object_get(message, "content"));
    hearth_text_add(&t, t.n ? "\n" : "");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *function = hearth_call_function(json_array_get(calls, i)),
                     *arguments = json_object_get(function, "arguments");
        char *text = arguments && !json_is_string(arguments) ? json_dumps(arguments, 0) : NULL;
        const char *as_text = text ? text : json_string_value(arguments);
        hearth_text_add(&t, i ? f->separator : f->opening);
        if (function)
            add_call(&t, f, json_string_value(json_object_get(function, "name")), as_text ? as_text : "{}");
        free(text);
    }
    hearth_text_add(&t, f->closing);
    json_t *content = take_text(&t);
    json_object_del(message, "tool_calls");
    return content && !json_object_set_new(message, "content", content);
}

// Results that follow each other are one message of the user's: many templates want turns.
static bool write_result(json_t *out, const json_t *message, bool first)
{
    json_t *last = first ? NULL : json_array_get(out, json_array_size(out) - 1);
    struct hearth_text t = {0};
    if (last) {
        add_content(&t, json_object_get(last, "content"));
        hearth_text_add(&t, "\n");
    }
    hearth_text_add(&t, "<tool_response>\n");
    add_content(&t, json_object_get(message, "content"));
    hearth_text_add(&t, "\n</tool_response>");
    json_t *content = take_text(&t);
    if (!content)
        return false;
    if (last)
        return !json_object_set_new(last, "content", content);
    return !json_array_append_new(out, json_pack("{s:s, s:o}", "role", "user", "content", content));
}

static bool rewrite(json_t *out, const json_t *messages, const struct hearth_call_format *f)
{
    bool result = false;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        const bool is_result = !f->calls && is_role(message, "tool");
        if (is_result) {
            if (!write_result(out, message, !result))
                return false;
        } else {
            json_t *copy = json_copy((json_t *)(uintptr_t)message);
            if (json_array_append_new(out, copy) ||
                (!f->calls && json_array_size(json_object_get(copy, "tool_calls")) && !write_calls(copy, f)))
                return false;
        }
        result = is_result;
    }
    return true;
}

json_t *hearth_call_messages(const struct hearth_call_format *format, const json_t *messages,
                             const json_t *tools)
{
    json_t *out = json_array();
    if (out && rewrite(out, messages, format) &&
        (format->tools || !json_array_size(tools) || instruct(out, format, tools)))
        return out;
    json_decref(out);
    return NULL;
}
