// SPDX-License-Identifier: MIT
// OpenAI's completions: texts that go on.
#include <stdlib.h>
#include <string.h>

#include "serve/api.h"
#include "serve/openai.h"
#include "serve/request.h"

// ---- probabilities

// Characters that begin in a token's bytes.
static size_t count_characters(const json_t *bytes)
{
    json_t *byte;
    size_t i, n = 0;
    json_array_foreach(bytes, i, byte) n += (json_integer_value(byte) & 0xC0) != 0x80;
    return n;
}

static const char *const old_names[HEARTH_PROBS_LISTS] = {"tokens", "token_logprobs", "top_logprobs",
                                                          "text_offset"};

// Their old form: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. Offsets are characters of the
// choice's text.
static json_t *old_probs(struct hearth_choice *choice, const json_t *probs)
{
    json_t *tokens = json_array(), *values = json_array(), *tops = json_array(), *offsets = json_array();
    json_t *one, *best;
    size_t i, k;
    json_array_foreach(probs, i, one)
    {
        json_t *token = json_object_get(one, "token"), *top = json_object();
        json_array_append(tokens, token);
        json_array_append(values, json_object_get(one, "logprob"));
        json_array_foreach(json_object_get(one, "top_logprobs"), k, best) json_object_set(
            top, json_string_value(json_object_get(best, "token")), json_object_get(best, "logprob"));
        json_array_append_new(tops, top);
        json_array_append_new(offsets, json_integer((json_int_t)choice->n_characters));
        choice->n_characters += count_characters(json_object_get(one, "bytes"));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", values, "top_logprobs", tops,
                     "text_offset", offsets);
}

// ---- streams

static json_t *chunk(struct hearth_choice *choice, const char *text, size_t n, const char *reason,
                     json_t *probs)
{
    json_t *one =
        json_pack("{s:i, s:o, s:s?, s:o}", "index", choice->index, "text", hearth_exchange_string_of(text, n),
                  "finish_reason", reason, "logprobs", probs ? old_probs(choice, probs) : json_null());
    json_decref(probs);
    return hearth_openai_head(choice->exchange, "cmpl-", "text_completion", json_pack("[o]", one));
}

static void put_piece(struct hearth_choice *choice, const struct hearth_piece *piece)
{
    struct hearth_exchange *x = choice->exchange;
    json_t *probs = hearth_openai_probs(x, piece);
    if (!x->streams) {
        json_t *old = probs ? old_probs(choice, probs) : NULL;
        for (int k = 0; k < HEARTH_PROBS_LISTS; k++)
            hearth_openai_collect(choice, k, json_incref(json_object_get(old, old_names[k])));
        json_decref(old);
        json_decref(probs);
        return;
    }
    if (piece->n_text || probs)
        hearth_out_event(&x->out, NULL, chunk(choice, piece->text, piece->n_text, NULL, probs));
    if (!piece->end || piece->end == HEARTH_END_FAILED)
        return;
    json_t *last = chunk(choice, NULL, 0, hearth_openai_reason(choice), NULL);
    json_object_set_new(last, "timings", hearth_openai_timings(&choice->stats));
    hearth_out_event(&x->out, NULL, last);
}

static void finish(struct hearth_exchange *x)
{
    if (x->with_usage) {
        json_t *last = hearth_openai_head(x, "cmpl-", "text_completion", json_array());
        json_object_set_new(last, "usage", hearth_openai_usage(x));
        hearth_out_event(&x->out, NULL, last);
    }
    hearth_out_text(&x->out, "data: [DONE]\n\n");
}

// A prompt that the answer repeats.
static void put_echo(struct hearth_exchange *x)
{
    for (int i = 0; i < x->n_choices && x->echo; i++) {
        const struct hearth_out *echo = &x->echoes[i / x->n_per_prompt];
        hearth_out_event(&x->out, NULL, chunk(&x->choices[i], echo->data, echo->n, NULL, NULL));
    }
}

// ---- whole answers

static json_t *whole_text(const struct hearth_exchange *x, int i)
{
    struct hearth_out all = {0};
    if (x->echo)
        hearth_out_add(&all, x->echoes[i / x->n_per_prompt].data, x->echoes[i / x->n_per_prompt].n);
    hearth_out_add(&all, x->choices[i].text.data, x->choices[i].text.n);
    json_t *text = hearth_exchange_string(&all);
    hearth_out_free(&all);
    return text;
}

static bool write_choice(struct hearth_exchange *x)
{
    const int i = x->n_items++;
    const struct hearth_choice *choice = &x->choices[i];
    struct hearth_out *out = &x->out;
    hearth_openai_begin(x, i, "cmpl-", "text_completion");
    hearth_out_open(out, json_pack("{s:i, s:o, s:s}", "index", i, "text", whole_text(x, i), "finish_reason",
                                   hearth_openai_reason(choice)));
    hearth_out_text(out, choice->probs[0].n ? ",\"logprobs\":{" : ",\"logprobs\":null}");
    for (int k = 0; k < HEARTH_PROBS_LISTS && choice->probs[0].n; k++) {
        hearth_out_printf(out, "%s\"%s\":[", k ? "]," : "", old_names[k]);
        hearth_out_add(out, choice->probs[k].data, choice->probs[k].n);
    }
    hearth_out_text(out, choice->probs[0].n ? "]}}" : "");
    return hearth_openai_end(x, i);
}

static const struct hearth_format format = {
    .begin = put_echo, .piece = put_piece, .finish = finish, .more = write_choice};

// ---- requests

static bool keep_echoes(struct hearth_exchange *x, const struct hearth_prompt_list *prompts)
{
    const struct hearth_model *model = x->server->served.model;
    if (!hearth_request_bool(x, "echo", &x->echo) || !x->echo)
        return !x->finished;
    x->echoes = calloc((size_t)prompts->n, sizeof *x->echoes);
    if (!x->echoes) {
        hearth_exchange_error(x, 500, NULL, "out of memory");
        return false;
    }
    x->n_echoes = prompts->n;
    for (int i = 0; i < x->n_echoes; i++) {
        const struct hearth_prompt *prompt = &prompts->items[i];
        const int bos = prompt->n && prompt->tokens[0] == hearth_token_bos(model); // is no part of the text
        if (!hearth_prompt_text(model, prompt->tokens + bos, prompt->n - bos, &x->echoes[i]))
            x->out.failed = true;
    }
    return true;
}

static void generate(struct hearth_exchange *x, const struct hearth_prompt_list *prompts, bool streams)
{
    int64_t n = 1, probs = -1;
    if (!hearth_request_int(x, "n", 1, 128, &n) ||
        !hearth_request_int(x, "logprobs", 0, HEARTH_PROBS_MAX, &probs))
        return;
    if (probs >= 0 && json_is_true(hearth_request_field(x, "echo"))) {
        hearth_exchange_error(x, 400, "logprobs",
                              "logprobs: there are none of prompts, so not together with echo");
        return;
    }
    x->n_per_prompt = (int)n;
    if (!keep_echoes(x, prompts))
        return;
    struct hearth_task *task = hearth_request_task(x, prompts->items, prompts->n, (int)n, (int)probs, NULL);
    if (task)
        hearth_exchange_generate(x, task, &format, streams);
}

void hearth_api_completions(struct hearth_exchange *x)
{
    struct hearth_prompt_list prompts = {0};
    bool streams;
    if (json_string_length(json_object_get(x->body, "suffix"))) {
        hearth_exchange_error(x, 400, "suffix", "suffix: texts are only continued, not filled in");
        return;
    }
    if (hearth_request_stream(x, &streams) && hearth_prompt_read(x, "prompt", &prompts))
        generate(x, &prompts, streams);
    hearth_prompt_list_free(&prompts);
}
