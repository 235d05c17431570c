// SPDX-License-Identifier: MIT
// OpenAI's chat completions.
#include <stdlib.h>

#include "serve/api.h"
#include "serve/openai.h"
#include "serve/request.h"

// ---- streams

static json_t *chunk(const struct hearth_exchange *x, json_t *choices)
{
    return hearth_openai_head(x, "chatcmpl-", "chat.completion.chunk", choices);
}

static void put(struct hearth_exchange *x, json_t *choices)
{
    hearth_out_event(&x->out, NULL, chunk(x, choices));
}

static void put_delta(struct hearth_exchange *x, struct hearth_choice *choice, json_t *delta, json_t *probs)
{
    const int index = (int)(choice - x->choices);
    json_t *one = json_pack("{s:i, s:o, s:n}", "index", index, "delta", delta, "finish_reason");
    if (probs)
        json_object_set_new(one, "logprobs", json_pack("{s:o}", "content", probs));
    put(x, json_pack("[o]", one));
}

static void begin_choice(struct hearth_exchange *x, struct hearth_choice *choice)
{
    if (!choice->begun)
        put_delta(x, choice, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL);
    choice->begun = true;
}

static void begin(struct hearth_exchange *x)
{
    for (int i = 0; i < x->n_choices; i++)
        begin_choice(x, &x->choices[i]);
}

static void end_choice(struct hearth_exchange *x, const struct hearth_choice *choice)
{
    json_t *one = json_pack("{s:i, s:{}, s:s}", "index", (int)(choice - x->choices), "delta", "finish_reason",
                            hearth_openai_reason(choice));
    json_t *all = chunk(x, json_pack("[o]", one));
    json_object_set_new(all, "timings", hearth_openai_timings(&choice->stats));
    hearth_out_event(&x->out, NULL, all);
}

static void piece(struct hearth_exchange *x, struct hearth_choice *choice, const struct hearth_piece *p)
{
    json_t *probs = hearth_openai_probs(x, p);
    if (!x->streams) {
        hearth_openai_collect(choice, probs);
        return;
    }
    const struct hearth_out text = {.data = (char *)(uintptr_t)p->text, .n = p->n_text};
    if (p->n_text || probs)
        put_delta(x, choice, json_pack("{s:o}", "content", hearth_exchange_string(&text)), probs);
    if (p->end && p->end != HEARTH_END_FAILED)
        end_choice(x, choice);
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

static json_t *whole(struct hearth_exchange *x)
{
    json_t *choices = json_array();
    for (int i = 0; i < x->n_choices; i++) {
        struct hearth_choice *choice = &x->choices[i];
        json_t *message =
            json_pack("{s:s, s:o}", "role", "assistant", "content", hearth_exchange_string(&choice->text));
        json_t *one = json_pack("{s:i, s:o, s:s}", "index", i, "message", message, "finish_reason",
                                hearth_openai_reason(choice));
        json_object_set_new(one, "logprobs",
                            choice->probs ? json_pack("{s:O}", "content", choice->probs) : json_null());
        json_array_append_new(choices, one);
    }
    const struct hearth_job_stats stats = hearth_exchange_stats(x);
    json_t *all = hearth_openai_head(x, "chatcmpl-", "chat.completion", choices);
    json_object_set_new(all, "usage", hearth_openai_usage(x));
    json_object_set_new(all, "timings", hearth_openai_timings(&stats));
    return all;
}

static const struct hearth_format format = {begin, piece, finish, whole};

void hearth_api_chat(struct hearth_exchange *x)
{
    struct hearth_prompt prompt = {0};
    int64_t n = 1, top = 0;
    bool streams, probs = false;
    if (!hearth_request_stream(x, &streams) || !hearth_request_int(x, "n", 1, 128, &n) ||
        !hearth_request_bool(x, "logprobs", &probs) ||
        !hearth_request_int(x, "top_logprobs", 0, HEARTH_PROBS_MAX, &top) ||
        !hearth_request_chat(x, json_object_get(x->body, "messages"), NULL, &prompt))
        return;
    struct hearth_task *task =
        hearth_request_task(x, &prompt, 1, (int)n, probs ? (int)top : -1, "max_completion_tokens");
    hearth_prompt_free(&prompt);
    x->n_per_prompt = (int)n;
    if (task)
        hearth_exchange_generate(x, task, &format, streams);
}
