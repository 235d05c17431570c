// SPDX-License-Identifier: MIT
// From logits to a token: the chain of samplers, the draw, opening and closing. Names, order and meaning are
// llama.cpp's. Everything is allocated on opening.
#include "sample/sampler.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "base/params.h"

enum sampler_kind { PENALTIES, DRY, TOP_N_SIGMA, TOP_K, TYP_P, TOP_P, MIN_P, XTC, TEMPERATURE, N_KINDS };

static const char *const kind_names[N_KINDS] = {"penalties", "dry",   "top_n_sigma", "top_k",      "typ_p",
                                                "top_p",     "min_p", "xtc",         "temperature"};

struct hearth_sampler {
    struct hearth_sampler_params params; // borrowed pointers cleared
    int n_vocab;
    uint64_t rng;
    float mirostat_mu; // current limit of surprise, in bits
    int n_chain;
    enum sampler_kind chain[32];
    struct hearth_candidate *candidates; // [n_vocab]
    uint32_t *counts;                    // [n_vocab] occurrences within the last repeat_last_n
    struct hearth_history history;       // for the penalties; empty if all tokens count
    struct hearth_dry dry;
    struct hearth_logit_bias *biases;     // [n_logit_biases]
    struct hearth_grammar_cursor grammar; // where in the grammar the text is, if there is one
};

// ---- drawing

// PCG32 (XSH RR): small, and more than good enough to draw tokens.
static uint32_t next_u32(uint64_t *state)
{
    uint64_t old = *state;
    *state = old * 6364136223846793005u + 1442695040888963407u;
    uint32_t x = (uint32_t)(((old >> 18) ^ old) >> 27);
    uint32_t r = (uint32_t)(old >> 59);
    return (x >> r) | (x << ((32 - r) & 31));
}

static double next_unit(uint64_t *state)
{
    uint64_t high = next_u32(state), low = next_u32(state);
    return (double)((high << 21) ^ (low >> 11)) / 9007199254740992.0;
}

static const struct hearth_candidate *draw(struct hearth_sampler *s, struct hearth_candidates *all)
{
    assert(all->n > 0);
    hearth_candidates_softmax(all);
    double u = next_unit(&s->rng);
    for (size_t i = 0; i < all->n; i++) {
        u -= (double)all->c[i].p;
        if (u < 0)
            return &all->c[i];
    }
    // Rounding left a rest of u. It must not select a token of probability 0.
    size_t last = all->n - 1;
    while (last > 0 && all->c[last].p == 0.0f)
        last--;
    return &all->c[last];
}

// Mirostat (Basu et al. 2021): adapts the limit mu so that drawn tokens have a mean surprise of tau bits.
// Version 1 fits Zipf's law to the best tokens, which gives the number to keep. Version 2 drops tokens whose
// surprise is above mu.
static hearth_token draw_mirostat(struct hearth_sampler *s, struct hearth_candidates *all)
{
    hearth_scale_temperature(all, s->params.temp, 0, 1);
    hearth_candidates_softmax(all);
    if (s->params.mirostat == 1)
        hearth_cut_zipf(all, s->mirostat_mu, s->n_vocab);
    else
        hearth_cut_surprise(all, s->mirostat_mu);
    const struct hearth_candidate *chosen = draw(s, all);
    s->mirostat_mu -= s->params.mirostat_eta * (-log2f(chosen->p) - s->params.mirostat_tau);
    return chosen->id;
}

// ---- the chain

static bool has_penalties(const struct hearth_sampler_params *p)
{
    return p->repeat_last_n != 0 &&
           (p->repeat_penalty != 1.0f || p->presence_penalty != 0.0f || p->frequency_penalty != 0.0f);
}

static void apply(struct hearth_sampler *s, enum sampler_kind kind, struct hearth_candidates *all)
{
    const struct hearth_sampler_params *p = &s->params;
    switch (kind) {
    case PENALTIES:
        if (has_penalties(p))
            hearth_penalize_repeats(all, s->counts, p);
        break;
    case DRY:
        if (s->dry.history.window)
            hearth_penalize_dry(all, &s->dry);
        break;
    case TOP_N_SIGMA:
        if (p->top_n_sigma >= 0)
            hearth_cut_top_n_sigma(all, p->top_n_sigma);
        break;
    case TOP_K:
        if (p->top_k > 0)
            hearth_candidates_sort(all, (size_t)p->top_k);
        break;
    case TYP_P:
        if (p->typ_p < 1.0f)
            hearth_cut_typical(all, p->typ_p);
        break;
    case TOP_P:
        if (p->top_p < 1.0f)
            hearth_cut_top_p(all, p->top_p);
        break;
    case MIN_P:
        if (p->min_p > 0.0f)
            hearth_cut_min_p(all, p->min_p);
        break;
    case XTC:
        if (p->xtc_probability > 0.0f && next_unit(&s->rng) <= (double)p->xtc_probability)
            hearth_cut_xtc(all, p->xtc_threshold);
        break;
    case TEMPERATURE:
        hearth_scale_temperature(all, p->temp, p->dynatemp_range, p->dynatemp_exponent);
        break;
    case N_KINDS:
        break;
    }
}

// Whether what a sampler does to a candidate depends on which others there are.
static bool looks_at_others(const struct hearth_sampler_params *p, enum sampler_kind kind)
{
    switch (kind) {
    case TOP_N_SIGMA:
        return p->top_n_sigma >= 0;
    case TOP_K:
        return p->top_k > 0;
    case TYP_P:
        return p->typ_p < 1.0f;
    case TOP_P:
        return p->top_p < 1.0f;
    case MIN_P:
        return p->min_p > 0.0f;
    case XTC:
        return p->xtc_probability > 0.0f;
    case TEMPERATURE:
        return p->dynatemp_range > 0 || p->temp <= 0;
    case PENALTIES:
    case DRY:
    case N_KINDS:
        break;
    }
    return false;
}

// The grammar comes before all samplers. One that sees each candidate alone may go before it, and what top-k
// would drop need not be asked about: the result is the same.
static void constrain_for(struct hearth_sampler *s, enum sampler_kind kind, struct hearth_candidates *all)
{
    if (!all->constrained && looks_at_others(&s->params, kind))
        hearth_constrain(all, &s->grammar, kind == TOP_K ? (size_t)s->params.top_k : all->n);
}

static void run_chain(struct hearth_sampler *s, struct hearth_candidates *all)
{
    for (int i = 0; i < s->n_chain; i++) {
        constrain_for(s, s->chain[i], all);
        if (!all->n)
            return;
        apply(s, s->chain[i], all);
    }
    if (!all->constrained)
        hearth_constrain(all, &s->grammar, all->n);
}

// Whether one of the two cuts is on that may drop the most likely token.
static bool may_drop_best(const struct hearth_sampler_params *p)
{
    return p->typ_p < 1.0f || p->xtc_probability > 0.0f;
}

// The most likely token after the samplers that change logits. Where it may be dropped, all samplers before the
// temperature run, and the best remaining token is taken.
static hearth_token choose_best(struct hearth_sampler *s, struct hearth_candidates *all)
{
    const bool may_drop = may_drop_best(&s->params);
    for (int i = 0; i < s->n_chain && all->n; i++)
        if (s->chain[i] == TEMPERATURE) {
            break;
        } else if (may_drop || s->chain[i] == PENALTIES || s->chain[i] == DRY) {
            constrain_for(s, s->chain[i], all);
            if (all->n)
                apply(s, s->chain[i], all);
        }
    if (!all->constrained)
        hearth_constrain(all, &s->grammar, 1);
    if (!all->n)
        return -1;
    hearth_candidates_sort(all, 1);
    return all->c[0].id;
}

// How many of the best logits decide about the token: all, where something sees or changes others first.
static size_t deciding(const struct hearth_sampler *s)
{
    const struct hearth_sampler_params *p = &s->params;
    const size_t all = (size_t)s->n_vocab;
    const bool greedy = p->temp <= 0;
    if (s->grammar.grammar || p->mirostat || p->n_logit_biases)
        return all;
    if (greedy && may_drop_best(p))
        return all;
    for (int i = 0; i < s->n_chain; i++) {
        const enum sampler_kind kind = s->chain[i];
        if ((kind == PENALTIES && has_penalties(p)) || (kind == DRY && s->dry.history.window))
            return all;
        if (kind == TEMPERATURE)
            return greedy ? 1 : all;
        if (!greedy && looks_at_others(p, kind))
            return kind == TOP_K && (size_t)p->top_k < all ? (size_t)p->top_k : all;
    }
    return greedy ? 1 : all;
}

// The candidates that the samplers begin with.
static void fill_candidates(struct hearth_sampler *s, const float *logits, struct hearth_candidates *all)
{
    const size_t k = deciding(s);
    if (k < all->n) {
        hearth_candidates_best(all, logits, k);
        return;
    }
    for (int i = 0; i < s->n_vocab; i++)
        all->c[i] = hearth_candidate_of(i, logits[i]);
    for (int i = 0; i < s->params.n_logit_biases; i++) {
        float *logit = &all->c[s->biases[i].token].logit;
        *logit += s->biases[i].bias;
        if (isnan(*logit)) // +inf and -inf: the one that forbids the token wins
            *logit = -INFINITY;
    }
}

hearth_token hearth_sample(struct hearth_sampler *sampler, const float *logits)
{
    struct hearth_sampler *s = sampler;
    struct hearth_candidates all = {
        .c = s->candidates, .n = (size_t)s->n_vocab, .constrained = !s->grammar.grammar};
    fill_candidates(s, logits, &all);
    if (s->params.mirostat) {
        if (!all.constrained)
            hearth_constrain(&all, &s->grammar, all.n);
        return all.n ? draw_mirostat(s, &all) : -1;
    }
    if (s->params.temp <= 0)
        return choose_best(s, &all);
    run_chain(s, &all);
    return all.n ? draw(s, &all)->id : -1;
}

void hearth_sampler_accept(struct hearth_sampler *sampler, hearth_token token)
{
    hearth_sampler_accept_prompt(sampler, token);
    hearth_grammar_advance(&sampler->grammar, token);
}

bool hearth_sampler_may_end(struct hearth_sampler *sampler)
{
    return hearth_grammar_may_end(&sampler->grammar);
}

void hearth_sampler_accept_prompt(struct hearth_sampler *sampler, hearth_token token)
{
    struct hearth_sampler *s = sampler;
    if (token < 0 || token >= s->n_vocab)
        return;
    if (s->params.repeat_last_n != 0) {
        hearth_token dropped = s->history.window ? hearth_history_add(&s->history, token) : -1;
        assert(dropped < 0 || s->counts[dropped] > 0);
        if (dropped >= 0)
            s->counts[dropped]--;
        s->counts[token]++;
    }
    if (s->dry.history.window)
        hearth_dry_accept(&s->dry, token);
}

bool hearth_sampler_is_lost(const struct hearth_sampler *sampler)
{
    return sampler->grammar.lost;
}

uint32_t hearth_sampler_seed(const struct hearth_sampler *sampler)
{
    return sampler->params.seed;
}

// ---- opening

const char *hearth_sampler_names(void)
{
    return "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";
}

static const char *const default_breakers[] = {"\n", ":", "\"", "*"};
static const struct hearth_sampler_params default_params = {.size = sizeof default_params,
                                                            .seed = UINT32_MAX,
                                                            .temp = 0.8f,
                                                            .top_k = 40,
                                                            .top_p = 0.95f,
                                                            .min_p = 0.05f,
                                                            .repeat_last_n = 64,
                                                            .repeat_penalty = 1.0f,
                                                            .typ_p = 1.0f,
                                                            .top_n_sigma = -1.0f,
                                                            .xtc_threshold = 0.1f,
                                                            .dynatemp_exponent = 1.0f,
                                                            .dry_base = 1.75f,
                                                            .dry_allowed_length = 2,
                                                            .dry_penalty_last_n = 64,
                                                            .dry_breakers = default_breakers,
                                                            .n_dry_breakers = 4,
                                                            .mirostat_tau = 5.0f,
                                                            .mirostat_eta = 0.1f};

void hearth_sampler_params_init(struct hearth_sampler_params *params, size_t size)
{
    hearth_params_init(params, size, &default_params, sizeof default_params);
}

// Whether two names are equal except for case, dashes and underscores: "top_k", "top-k", "TopK".
static bool same_name(const char *a, size_t n, const char *b)
{
    const char *end = a + n;
    for (;;) {
        while (a < end && (*a == '-' || *a == '_'))
            a++;
        while (*b == '_')
            b++;
        if (a == end || !*b)
            return a == end && !*b;
        if (tolower((unsigned char)*a++) != *b++)
            return false;
    }
}

// The sampler of this name; N_KINDS: none.
static enum sampler_kind kind_by_name(const char *name, size_t n)
{
    static const struct {
        const char *name;
        enum sampler_kind kind;
    } others[] = {{"nucleus", TOP_P}, {"temp", TEMPERATURE}, {"typ", TYP_P}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (same_name(name, n, others[i].name))
            return others[i].kind;
    int kind = 0;
    while (kind < N_KINDS && !same_name(name, n, kind_names[kind]))
        kind++;
    return (enum sampler_kind)kind;
}

static int read_chain(struct hearth_sampler *s, const char *names, struct hearth_error *err)
{
    while (*names) {
        size_t n = strcspn(names, ";");
        enum sampler_kind kind = kind_by_name(names, n);
        if (kind == N_KINDS)
            return hearth_fail_param(err, HEARTH_E_INVALID, "samplers",
                                     "there is no sampler \"%.*s\"; there are %s", (int)(n < 40 ? n : 40),
                                     names, hearth_sampler_names());
        if (s->n_chain == (int)(sizeof s->chain / sizeof s->chain[0]))
            return hearth_fail(err, HEARTH_E_INVALID, "more than %d samplers in a chain", s->n_chain);
        s->chain[s->n_chain++] = kind;
        names += n + (names[n] == ';');
    }
    return HEARTH_OK;
}

static int check_params(const struct hearth_sampler_params *p, int n_vocab, struct hearth_error *err)
{
    const float finite[] = {p->temp,          p->top_p,          p->min_p,           p->presence_penalty,
                            p->typ_p,         p->top_n_sigma,    p->xtc_probability, p->frequency_penalty,
                            p->xtc_threshold, p->dynatemp_range, p->dry_multiplier,  p->dynatemp_exponent,
                            p->dry_base,      p->mirostat_tau,   p->mirostat_eta};
    for (size_t i = 0; i < sizeof finite / sizeof finite[0]; i++)
        if (!isfinite(finite[i]))
            return hearth_fail(err, HEARTH_E_INVALID, "sampling parameters must be finite numbers");
    if (p->dynatemp_exponent < 0)
        return hearth_fail_param(err, HEARTH_E_INVALID, "dynatemp_exponent",
                                 "dynatemp_exponent must be 0 or more");
    if (p->n_logit_biases < 0 || p->n_dry_breakers < 0)
        return hearth_fail(err, HEARTH_E_INVALID, "a negative number of logit biases or sequence breakers");
    if (n_vocab < 1)
        return hearth_fail(err, HEARTH_E_INVALID, "a sampler needs a vocabulary");
    if (p->grammar && hearth_grammar_n_tokens(p->grammar) != n_vocab)
        return hearth_fail_param(err, HEARTH_E_INVALID, "grammar",
                                 "the grammar was opened for %d tokens, not for the %d of these logits",
                                 hearth_grammar_n_tokens(p->grammar), n_vocab);
    if (!(p->repeat_penalty > 0) || !isfinite(p->repeat_penalty))
        return hearth_fail_param(err, HEARTH_E_INVALID, "repeat_penalty",
                                 "repeat_penalty must be above 0 (1 is off)");
    if (p->repeat_last_n < -1 || p->repeat_last_n > 1 << 24)
        return hearth_fail_param(err, HEARTH_E_INVALID, "repeat_last_n",
                                 "repeat_last_n must be -1 (all) or 0 to %d", 1 << 24);
    if (p->dry_penalty_last_n < -1 || p->dry_penalty_last_n > 1 << 24)
        return hearth_fail_param(err, HEARTH_E_INVALID, "dry_penalty_last_n",
                                 "dry_penalty_last_n must be -1 (the context) or 0 to %d", 1 << 24);
    if (p->dry_multiplier != 0.0f && p->dry_allowed_length < 1)
        return hearth_fail_param(err, HEARTH_E_INVALID, "dry_allowed_length",
                                 "dry_allowed_length must be at least 1");
    if (p->mirostat < 0 || p->mirostat > 2)
        return hearth_fail_param(err, HEARTH_E_INVALID, "mirostat",
                                 "mirostat %d is not there: 0 (off), 1 and 2 are", p->mirostat);
    for (int i = 0; i < p->n_logit_biases; i++)
        if (p->logit_biases[i].token < 0 || p->logit_biases[i].token >= n_vocab ||
            isnan(p->logit_biases[i].bias))
            return hearth_fail_param(
                err, HEARTH_E_INVALID, "logit_biases",
                "logit_biases: token %d is outside the vocabulary of %d, or its bias is no number",
                p->logit_biases[i].token, n_vocab);
    return HEARTH_OK;
}

static int fill(struct hearth_sampler *s, const struct hearth_sampler_params *p, struct hearth_error *err)
{
    int rc = read_chain(s, p->samplers ? p->samplers : hearth_sampler_names(), err);
    if (!rc)
        rc = hearth_dry_open(&s->dry, s->n_vocab, p, err);
    if (rc)
        return rc;
    s->candidates = hearth_calloc((size_t)s->n_vocab, sizeof *s->candidates);
    s->counts = hearth_calloc((size_t)s->n_vocab, sizeof *s->counts);
    s->biases = hearth_calloc((size_t)p->n_logit_biases, sizeof *s->biases);
    if (p->repeat_last_n > 0)
        s->history.tokens = hearth_calloc((size_t)p->repeat_last_n, sizeof *s->history.tokens);
    if (!s->candidates || !s->counts || !s->biases || (p->repeat_last_n > 0 && !s->history.tokens))
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a sampler");
    s->history.window = p->repeat_last_n > 0 ? p->repeat_last_n : 0;
    for (int i = 0; i < p->n_logit_biases; i++)
        s->biases[i] = p->logit_biases[i];
    return HEARTH_OK;
}

static void restart_draws(struct hearth_sampler *s)
{
    s->mirostat_mu = 2.0f * s->params.mirostat_tau;
    s->rng = (uint64_t)s->params.seed * 0x9E3779B97F4A7C15u + 1;
    next_u32(&s->rng); // similar seeds give different numbers after the first
}

int hearth_sampler_open(struct hearth_sampler **out, int n_vocab, const struct hearth_sampler_params *params,
                        struct hearth_error *err)
{
    *out = NULL;
    struct hearth_sampler_params p = default_params;
    int rc = hearth_params_read(&p, sizeof p, params, "hearth_sampler_params", err);
    if (!rc)
        rc = check_params(&p, n_vocab, err);
    if (rc)
        return rc;
    if (p.seed == UINT32_MAX)
        p.seed = (uint32_t)(hearth_random_u64() % UINT32_MAX);
    struct hearth_sampler *s = hearth_calloc(1, sizeof *s);
    if (!s)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a sampler");
    s->n_vocab = n_vocab;
    rc = fill(s, &p, err);
    if (rc) {
        hearth_sampler_close(&s);
        return rc;
    }
    s->params = p;
    s->params.dry_breakers = NULL;
    s->params.logit_biases = NULL;
    s->params.samplers = NULL;
    s->params.model = NULL;
    s->params.grammar = NULL;
    hearth_grammar_attach(&s->grammar, p.grammar);
    restart_draws(s);
    *out = s;
    return HEARTH_OK;
}

void hearth_sampler_reset(struct hearth_sampler *sampler)
{
    struct hearth_sampler *s = sampler;
    memset(s->counts, 0, (size_t)s->n_vocab * sizeof *s->counts);
    s->history.used = s->history.at = 0;
    hearth_dry_restart(&s->dry);
    hearth_grammar_restart(&s->grammar);
    restart_draws(s);
}

// Gives a copy arrays of its own. Where there is no memory, those that it has are in it.
static int copy_arrays(struct hearth_sampler *copy, const struct hearth_sampler *s, struct hearth_error *err)
{
    const size_t n_vocab = (size_t)s->n_vocab, window = (size_t)s->history.window,
                 n_biases = (size_t)s->params.n_logit_biases;
    const int rc = hearth_dry_copy(&copy->dry, &s->dry, s->n_vocab, err);
    if (rc)
        return rc;
    copy->candidates = hearth_calloc(n_vocab, sizeof *copy->candidates);
    copy->counts = hearth_calloc(n_vocab, sizeof *copy->counts);
    copy->biases = hearth_calloc(n_biases, sizeof *copy->biases);
    if (window)
        copy->history.tokens = hearth_calloc(window, sizeof *copy->history.tokens);
    if (!copy->candidates || !copy->counts || !copy->biases || (window && !copy->history.tokens))
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a sampler");
    memcpy(copy->counts, s->counts, n_vocab * sizeof *copy->counts);
    if (n_biases)
        memcpy(copy->biases, s->biases, n_biases * sizeof *copy->biases);
    if (window)
        memcpy(copy->history.tokens, s->history.tokens, window * sizeof *copy->history.tokens);
    return HEARTH_OK;
}

int hearth_sampler_clone(struct hearth_sampler **out, const struct hearth_sampler *sampler,
                         struct hearth_error *err)
{
    *out = NULL;
    struct hearth_sampler *copy = hearth_calloc(1, sizeof *copy);
    if (!copy)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a sampler");
    memcpy(copy, sampler,
           offsetof(struct hearth_sampler, grammar)); // whose links others may change meanwhile
    copy->candidates = NULL;
    copy->counts = NULL;
    copy->history.tokens = NULL;
    copy->biases = NULL;
    copy->dry = (struct hearth_dry){0};
    hearth_grammar_attach_at(&copy->grammar, &sampler->grammar);
    const int rc = copy_arrays(copy, sampler, err);
    if (rc)
        hearth_sampler_close(&copy);
    else
        *out = copy;
    return rc;
}

void hearth_sampler_close(struct hearth_sampler **sampler)
{
    struct hearth_sampler *s = *sampler;
    if (!s)
        return;
    hearth_grammar_detach(&s->grammar);
    hearth_dry_close(&s->dry);
    free(s->candidates);
    free(s->counts);
    free(s->history.tokens);
    free(s->biases);
    free(s);
    *sampler = NULL;
}
