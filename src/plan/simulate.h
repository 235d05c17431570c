// SPDX-License-Identifier: MIT
// The cache simulator replays a trace at several cache sizes and counts the neurons that each
// policy would have found in memory. The policies are the engine's own code (sparse/cache.h). For
// comparison there are one LRU over all spaces, a fixed choice by profile, and Belady's optimum,
// which knows the future and is an upper bound. In all of them a neuron's first use is a miss: it has to be
// read once, the fixed ones too.
#ifndef HEARTH_PLAN_SIMULATE_H
#define HEARTH_PLAN_SIMULATE_H

#include "sparse/trace.h"

#define HEARTH_SIM_SIZES 16 // cache sizes in one simulation
#define HEARTH_SIM_ROWS  12

struct hearth_sim_params {
    double shares[HEARTH_SIM_SIZES]; // cache sizes: shares of each space's neurons, over 0 up to 1
    int n_shares;                    // 0: 5, 10, 20, ... 90 %
    // Share of the steps, from the start, that only warm the caches up; in [0, 1). The profile of
    // the rows that use one comes from these steps.
    double warmup;
    uint32_t half_life; // half life of policies decayed and twospeed, in visits; 0: the default
    bool (*progress)(void *arg, float share); // may be NULL; false stops with HEARTH_E_INTERRUPTED
    void *arg;
};

struct hearth_sim_row {
    const char *name;                   // "lru"
    const char *label;                  // "LRU per space"
    bool optimum;                       // an upper bound, impossible in practice
    double hit[HEARTH_SIM_SIZES];       // found in memory / requested, after the warm-up
    double per_token[HEARTH_SIM_SIZES]; // bundles to read per token, after the warm-up
};

struct hearth_sim {
    int n_shares, n_rows;
    double shares[HEARTH_SIM_SIZES];
    uint64_t slots[HEARTH_SIM_SIZES]; // bundles in memory, over all spaces
    uint64_t bytes[HEARTH_SIM_SIZES]; // the same in bytes; 0: the trace does not say
    uint64_t n_tokens, n_counted_tokens, n_counted_steps;
    uint32_t half_life;
    uint64_t n_neurons, n_bytes; // over all spaces
    double density;              // share of a visited space's neurons that a visit uses, mean
    double overlap;              // |A and B| / |A or B| of consecutive visits of a space, mean
    double top_tenth;            // share of all uses that the hottest tenth of each space has
    uint64_t largest_step;       // most neurons that a step used in all spaces together
    uint32_t largest_set;        // most neurons that a step used in one space
    struct hearth_sim_row rows[HEARTH_SIM_ROWS];
};

// Runs the simulation. HEARTH_E_INVALID (nothing is left after the warm-up), HEARTH_E_MEMORY,
// HEARTH_E_INTERRUPTED.
int hearth_simulate(const struct hearth_trace *t, const struct hearth_sim_params *params,
                    struct hearth_sim *out, struct hearth_error *err);

#endif
