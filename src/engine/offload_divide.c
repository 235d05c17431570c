// SPDX-License-Identifier: MIT
// How layers are divided among devices: see offload_divide.h.
#include "engine/offload_divide.h"

#include <math.h>
#include <stdbool.h>

#include "engine/offload.h"

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

int hearth_offload_check(const struct hearth_offload_params *p, int n, struct hearth_error *err)
{
    double shares = 0;
    if ((p->n_vrams && !p->vrams) || (p->n_shares && !p->shares))
        return hearth_fail(err, HEARTH_E_INVALID,
                           "there is a number of sizes or shares, but no list of them");
    if (p->n_vrams && p->n_vrams != n)
        return hearth_fail(err, HEARTH_E_INVALID,
                           "%d sizes of devices' memory for %d device%s: give one for each, or one for all",
                           p->n_vrams, n, n == 1 ? "" : "s");
    if (p->n_shares && p->n_shares != n)
        return hearth_fail(err, HEARTH_E_INVALID,
                           "%d shares of the layers for %d device%s: give one for each", p->n_shares, n,
                           n == 1 ? "" : "s");
    for (int i = 0; i < p->n_shares; i++) {
        if (!(p->shares[i] >= 0 && p->shares[i] <= 1e9f))
            return hearth_fail(err, HEARTH_E_INVALID, "a device's share of the layers is a number from 0");
        shares += (double)p->shares[i];
    }
    if (p->n_shares && shares <= 0)
        return hearth_fail(err, HEARTH_E_INVALID, "all devices' shares of the layers are 0");
    return HEARTH_OK;
}
