// SPDX-License-Identifier: MIT
// The formats of 1 to 3 bits a weight whose numbers are points of a grid: a few bits name the point that stands
// for eight (or four) neighbours at once. A function for each format unpacks some units of a block; it is
// inlined into quant_iq.c, which defines the formats with it, and into kernels.
//
// hearth_grids_fill() must have run before any of these functions, as it has in whoever got its kernels from
// hearth_kernels_init().
#ifndef HEARTH_QUANT_GRIDS_H
#define HEARTH_QUANT_GRIDS_H

#include <string.h>

#include "quant/formats.h"

// Points as bytes, the first element in the lowest one. Those of IQ1 are 8 times the number, plus 8.
struct hearth_grids {
    uint64_t iq1[2048], iq2_xxs[256], iq2_xs[512], iq2_s[1024];
    uint32_t iq3_xxs[256], iq3_s[512];
    uint64_t signs[256]; // byte i is 255 where bit i is set
    // Which of the grid's values a point's elements have, a byte for each half of the point, for kernels that look
    // many points up in registers. IQ2: two bits an element, IQ3: three.
    _Alignas(64) uint8_t iq2_xxs_digits[2][256], iq3_xxs_digits[2][256], iq3_s_digits[2][512];
};
extern struct hearth_grids hearth_grids;

// Fills the above, the first time. Thread-safe.
void hearth_grids_fill(void);

#define HEARTH_UNPACK_INLINE static inline __attribute__((always_inline))

// Eight numbers, none of which is 0, negated where the signs say so.
HEARTH_UNPACK_INLINE void hearth_put_signed(int8_t *q, uint64_t point, uint8_t signs)
{
    const uint64_t mask = hearth_grids.signs[signs];
    const uint64_t v = (point ^ mask) + (mask & 0x0101010101010101);
    memcpy(q, &v, sizeof v);
}

// Seven signs in as many bits; the eighth makes the number of minuses even.
HEARTH_UNPACK_INLINE uint8_t hearth_even_signs(uint32_t seven)
{
    seven &= 127;
    return (uint8_t)(seven | (uint32_t)__builtin_parity(seven) << 7);
}

// Two points of four.
HEARTH_UNPACK_INLINE uint64_t hearth_two_points(uint32_t low, uint32_t high)
{
    return low | (uint64_t)high << 32;
}

// Eight numbers of IQ1, shifted by an eighth up or down; all times 8.
HEARTH_UNPACK_INLINE void hearth_put_shifted(int8_t *q, uint64_t point, bool down)
{
    const uint64_t v =
        (((point + (down ? 0 : 0x0202020202020202)) | 0x8080808080808080) - 0x0909090909090909) ^
        0x8080808080808080;
    memcpy(q, &v, sizeof v);
}

// ---- units [first, first + n) of a block: q [n * unit], scale [n]

// f16 d; for each unit of 32: 4 bytes that are points, 28 bits of signs, 4 of its scale: d * (s + 1/2) / 4 *
// q.
HEARTH_UNPACK_INLINE void hearth_iq2_xxs_units(const uint8_t *b, size_t first, size_t n, int8_t *q,
                                               float *scale)
{
    const float d = hearth_load_f16(b);
    for (size_t u = 0; u < n; u++, q += 32) {
        const uint8_t *src = b + 2 + 8 * (first + u);
        const uint32_t rest = hearth_load_u32(src + 4);
        scale[u] = d * (0.5f + (float)(rest >> 28)) * 0.25f;
        for (size_t i = 0; i < 4; i++)
            hearth_put_signed(q + 8 * i, hearth_grids.iq2_xxs[src[i]], hearth_even_signs(rest >> 7 * i));
    }
}

// f16 d, 32 times 9 bits of a point and 7 of signs, 8 bytes of 4-bit scales of units of 16: as IQ2_XXS.
HEARTH_UNPACK_INLINE void hearth_iq2_xs_units(const uint8_t *b, size_t first, size_t n, int8_t *q,
                                              float *scale)
{
    const float d = hearth_load_f16(b);
    for (size_t u = 0; u < n; u++, q += 16) {
        const size_t at = first + u;
        scale[u] = d * (0.5f + (float)(b[66 + at / 2] >> 4 * (at % 2) & 15)) * 0.25f;
        for (size_t i = 0; i < 2; i++) {
            const uint32_t v = hearth_load_u16(b + 2 + 4 * at + 2 * i);
            hearth_put_signed(q + 8 * i, hearth_grids.iq2_xs[v & 511], hearth_even_signs(v >> 9));
        }
    }
}

// f16 d, 32 low bytes of points, 32 bytes of signs, 8 of upper bit pairs of points, 8 of 4-bit scales of
// units of 16: as IQ2_XXS.
HEARTH_UNPACK_INLINE void hearth_iq2_s_units(const uint8_t *b, size_t first, size_t n, int8_t *q,
                                             float *scale)
{
    const float d = hearth_load_f16(b);
    for (size_t u = 0; u < n; u++, q += 16) {
        const size_t at = first + u;
        scale[u] = d * (0.5f + (float)(b[74 + at / 2] >> 4 * (at % 2) & 15)) * 0.25f;
        for (size_t i = 0; i < 2; i++) {
            const size_t g = 2 * at + i;
            const unsigned point = b[2 + g] | (unsigned)(b[66 + g / 4] >> 2 * (g % 4) & 3) << 8;
            hearth_put_signed(q + 8 * i, hearth_grids.iq2_s[point], b[34 + g]);
        }
    }
}

// f16 d, 64 bytes that are points of four, for each unit of 32 28 bits of signs and 4 of its scale:
// d * (s + 1/2) / 2 * q.
HEARTH_UNPACK_INLINE void hearth_iq3_xxs_units(const uint8_t *b, size_t first, size_t n, int8_t *q,
                                               float *scale)
{
    const float d = hearth_load_f16(b);
    const uint32_t *grid = hearth_grids.iq3_xxs;
    for (size_t u = 0; u < n; u++, q += 32) {
        const uint8_t *src = b + 2 + 8 * (first + u);
        const uint32_t rest = hearth_load_u32(b + 66 + 4 * (first + u));
        scale[u] = d * (0.5f + (float)(rest >> 28)) * 0.5f;
        for (size_t i = 0; i < 4; i++)
            hearth_put_signed(q + 8 * i, hearth_two_points(grid[src[2 * i]], grid[src[2 * i + 1]]),
                              hearth_even_signs(rest >> 7 * i));
    }
}

// f16 d, 64 low bytes of points of four, 8 bytes of their ninth bits, 32 of signs, 4 of 4-bit scales of units
// of 32: d * (2 s + 1) * q.
HEARTH_UNPACK_INLINE void hearth_iq3_s_units(const uint8_t *b, size_t first, size_t n, int8_t *q,
                                             float *scale)
{
    const float d = hearth_load_f16(b);
    const uint32_t *grid = hearth_grids.iq3_s;
    for (size_t u = 0; u < n; u++, q += 32) {
        const size_t at = first + u;
        const uint8_t *src = b + 2 + 8 * at;
        const unsigned high = b[66 + at];
        scale[u] = d * (float)(2 * (b[106 + at / 2] >> 4 * (at % 2) & 15) + 1);
        for (size_t i = 0; i < 4; i++)
            hearth_put_signed(q + 8 * i,
                              hearth_two_points(grid[src[2 * i] | (high >> 2 * i & 1) << 8],
                                                grid[src[2 * i + 1] | (high >> (2 * i + 1) & 1) << 8]),
                              b[74 + 4 * at + i]);
    }
}

// f16 d, 32 low bytes of points, for each unit of 32: four times 3 upper bits, 3 of its scale, whether it is
// shifted down: d * (2 s + 1) * (number +- 1/8).
HEARTH_UNPACK_INLINE void hearth_iq1_s_units(const uint8_t *b, size_t first, size_t n, int8_t *q,
                                             float *scale)
{
    const float d = hearth_load_f16(b);
    for (size_t u = 0; u < n; u++, q += 32) {
        const uint8_t *src = b + 2 + 4 * (first + u);
        const uint32_t high = hearth_load_u16(b + 34 + 2 * (first + u));
        scale[u] = d * (float)(2 * (high >> 12 & 7) + 1) * 0.125f;
        for (size_t i = 0; i < 4; i++)
            hearth_put_shifted(q + 8 * i, hearth_grids.iq1[src[i] | (high >> 3 * i & 7) << 8], high >> 15);
    }
}

// 32 low bytes of points, 32 halves of bytes with 3 upper bits and whether it is shifted down, four u16 of
// 3-bit scales of units of 16, in whose upper four bits are those of d: as IQ1_S.
HEARTH_UNPACK_INLINE void hearth_iq1_m_units(const uint8_t *b, size_t first, size_t n, int8_t *q,
                                             float *scale)
{
    uint32_t half = 0;
    for (size_t i = 0; i < 4; i++)
        half |= (uint32_t)(b[49 + 2 * i] >> 4) << 4 * i;
    const float d = hearth_f16_to_f32((uint16_t)half);
    for (size_t u = 0; u < n; u++, q += 16) {
        const size_t at = first + u;
        const uint32_t s = (uint32_t)hearth_load_u16(b + 48 + at / 4 * 2) >> 3 * (at % 4) & 7;
        scale[u] = d * (float)(2 * s + 1) * 0.125f;
        for (size_t i = 0; i < 2; i++) {
            const uint32_t high = (uint32_t)b[32 + at] >> 4 * i;
            hearth_put_shifted(q + 8 * i, hearth_grids.iq1[b[2 * at + i] | (high & 7) << 8], high & 8);
        }
    }
}

#endif
