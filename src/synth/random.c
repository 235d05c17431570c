// SPDX-License-Identifier: MIT
// Random numbers of synthetic models.
#include "synth/random.h"

#include <string.h>

#include "quant/quant.h"

uint64_t hearth_synth_next(struct hearth_synth_rng *r)
{
    uint64_t *s = r->s, x = s[1] * 5, result = (x << 7 | x >> 57) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = s[3] << 45 | s[3] >> 19;
    return result;
}

// Sixteen nibbles. Each is the sum of two uniform 3-bit numbers and one bit: bell-shaped over 0..15 with mean
// 7.5 and this standard deviation, sqrt(2 * 63 / 12 + 1 / 4).
#define NIBBLE_STDDEV 3.2787f

static uint64_t nibbles(struct hearth_synth_rng *r)
{
    const uint64_t three = 0x7777777777777777u, one = 0x1111111111111111u;
    uint64_t a = hearth_synth_next(r) & three, b = hearth_synth_next(r) & three;
    return a + b + (hearth_synth_next(r) & one);
}

void hearth_synth_bell(struct hearth_synth_rng *r, float *out, size_t n, float stddev)
{
    const float scale = stddev / NIBBLE_STDDEV;
    for (size_t i = 0; i < n; i += 16) {
        const uint64_t q = nibbles(r);
        for (int j = 0; j < 16; j++)
            out[i + (size_t)j] = ((float)(int)(q >> 4 * j & 15) - 7.5f) * scale;
    }
}

// The sign of the scale alternates at random. This centres the weights, although the format's range is -8..7.
void hearth_synth_q4_0(struct hearth_synth_rng *r, uint8_t *dst, size_t n_blocks, float stddev)
{
    const uint16_t d = hearth_f32_to_f16(stddev / NIBBLE_STDDEV);
    uint64_t signs = 0;
    for (size_t i = 0; i < n_blocks; i++, dst += 18) {
        if (i % 64 == 0)
            signs = hearth_synth_next(r);
        const uint16_t scale = (uint16_t)(d | (signs >> i % 64 & 1) << 15);
        const uint64_t low = nibbles(r), q[2] = {low, nibbles(r)};
        memcpy(dst, &scale, 2);
        memcpy(dst + 2, q, 16);
    }
}

void hearth_synth_shuffle(struct hearth_synth_rng *r, uint32_t *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t at = hearth_synth_below(r, i + 1);
        out[i] = out[at];
        out[at] = i;
    }
}

static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = *x += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

struct hearth_synth_rng hearth_synth_rng(uint64_t seed, uint64_t a, uint64_t b)
{
    struct hearth_synth_rng r;
    uint64_t x = seed ^ a * 0xD1342543DE82EF95u;
    x = splitmix(&x) ^ b * 0xAF251AF3B0F025B5u;
    for (int i = 0; i < 4; i++)
        r.s[i] = splitmix(&x);
    return r;
}
