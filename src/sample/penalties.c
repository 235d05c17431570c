// SPDX-License-Identifier: MIT
// Samplers that use the earlier tokens: penalties on tokens that occurred, and DRY ("don't repeat yourself").
// DRY penalises a token that would continue a repetition of earlier text, by the length of the repetition.
#include "sample/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void hearth_penalize_repeats(struct hearth_candidates *all, const uint32_t *counts,
                             const struct hearth_sampler_params *p)
{
    for (size_t i = 0; i < all->n; i++) {
        uint32_t count = counts[all->c[i].id];
        if (!count)
            continue;
        float l = all->c[i].logit;
        l = l <= 0 ? l * p->repeat_penalty : l / p->repeat_penalty;
        all->c[i].logit = l - (float)count * p->frequency_penalty - p->presence_penalty;
        all->sorted = false;
    }
}

// ---- DRY

// repeat[k]: how many tokens before the end of the history equal those before position k from the end. This
// is the Z function of the reversed history; it takes linear time.
static void find_repeats(struct hearth_dry *d, int limit)
{
    const struct hearth_history *h = &d->history;
    const int n = h->used;
    int left = 0, right = 0; // the window [left, right) that is known to equal the history's end
    for (int k = 1; k < n; k++) {
        int length = 0;
        if (k < right)
            length = d->repeat[k - left] < right - k ? d->repeat[k - left] : right - k;
        while (k + length < n && hearth_history_back(h, length) == hearth_history_back(h, k + length))
            length++;
        if (k + length > right) {
            left = k;
            right = k + length;
        }
        d->repeat[k] = length;
    }
    for (int k = 1; k < n; k++)
        if (d->repeat[k] > limit)
            d->repeat[k] = limit;
}

void hearth_penalize_dry(struct hearth_candidates *all, struct hearth_dry *d)
{
    const struct hearth_history *h = &d->history;
    if (h->used <= d->allowed_length)
        return;
    // A repetition may not extend across a breaker.
    int limit = d->since_breaker < h->used ? d->since_breaker : h->used;
    if (limit < d->allowed_length)
        return;
    find_repeats(d, limit);
    // The token after the earlier passage would continue the repetition.
    for (int k = 1; k < h->used; k++) {
        hearth_token next = hearth_history_back(h, k - 1);
        if (d->repeat[k] >= d->allowed_length && d->repeat[k] > d->token_repeat[next])
            d->token_repeat[next] = d->repeat[k];
    }
    for (size_t i = 0; i < all->n; i++) {
        int length = d->token_repeat[all->c[i].id];
        if (!length)
            continue;
        double penalty = (double)d->multiplier * pow((double)d->base, (double)(length - d->allowed_length));
        all->c[i].logit -= (float)(penalty < 1e30 ? penalty : 1e30);
        all->sorted = false;
    }
    for (int k = 0; k < h->used; k++)
        d->token_repeat[hearth_history_back(h, k)] = 0;
}

// Whether some breaker ends within the last n_new bytes of text[0..n).
static bool ends_breaker(const struct hearth_dry *d, const char *text, size_t n, size_t n_new)
{
    for (int i = 0; i < d->n_breakers; i++) {
        size_t length = strlen(d->breakers[i]);
        for (size_t end = n - n_new + 1; end <= n; end++)
            if (end >= length && !memcmp(text + end - length, d->breakers[i], length))
                return true;
    }
    return false;
}

void hearth_dry_accept(struct hearth_dry *d, hearth_token token)
{
    hearth_history_add(&d->history, token);
    d->since_breaker++;
    if (!d->n_breakers)
        return;
    char text[HEARTH_DRY_BREAKER + 512];
    memcpy(text, d->text, d->n_text);
    const size_t room = sizeof text - d->n_text;
    size_t n_new = hearth_token_bytes(d->model, token, true, text + d->n_text, room);
    n_new = n_new < room ? n_new : room;
    const size_t n = d->n_text + n_new;
    if (ends_breaker(d, text, n, n_new))
        d->since_breaker = 0;
    d->n_text = n < sizeof d->text ? n : sizeof d->text;
    memcpy(d->text, text + n - d->n_text, d->n_text);
}

static int copy_breakers(struct hearth_dry *d, const struct hearth_sampler_params *p,
                         struct hearth_error *err)
{
    if (p->n_dry_breakers && !p->model)
        return hearth_fail(err, HEARTH_E_INVALID, "DRY with sequence breakers needs a model");
    if (p->n_dry_breakers > HEARTH_DRY_BREAKERS)
        return hearth_fail(err, HEARTH_E_INVALID, "more than %d sequence breakers for DRY",
                           HEARTH_DRY_BREAKERS);
    for (int i = 0; i < p->n_dry_breakers; i++) {
        size_t length = strlen(p->dry_breakers[i]);
        if (!length || length >= HEARTH_DRY_BREAKER)
            return hearth_fail(err, HEARTH_E_INVALID, "a sequence breaker of DRY has 1 to %d bytes, not %zu",
                               HEARTH_DRY_BREAKER - 1, length);
        memcpy(d->breakers[i], p->dry_breakers[i], length + 1);
    }
    d->n_breakers = p->n_dry_breakers;
    d->model = p->model;
    return HEARTH_OK;
}

int hearth_dry_open(struct hearth_dry *d, int n_vocab, const struct hearth_sampler_params *p,
                    struct hearth_error *err)
{
    *d = (struct hearth_dry){
        .multiplier = p->dry_multiplier, .base = p->dry_base, .allowed_length = p->dry_allowed_length};
    if (p->dry_multiplier == 0.0f || p->dry_base < 1.0f || p->dry_penalty_last_n == 0)
        return HEARTH_OK;
    int window = p->dry_penalty_last_n > 0 ? p->dry_penalty_last_n : p->n_ctx > 0 ? p->n_ctx : 4096;
    window = window < 1 << 26 ? window : 1 << 26; // the longest context there is
    d->history.tokens = hearth_calloc((size_t)window, sizeof *d->history.tokens);
    d->repeat = hearth_calloc((size_t)window, sizeof *d->repeat);
    d->token_repeat = hearth_calloc((size_t)n_vocab, sizeof *d->token_repeat);
    if (!d->history.tokens || !d->repeat || !d->token_repeat)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the DRY sampler");
    d->history.window = window;
    return copy_breakers(d, p, err);
}

int hearth_dry_copy(struct hearth_dry *copy, const struct hearth_dry *d, int n_vocab,
                    struct hearth_error *err)
{
    *copy = *d;
    copy->history.tokens = NULL;
    copy->repeat = copy->token_repeat = NULL;
    const size_t window = (size_t)d->history.window;
    if (!window)
        return HEARTH_OK;
    copy->history.tokens = hearth_calloc(window, sizeof *copy->history.tokens);
    copy->repeat = hearth_calloc(window, sizeof *copy->repeat);
    copy->token_repeat = hearth_calloc((size_t)n_vocab, sizeof *copy->token_repeat);
    if (!copy->history.tokens || !copy->repeat || !copy->token_repeat)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the DRY sampler");
    memcpy(copy->history.tokens, d->history.tokens, window * sizeof *copy->history.tokens);
    return HEARTH_OK;
}

void hearth_dry_restart(struct hearth_dry *d)
{
    d->history.used = d->history.at = 0;
    d->since_breaker = 0;
    d->n_text = 0;
}

void hearth_dry_close(struct hearth_dry *d)
{
    free(d->history.tokens);
    free(d->repeat);
    free(d->token_repeat);
    *d = (struct hearth_dry){0};
}
