// SPDX-License-Identifier: MIT
// How large the activated gates of a layer are, for models outside the ReLU family: a histogram over the upper
// bits of floats.
#ifndef HEARTH_CONVERT_MAGNITUDES_H
#define HEARTH_CONVERT_MAGNITUDES_H

#include <stddef.h>
#include <stdint.h>

#define HEARTH_MAGNITUDE_BINS (1u << 14) // 64 for each power of two

// Adds n gates to sizes[HEARTH_MAGNITUDE_BINS].
void hearth_magnitudes_count(uint64_t *sizes, const float *gates, size_t n);
// Percentiles 0 to 100 of what was counted, each the upper end of a bin: [HEARTH_MAGNITUDES].
void hearth_magnitudes_measure(const uint64_t *sizes, float *percentiles);

#endif
