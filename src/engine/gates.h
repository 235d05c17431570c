// SPDX-License-Identifier: MIT
// Gates that are more than one kernel. Their order of operations is part of the numeric law (docs/architecture.md).
#ifndef HEARTH_ENGINE_GATES_H
#define HEARTH_ENGINE_GATES_H

#include <math.h>

#include "kernels/kernels.h"

// gate = act(gate) * up; with a limit above 0, min(act(gate), limit) * (up, cut to -limit .. limit).
static inline void hearth_glu_within(const struct hearth_kernels *kernels, float *gate, const float *up,
                                     size_t n, enum hearth_activation act, float limit)
{
    if (limit <= 0.0f) {
        kernels->glu(gate, gate, up, n, act);
        return;
    }
    kernels->activate(gate, n, act);
    for (size_t i = 0; i < n; i++) {
        const float a = gate[i] < limit ? gate[i] : limit, b = up[i] < limit ? up[i] : limit;
        gate[i] = a * (b > -limit ? b : -limit);
    }
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
