// SPDX-License-Identifier: MIT
// Anthropic's messages.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/anthropic_messages.h"
#include "serve/api.h"
#include "serve/request.h"

static const char *stop_reason(const struct hearth_choice *choice)
{
    return choice->end == HEARTH_END_LENGTH ? "max_tokens"
           : choice->end == HEARTH_END_STOP ? "stop_sequence"
           : choice->parts.n_calls          ? "tool_use"
                                            : "end_turn";
}

static json_t *usage(const struct hearth_choice *choice)
{
    const struct hearth_job_stats *s = &choice->stats;
    return json_pack("{s:i, s:i, s:i, s:i}", "input_tokens", s->n_prompt - s->n_cached,
                     "cache_read_input_tokens", s->n_cached, "cache_creation_input_tokens", 0,
                     "output_tokens", s->n_generated);
}

static json_t *message(const struct hearth_exchange *x, json_t *content, json_t *usage_of)
{
    char id[64];
    snprintf(id, sizeof id, "msg_%s", x->id);
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:n, s:n, s:o}", "id", id, "type", "message", "role",
                     "assistant", "model", x->server->params->name, "content", content, "stop_reason",
                     "stop_sequence", "usage", usage_of);
}

// ---- whole answers

static json_t *block(const struct hearth_part *part)
{
    switch (part->kind) {
    case HEARTH_PART_CALL: {
        json_t *input =
            json_loadb(part->text.data ? part->text.data : "", part->text.n, JSON_ALLOW_NUL, NULL);
        return json_pack("{s:s, s:s, s:s, s:o}", "type", "tool_use", "id", part->id, "name", part->name,
                         "input", input ? input : json_object());
    }
    case HEARTH_PART_REASONING:
        return json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking",
                         hearth_exchange_string(&part->text), "signature", "");
    default:
        return json_pack("{s:s, s:o}", "type", "text", "text", hearth_exchange_string(&part->text));
    }
}

static json_t *whole(struct hearth_exchange *x)
{
    struct hearth_choice *choice = &x->choices[0];
    json_t *content = json_array();
    for (int i = 0; i < choice->parts.n; i++)
        json_array_append_new(content, block(&choice->parts.items[i]));
    json_t *all = message(x, content, usage(choice));
    json_object_set_new(all, "stop_reason", json_string(stop_reason(choice)));
    if (choice->end == HEARTH_END_STOP)
        json_object_set_new(all, "stop_sequence", json_string(choice->stop));
    return all;
}

// ---- streams

static void put(struct hearth_exchange *x, const char *type, json_t *event)
{
    hearth_out_event(&x->out, type, event);
}

static void begin(struct hearth_exchange *x)
{
    json_t *count = usage(&x->choices[0]);
    json_object_set_new(count, "output_tokens", json_integer(0));
    put(x, "message_start",
        json_pack("{s:s, s:o}", "type", "message_start", "message", message(x, json_array(), count)));
}

static void stop_block(struct hearth_choice *choice, int index)
{
    put(choice->exchange, "content_block_stop",
        json_pack("{s:s, s:i}", "type", "content_block_stop", "index", index));
}

static json_t *empty_block(const struct hearth_part *part)
{
    switch (part->kind) {
    case HEARTH_PART_CALL:
        return json_pack("{s:s, s:s, s:s, s:{}}", "type", "tool_use", "id", part->id, "name", part->name,
                         "input");
    case HEARTH_PART_REASONING:
        return json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", "");
    default:
        return json_pack("{s:s, s:s}", "type", "text", "text", "");
    }
}

static void put_part(struct hearth_choice *choice, const struct hearth_part *part, bool starts,
                     const char *text, size_t n)
{
    static const char *const types[] = {"text_delta", "thinking_delta", "input_json_delta"};
    static const char *const names[] = {"text", "thinking", "partial_json"};
    struct hearth_exchange *x = choice->exchange;
    const int index = (int)(part - choice->parts.items);
    if (!x->streams)
        return;
    if (starts && index)
        stop_block(choice, index - 1);
    if (starts)
        put(x, "content_block_start",
            json_pack("{s:s, s:i, s:o}", "type", "content_block_start", "index", index, "content_block",
                      empty_block(part)));
    put(x, "content_block_delta",
        json_pack("{s:s, s:i, s:{s:s, s:o}}", "type", "content_block_delta", "index", index, "delta", "type",
                  types[part->kind], names[part->kind], hearth_exchange_string_of(text, n)));
}

static void finish(struct hearth_exchange *x)
{
    struct hearth_choice *choice = &x->choices[0];
    const char *stop = choice->end == HEARTH_END_STOP ? choice->stop : NULL;
    if (choice->parts.n)
        stop_block(choice, choice->parts.n - 1);
    put(x, "message_delta",
        json_pack("{s:s, s:{s:s, s:s?}, s:o}", "type", "message_delta", "delta", "stop_reason",
                  stop_reason(choice), "stop_sequence", stop, "usage", usage(choice)));
    put(x, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

static const struct hearth_format format = {
    .begin = begin, .part = put_part, .finish = finish, .whole = whole, .exact = true};

// ---- requests

static bool read_chat(struct hearth_exchange *x, struct hearth_prompt *prompt)
{
    x->continues = true;
    json_t *messages = hearth_anthropic_messages(x), *tools = messages ? hearth_anthropic_tools(x) : NULL;
    const bool ok = messages && !x->finished && hearth_prompt_chat(x, messages, tools, prompt);
    json_decref(messages);
    json_decref(tools);
    return ok;
}

void hearth_api_messages(struct hearth_exchange *x)
{
    struct hearth_prompt prompt = {0};
    bool streams;
    if (!json_is_integer(hearth_request_field(x, "max_tokens"))) {
        hearth_exchange_error(x, 400, "max_tokens", "max_tokens: field required");
        return;
    }
    if (!hearth_request_stream(x, &streams) || !read_chat(x, &prompt))
        return;
    struct hearth_task *task = hearth_request_task(x, &prompt, 1, 1, -1, NULL);
    hearth_prompt_free(&prompt);
    x->n_per_prompt = 1;
    if (task)
        hearth_exchange_generate(x, task, &format, streams);
}

void hearth_api_count_tokens(struct hearth_exchange *x)
{
    struct hearth_prompt prompt = {0};
    x->counts = true;
    if (read_chat(x, &prompt))
        hearth_exchange_json(x, 200, json_pack("{s:i}", "input_tokens", prompt.n));
    hearth_prompt_free(&prompt);
}
