// SPDX-License-Identifier: MIT
// Sampling options: copies numbers, parses logit biases, leaves defaults to the library.
#include "cli/sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/common.h"

// "TOKEN+BIAS" or "TOKEN-BIAS"; the bias may be inf.
static bool parse_bias(const char *text, struct hearth_logit_bias *bias)
{
    char *end;
    long token = strtol(text, &end, 10);
    if (end == text || token < 0 || token > INT32_MAX || (*end != '+' && *end != '-'))
        return false;
    const char *number = end;
    bias->token = (hearth_token)token;
    bias->bias = strtof(number, &end);
    return end > number + 1 && !*end && !isnan(bias->bias);
}

static int check_bias(const char *text, struct hearth_logit_bias *bias)
{
    return parse_bias(text, bias)
               ? HEARTH_EXIT_OK
               : hearth_cli_usage(
                     hearth_command_find("run"),
                     "--logit-bias wants TOKEN+BIAS or TOKEN-BIAS, such as 15043+1 or 2-inf, not %s", text);
}

static int add_biases(struct hearth_sampling *s, const struct hearth_options *o,
                      const struct hearth_model *model)
{
    const int n_vocab = hearth_model_info(model)->n_vocab;
    struct hearth_sampler_params *p = &s->params;
    s->biases = hearth_calloc((size_t)n_vocab + (size_t)o->logit_bias.n, sizeof *s->biases);
    if (!s->biases)
        return hearth_cli_error("no memory for %d logit biases", n_vocab);
    for (int i = 0; i < o->logit_bias.n; i++) {
        const int status = check_bias(o->logit_bias.values[i], &s->biases[p->n_logit_biases++]);
        if (status)
            return status;
    }
    for (hearth_token t = 0; t < n_vocab; t++)
        if (hearth_token_is_suppressed(model, t) || (o->ignore_eos && hearth_token_is_eog(model, t)))
            s->biases[p->n_logit_biases++] = (struct hearth_logit_bias){t, -INFINITY};
    p->logit_biases = s->biases;
    return HEARTH_EXIT_OK;
}

// The samplers that llama.cpp's letters mean.
static int name_letters(struct hearth_sampling *s, const char *letters)
{
    static const struct {
        char letter;
        const char *name;
    } table[] = {{'e', "penalties"}, {'d', "dry"},   {'s', "top_n_sigma"},
                 {'k', "top_k"},     {'y', "typ_p"}, {'p', "top_p"},
                 {'m', "min_p"},     {'x', "xtc"},   {'t', "temperature"}};
    enum { N = sizeof table / sizeof table[0] };
    size_t used = 0;
    for (const char *at = letters; *at; at++) {
        size_t i = 0;
        while (i < N && table[i].letter != *at)
            i++;
        if (i == N || used + 16 > sizeof s->samplers)
            return hearth_cli_usage(hearth_command_find("run"),
                                    "--sampler-seq wants up to 32 letters of edskypmxt, not %s", letters);
        used += (size_t)snprintf(s->samplers + used, sizeof s->samplers - used, "%s%s", used ? ";" : "",
                                 table[i].name);
    }
    s->params.samplers = s->samplers;
    return HEARTH_EXIT_OK;
}

int hearth_cli_sampling(struct hearth_sampling *s, const struct hearth_options *o,
                        const struct hearth_model *model, int n_ctx)
{
    static const char *const no_breakers = "none";
    struct hearth_sampler_params p = hearth_sampler_params_default();
    p.seed = o->seed < 0 ? UINT32_MAX : (uint32_t)o->seed;
    p.temp = (float)o->temp;
    p.top_k = (int)o->top_k;
    p.top_p = (float)o->top_p;
    p.min_p = (float)o->min_p;
    p.repeat_last_n = (int)o->repeat_last_n;
    p.repeat_penalty = (float)o->repeat_penalty;
    p.presence_penalty = (float)o->presence_penalty;
    p.frequency_penalty = (float)o->frequency_penalty;
    p.typ_p = (float)o->typ_p;
    p.top_n_sigma = (float)o->top_n_sigma;
    p.xtc_probability = (float)o->xtc_probability;
    p.xtc_threshold = (float)o->xtc_threshold;
    p.dynatemp_range = (float)o->dynatemp_range;
    p.dynatemp_exponent = (float)o->dynatemp_exponent;
    p.dry_multiplier = (float)o->dry_multiplier;
    p.dry_base = (float)o->dry_base;
    p.dry_allowed_length = (int)o->dry_allowed_length;
    p.dry_penalty_last_n = (int)o->dry_penalty_last_n;
    if (o->dry_breakers.n) {
        p.dry_breakers = o->dry_breakers.values;
        p.n_dry_breakers = strcmp(o->dry_breakers.values[0], no_breakers) ? o->dry_breakers.n : 0;
    }
    p.mirostat = (int)o->mirostat;
    p.mirostat_tau = (float)o->mirostat_tau;
    p.mirostat_eta = (float)o->mirostat_eta;
    p.samplers = o->samplers;
    p.model = model;
    p.n_ctx = n_ctx;
    *s = (struct hearth_sampling){.params = p};
    int status = o->sampler_letters ? name_letters(s, o->sampler_letters) : HEARTH_EXIT_OK;
    return status ? status : add_biases(s, o, model);
}

int hearth_cli_check_sampling(const struct hearth_options *o)
{
    struct hearth_sampling s = {.params = hearth_sampler_params_default()};
    struct hearth_sampler *sampler = NULL;
    struct hearth_error err = {0};
    s.params.samplers = o->samplers;
    int status = o->sampler_letters ? name_letters(&s, o->sampler_letters) : HEARTH_EXIT_OK;
    if (!status && hearth_sampler_open(&sampler, 1, &s.params, &err))
        status = hearth_cli_usage(hearth_command_find("run"), "--samplers: %s", err.message);
    hearth_sampler_close(&sampler);
    for (int i = 0; i < o->logit_bias.n && !status; i++)
        status = check_bias(o->logit_bias.values[i], &(struct hearth_logit_bias){0});
    return status;
}

void hearth_cli_sampling_free(struct hearth_sampling *s)
{
    free(s->biases);
    *s = (struct hearth_sampling){0};
}
