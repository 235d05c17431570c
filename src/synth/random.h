// SPDX-License-Identifier: MIT
// Random numbers of synthetic models: one stream per tensor or row range, so that threads change no byte.
#ifndef HEARTH_SYNTH_RANDOM_H
#define HEARTH_SYNTH_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct hearth_synth_rng { // xoshiro256**
    uint64_t s[4];
};

// The random stream numbered (a, b) of a seed.
struct hearth_synth_rng hearth_synth_rng(uint64_t seed, uint64_t a, uint64_t b);

uint64_t hearth_synth_next(struct hearth_synth_rng *r);

// A number in 0..n-1, n > 0.
static inline uint32_t hearth_synth_below(struct hearth_synth_rng *r, uint32_t n)
{
    return (uint32_t)((hearth_synth_next(r) >> 32) * n >> 32);
}

// n bell-shaped numbers of mean 0 and the given standard deviation; n is a multiple of 16.
void hearth_synth_bell(struct hearth_synth_rng *r, float *out, size_t n, float stddev);

// Q4_0 blocks whose weights have the given standard deviation and are symmetric about 0.
void hearth_synth_q4_0(struct hearth_synth_rng *r, uint8_t *dst, size_t n_blocks, float stddev);

// Shuffles 0..n-1 into out.
void hearth_synth_shuffle(struct hearth_synth_rng *r, uint32_t *out, uint32_t n);

#endif
