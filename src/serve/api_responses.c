// SPDX-License-Identifier: MIT
// OpenAI's responses.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema/json_string.h"
#include "serve/api.h"
#include "serve/request.h"
#include "serve/response_input.h"

// ---- items of the output

static json_t *item_id(const struct hearth_choice *choice, const char *prefix, int index)
{
    char id[64];
    snprintf(id, sizeof id, "%s_%s%02d", prefix, choice->exchange->id, index);
    return json_string(id);
}

// A part as an item; `done`: with its text.
static json_t *make_item(const struct hearth_choice *choice, const struct hearth_part *part, bool done)
{
    const int index = (int)(part - choice->parts.items);
    const char *status = done ? "completed" : "in_progress";
    json_t *text = done ? hearth_exchange_string(&part->text) : json_string("");
    switch (part->kind) {
    case HEARTH_PART_CALL:
        return json_pack("{s:s, s:o, s:s, s:s, s:o, s:s}", "type", "function_call", "id",
                         item_id(choice, "fc", index), "call_id", part->id, "name", part->name, "arguments",
                         text, "status", status);
    case HEARTH_PART_REASONING:
        return json_pack("{s:s, s:o, s:[], s:[{s:s, s:o}], s:s}", "type", "reasoning", "id",
                         item_id(choice, "rs", index), "summary", "content", "type", "reasoning_text", "text",
                         text, "status", status);
    default: {
        json_t *content =
            done ? json_pack("[{s:s, s:o, s:[]}]", "type", "output_text", "text", text, "annotations")
                 : json_array();
        if (!done)
            json_decref(text);
        return json_pack("{s:s, s:o, s:s, s:s, s:o}", "type", "message", "id", item_id(choice, "msg", index),
                         "status", status, "role", "assistant", "content", content);
    }
    }
}

// ---- the response

static json_t *usage(const struct hearth_exchange *x)
{
    const struct hearth_job_stats s = hearth_exchange_stats(x);
    return json_pack("{s:i, s:{s:i}, s:i, s:{s:i}, s:i}", "input_tokens", s.n_prompt, "input_tokens_details",
                     "cached_tokens", s.n_cached, "output_tokens", s.n_generated, "output_tokens_details",
                     "reasoning_tokens", 0, "total_tokens", s.n_prompt + s.n_generated);
}

static void copy_field(json_t *to, const struct hearth_exchange *x, const char *name, json_t *usual)
{
    json_t *given = json_object_get(x->body, name);
    if (given)
        json_object_set(to, name, given);
    else
        json_object_set_new(to, name, json_incref(usual));
    json_decref(usual);
}

static json_t *make_response(const struct hearth_exchange *x, bool done)
{
    const struct hearth_choice *choice = &x->choices[0];
    const bool cut = choice->end == HEARTH_END_LENGTH;
    char id[64];
    snprintf(id, sizeof id, "resp_%s", x->id);
    json_t *output = json_array();
    for (int i = 0; i < choice->parts.n && done; i++)
        json_array_append_new(output, make_item(choice, &choice->parts.items[i], true));
    json_t *all = json_pack("{s:s, s:s, s:I, s:s, s:s, s:o, s:n}", "id", id, "object", "response",
                            "created_at", (json_int_t)x->created, "model", x->server->params->name, "status",
                            !done ? "in_progress"
                            : cut ? "incomplete"
                                  : "completed",
                            "output", output, "error");
    json_object_set_new(all, "incomplete_details",
                        done && cut ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null());
    json_object_set_new(all, "usage", done ? usage(x) : json_null());
    json_object_set_new(all, "parallel_tool_calls", json_true());
    json_object_set_new(all, "store", json_false());
    json_object_set_new(all, "previous_response_id", json_null());
    copy_field(all, x, "instructions", json_null());
    copy_field(all, x, "max_output_tokens", json_null());
    copy_field(all, x, "metadata", json_object());
    copy_field(all, x, "temperature", json_real((double)x->server->sampling.temp));
    copy_field(all, x, "top_p", json_real((double)x->server->sampling.top_p));
    copy_field(all, x, "tool_choice", json_string("auto"));
    copy_field(all, x, "tools", json_array());
    copy_field(all, x, "text", json_pack("{s:{s:s}}", "format", "type", "text"));
    return all;
}

static json_t *whole(struct hearth_exchange *x)
{
    return make_response(x, true);
}

// ---- streams

// An event with its number and its type.
static void put(struct hearth_exchange *x, const char *type, json_t *event)
{
    json_object_set_new(event, "type", json_string(type));
    json_object_set_new(event, "sequence_number", json_integer(x->sequence++));
    hearth_out_event(&x->out, type, event);
}

static json_t *place(const struct hearth_choice *choice, const struct hearth_part *part)
{
    static const char *const prefixes[] = {"msg", "rs", "fc"};
    const int index = (int)(part - choice->parts.items);
    json_t *event = json_pack("{s:o, s:i}", "item_id", item_id(choice, prefixes[part->kind], index),
                              "output_index", index);
    if (part->kind != HEARTH_PART_CALL)
        json_object_set_new(event, "content_index", json_integer(0));
    return event;
}

static void begin(struct hearth_exchange *x)
{
    put(x, "response.created", json_pack("{s:o}", "response", make_response(x, false)));
    put(x, "response.in_progress", json_pack("{s:o}", "response", make_response(x, false)));
}

static void start_part(struct hearth_choice *choice, const struct hearth_part *part)
{
    struct hearth_exchange *x = choice->exchange;
    put(x, "response.output_item.added",
        json_pack("{s:i, s:o}", "output_index", (int)(part - choice->parts.items), "item",
                  make_item(choice, part, false)));
    if (part->kind != HEARTH_PART_TEXT)
        return;
    json_t *event = place(choice, part);
    json_object_set_new(event, "part",
                        json_pack("{s:s, s:s, s:[]}", "type", "output_text", "text", "", "annotations"));
    put(x, "response.content_part.added", event);
}

static void end_part(struct hearth_choice *choice, const struct hearth_part *part)
{
    static const char *const types[] = {"response.output_text.done", "response.reasoning_text.done",
                                        "response.function_call_arguments.done"};
    struct hearth_exchange *x = choice->exchange;
    json_t *event = place(choice, part);
    json_object_set_new(event, part->kind == HEARTH_PART_CALL ? "arguments" : "text",
                        hearth_exchange_string(&part->text));
    put(x, types[part->kind], event);
    if (part->kind == HEARTH_PART_TEXT) {
        event = place(choice, part);
        json_object_set_new(event, "part",
                            json_pack("{s:s, s:o, s:[]}", "type", "output_text", "text",
                                      hearth_exchange_string(&part->text), "annotations"));
        put(x, "response.content_part.done", event);
    }
    put(x, "response.output_item.done",
        json_pack("{s:i, s:o}", "output_index", (int)(part - choice->parts.items), "item",
                  make_item(choice, part, true)));
}

static void put_part(struct hearth_choice *choice, const struct hearth_part *part, bool starts,
                     const char *text, size_t n)
{
    static const char *const types[] = {"response.output_text.delta", "response.reasoning_text.delta",
                                        "response.function_call_arguments.delta"};
    struct hearth_exchange *x = choice->exchange;
    if (!x->streams)
        return;
    if (starts && part > choice->parts.items)
        end_part(choice, part - 1);
    if (starts)
        start_part(choice, part);
    json_t *event = place(choice, part);
    json_object_set_new(event, "delta", hearth_exchange_string_of(text, n));
    put(x, types[part->kind], event);
}

static void finish(struct hearth_exchange *x)
{
    struct hearth_choice *choice = &x->choices[0];
    if (choice->parts.n)
        end_part(choice, &choice->parts.items[choice->parts.n - 1]);
    put(x, choice->end == HEARTH_END_LENGTH ? "response.incomplete" : "response.completed",
        json_pack("{s:o}", "response", make_response(x, true)));
}

static void fail(struct hearth_exchange *x, const char *message)
{
    json_t *all = make_response(x, true);
    json_object_set_new(all, "status", json_string("failed"));
    json_object_set_new(all, "error",
                        json_pack("{s:s, s:o}", "code", "server_error", "message",
                                  hearth_json_string(message, strlen(message))));
    put(x, "response.failed", json_pack("{s:o}", "response", all));
}

static const struct hearth_format format = {
    .begin = begin, .part = put_part, .finish = finish, .fail = fail, .whole = whole};

// ---- requests

void hearth_api_responses(struct hearth_exchange *x)
{
    struct hearth_prompt prompt = {0};
    bool streams;
    x->continues = true;
    if (hearth_request_field(x, "previous_response_id")) {
        hearth_exchange_error(
            x, 400, "previous_response_id",
            "previous_response_id: responses are not stored here; send the whole conversation");
        return;
    }
    json_t *messages = hearth_response_messages(x), *tools = messages ? hearth_response_tools(x) : NULL;
    const bool ok = messages && !x->finished && hearth_request_stream(x, &streams) &&
                    hearth_prompt_chat(x, messages, tools, &prompt);
    json_decref(messages);
    json_decref(tools);
    struct hearth_task *task = ok ? hearth_request_task(x, &prompt, 1, 1, -1, "max_output_tokens") : NULL;
    hearth_prompt_free(&prompt);
    x->n_per_prompt = 1;
    x->recalls = true;
    json_object_del(x->body, "input");
    if (task)
        hearth_exchange_generate(x, task, &format, streams);
}
