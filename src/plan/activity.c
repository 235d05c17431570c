// SPDX-License-Identifier: MIT
// Hit rates from shares of activity: see activity.h.
#include "plan/activity.h"

#include <math.h>
#include <stdlib.h>

#define GROUPS HEARTH_ACTIVITY_POINTS // of neurons of about the same share
#define STATES 16                     // equally likely values of what is known of a neuron
#define LEAST  1e-6
// Visits that a cache remembers: uses count half after 32. So many uses tell half of what can be known.
#define REMEMBERED 46
#define TELLING    2
// Of the correlation from one visit to the next, which is not all that a cache can know or has to.
#define REUSE_OF_NEXT 1.22
#define MOST_REUSE    0.9

// The normal distribution function, and its inverse by halving.
static double normal(double x)
{
    return 0.5 * erfc(-x * M_SQRT1_2);
}

static double normal_inverse(double p)
{
    double low = -6, high = 6;
    for (int i = 0; i < 40; i++) {
        const double middle = (low + high) / 2;
        if (normal(middle) < p)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

struct state {
    double active; // chance
    double n;      // neurons that are in it
};

// Equally likely values of a normal number.
static void list_states(double *known)
{
    for (int i = 0; i < STATES; i++)
        known[i] = normal_inverse((i + 0.5) / STATES);
}

static double share_at(int point)
{
    return (double)point / GROUPS * ((double)point / GROUPS);
}

// Mean share of the neurons [from, to) of n.
static double mean_share(const float *share, uint32_t n, double from, double to)
{
    double sum = 0;
    uint32_t i = (uint32_t)from;
    const uint32_t first = i, end = (uint32_t)to < n ? (uint32_t)to : n;
    for (; i < end; i++)
        sum += (double)share[i];
    return end > first ? sum / (end - first) : first < n ? (double)share[first] : 0;
}

// Thresholds of a normal distribution about the one that gives the density.
static double usual_share(const struct hearth_activity_kind *kind, double from, double to)
{
    const double middle = normal_inverse(kind->density) * sqrt(1 + kind->skew * kind->skew);
    return normal(middle + kind->skew * normal_inverse(1 - (from + to) / 2));
}

static double bounded(double p)
{
    return p < LEAST ? LEAST : p > 1 - LEAST ? 1 - LEAST : p;
}

static int compare(const void *a, const void *b)
{
    const double x = ((const struct state *)a)->active, y = ((const struct state *)b)->active;
    return (x < y) - (x > y);
}

// What is missing when the states most likely to be active are kept, as many as there is room for.
static void fill_missed(struct hearth_activity *out, struct state *states, int n_states, double n,
                        double stray)
{
    qsort(states, (size_t)n_states, sizeof *states, compare);
    double kept = 0, found = 0;
    for (int point = 0, i = 0; point <= GROUPS; point++) {
        const double room = share_at(point) * n;
        for (; i < n_states && kept + states[i].n <= room; i++) {
            kept += states[i].n;
            found += states[i].n * states[i].active;
        }
        const double part = i < n_states && room > kept ? (room - kept) * states[i].active : 0;
        const double known = point == GROUPS ? 0 : out->used - found - part,
                     missed = (1 - stray) * known + stray * out->used * (1 - share_at(point));
        out->missed[point] = (float)(missed > 0 ? missed : 0);
    }
}

void hearth_activity_make(struct hearth_activity *out, const float *share, uint32_t n,
                          const struct hearth_activity_kind *kind, double tokens)
{
    double known[STATES];
    struct state states[GROUPS * STATES];
    int n_states = 0;
    *out = (struct hearth_activity){0};
    list_states(known);
    for (int g = 0; g < GROUPS; g++) {
        const double from = share_at(g), to = share_at(g + 1), size = (to - from) * n;
        double p = share ? mean_share(share, n, from * n, to * n) : usual_share(kind, from, to);
        p = bounded(1 - pow(1 - bounded(p), tokens));
        const double threshold = normal_inverse(p), uses = REMEMBERED * p;
        const double reuse = kind->reuse * sqrt(uses / (uses + TELLING)), rest = sqrt(1 - reuse * reuse);
        double sum = 0; // of the states' chances, which are not quite p on average
        for (int i = 0; i < STATES; i++) {
            const double active = normal((threshold + reuse * known[i]) / rest);
            states[n_states + i] = (struct state){active, size / STATES};
            sum += active;
        }
        for (int i = 0; i < STATES; i++)
            states[n_states++].active *= p * STATES / sum;
        out->used += p * size;
        out->leading[g + 1] = (float)out->used;
    }
    fill_missed(out, states, n_states, n, kind->stray);
}

// Neurons of about the same share.
struct group {
    double n, p, threshold;
};

static void make_groups(struct group *groups, const float *share, uint32_t n)
{
    for (int g = 0; g < GROUPS; g++) {
        const double from = share_at(g) * n, to = share_at(g + 1) * n,
                     p = bounded(mean_share(share, n, from, to));
        groups[g] = (struct group){to - from, p, normal_inverse(p)};
    }
}

// How many of a group's neurons are active in a visit and in the one before it, if the hidden numbers of the
// two have this correlation.
static double repeated(const struct group *g, const double *known, double correlation)
{
    const double tie = sqrt(correlation), rest = sqrt(1 - correlation);
    double chance = 0, twice = 0;
    for (int i = 0; i < STATES; i++) {
        const double active = normal((g->threshold + tie * known[i]) / rest);
        chance += active / STATES;
        twice += active * active / STATES;
    }
    return g->n * twice * (g->p / chance) * (g->p / chance);
}

static double reuse_of(const struct group *groups, size_t n_groups, double repeats)
{
    double known[STATES], low = 0, high = MOST_REUSE, uses = 0;
    list_states(known);
    for (size_t g = 0; g < n_groups; g++)
        uses += groups[g].n * groups[g].p;
    for (int i = 0; i < 16; i++) {
        const double middle = (low + high) / 2;
        double both = 0;
        for (size_t g = 0; g < n_groups; g++)
            both += repeated(&groups[g], known, middle);
        if (both < repeats * uses)
            low = middle;
        else
            high = middle;
    }
    return REUSE_OF_NEXT * low < MOST_REUSE ? REUSE_OF_NEXT * low : MOST_REUSE;
}

double hearth_activity_reuse(const float *const *shares, uint32_t n_spaces, uint32_t n, double repeats)
{
    struct group groups[HEARTH_ACTIVITY_SPACES * GROUPS];
    const size_t n_samples = n_spaces < HEARTH_ACTIVITY_SPACES ? n_spaces : HEARTH_ACTIVITY_SPACES;
    for (size_t k = 0; k < n_samples; k++)
        make_groups(groups + k * GROUPS, shares[k], n);
    return reuse_of(groups, n_samples * GROUPS, repeats);
}

static double at(const float *points, uint32_t kept, uint32_t n)
{
    const double x = kept < n ? sqrt((double)kept / n) * GROUPS : GROUPS;
    const int i = x < GROUPS ? (int)x : GROUPS - 1;
    return (double)points[i] + (x - i) * ((double)points[i + 1] - (double)points[i]);
}

double hearth_activity_missed(const struct hearth_activity *a, uint32_t kept, uint32_t n)
{
    return at(a->missed, kept, n);
}

double hearth_activity_leading(const struct hearth_activity *a, uint32_t leading, uint32_t n)
{
    return at(a->leading, leading, n);
}
