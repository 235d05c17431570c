// SPDX-License-Identifier: MIT
// Magnitudes of activated gates: see magnitudes.h.
#include "convert/magnitudes.h"

#include <float.h>
#include <string.h>

#include "model/model.h"

#define BINS      HEARTH_MAGNITUDE_BINS
#define BIN_SHIFT 17
_Static_assert(BINS == 1u << (31 - BIN_SHIFT), "a float's bits without sign, cut");

void hearth_magnitudes_count(uint64_t *sizes, const float *gates, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        uint32_t bits;
        memcpy(&bits, &gates[j], sizeof bits);
        sizes[(bits & INT32_MAX) >> BIN_SHIFT]++;
    }
}

// The upper end of a bin.
static float bin_end(uint32_t bin)
{
    const uint32_t bits = (bin + 1) << BIN_SHIFT;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x <= FLT_MAX ? x : FLT_MAX;
}

void hearth_magnitudes_measure(const uint64_t *sizes, float *percentiles)
{
    uint64_t all = 0, below = 0;
    for (uint32_t i = 0; i < BINS; i++)
        all += sizes[i];
    uint32_t bin = 0;
    percentiles[0] = 0;
    for (uint64_t k = 1; k < HEARTH_MAGNITUDES; k++) {
        while (bin < BINS && below * (HEARTH_MAGNITUDES - 1) < all * k)
            below += sizes[bin++];
        percentiles[k] = bin ? bin_end(bin - 1) : 0;
    }
}
