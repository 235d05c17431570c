// SPDX-License-Identifier: MIT
// Parts of the canonical reductions (kernels.h) that several files of the reference share, written down as
// plainly as possible.
#ifndef HEARTH_KERNELS_CANONICAL_C_H
#define HEARTH_KERNELS_CANONICAL_C_H

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

#define LANES 16

static inline float sum_lanes(float lane[LANES])
{
    for (size_t width = LANES / 2; width; width /= 2)
        for (size_t i = 0; i < width; i++)
            lane[i] += lane[i + width];
    return lane[0];
}

// Up to 16 consecutive units of a row, unpacked and padded with zeros.
struct units {
    int8_t q[32 * LANES];
    float scale[LANES], min[LANES];
    size_t n;
};

// The units from element `at` of a row of k on.
static inline void unpack_units(struct units *g, const struct hearth_type_info *info, const uint8_t *row,
                                size_t k, size_t at)
{
    const size_t group = (size_t)info->unit_elems * LANES, n = k - at < group ? k - at : group;
    memset(g, 0, sizeof *g);
    info->unpack(row + at / info->block_elems * info->block_bytes, g->q, g->scale, g->min, n);
    g->n = n / info->unit_elems;
}

// Exact sum of q * x over one unit.
static inline int32_t dot_unit(const int8_t *q, const int8_t *x, size_t n)
{
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += q[i] * x[i];
    return sum;
}

// The two fmas of unit `u` of the row, which is unit `at` of g, with one or both planes of the activations.
static inline float add_unit(float acc, const struct units *g, size_t at, const struct hearth_type_info *info,
                             const struct hearth_acts *x, size_t u, int planes)
{
    const size_t unit = info->unit_elems, first = u * unit;
    const float d = planes == 2 ? x->d[first / 32] : 128.0f * x->d[first / 32];
    int32_t dot = dot_unit(g->q + at * unit, x->hi + first, unit);
    if (planes == 2)
        dot = 128 * dot + dot_unit(g->q + at * unit, x->lo + first, unit);
    acc = fmaf(g->scale[at] * d, (float)dot, acc);
    if (!info->has_min)
        return acc;
    const int32_t *sums = planes == 2 ? x->sum : x->bias;
    int32_t sum = unit == 32 ? sums[2 * u] + sums[2 * u + 1] : sums[u];
    if (planes == 1)
        sum /= -128;
    return fmaf(-(g->min[at] * d), (float)sum, acc);
}

#endif
