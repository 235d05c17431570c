// SPDX-License-Identifier: MIT
// Internals of the sampler, shared by sampler.c (opening, the chain), cuts.c (truncation, temperature)
// and penalties.c (penalties, DRY).
#ifndef HEARTH_SAMPLE_SAMPLER_H
#define HEARTH_SAMPLE_SAMPLER_H

#include <float.h>
#include <math.h>

#include "grammar/grammar.h"

struct hearth_candidate {
    hearth_token id;
    float logit;
    float p; // after hearth_candidates_softmax()
};

// Whether the grammar had no room to follow all that may come, so that what was drawn may depend on what else
// uses it.
bool hearth_sampler_is_lost(const struct hearth_sampler *sampler);

// The tokens that may still be drawn. Empty only where a grammar allows none.
struct hearth_candidates {
    struct hearth_candidate *c;
    size_t n;
    bool sorted;      // by falling logit, smaller id first among equals
    bool constrained; // none is left that the grammar does not allow
};

// A token and its logit. NaN, which only a damaged model gives, cannot be ordered and must not break a sort.
static inline struct hearth_candidate hearth_candidate_of(hearth_token id, float logit)
{
    return (struct hearth_candidate){id, isnan(logit) ? -FLT_MAX : logit, 0};
}
// Fills the list with the k best of the `n` logits that it has room for, in no order. k is from 1 to n - 1.
void hearth_candidates_best(struct hearth_candidates *all, const float *logits, size_t k);
// Sorts them and keeps the k best. Those that go are behind them then.
void hearth_candidates_sort(struct hearth_candidates *all, size_t k);
// Sorts and fills p with the softmax of the logits.
void hearth_candidates_softmax(struct hearth_candidates *all);

// Truncation and temperature; each keeps at least one candidate.
void hearth_cut_top_n_sigma(struct hearth_candidates *all, float n);
void hearth_cut_top_p(struct hearth_candidates *all, float top_p);
void hearth_cut_min_p(struct hearth_candidates *all, float min_p);
void hearth_cut_typical(struct hearth_candidates *all, float typ_p);
void hearth_cut_xtc(struct hearth_candidates *all, float threshold);
// For Mirostat; both need hearth_candidates_softmax() first. The first drops candidates whose surprise is
// above mu bits. The second fits Zipf's law to the best 100, extends it to n_vocab tokens, and keeps as many
// as have a mean surprise of mu bits then.
void hearth_cut_surprise(struct hearth_candidates *all, float mu);
void hearth_cut_zipf(struct hearth_candidates *all, float mu, int n_vocab);
// Keeps, of the candidates that the grammar allows, at least the k best (k as large as you like: all), and
// drops all others. Those whose logit is -INFINITY are not allowed either.
void hearth_constrain(struct hearth_candidates *all, struct hearth_grammar_cursor *grammar, size_t k);
void hearth_scale_temperature(struct hearth_candidates *all, float temp, float range, float exponent);

// The tokens chosen so far, and how often each occurs among the last `window` of them.
struct hearth_history {
    hearth_token *tokens; // [window] ring buffer
    int window;           // 0: nothing is kept
    int used, at;
};
// Adds a token. Returns the one that left the window, or -1. The window is not 0.
static inline hearth_token hearth_history_add(struct hearth_history *h, hearth_token token)
{
    hearth_token dropped = h->used == h->window ? h->tokens[h->at] : -1;
    if (h->used < h->window)
        h->used++;
    h->tokens[h->at] = token;
    h->at = (h->at + 1) % h->window;
    return dropped;
}
// The token `back` tokens before the last one (0: the last).
static inline hearth_token hearth_history_back(const struct hearth_history *h, int back)
{
    return h->tokens[(h->at - 1 - back + 2 * h->window) % h->window];
}

// "Don't repeat yourself". Sequence breakers are texts: they are found in the text of the tokens, across the
// borders between tokens.
enum { HEARTH_DRY_BREAKER = 64, HEARTH_DRY_BREAKERS = 64 };
struct hearth_dry {
    float multiplier, base;
    int allowed_length;
    struct hearth_history history;
    int since_breaker; // tokens after the last breaker
    const struct hearth_model *model;
    char breakers[HEARTH_DRY_BREAKERS][HEARTH_DRY_BREAKER];
    int n_breakers;
    char text[HEARTH_DRY_BREAKER]; // the last bytes of text, which may be the beginning of a breaker
    size_t n_text;
    int *repeat;       // [window] scratch: length of the repetition that ends at each token
    int *token_repeat; // [n_vocab] scratch: longest repetition that a token would continue; 0 between calls
};

void hearth_penalize_repeats(struct hearth_candidates *all, const uint32_t *counts,
                             const struct hearth_sampler_params *p);
void hearth_penalize_dry(struct hearth_candidates *all, struct hearth_dry *dry);
void hearth_dry_accept(struct hearth_dry *dry, hearth_token token);
int hearth_dry_open(struct hearth_dry *dry, int n_vocab, const struct hearth_sampler_params *p,
                    struct hearth_error *err);
// An equal one, with arrays of its own. Call hearth_dry_close() in any case.
int hearth_dry_copy(struct hearth_dry *copy, const struct hearth_dry *dry, int n_vocab,
                    struct hearth_error *err);
void hearth_dry_restart(struct hearth_dry *dry); // as it was when it was opened
void hearth_dry_close(struct hearth_dry *dry);

#endif
