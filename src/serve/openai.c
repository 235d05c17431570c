// SPDX-License-Identifier: MIT
// Parts that OpenAI's answers have in common.
#include "serve/openai.h"

#include <stdio.h>

#include "schema/json_string.h"

json_t *hearth_openai_head(const struct hearth_exchange *x, const char *prefix, const char *object,
                           json_t *choices)
{
    char id[64], version[64];
    snprintf(id, sizeof id, "%s%s", prefix, x->id);
    snprintf(version, sizeof version, "hearth-%s", hearth_version());
    return json_pack("{s:s, s:s, s:I, s:s, s:o*, s:s}", "id", id, "object", object, "created",
                     (json_int_t)x->created, "model", x->server->params->name, "choices", choices,
                     "system_fingerprint", version);
}

json_t *hearth_openai_usage(const struct hearth_exchange *x)
{
    // A prompt that is continued several times counts once.
    const struct hearth_job_stats all = hearth_exchange_stats(x);
    const int n = x->n_per_prompt ? x->n_per_prompt : 1;
    const int prompt = all.n_prompt / n;
    int cached = 0; // of the first text of each prompt: the others find all of it
    for (int i = 0; i < x->n_choices; i += n)
        cached += x->choices[i].stats.n_cached;
    return json_pack("{s:i, s:i, s:i, s:{s:i}}", "prompt_tokens", prompt, "completion_tokens",
                     all.n_generated, "total_tokens", prompt + all.n_generated, "prompt_tokens_details",
                     "cached_tokens", cached);
}

static double rate(int n, uint64_t ns)
{
    return ns ? n * 1e9 / (double)ns : 0;
}

static double each_ms(int n, uint64_t ns)
{
    return n ? (double)ns / 1e6 / n : 0;
}

json_t *hearth_openai_timings(const struct hearth_job_stats *s)
{
    const int fresh = s->n_prompt - s->n_cached;
    json_t *timings = json_pack(
        "{s:i, s:i, s:f, s:f, s:f, s:i, s:f, s:f, s:f}", "cache_n", s->n_cached, "prompt_n", fresh,
        "prompt_ms", (double)s->prompt_ns / 1e6, "prompt_per_token_ms", each_ms(fresh, s->prompt_ns),
        "prompt_per_second", rate(fresh, s->prompt_ns), "predicted_n", s->n_generated, "predicted_ms",
        (double)s->generate_ns / 1e6, "predicted_per_token_ms", each_ms(s->n_generated, s->generate_ns),
        "predicted_per_second", rate(s->n_generated, s->generate_ns));
    if (timings && s->n_guessed) {
        json_object_set_new(timings, "draft_n", json_integer(s->n_guessed));
        json_object_set_new(timings, "draft_n_accepted", json_integer(s->n_came_true));
    }
    return timings;
}

void hearth_openai_begin(struct hearth_exchange *x, int i, const char *prefix, const char *object)
{
    const struct hearth_job_stats stats = hearth_exchange_stats(x);
    if (i) {
        hearth_out_text(&x->out, ",");
        return;
    }
    json_t *all = hearth_openai_head(x, prefix, object, NULL);
    json_object_set_new(all, "usage", hearth_openai_usage(x));
    json_object_set_new(all, "timings", hearth_openai_timings(&stats));
    hearth_out_open(&x->out, all);
    hearth_out_text(&x->out, ",\"choices\":[");
}

bool hearth_openai_end(struct hearth_exchange *x, int i)
{
    for (int k = 0; k < HEARTH_PROBS_LISTS; k++) {
        x->out.failed |= x->choices[i].probs[k].failed;
        hearth_out_free(&x->choices[i].probs[k]);
    }
    if (i + 1 < x->n_choices)
        return true;
    hearth_out_text(&x->out, "]}");
    return false;
}

const char *hearth_openai_reason(const struct hearth_choice *choice)
{
    return choice->end == HEARTH_END_LENGTH ? "length" : choice->parts.n_calls ? "tool_calls" : "stop";
}

// ---- messages

static json_t *describe_call(const struct hearth_part *part)
{
    return json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", part->id, "type", "function", "function", "name",
                     part->name, "arguments", hearth_exchange_string(&part->text));
}

json_t *hearth_openai_message(const struct hearth_choice *choice)
{
    struct hearth_out text = {0}, thoughts = {0};
    json_t *calls = json_array();
    for (int i = 0; i < choice->parts.n; i++) {
        const struct hearth_part *part = &choice->parts.items[i];
        if (part->kind == HEARTH_PART_CALL)
            json_array_append_new(calls, describe_call(part));
        else
            hearth_out_add(part->kind == HEARTH_PART_TEXT ? &text : &thoughts, part->text.data, part->text.n);
    }
    const bool nothing = !text.n && json_array_size(calls);
    json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "content",
                                nothing ? json_null() : hearth_exchange_string(&text));
    if (thoughts.n)
        json_object_set_new(message, "reasoning_content", hearth_exchange_string(&thoughts));
    if (json_array_size(calls))
        json_object_set(message, "tool_calls", calls);
    json_decref(calls);
    hearth_out_free(&text);
    hearth_out_free(&thoughts);
    return message;
}

// ---- probabilities

static json_t *describe(const struct hearth_exchange *x, const struct hearth_prob *prob)
{
    char bytes[512];
    size_t n = hearth_token_bytes(x->server->served.model, prob->token, true, bytes, sizeof bytes);
    n = n < sizeof bytes ? n : sizeof bytes;
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer((unsigned char)bytes[i]));
    return json_pack("{s:i, s:o, s:o, s:f}", "id", prob->token, "token", hearth_json_string(bytes, n),
                     "bytes", list, "logprob", (double)prob->log_prob);
}

json_t *hearth_openai_probs(const struct hearth_exchange *x, const struct hearth_piece *piece)
{
    if (!piece->has_token || !piece->probs)
        return NULL;
    json_t *top = json_array();
    for (int i = 0; i < piece->n_probs; i++)
        json_array_append_new(top, describe(x, &piece->probs[i]));
    json_t *one = describe(x, &(struct hearth_prob){piece->token, piece->log_prob});
    json_object_set_new(one, "top_logprobs", top);
    return json_pack("[o]", one);
}

void hearth_openai_collect(struct hearth_choice *choice, int list, json_t *probs)
{
    struct hearth_out *out = &choice->probs[list];
    json_t *one;
    size_t i;
    json_array_foreach(probs, i, one)
    {
        hearth_out_text(out, out->n ? "," : "");
        hearth_out_json(out, json_incref(one));
    }
    json_decref(probs);
}
