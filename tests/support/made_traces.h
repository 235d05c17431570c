// SPDX-License-Identifier: MIT
// Made-up traces that behave like real ones: a few neurons are used nearly always and many now and then, a
// step shares a third of its neurons with the one before, and what is popular wanders slowly, as subjects of
// a text do.
#ifndef HEARTH_TESTS_MADE_TRACES_H
#define HEARTH_TESTS_MADE_TRACES_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "sparse/trace.h"

static inline double made_uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

// A normal deviate, near enough: twelve uniform ones.
static inline double made_normal(uint64_t *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += made_uniform(state);
    return sum;
}

// Writes a trace of n_steps steps over n_spaces layers of n_neurons neurons. A neuron is used when its bias,
// a part that follows the subject (renewed every few dozen steps) and a part of its own that lasts a few
// steps add up to more than a threshold.
static inline int made_trace(const char *path, uint32_t n_spaces, uint32_t n_neurons, uint32_t n_steps,
                             uint64_t seed, struct hearth_error *err)
{
    struct hearth_trace_space *spaces = calloc(n_spaces, sizeof *spaces);
    size_t total = (size_t)n_spaces * n_neurons;
    double *bias = calloc(total, sizeof *bias), *subject = calloc(total, sizeof *subject);
    double *own = calloc(total, sizeof *own);
    uint32_t *ids = calloc(n_neurons, sizeof *ids);
    struct hearth_trace_writer *w = NULL;
    int rc = spaces && bias && subject && own && ids ? 0 : HEARTH_E_MEMORY;
    for (uint32_t i = 0; !rc && i < n_spaces; i++)
        spaces[i] = (struct hearth_trace_space){i, 0, n_neurons, 7168};
    if (!rc)
        rc = hearth_trace_writer_open(&w, path,
                                      &(struct hearth_trace_info){"made up", false, n_spaces, spaces}, err);
    for (size_t i = 0; !rc && i < total; i++)
        bias[i] = made_normal(&seed) - 1.2;
    for (uint32_t step = 0; !rc && step < n_steps; step++) {
        rc = hearth_trace_step(w, 1, err);
        for (uint32_t s = 0; !rc && s < n_spaces; s++) {
            uint32_t n = 0;
            for (uint32_t j = 0; j < n_neurons; j++) {
                size_t k = (size_t)s * n_neurons + j;
                if (step % 40 == 0)
                    subject[k] = 0.6 * made_normal(&seed);
                own[k] = 0.4 * own[k] + 0.9 * made_normal(&seed);
                if (bias[k] + subject[k] + own[k] > 0.4)
                    ids[n++] = j;
            }
            rc = hearth_trace_set(w, s, ids, n, err);
        }
    }
    if (!rc)
        rc = hearth_trace_writer_commit(&w, err);
    hearth_trace_writer_close(&w);
    free(spaces);
    free(bias);
    free(subject);
    free(own);
    free(ids);
    return rc;
}

#endif
