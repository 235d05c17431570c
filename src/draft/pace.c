// SPDX-License-Identifier: MIT
// How many guesses are worth their time: those with which a second has the most tokens, by what steps have taken and
// how often such guesses came true.
#include "draft/draft.h"

#include <math.h>
#include <string.h>

#include "model/model.h"

// A guess that comes true less often is not worth being looked at.
#define LEAST_CHANCE 0.02
// Guesses that are tried although they do not seem to pay.
#define TRIED 3

// What a further step changes at least in what is known of such steps.
#define SLOWEST 0.1
// After so many steps with guesses one has none, which tells what that takes by now: sooner where they gain little.
#define BUSY        64
#define BUSY_LITTLE 16
#define LITTLE      1.3

// ---- how often guesses come true

// Kinds: matches of up to so many tokens, and guesses of a model that are up to so likely; what is assumed of one, as if
// it had been seen so often.
static const struct {
    double most, chance;
} kinds[HEARTH_DRAFT_KINDS] = {{1, 0.15},  {2, 0.3},    {3, 0.4},    {4, 0.5},     {6, 0.6},   {10, 0.7},
                               {16, 0.8},  {1e9, 0.85}, {0.2, 0.1},  {0.35, 0.25}, {0.5, 0.4}, {0.65, 0.55},
                               {0.8, 0.7}, {0.9, 0.8},  {0.97, 0.9}, {1e9, 0.95}};
#define ASSUMED 4
// What was seen long ago counts less.
#define REMEMBERED 128

static int kind_of(double value, int first)
{
    int kind = first;
    while (value > kinds[kind].most)
        kind++;
    return kind;
}

int hearth_draft_kind_of_match(int match)
{
    return kind_of(match, 0);
}

int hearth_draft_kind_of_probability(double p)
{
    return kind_of(p, HEARTH_DRAFT_LOOKUPS);
}

double hearth_pace_chance(const struct hearth_pace *p, int kind)
{
    return (p->hits[kind] + ASSUMED * kinds[kind].chance) / (p->tries[kind] + ASSUMED);
}

bool hearth_pace_compare(struct hearth_pace *p, const struct hearth_draft *draft, int at, hearth_token token)
{
    p->last_tokens++;
    if (at >= draft->n)
        return false;
    const bool came_true = draft->tokens[at] == token;
    const int kind = draft->kind[at];
    p->tries[kind]++;
    p->hits[kind] += came_true;
    if (p->tries[kind] > REMEMBERED) {
        p->tries[kind] /= 2;
        p->hits[kind] /= 2;
    }
    p->hits_in_step += at < draft->used && came_true;
    return came_true;
}

// ---- what steps cost

// A step of so many rows, by those that were measured on both sides of it. Beyond all of them further rows cost what is
// assumed, or less where fewer did: what is not tried is not known, and kernels for many rows may do better than those for
// few. 0: nothing was measured.
double hearth_pace_cost(const struct hearth_pace *p, int rows)
{
    int below = 0, above = 0, first = 0;
    for (int r = HEARTH_DRAFT_ROWS; r > 0; r--) {
        if (p->ns[r] <= 0)
            continue;
        first = r;
        if (r >= rows)
            above = r;
        else if (!below)
            below = r;
    }
    if (!first)
        return 0;
    if (above && below)
        return p->ns[below] + (p->ns[above] - p->ns[below]) * (rows - below) / (above - below);
    const double each = p->each * p->ns[first] / (1 + p->each * (first - 1));
    if (above)
        return above == rows ? p->ns[above] : p->ns[above] - each * (above - rows);
    const double so_far = below > first ? fmax(0, (p->ns[below] - p->ns[first]) / (below - first)) : each;
    return p->ns[below] + fmin(each, so_far) * (rows - below);
}

void hearth_pace_took(struct hearth_pace *p, int rows, uint64_t ns)
{
    p->last_ns = ns;
    p->last_tokens = 0;
    if (rows < 1 || rows > HEARTH_DRAFT_ROWS || !ns)
        return;
    if (p->ns[rows] <= 0) {
        p->ns[rows] = (double)ns;
        p->seen[rows] = 1;
        return;
    }
    // Single steps may be interrupted: none counts too much. And what makes one slower, such as a longer text, makes all
    // slower.
    const double ratio = fmin(1.5, fmax(0.67, (double)ns / p->ns[rows]));
    const double weight = fmax(SLOWEST, 1.0 / ++p->seen[rows]);
    for (int r = 1; r <= HEARTH_DRAFT_ROWS; r++)
        p->ns[r] *= 1 + (r == rows ? weight : SLOWEST / 2) * (ratio - 1);
}

// ---- the choice

double hearth_draft_each(const struct hearth_model *model, const struct hearth_session *session)
{
    // Rows share dense weights, and most of all what is read for them; experts and active neurons hardly.
    struct hearth_streaming_stats streaming;
    hearth_session_streaming_stats(session, &streaming, sizeof streaming);
    return model->hp.n_expert ? 0.7 : hearth_is_relu(&model->hp) ? 0.5 : streaming.io ? 0.04 : 0.15;
}

void hearth_pace_begin(struct hearth_pace *p, double each)
{
    memset(p, 0, sizeof *p);
    p->each = each;
    hearth_retry_begin(&p->retry);
}

// The text whose next guess comes true most likely; -1: none has one that is worth looking at.
static int likeliest(const struct hearth_pace *p, struct hearth_draft *const *drafts, int n,
                     const double *reached, double *best)
{
    int which = -1;
    *best = LEAST_CHANCE;
    for (int i = 0; i < n; i++) {
        const struct hearth_draft *d = drafts[i];
        const double both = d->used < d->n ? reached[i] * hearth_pace_chance(p, d->kind[d->used]) : 0;
        if (both > *best) {
            *best = both;
            which = i;
        }
    }
    return which;
}

// Guesses in the order in which they are worth a row.
struct picks {
    int order[HEARTH_DRAFT_ROWS], n; // which text each is of
    int best;                        // so many of them give the most tokens a second; 0: none are worth it
    double gain;                     // over a step without
    bool might;                      // pay, if further rows cost what is assumed at first
};

static struct picks pick(const struct hearth_pace *p, struct hearth_draft *const *drafts, int n, int rows,
                         int most)
{
    struct picks k = {.gain = HEARTH_DRAFT_LEAST_GAIN};
    double reached[HEARTH_DRAFT_ROWS], tokens = rows, next;
    const double alone = hearth_pace_cost(p, rows);
    for (int i = 0; i < n; i++)
        reached[i] = 1;
    for (int which; rows + k.n < most && (which = likeliest(p, drafts, n, reached, &next)) >= 0;) {
        reached[which] = next;
        drafts[which]->used++;
        k.order[k.n++] = which;
        tokens += next;
        const double gain = tokens / rows * alone / hearth_pace_cost(p, rows + k.n);
        k.might |= tokens / rows > HEARTH_DRAFT_LEAST_GAIN * (1 + p->each * k.n);
        if (gain > k.gain) {
            k.gain = gain;
            k.best = k.n;
        }
    }
    return k;
}

// How many are used: now and then none, to know what that takes, and some although that does not seem to pay.
static int decide(struct hearth_pace *p, const struct picks *k, int rows)
{
    p->busy = k->best ? p->busy + 1 : 0;
    if (p->busy > (k->gain < LITTLE ? BUSY_LITTLE : BUSY)) {
        p->busy = 0;
        return 0;
    }
    if (k->best) {
        p->retry.idle = 0;
        if (p->ns[rows + k->best] > 0) // that it pays is known
            hearth_retry_begin(&p->retry);
        return k->best;
    }
    if (!k->might || !hearth_retry_is_due(&p->retry))
        return 0;
    for (int r = rows + 1; r <= HEARTH_DRAFT_ROWS; r++) // what was measured is of another time
        p->ns[r] = 0;
    return k->n < TRIED ? k->n : TRIED;
}

void hearth_pace_choose(struct hearth_pace *p, struct hearth_draft *const *drafts, int n, int rows, int most)
{
    most = most < HEARTH_DRAFT_ROWS ? most : HEARTH_DRAFT_ROWS;
    for (int i = 0; i < n; i++)
        drafts[i]->used = 0;
    if (rows > most || n > HEARTH_DRAFT_ROWS || hearth_pace_cost(p, rows) <= 0)
        return;
    const struct picks k = pick(p, drafts, n, rows, most);
    const int taken = decide(p, &k, rows);
    for (int i = k.n; i > taken; i--)
        drafts[k.order[i - 1]]->used--;
    p->guesses += (uint64_t)taken;
    p->steps += taken > 0;
}
