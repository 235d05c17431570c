// SPDX-License-Identifier: MIT
#include "engine/best.h"

#include <stdint.h>
#include <string.h>

// As numbers are ordered; the two zeros are equal.
static uint32_t bits_of(float x)
{
    const uint32_t sign = UINT32_C(1) << 31;
    uint32_t bits;
    x += 0.0f; // a zero below 0 becomes the other one
    memcpy(&bits, &x, sizeof bits);
    return bits & sign ? ~bits : bits | sign;
}

// The most-th largest of n scores, as bits, digit by digit; *equal becomes how many of those that are equal
// to it are among the largest.
static uint32_t find_least(const float *scores, int n, int most, int *equal)
{
    uint32_t found = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        int counts[256] = {0}, digit = 255;
        for (int i = 0; i < n; i++) {
            const uint32_t bits = bits_of(scores[i]);
            if (shift == 24 || bits >> (shift + 8) == found >> (shift + 8))
                counts[bits >> shift & 255]++;
        }
        while (counts[digit] < most)
            most -= counts[digit--];
        found |= (uint32_t)digit << shift;
    }
    *equal = most;
    return found;
}

void hearth_best_of(const float *scores, int n, int most, int *best)
{
    int at = 0, equal;
    const uint32_t least = find_least(scores, n, most, &equal);
    for (int i = 0; i < n; i++) {
        const uint32_t bits = bits_of(scores[i]);
        if (bits > least || (bits == least && equal-- > 0))
            best[at++] = i;
    }
}
