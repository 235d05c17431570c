// SPDX-License-Identifier: MIT
// Gates that are more than one kernel. Their order of operations is part of the numeric law (docs/architecture.md).
#ifndef HEARTH_ENGINE_GATES_H
#define HEARTH_ENGINE_GATES_H

#include <math.h>

#include "model/model.h"

// gate = act(gate), cut to at most the limit, before or after that.
static inline void hearth_activate_within(const struct hearth_kernels *kernels, float *gate, size_t n,
                                          enum hearth_activation act, struct hearth_limit limit)
{
    for (size_t i = 0; limit.at > 0.0f && limit.before && i < n; i++)
        gate[i] = gate[i] < limit.at ? gate[i] : limit.at;
    kernels->activate(gate, n, act);
    for (size_t i = 0; limit.at > 0.0f && !limit.before && i < n; i++)
        gate[i] = gate[i] < limit.at ? gate[i] : limit.at;
}

// gate = act(gate) * up; with a limit, the gate as above, times up, cut to -limit .. limit.
static inline void hearth_glu_within(const struct hearth_kernels *kernels, float *gate, const float *up,
                                     size_t n, enum hearth_activation act, struct hearth_limit limit)
{
    if (limit.at <= 0.0f) {
        kernels->glu(gate, gate, up, n, act);
        return;
    }
    hearth_activate_within(kernels, gate, n, act, limit);
    for (size_t i = 0; i < n; i++) {
        const float b = up[i] < limit.at ? up[i] : limit.at;
        gate[i] *= b > -limit.at ? b : -limit.at;
    }
}

// The sum of eight, of which each is that of every eighth element, in ascending order.
static inline double hearth_sum_eight(const double *sums)
{
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

// gate = max(0, gate - (mean + by * deviation)), of all gates of a token; sums are of f64.
static inline void hearth_cut_gates(float *gate, size_t n, float by)
{
    double sums[8] = {0}, squares[8] = {0};
    for (size_t i = 0; i < n; i++)
        sums[i % 8] += (double)gate[i];
    const double mean = hearth_sum_eight(sums) / (double)n;
    for (size_t i = 0; i < n; i++)
        squares[i % 8] += ((double)gate[i] - mean) * ((double)gate[i] - mean);
    const double deviation = sqrt(hearth_sum_eight(squares) / (double)n);
    const float least = (float)(mean + deviation * (double)by);
    for (size_t i = 0; i < n; i++)
        gate[i] = gate[i] > least ? gate[i] - least : 0.0f;
}

// x = cap * tanh(by x / cap), where tanh(y) = 2 sigmoid(2 y) - 1
static inline void hearth_soft_cap(const struct hearth_kernels *kernels, float *x, size_t n, float by,
                                   float cap)
{
    const float inside = 2.0f * (by / cap);
    for (size_t i = 0; i < n; i++)
        x[i] *= inside;
    kernels->activate(x, n, HEARTH_ACT_SIGMOID);
    for (size_t i = 0; i < n; i++)
        x[i] = fmaf(2.0f * cap, x[i], -cap);
}

// log(1 + e^x), as exact as f32 is.
static inline float hearth_softplus(float x)
{
    return x > 20.0f ? x : (float)log1p(exp((double)x));
}

// x becomes its sigmoid, or its softplus.
static inline void hearth_open_gates(const struct hearth_kernels *kernels, float *x, size_t n, bool softplus)
{
    if (!softplus)
        kernels->activate(x, n, HEARTH_ACT_SIGMOID);
    for (size_t i = 0; softplus && i < n; i++)
        x[i] = hearth_softplus(x[i]);
}

#endif
