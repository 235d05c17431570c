// SPDX-License-Identifier: MIT
// How layers are divided among devices: see offload_divide.h.
#include "engine/offload_divide.h"

#include <math.h>
#include <stdbool.h>

static double sum_shares(const struct hearth_offload_side *sides, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)sides[i].share;
    return sum;
}

static bool all_speeds_known(const struct hearth_offload_side *sides, int n)
{
    for (int i = 0; i < n; i++)
        if (sides[i].speed <= 0)
            return false;
    return true;
}

int hearth_offload_from(const struct hearth_offload_side *sides, int n, int i, int least, int n_layer,
                        int end, uint64_t bytes)
{
    const double all = sum_shares(sides, n);
    double before = 0; // layers that stay for the devices before
    if (all > 0)
        before = floor((n_layer - least) * sum_shares(sides, i) / all + 0.5);
    for (int k = 0; k < i && all <= 0 && all_speeds_known(sides, n); k++)
        if (sides[k].speed > sides[i].speed * HEARTH_OFFLOAD_FASTER)
            before += (double)(sides[k].room / bytes);
    return before < end - least ? least + (int)before : end;
}
