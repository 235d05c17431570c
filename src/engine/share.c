// SPDX-License-Identifier: MIT
// Sharing work with a device: see share.h.
#include "engine/share.h"

// Evaluations of a trial: one alone may have had bad luck.
#define TRIAL 2
// Evaluations between two trials, at least and at most: what a trial may cost is to be little beside them.
#define LEAST_PATIENCE 1
#define MOST_PATIENCE  128
// What bad trials may cost, as a share of all time, and the most evaluations that are waited for its sake.
#define COST      0.01f
#define MOST_REST 1e6f
// Below this share of waiting, the device is ready first.
#define WAITS 0.05f
// What is better must be so by this much; less is noise.
#define BETTER 0.98f
// Weight of the newest evaluation in a mean.
#define NEWEST 0.25f

static int class_of(int n_rows)
{
    int class = 0;
    while (class < HEARTH_SHARE_CLASSES - 1 && 1 << class < n_rows)
        class ++;
    return class;
}

static void begin_class(struct hearth_share_class *c, int share)
{
    *c = (struct hearth_share_class){.best = share,
                                     .tried = share,
                                     .stride = HEARTH_SHARE_ALL / 4,
                                     .patience = LEAST_PATIENCE,
                                     .left = LEAST_PATIENCE};
}

void hearth_share_init(struct hearth_share *s)
{
    *s = (struct hearth_share){.fixed = HEARTH_SHARE_BY_TIME};
    for (int i = 0; i < HEARTH_SHARE_CLASSES; i++)
        begin_class(&s->classes[i], HEARTH_SHARE_ALL);
}

void hearth_share_fix(struct hearth_share *s, int share)
{
    s->fixed = share;
}

// What is known of the last class is the best guess at one that nobody has seen.
int hearth_share_of(const struct hearth_share *s, int n_rows)
{
    const struct hearth_share_class *c = &s->classes[class_of(n_rows)], *last = &s->classes[s->last];
    if (s->fixed != HEARTH_SHARE_BY_TIME)
        return s->fixed;
    return c->known ? c->tried : last->known ? last->best : HEARTH_SHARE_ALL;
}

// Tries a share on the side where time is lost. A device that takes long to begin does so with any share, so that only
// none may be better: where the CPU's time says so, that is tried.
static void begin_trial(struct hearth_share_class *c)
{
    const bool none = c->wait > WAITS && c->part_ns > 0.0f && c->part_ns * HEARTH_SHARE_ALL < c->best_ns;
    const int to = none ? 0 : c->wait > WAITS ? c->best - c->stride : c->best + c->stride;
    c->tried = to < 0 ? 0 : to > HEARTH_SHARE_ALL ? HEARTH_SHARE_ALL : to;
    c->n_tried = 0;
    c->trial_ns = 0.0f;
    c->left = c->patience;
}

// A good one is kept, and the next is looked for soon. After a bad one, nearer ones are looked at, then fewer.
static void end_trial(struct hearth_share_class *c, float wait)
{
    const float mean = c->trial_ns / TRIAL;
    if (mean < c->best_ns * BETTER) {
        c->best = c->tried;
        c->best_ns = mean;
        c->wait = wait;
        c->patience = LEAST_PATIENCE;
    } else if (c->stride > 1) {
        c->stride /= 2;
    } else if (c->patience < MOST_PATIENCE) {
        c->patience *= 2;
    }
    const float rest = TRIAL * (mean - c->best_ns) / (COST * c->best_ns);
    c->tried = c->best;
    c->left = rest > MOST_REST ? (int)MOST_REST : rest > (float)c->patience ? (int)rest : c->patience;
}

void hearth_share_note(struct hearth_share *s, int n_rows)
{
    const int class = class_of(n_rows);
    struct hearth_share_class *c = &s->classes[class];
    const float ns = (float)s->all_ns, wait = s->all_ns ? (float)s->wait_ns / ns : 0.0f;
    s->all_ns = s->wait_ns = 0;
    if (ns == 0.0f || s->fixed != HEARTH_SHARE_BY_TIME) // nothing was shared, or nothing is to be learnt
        return;
    if (!c->known) {
        begin_class(c, hearth_share_of(s, n_rows));
        c->known = true;
        c->best_ns = ns;
        c->wait = wait;
    }
    s->last = class;
    if (c->tried < HEARTH_SHARE_ALL)
        c->part_ns = ns * (1.0f - wait) / (float)(HEARTH_SHARE_ALL - c->tried);
    if (c->tried != c->best) {
        c->trial_ns += ns;
        if (++c->n_tried == TRIAL)
            end_trial(c, wait);
        return;
    }
    c->best_ns += (ns - c->best_ns) * NEWEST;
    c->wait += (wait - c->wait) * NEWEST;
    if (--c->left <= 0)
        begin_trial(c);
}
