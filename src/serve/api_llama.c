// SPDX-License-Identifier: MIT
// llama.cpp's completion: a text that goes on, in its server's own form.
#include <string.h>

#include "serve/api.h"
#include "serve/openai.h"
#include "serve/request.h"

static const char *stop_type(const struct hearth_choice *choice)
{
    switch (choice->end) {
    case HEARTH_END_EOS:
        return "eos";
    case HEARTH_END_STOP:
        return "word";
    case HEARTH_END_LENGTH:
        return "limit";
    default:
        return "none";
    }
}

static json_t *describe(const struct hearth_choice *choice, json_t *content, json_t *tokens)
{
    const struct hearth_exchange *x = choice->exchange;
    const struct hearth_job_stats *s = &choice->stats;
    return json_pack("{s:i, s:i, s:o, s:o, s:b, s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:o}", "index",
                     choice->index, "id_slot", s->slot, "content", content, "tokens", tokens, "stop", 1,
                     "model", x->server->params->name, "stop_type", stop_type(choice), "stopping_word",
                     choice->stop ? choice->stop : "", "tokens_predicted", s->n_generated, "tokens_evaluated",
                     s->n_prompt, "tokens_cached", s->n_cached, "truncated", 0, "timings",
                     hearth_openai_timings(s));
}

static void put_piece(struct hearth_choice *choice, const struct hearth_piece *piece)
{
    struct hearth_exchange *x = choice->exchange;
    json_t *probs = hearth_openai_probs(x, piece), *tokens = json_array();
    if (piece->has_token)
        json_array_append_new(tokens, json_integer(piece->token));
    if (!x->streams) {
        hearth_openai_collect(choice, 0, probs);
        if (!choice->tokens)
            choice->tokens = json_array();
        json_array_extend(choice->tokens, tokens);
        json_decref(tokens);
        return;
    }
    json_t *one = json_pack("{s:i, s:o, s:O, s:b, s:i, s:i, s:i}", "index", choice->index, "content",
                            hearth_exchange_string_of(piece->text, piece->n_text), "tokens", tokens, "stop",
                            0, "id_slot", piece->stats.slot, "tokens_predicted", piece->stats.n_generated,
                            "tokens_evaluated", piece->stats.n_prompt);
    if (probs)
        json_object_set_new(one, "completion_probabilities", probs);
    if (piece->n_text || piece->has_token)
        hearth_out_event(&x->out, NULL, one);
    else
        json_decref(one);
    json_decref(tokens);
    if (piece->end && piece->end != HEARTH_END_FAILED)
        hearth_out_event(&x->out, NULL, describe(choice, json_string(""), json_array()));
}

static void finish(struct hearth_exchange *x)
{
    (void)x; // the last event is that of the last text
}

// A text, or a list of them.
static bool write_text(struct hearth_exchange *x)
{
    const int i = x->n_items++;
    struct hearth_choice *choice = &x->choices[i];
    struct hearth_out *out = &x->out;
    json_t *tokens = choice->tokens && x->with_tokens ? json_incref(choice->tokens) : json_array();
    if (x->n_choices > 1)
        hearth_out_text(out, i ? "," : "[");
    hearth_out_open(out, describe(choice, hearth_exchange_string(&choice->text), tokens));
    hearth_out_text(out, choice->probs[0].n ? ",\"completion_probabilities\":[" : "");
    hearth_out_add(out, choice->probs[0].data, choice->probs[0].n);
    hearth_out_text(out, choice->probs[0].n ? "]}" : "}");
    out->failed |= choice->probs[0].failed;
    hearth_out_free(&choice->probs[0]);
    if (i + 1 < x->n_choices)
        return true;
    hearth_out_text(out, x->n_choices > 1 ? "]" : "");
    return false;
}

static const struct hearth_format format = {.piece = put_piece, .finish = finish, .more = write_text};

void hearth_api_completion(struct hearth_exchange *x)
{
    struct hearth_prompt_list prompts = {0};
    int64_t probs = -1;
    bool streams;
    if (hearth_request_stream(x, &streams) && hearth_request_bool(x, "return_tokens", &x->with_tokens) &&
        hearth_request_int(x, "n_probs", 0, HEARTH_PROBS_MAX, &probs) &&
        hearth_prompt_read(x, "prompt", &prompts)) {
        struct hearth_task *task =
            hearth_request_task(x, prompts.items, prompts.n, 1, probs > 0 ? (int)probs : -1, "n_predict");
        x->n_per_prompt = 1;
        if (task)
            hearth_exchange_generate(x, task, &format, streams);
    }
    hearth_prompt_list_free(&prompts);
}
