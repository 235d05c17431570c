// SPDX-License-Identifier: MIT
// OpenAI's chat completions.
#include "serve/api.h"
#include "serve/openai.h"
#include "serve/request.h"

// ---- streams

static json_t *chunk(const struct hearth_exchange *x, json_t *choices)
{
    return hearth_openai_head(x, "chatcmpl-", "chat.completion.chunk", choices);
}

// What is new of a choice, with the probabilities that wait to be told.
static void put_delta(struct hearth_choice *choice, json_t *delta)
{
    struct hearth_exchange *x = choice->exchange;
    json_t *one = json_pack("{s:i, s:o, s:n}", "index", choice->index, "delta", delta, "finish_reason");
    if (x->probs)
        json_object_set_new(one, "logprobs", json_pack("{s:o}", "content", x->probs));
    x->probs = NULL;
    hearth_out_event(&x->out, NULL, chunk(x, json_pack("[o]", one)));
}

static void begin(struct hearth_exchange *x)
{
    for (int i = 0; i < x->n_choices; i++)
        put_delta(&x->choices[i], json_pack("{s:s, s:s}", "role", "assistant", "content", ""));
}

static json_t *call_delta(const struct hearth_part *part, bool starts, const char *text, size_t n)
{
    json_t *arguments = hearth_exchange_string_of(text, n);
    if (!starts)
        return json_pack("{s:[{s:i, s:{s:o}}]}", "tool_calls", "index", part->call, "function", "arguments",
                         arguments);
    return json_pack("{s:[{s:i, s:s, s:s, s:{s:s, s:o}}]}", "tool_calls", "index", part->call, "id", part->id,
                     "type", "function", "function", "name", part->name, "arguments", arguments);
}

static void put_part(struct hearth_choice *choice, const struct hearth_part *part, bool starts,
                     const char *text, size_t n)
{
    if (!choice->exchange->streams)
        return;
    if (part->kind == HEARTH_PART_CALL)
        put_delta(choice, call_delta(part, starts, text, n));
    else
        put_delta(choice, json_pack("{s:o}", part->kind == HEARTH_PART_TEXT ? "content" : "reasoning_content",
                                    hearth_exchange_string_of(text, n)));
}

static void end_choice(struct hearth_choice *choice)
{
    struct hearth_exchange *x = choice->exchange;
    json_t *one = json_pack("{s:i, s:{}, s:s}", "index", choice->index, "delta", "finish_reason",
                            hearth_openai_reason(choice));
    json_t *all = chunk(x, json_pack("[o]", one));
    json_object_set_new(all, "timings", hearth_openai_timings(&choice->stats));
    hearth_out_event(&x->out, NULL, all);
}

static void take_token(struct hearth_choice *choice, const struct hearth_piece *piece)
{
    struct hearth_exchange *x = choice->exchange;
    json_t *probs = hearth_openai_probs(x, piece);
    if (x->streams)
        x->probs = probs;
    else
        hearth_openai_collect(choice, 0, probs);
}

static void end_piece(struct hearth_choice *choice, const struct hearth_piece *piece)
{
    if (!choice->exchange->streams)
        return;
    if (choice->exchange->probs) // there was no text yet that they belong to
        put_delta(choice, json_pack("{s:s}", "content", ""));
    if (piece->end && piece->end != HEARTH_END_FAILED)
        end_choice(choice);
}

static void finish(struct hearth_exchange *x)
{
    if (x->with_usage) {
        json_t *last = chunk(x, json_array());
        json_object_set_new(last, "usage", hearth_openai_usage(x));
        hearth_out_event(&x->out, NULL, last);
    }
    hearth_out_text(&x->out, "data: [DONE]\n\n");
}

// ---- whole answers

static bool write_choice(struct hearth_exchange *x)
{
    const int i = x->n_items++;
    const struct hearth_choice *choice = &x->choices[i];
    struct hearth_out *out = &x->out;
    hearth_openai_begin(x, i, "chatcmpl-", "chat.completion");
    hearth_out_open(out, json_pack("{s:i, s:o, s:s}", "index", i, "message", hearth_openai_message(choice),
                                   "finish_reason", hearth_openai_reason(choice)));
    hearth_out_text(out, choice->probs[0].n ? ",\"logprobs\":{\"content\":[" : ",\"logprobs\":null");
    hearth_out_add(out, choice->probs[0].data, choice->probs[0].n);
    hearth_out_text(out, choice->probs[0].n ? "]}}" : "}");
    return hearth_openai_end(x, i);
}

static const struct hearth_format format = {.begin = begin,
                                            .token = take_token,
                                            .part = put_part,
                                            .piece = end_piece,
                                            .finish = finish,
                                            .more = write_choice};

void hearth_api_chat(struct hearth_exchange *x)
{
    struct hearth_prompt prompt = {0};
    int64_t n = 1, top = 0;
    bool streams, probs = false;
    x->continues = true;
    if (!hearth_request_stream(x, &streams) || !hearth_request_int(x, "n", 1, 128, &n) ||
        !hearth_request_bool(x, "logprobs", &probs) ||
        !hearth_request_int(x, "top_logprobs", 0, HEARTH_PROBS_MAX, &top) ||
        !hearth_prompt_chat(x, json_object_get(x->body, "messages"), json_object_get(x->body, "tools"),
                            &prompt))
        return;
    struct hearth_task *task =
        hearth_request_task(x, &prompt, 1, (int)n, probs ? (int)top : -1, "max_completion_tokens");
    hearth_prompt_free(&prompt);
    x->n_per_prompt = (int)n;
    if (task)
        hearth_exchange_generate(x, task, &format, streams);
}
