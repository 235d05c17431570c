// SPDX-License-Identifier: MIT
// Drops the tokens that a grammar does not allow, as if they had been left out from the beginning.
#include "sample/sampler.h"

#include <math.h>

static bool may_stay(struct hearth_grammar_cursor *grammar, const struct hearth_candidate *c)
{
    return c->logit != -INFINITY && hearth_grammar_allows(grammar, c->id);
}

// Most of the best tokens are allowed inside of free text, where asking about all tokens would take longest. So
// the best ones are asked about first, in their order: the first k that are allowed are the k best of all that
// are. Returns false if too few of them are; then nothing has gone.
static bool keep_best(struct hearth_candidates *all, struct hearth_grammar_cursor *grammar, size_t k)
{
    const size_t n = all->n;
    if (k > n / 8)
        return false;
    hearth_candidates_sort(all, 2 * k + 16 < n ? 2 * k + 16 : n);
    size_t kept = 0;
    for (size_t i = 0; i < all->n && kept < k; i++)
        if (may_stay(grammar, &all->c[i])) {
            const struct hearth_candidate swap = all->c[kept];
            all->c[kept++] = all->c[i];
            all->c[i] = swap;
        }
    all->n = kept == k ? k : n;
    all->sorted = kept == k;
    return kept == k;
}

static void keep_allowed(struct hearth_candidates *all, struct hearth_grammar_cursor *grammar)
{
    const uint64_t *allowed = hearth_grammar_allowed(grammar);
    size_t kept = 0;
    for (size_t i = 0; i < all->n; i++)
        if (hearth_has_bit(allowed, all->c[i].id) && all->c[i].logit != -INFINITY)
            all->c[kept++] = all->c[i];
    all->n = kept;
}

void hearth_constrain(struct hearth_candidates *all, struct hearth_grammar_cursor *grammar, size_t k)
{
    hearth_grammar_lock(grammar);
    if (hearth_grammar_knows(grammar) || !keep_best(all, grammar, k))
        keep_allowed(all, grammar);
    hearth_grammar_unlock(grammar);
    all->constrained = true;
}
