// SPDX-License-Identifier: MIT
// The best of many scores.
#ifndef HEARTH_ENGINE_BEST_H
#define HEARTH_ENGINE_BEST_H

// Which of n scores are the `most` largest, ascending; of equal ones the earlier. 1 <= most <= n; none is a NaN.
void hearth_best_of(const float *scores, int n, int most, int *best);

#endif
