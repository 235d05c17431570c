// SPDX-License-Identifier: MIT
// How many of a space's neurons a visit computes, and how many of those are missing from a cache of any size.
//
// A neuron is taken to be active when a hidden normal number exceeds its threshold, which its share of
// activity gives. Part of that number, `reuse` as a correlation, is known from what the neuron did lately,
// less of neurons that are rarely active; a cache that keeps the neurons most likely to be active then misses
// the rest. At 0 that is a fixed choice by profile. docs/streaming.md compares the result with replayed
// traces.
#ifndef HEARTH_PLAN_ACTIVITY_H
#define HEARTH_PLAN_ACTIVITY_H

#include <stdint.h>

#define HEARTH_ACTIVITY_POINTS 64

// What is known of neurons or experts besides their shares of activity.
struct hearth_activity_kind {
    double density; // mean share, where shares are not known,
    double skew;    // and the deviation of their thresholds
    double reuse;
    double stray; // share of the uses that nothing foretells: each neuron is as likely as any other
};

// Neurons of a model whose file does not say: the reuse is between a trained model's, 0.38, and a synthetic
// one's, 0.63.
#define HEARTH_ACTIVITY_NEURONS ((struct hearth_activity_kind){.density = 0.15, .skew = 0.8, .reuse = 0.5})
// Experts, from runs of 128 of which 8 are used, with room for 2 to 80 % of them; density is to be set.
#define HEARTH_ACTIVITY_EXPERTS ((struct hearth_activity_kind){.skew = 0.4, .reuse = 0.78, .stray = 0.1})

// Of one space, by the share of neurons that are kept: point k is a share of (k / POINTS)^2.
struct hearth_activity {
    double used;                               // neurons of a visit, expected
    float missed[HEARTH_ACTIVITY_POINTS + 1];  // of those, when a cache keeps that share
    float leading[HEARTH_ACTIVITY_POINTS + 1]; // of those, among that share of leading neurons
};

// For n neurons with these shares of activity, falling; NULL: as `kind` says. A visit is of `tokens` tokens
// that have nothing to do with each other.
void hearth_activity_make(struct hearth_activity *out, const float *share, uint32_t n,
                          const struct hearth_activity_kind *kind, double tokens);

#define HEARTH_ACTIVITY_SPACES 8
// The reuse of neurons of n_spaces spaces (the first HEARTH_ACTIVITY_SPACES of them count) with these shares
// of n neurons each, if this share of a visit's active neurons was active in the visit before it.
double hearth_activity_reuse(const float *const *shares, uint32_t n_spaces, uint32_t n, double repeats);

// Neurons of a visit that are missing when `kept` of n are in memory.
double hearth_activity_missed(const struct hearth_activity *a, uint32_t kept, uint32_t n);
// Neurons of a visit among the first `leading` of n.
double hearth_activity_leading(const struct hearth_activity *a, uint32_t leading, uint32_t n);

#endif
