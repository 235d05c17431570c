// SPDX-License-Identifier: MIT
// Exchanges: requests and their answers.
#include "serve/exchange.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "schema/json_string.h"

#define JSON_TYPE "application/json; charset=utf-8"

// ---- answers

static void write_json(struct hearth_exchange *x, int status, json_t *value, bool exact)
{
    x->out.n = 0;
    x->status = status;
    x->type = JSON_TYPE;
    (exact ? hearth_out_exact : hearth_out_json)(&x->out, value);
    x->finished = true;
}

void hearth_exchange_json(struct hearth_exchange *x, int status, json_t *value)
{
    write_json(x, status, value, false);
}

void hearth_exchange_write(struct hearth_exchange *x, bool (*more)(struct hearth_exchange *x))
{
    x->status = 200;
    x->type = JSON_TYPE;
    x->more = more;
    x->finished = true;
}

static const char *error_type(int status)
{
    return status == 400   ? "invalid_request_error"
           : status == 401 ? "authentication_error"
           : status == 403 ? "permission_error"
           : status == 404 ? "not_found_error"
           : status == 413 ? "request_too_large"
           : status == 429 ? "rate_limit_error"
           : status == 501 ? "not_supported_error"
           : status == 503 ? "unavailable_error"
           : status < 500  ? "invalid_request_error"
                           : "server_error";
}

json_t *hearth_exchange_error_json(const struct hearth_exchange *x, int status, const char *param,
                                   const char *message)
{
    const char *type = error_type(status);
    json_t *text = hearth_json_string(message, strlen(message)); // it may quote what is no UTF-8
    switch (x->api) {
    case HEARTH_API_ANTHROPIC:
        type = status == 503 ? "overloaded_error" : status == 500 ? "api_error" : type;
        return json_pack("{s:s, s:{s:s, s:o}}", "type", "error", "error", "type", type, "message", text);
    case HEARTH_API_OPENAI:
        return json_pack("{s:{s:o, s:s, s:s?, s:s?}}", "error", "message", text, "type", type, "param", param,
                         "code", status == 401 ? "invalid_api_key" : NULL);
    default:
        return json_pack("{s:{s:i, s:o, s:s}}", "error", "code", status, "message", text, "type", type);
    }
}

void hearth_exchange_error(struct hearth_exchange *x, int status, const char *param, const char *fmt, ...)
{
    char message[700];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    hearth_make_printable(message);
    hearth_exchange_json(x, status, hearth_exchange_error_json(x, status, param, message));
}

void hearth_exchange_too_long(struct hearth_exchange *x, const char *param, const char *what, size_t n,
                              bool counted, int most)
{
    char message[300];
    const char *more = counted ? "" : ", or more";
    const bool openai = x->api == HEARTH_API_OPENAI;
    if (x->api == HEARTH_API_ANTHROPIC)
        snprintf(message, sizeof message, "prompt is too long: %zu tokens > %d maximum (%s)", n, most, what);
    else
        snprintf(message, sizeof message, "%s of %d tokens: %s has %zu%s",
                 openai ? "over this model's maximum context length" : "over the available context size",
                 most, what, n, more);
    json_t *all = hearth_exchange_error_json(x, 400, param, message), *error = json_object_get(all, "error");
    if (openai)
        json_object_set_new(error, "code", json_string("context_length_exceeded"));
    else if (x->api == HEARTH_API_LLAMA)
        json_object_set_new(error, "type", json_string("exceed_context_size_error"));
    if (x->api != HEARTH_API_ANTHROPIC) {
        json_object_set_new(error, "n_prompt_tokens", json_integer((json_int_t)n));
        json_object_set_new(error, "n_ctx", json_integer(hearth_scheduler_room(x->server->scheduler)));
    }
    hearth_exchange_json(x, 400, all);
}

json_t *hearth_exchange_string(const struct hearth_out *text)
{
    return text->failed ? NULL : hearth_json_string(text->data ? text->data : "", text->n);
}

json_t *hearth_exchange_string_of(const char *text, size_t n)
{
    return hearth_json_string(text ? text : "", n);
}

// ---- answers that are generated

void hearth_exchange_generate(struct hearth_exchange *x, struct hearth_task *task,
                              const struct hearth_format *format, bool streams)
{
    static const char *const refusals[] = {NULL, HEARTH_QUEUE_IS_FULL, "the server is shutting down"};
    x->task = task;
    x->format = format;
    x->streams = task->streams = streams;
    x->created = time(NULL);
    snprintf(x->id, sizeof x->id, "%016llx", (unsigned long long)hearth_random_u64());
    x->choices = hearth_calloc((size_t)task->n_jobs, sizeof *x->choices);
    if (!x->choices) {
        hearth_exchange_error(x, 500, NULL, "out of memory");
        return;
    }
    x->n_choices = task->n_jobs;
    for (int i = 0; i < x->n_choices; i++) {
        x->choices[i].exchange = x;
        x->choices[i].index = i;
    }
    const enum hearth_submission submission = hearth_scheduler_submit(x->server->scheduler, task);
    if (submission) {
        hearth_exchange_error(x, 503, NULL, "%s", refusals[submission]);
        return;
    }
    x->status = 200;
    x->type = streams ? "text/event-stream; charset=utf-8" : JSON_TYPE;
}

static void tell_part(void *arg, const struct hearth_part *part, bool starts, const char *text, size_t n)
{
    struct hearth_choice *choice = arg;
    if (choice->exchange->format->part)
        choice->exchange->format->part(choice, part, starts, text, n);
}

static void open_parts(struct hearth_exchange *x)
{
    const struct hearth_answer_params params = {.format = &x->server->calls,
                                                .calls = x->n_tool_names > 0,
                                                .prompt = x->whole_form ? NULL : x->prompt_end.data,
                                                .n_prompt = x->whole_form ? 0 : x->prompt_end.n,
                                                .continued = x->continued || x->whole_form,
                                                .names = x->tool_names,
                                                .tools = x->tools,
                                                .n_names = x->n_tool_names};
    for (int i = 0; i < x->n_choices; i++)
        hearth_parts_open(&x->choices[i].parts, &params, x->id, tell_part, &x->choices[i]);
}

static void take_piece(struct hearth_exchange *x, const struct hearth_piece *piece)
{
    struct hearth_choice *choice = &x->choices[piece->job];
    hearth_out_add(&choice->text, piece->text, piece->n_text);
    if (piece->end) {
        choice->end = piece->end;
        choice->stop = piece->stop;
        choice->stats = piece->stats;
        choice->message = piece->message ? hearth_strndup(piece->message, strlen(piece->message)) : NULL;
    }
    if (piece->end == HEARTH_END_CANCELLED) // no end is told
        return;
    if (x->chat && x->format->token)
        x->format->token(choice, piece);
    if (x->chat)
        hearth_parts_add(&choice->parts, piece->text, piece->n_text);
    if (x->chat && piece->end)
        hearth_parts_end(&choice->parts);
    x->out.failed |= choice->parts.failed;
    if (x->format->piece)
        x->format->piece(choice, piece);
}

static const char *find_failure(const struct hearth_exchange *x)
{
    for (int i = 0; i < x->n_choices; i++)
        if (x->choices[i].end == HEARTH_END_FAILED || x->choices[i].end == HEARTH_END_NONE)
            return x->choices[i].message ? x->choices[i].message : "out of memory";
    return NULL;
}

static bool is_abandoned(const struct hearth_exchange *x)
{
    for (int i = 0; i < x->n_choices; i++)
        if (x->choices[i].end == HEARTH_END_CANCELLED)
            return true;
    return false;
}

static void finish(struct hearth_exchange *x)
{
    x->finished = true;
    x->abandoned = is_abandoned(x);
    if (x->abandoned) // a text that was cut must not look whole
        return;
    const char *failure = find_failure(x);
    const int status = atomic_load(&x->server->ending) ? 503 : 500;
    if (failure && x->streams && x->format->fail) {
        x->format->fail(x, failure);
        return;
    }
    if (failure && x->streams)
        hearth_out_event(&x->out, x->api == HEARTH_API_ANTHROPIC ? "error" : NULL,
                         hearth_exchange_error_json(x, status, NULL, failure));
    else if (failure)
        hearth_exchange_error(x, status, NULL, "%s", failure);
    else if (!x->streams && x->format->whole)
        write_json(x, 200, x->format->whole(x), x->format->exact);
    else if (!x->streams)
        hearth_exchange_write(x, x->format->more);
    if (x->streams && (!failure || x->api == HEARTH_API_OPENAI))
        x->format->finish(x);
}

static void begin(struct hearth_exchange *x)
{
    if (x->begun)
        return;
    x->begun = true;
    if (x->chat)
        open_parts(x);
    if (x->streams && x->format->begin)
        x->format->begin(x);
}

void hearth_exchange_take(struct hearth_exchange *x)
{
    bool ended;
    struct hearth_piece *piece;
    if (x->finished)
        return;
    // Anthropic's streams begin with how much of the prompt was there: that is known with the first piece.
    if (x->api != HEARTH_API_ANTHROPIC)
        begin(x);
    while ((piece = hearth_task_take(x->task, &ended))) {
        x->choices[piece->job].stats = piece->stats;
        begin(x);
        take_piece(x, piece);
        hearth_piece_free(piece);
    }
    if (ended) {
        begin(x);
        finish(x);
    }
}

struct hearth_job_stats hearth_exchange_stats(const struct hearth_exchange *x)
{
    struct hearth_job_stats all = {0};
    for (int i = 0; i < x->n_choices; i++) {
        const struct hearth_job_stats *one = &x->choices[i].stats;
        all.n_prompt += one->n_prompt;
        all.n_cached += one->n_cached;
        all.n_generated += one->n_generated;
        all.n_guessed += one->n_guessed;
        all.n_came_true += one->n_came_true;
        all.prompt_ns += one->prompt_ns;
        all.generate_ns += one->generate_ns;
    }
    return all;
}

void hearth_exchange_free(struct hearth_exchange *x)
{
    for (int i = 0; i < x->n_choices; i++) {
        hearth_out_free(&x->choices[i].text);
        hearth_parts_free(&x->choices[i].parts);
        json_decref(x->choices[i].tokens);
        for (int k = 0; k < HEARTH_PROBS_LISTS; k++)
            hearth_out_free(&x->choices[i].probs[k]);
        free(x->choices[i].message);
    }
    for (int i = 0; i < x->n_echoes; i++)
        hearth_out_free(&x->echoes[i]);
    free(x->echoes);
    free(x->choices);
    hearth_task_drop(x->task);
    hearth_out_free(&x->in);
    hearth_out_free(&x->out);
    json_decref(x->body);
    free(x->tokens);
    json_decref(x->probs);
    json_decref(x->tools);
    free(x->tool_names);
    hearth_out_free(&x->prompt_end);
}
