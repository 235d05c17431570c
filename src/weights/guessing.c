// SPDX-License-Identifier: MIT
// When steps guess: see guessing.h.
#include "weights/guessing.h"

#include <string.h>

// After a round, a way is out when its median is behind the best one by more than this share of it, divided by the rounds
// so far. Of fewer rounds a median says nothing.
#define BEHIND       0.5
#define LEAST_ROUNDS 3
// Steps until the next trial; and steps of another kind after which a trial begins anew with that.
#define LASTS 1024
#define OTHER 64

static uint64_t median(const uint64_t *values, int n)
{
    uint64_t sorted[HEARTH_GUESSING_ROUNDS];
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && sorted[at - 1] > values[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = values[i];
    }
    return sorted[n / 2];
}

// The first way from `from` on that is tried; HEARTH_GUESSING_WAYS: there is none.
static int next_way(const struct hearth_guessing *g, int from)
{
    while (from < HEARTH_GUESSING_WAYS && !g->tried[from])
        from++;
    return from;
}

static bool is_trial(const struct hearth_guessing *g)
{
    return next_way(g, next_way(g, 0) + 1) < HEARTH_GUESSING_WAYS;
}

static void begin_trial(struct hearth_guessing *g, int n_tokens)
{
    memcpy(g->tried, g->can, sizeof g->tried);
    g->rounds = 0;
    g->n_tokens = n_tokens;
    g->since = 0;
    g->when = (enum hearth_guess_when)next_way(g, 0);
}

// After a round: the slow ways are out, after the last round all but the fastest.
static void judge(struct hearth_guessing *g)
{
    uint64_t medians[HEARTH_GUESSING_WAYS];
    int best = next_way(g, 0);
    for (int i = best; i < HEARTH_GUESSING_WAYS; i = next_way(g, i + 1)) {
        medians[i] = median(g->took[i], g->rounds);
        best = medians[i] < medians[best] ? i : best;
    }
    const double most = (double)medians[best] * (1 + BEHIND / g->rounds);
    for (int i = next_way(g, 0); i < HEARTH_GUESSING_WAYS; i = next_way(g, i + 1))
        g->tried[i] = i == best || (g->rounds < HEARTH_GUESSING_ROUNDS && (double)medians[i] <= most);
}

static void end_step(struct hearth_guessing *g, uint64_t took)
{
    g->steps[g->when]++;
    const bool trial = is_trial(g), other = g->n_now != g->n_tokens || !g->alone;
    if (!trial || other) {
        if (++g->since >= (trial ? OTHER : LASTS))
            begin_trial(g, g->n_now);
        return;
    }
    g->took[g->when][g->rounds] = took;
    int next = next_way(g, (int)g->when + 1);
    if (next == HEARTH_GUESSING_WAYS) {
        if (++g->rounds >= LEAST_ROUNDS)
            judge(g);
        next = next_way(g, 0);
    }
    g->when = (enum hearth_guess_when)next;
}

void hearth_guessing_request(struct hearth_guessing *g, int layer, int n_tokens, bool alone, uint64_t now_ns)
{
    if (layer < g->layer || !g->began) {
        g->began = now_ns;
        g->n_now = n_tokens;
        g->alone = alone;
    } else if (layer > g->layer && layer == g->last_layer) { // it may ask several times
        end_step(g, now_ns - g->began);
    }
    g->last_layer = layer > g->last_layer ? layer : g->last_layer;
    g->layer = layer;
}

void hearth_guessing_begin(struct hearth_guessing *g, bool early, bool late, bool never)
{
    *g = (struct hearth_guessing){
        .can = {[HEARTH_GUESS_EARLY] = early, [HEARTH_GUESS_LATE] = late, [HEARTH_GUESS_NEVER] = never}};
    begin_trial(g, 1);
}
