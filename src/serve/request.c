// SPDX-License-Identifier: MIT
// What requests say about texts to generate.
#include "serve/request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/adapters.h"
#include "serve/constraint.h"
#include "serve/response_format.h"

#define MOST_STOPS   64
#define LONGEST_STOP 4096 // they are looked for with each token
#define MOST_BIASES  10000

bool hearth_request_stream(struct hearth_exchange *x, bool *streams)
{
    *streams = false;
    if (!hearth_request_bool(x, "stream", streams))
        return false;
    x->with_usage =
        json_is_true(json_object_get(json_object_get(x->body, "stream_options"), "include_usage"));
    return true;
}

// ---- sampling

// Fields with a number, where it goes, and its range.
struct number {
    const char *name;
    size_t offset; // of a float, or an int, in struct hearth_sampler_params
    double min, max;
};
#define AT(field) offsetof(struct hearth_sampler_params, field)

static const struct number floats[] = {
    {"temperature", AT(temp), 0, 100},
    {"top_p", AT(top_p), 0, 1},
    {"min_p", AT(min_p), 0, 1},
    {"typical_p", AT(typ_p), 0, 1},
    {"top_n_sigma", AT(top_n_sigma), -1, 1000},
    {"repeat_penalty", AT(repeat_penalty), 0.01, 100},
    {"repetition_penalty", AT(repeat_penalty), 0.01, 100},
    {"presence_penalty", AT(presence_penalty), -100, 100},
    {"frequency_penalty", AT(frequency_penalty), -100, 100},
    {"xtc_probability", AT(xtc_probability), 0, 1},
    {"xtc_threshold", AT(xtc_threshold), 0, 1},
    {"dynatemp_range", AT(dynatemp_range), 0, 100},
    {"dynatemp_exponent", AT(dynatemp_exponent), 0, 100},
    {"dry_multiplier", AT(dry_multiplier), 0, 100},
    {"dry_base", AT(dry_base), 0, 100},
    {"mirostat_tau", AT(mirostat_tau), 0, 100},
    {"mirostat_eta", AT(mirostat_eta), 0, 10},
};
static const struct number ints[] = {
    {"top_k", AT(top_k), -1, INT32_MAX},
    {"repeat_last_n", AT(repeat_last_n), -1, 16777216},
    {"dry_allowed_length", AT(dry_allowed_length), 1, 1048576},
    {"dry_penalty_last_n", AT(dry_penalty_last_n), -1, 16777216},
    {"mirostat", AT(mirostat), 0, 2},
};

static bool take_numbers(struct hearth_exchange *x, struct hearth_sampler_params *p)
{
    char *base = (char *)p;
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        float *to = (float *)(void *)(base + floats[i].offset);
        double value = (double)*to;
        if (!hearth_request_number(x, floats[i].name, floats[i].min, floats[i].max, &value))
            return false;
        *to = (float)value;
    }
    for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++) {
        int *to = (int *)(void *)(base + ints[i].offset);
        int64_t value = *to;
        if (!hearth_request_int(x, ints[i].name, (int64_t)ints[i].min, (int64_t)ints[i].max, &value))
            return false;
        *to = (int)value;
    }
    return true;
}

// A sampler's parameters with the arrays that they point to.
struct sampling {
    struct hearth_sampler_params params;
    int64_t seed; // of the first text; -1: random ones
    struct hearth_logit_bias *biases;
    bool ignore_eos;
};

static bool take_seed(struct hearth_exchange *x, struct sampling *s)
{
    const json_t *given = hearth_request_field(x, "seed");
    const double real = json_number_value(given);
    s->seed = s->params.seed == UINT32_MAX ? -1 : (int64_t)s->params.seed;
    if (json_is_integer(given))
        s->seed = json_integer_value(given);
    else if (json_is_real(given) && real >= 0 && real == floor(real)) // beyond 64 bits, perhaps
        s->seed = (int64_t)fmod(real, UINT32_MAX);
    else if (given)
        hearth_exchange_error(x, 400, "seed", "seed: an integer is wanted");
    return !x->finished;
}

// Of text `index`: UINT32_MAX stands for a random one, and for no other.
static uint32_t seed_of(const struct sampling *s, int index)
{
    return s->seed == -1 ? UINT32_MAX : (uint32_t)(((uint64_t)s->seed + (uint64_t)index) % UINT32_MAX);
}

static bool add_bias(struct hearth_exchange *x, struct sampling *s, int64_t token, const json_t *value)
{
    const double bias = json_number_value(value);
    if (token < 0 || token >= hearth_model_info(x->server->served.model)->n_vocab ||
        !(json_is_number(value) || json_is_false(value))) {
        hearth_exchange_error(x, 400, "logit_bias",
                              "logit_bias: ids of tokens with a number each are wanted");
        return false;
    }
    // OpenAI's -100 forbids a token; so does llama.cpp's false.
    const bool forbids = json_is_false(value) || bias <= -100;
    s->biases[s->params.n_logit_biases++] =
        (struct hearth_logit_bias){(hearth_token)token, forbids ? -INFINITY : (float)bias};
    return true;
}

// {"ID": bias} as OpenAI has it, [[id, bias]] as llama.cpp does.
static bool take_biases(struct hearth_exchange *x, struct sampling *s)
{
    json_t *given = hearth_request_field(x, "logit_bias"), *value;
    const char *key;
    size_t i;
    if (!hearth_request_bool(x, "ignore_eos", &s->ignore_eos))
        return false;
    if ((given && !json_is_object(given) && !json_is_array(given)) ||
        json_object_size(given) + json_array_size(given) > MOST_BIASES) {
        hearth_exchange_error(x, 400, "logit_bias", "logit_bias: an object of at most %d tokens is wanted",
                              MOST_BIASES);
        return false;
    }
    const int n_vocab = hearth_model_info(x->server->served.model)->n_vocab;
    const struct hearth_sampler_params *usual = &x->server->sampling;
    const size_t n = json_object_size(given) + json_array_size(given) + (size_t)usual->n_logit_biases;
    s->biases = hearth_calloc(n + (s->ignore_eos ? (size_t)n_vocab : 0) + 1, sizeof *s->biases);
    if (!s->biases) {
        hearth_exchange_error(x, 500, NULL, "out of memory");
        return false;
    }
    if (usual->n_logit_biases)
        memcpy(s->biases, usual->logit_biases, (size_t)usual->n_logit_biases * sizeof *s->biases);
    json_object_foreach(given, key, value)
    {
        char *end;
        const long id = strtol(key, &end, 10);
        if (!add_bias(x, s, *end || !*key ? -1 : id, value))
            return false;
    }
    json_array_foreach(given, i, value)
    {
        const json_t *id = json_array_get(value, 0);
        if (!add_bias(x, s, json_is_integer(id) ? json_integer_value(id) : -1, json_array_get(value, 1)))
            return false;
    }
    for (hearth_token t = 0; s->ignore_eos && t < n_vocab; t++)
        if (hearth_token_is_eog(x->server->served.model, t))
            s->biases[s->params.n_logit_biases++] = (struct hearth_logit_bias){t, -INFINITY};
    s->params.logit_biases = s->biases;
    return true;
}

// ---- where texts end

static bool add_stop(struct hearth_exchange *x, struct hearth_task *task, const json_t *stop)
{
    if (!json_is_string(stop) || task->n_stops == MOST_STOPS || json_string_length(stop) > LONGEST_STOP) {
        hearth_exchange_error(x, 400, "stop", "stop: a text or up to %d texts are wanted, of up to %d bytes",
                              MOST_STOPS, LONGEST_STOP);
        return false;
    }
    if (!json_string_length(stop)) // an empty text is no text
        return true;
    task->stops[task->n_stops] = hearth_strndup(json_string_value(stop), json_string_length(stop));
    task->n_stops += task->stops[task->n_stops] != NULL;
    return true;
}

static bool take_stops(struct hearth_exchange *x, struct hearth_task *task)
{
    json_t *given = hearth_request_field(x, "stop"), *stop;
    size_t i;
    if (!given)
        given = hearth_request_field(x, "stop_sequences");
    if (!given)
        return true;
    task->stops = hearth_calloc(MOST_STOPS, sizeof *task->stops);
    if (!task->stops) {
        hearth_exchange_error(x, 500, NULL, "out of memory");
        return false;
    }
    if (!json_is_array(given))
        return add_stop(x, task, given);
    json_array_foreach(given, i, stop) if (!add_stop(x, task, stop)) return false;
    return true;
}

static bool take_length(struct hearth_exchange *x, const char *name, int *n_predict)
{
    int64_t n = x->server->served.n_predict;
    if (!hearth_request_int(x, "max_tokens", -1, INT32_MAX, &n) ||
        (name && !hearth_request_int(x, name, -1, INT32_MAX, &n)))
        return false;
    *n_predict = (int)n;
    return true;
}

// ---- the form of the text

static bool take_form(struct hearth_exchange *x, struct hearth_task *task, struct hearth_sampler_params *p)
{
    struct hearth_error err = {0};
    char *gbnf;
    if (!hearth_response_format(x, &gbnf))
        return false;
    task->constraints = x->server->constraints;
    const int rc = gbnf ? hearth_constraints_take(task->constraints, gbnf, &task->grammar, &err) : 0;
    free(gbnf);
    if (rc)
        hearth_exchange_error(x, rc == HEARTH_E_MEMORY ? 500 : 400, "grammar", "grammar: %s", err.message);
    p->grammar = task->grammar;
    return !rc;
}

// ---- tasks

static bool fill_job(struct hearth_exchange *x, struct hearth_job *job, const struct hearth_prompt *prompt,
                     const struct sampling *sampling)
{
    struct hearth_error err = {0};
    const struct hearth_served *served = &x->server->served;
    const int room = hearth_scheduler_room(x->server->scheduler);
    struct hearth_sampler_params params = sampling->params;
    hearth_token start = hearth_token_bos(served->model); // of a text that begins with nothing
    start = start < 0 ? hearth_token_eos(served->model) : start;
    const struct hearth_prompt empty = {&start, start >= 0};
    prompt = prompt->n ? prompt : &empty;
    if (prompt->n < 1 || prompt->n >= room) {
        if (prompt->n < 1)
            hearth_exchange_error(x, 400, "prompt", "the prompt has no tokens");
        else
            hearth_exchange_too_long(x, x->chat ? "messages" : "prompt", "the prompt", (size_t)prompt->n,
                                     true, room - 1);
        return false;
    }
    params.seed = seed_of(sampling, job->index);
    job->tokens = hearth_calloc((size_t)prompt->n + 64, sizeof *job->tokens);
    if (!job->tokens ||
        hearth_sampler_open(&job->sampler, hearth_model_info(served->model)->n_vocab, &params, &err) ||
        hearth_stream_open(&job->stream, served->model, x->chat, true, &err)) {
        hearth_exchange_error(x, job->tokens && err.code == HEARTH_E_INVALID ? 400 : 500, NULL, "%s",
                              job->tokens ? err.message : "out of memory");
        return false;
    }
    memcpy(job->tokens, prompt->tokens, (size_t)prompt->n * sizeof *job->tokens);
    job->n_tokens = job->n_prompt = prompt->n;
    job->cap = prompt->n + 64;
    job->ignore_eos = sampling->ignore_eos;
    for (int i = 0; i < prompt->n; i++)
        hearth_sampler_accept_prompt(job->sampler, prompt->tokens[i]);
    return true;
}

static bool fill_task(struct hearth_exchange *x, struct hearth_task *task,
                      const struct hearth_prompt *prompts, int n, int n_probs, const char *length)
{
    struct sampling sampling = {.params = x->server->sampling};
    sampling.params.model = x->server->served.model;
    sampling.params.n_ctx = hearth_scheduler_room(x->server->scheduler);
    int64_t slot = -1;
    int n_predict = -1;
    bool ok = hearth_request_adapters(x) && take_numbers(x, &sampling.params) && take_seed(x, &sampling) &&
              take_biases(x, &sampling) && take_stops(x, task) && take_length(x, length, &n_predict) &&
              hearth_request_int(x, "id_slot", -1, x->server->params->n_slots - 1, &slot) &&
              take_form(x, task, &sampling.params);
    for (int i = 0; i < task->n_jobs && ok; i++) {
        task->jobs[i].n_predict = n_predict;
        task->jobs[i].slot = (int)slot;
        task->jobs[i].n_probs = n_probs;
        ok = fill_job(x, &task->jobs[i], &prompts[i / n], &sampling);
    }
    free(sampling.biases);
    return ok;
}

// Each text has a sampler and tokens of its own: they are made only for those that can be taken.
static bool has_room(struct hearth_exchange *x, int64_t n_jobs)
{
    struct hearth_scheduler *s = x->server->scheduler;
    const int most = hearth_scheduler_most_jobs(s);
    if (n_jobs > most)
        hearth_exchange_error(x, 400, "n",
                              "%lld texts are wanted: this server has room for %d (-np and --queue)",
                              (long long)n_jobs, most);
    else if (!hearth_scheduler_has_room(s, (int)n_jobs))
        hearth_exchange_error(x, 503, NULL, HEARTH_QUEUE_IS_FULL);
    return !x->finished;
}

struct hearth_task *hearth_request_task(struct hearth_exchange *x, const struct hearth_prompt *prompts,
                                        int n_prompts, int n, int n_probs, const char *length)
{
    if (!has_room(x, (int64_t)n_prompts * n))
        return NULL;
    struct hearth_task *task = hearth_task_open(n_prompts * n);
    if (!task) {
        hearth_exchange_error(x, 500, NULL, "out of memory");
        return NULL;
    }
    if (fill_task(x, task, prompts, n, n_probs, length))
        return task;
    hearth_task_drop(task);
    return NULL;
}
