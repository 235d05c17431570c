// SPDX-License-Identifier: MIT
// Unpacking block formats with NEON: a quarter of a group, 4 units of a row, becomes registers of bytes and of
// scales, both in the row's order: a register holds 16 weights of one unit.
#ifndef HEARTH_KERNELS_ARM_UNITS_NEON_H
#define HEARTH_KERNELS_ARM_UNITS_NEON_H

#include <stdbool.h>

#include "kernels/arm/lanes16.h"
#include "kernels/kernels.h"
#include "quant/grids.h"

// Bytes of the largest group of 16 units, rounded up.
#define GROUP_BYTES 640
#define QUARTER     4 // units

// Before loops whose arrays are to be registers.
#define ALL _Pragma("GCC unroll 16")

struct shape {
    uint8_t unit;   // elements
    uint8_t offset; // added to every weight; 0 for formats with a minimum and for signed weights
    uint8_t most;   // the largest absolute value in a register
    bool has_min;
    uint8_t planes; // of activations that prompts use (hearth_prompt_planes)
};

// What an unpack function fills.
struct weights {
    int8x16_t q[8];         // units of 32: two for each; units of 16: the first four
    float32x4_t scale, min; // by unit; min only of formats with one
};

// Unpacks a quarter of a group; callers give a constant. Nothing behind the group is read.
typedef void (*unpack_fn)(struct weights *w, const uint8_t *group, size_t quarter);

#define SHAPE static const struct shape __attribute__((unused))
SHAPE shape_q4_0 = {32, 8, 15, false, 1};
SHAPE shape_q4_1 = {32, 0, 15, true, 1};
SHAPE shape_q5_0 = {32, 16, 31, false, 2};
SHAPE shape_q5_1 = {32, 0, 31, true, 2};
SHAPE shape_q8_0 = {32, 0, 128, false, 2};
SHAPE shape_iq4 = {32, 0, 127, false, 1};
SHAPE shape_mxfp4 = {32, 0, 12, false, 1};
SHAPE shape_q4_k = {32, 0, 15, true, 1};
SHAPE shape_q5_k = {32, 0, 31, true, 2};
SHAPE shape_q6_k = {16, 32, 63, false, 2};
SHAPE shape_q3_k = {16, 4, 7, false, 1};
SHAPE shape_q2_k = {16, 0, 3, true, 1};
SHAPE shape_iq1_s = {32, 0, 9, false, 1};
SHAPE shape_iq1_m = {16, 0, 9, false, 1};
SHAPE shape_iq2_xxs = {32, 0, 43, false, 1};
SHAPE shape_iq2 = {16, 0, 43, false, 1};
SHAPE shape_iq3_xxs = {32, 0, 62, false, 1};
SHAPE shape_iq3_s = {32, 0, 15, false, 1};
SHAPE shape_two_bits = {32, 1, 3, false, 1};
SHAPE shape_nvfp4 = {16, 0, 12, false, 1};

// ---- helpers

INLINE int8x16_t low_nibbles(uint8x16_t bytes)
{
    return vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15)));
}
INLINE int8x16_t high_nibbles(uint8x16_t bytes)
{
    return vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4));
}

// q, whose bits of the mask come from `bits`.
INLINE int8x16_t with_bits(int8x16_t q, uint8x16_t bits, uint8_t mask)
{
    return vreinterpretq_s8_u8(vbslq_u8(vdupq_n_u8(mask), bits, vreinterpretq_u8_s8(q)));
}

// Two bytes of each of four blocks. Put together by integer units, which have nothing else to do.
INLINE uint64_t heads(const uint8_t *p, size_t stride)
{
    return word16_at(p) | (uint64_t)word16_at(p + stride) << 16 | (uint64_t)word16_at(p + 2 * stride) << 32 |
           (uint64_t)word16_at(p + 3 * stride) << 48;
}

INLINE float32x4_t scales_of(const uint8_t *p, size_t stride)
{
    return vcvt_f32_f16(vcreate_f16(heads(p, stride)));
}

// These formats store what is added.
INLINE float32x4_t minima_of(const uint8_t *p, size_t stride)
{
    return vcvt_f32_f16(vcreate_f16(heads(p, stride) ^ 0x8000800080008000));
}

// d times four small signed numbers.
INLINE float32x4_t scaled(float d, uint32_t numbers)
{
    const int16x8_t words = vmovl_s8(vcreate_s8(numbers));
    return vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(words))), d);
}

// Takes 32 off in every byte of six bits: the sixth is the opposite of the sign.
INLINE uint32_t less_32(uint32_t bits)
{
    const uint32_t sign = ~bits & 0x20202020;
    return (bits & 0x1f1f1f1f) | sign | sign << 1 | sign << 2;
}

// ---- blocks of 32

// 16 bytes of nibbles `at` bytes into every block of `bytes`.
INLINE void nibbles(struct weights *w, const uint8_t *src, size_t bytes, size_t at)
{
    for (size_t u = 0; u < QUARTER; u++) {
        const uint8x16_t both = vld1q_u8(src + u * bytes + at);
        w->q[2 * u] = low_nibbles(both);
        w->q[2 * u + 1] = high_nibbles(both);
    }
}

// A table of 16 bytes for every nibble.
INLINE void look_up(struct weights *w, int8x16_t table)
{
    for (size_t i = 0; i < 8; i++)
        w->q[i] = vqtbl1q_s8(table, vreinterpretq_u8_s8(w->q[i]));
}

// 32 fifth bits `at` bytes into every block of `bytes`.
INLINE void fifth_bits(struct weights *w, const uint8_t *src, size_t bytes, size_t at)
{
    const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    const uint8x16_t first = vcombine_u8(vdup_n_u8(0), vdup_n_u8(1));
    const uint8x16_t second = vcombine_u8(vdup_n_u8(2), vdup_n_u8(3));
    for (size_t u = 0; u < QUARTER; u++) {
        const uint8x16_t all = vreinterpretq_u8_u32(vdupq_n_u32(word32_at(src + u * bytes + at)));
        w->q[2 * u] = with_bits(w->q[2 * u], vtstq_u8(vqtbl1q_u8(all, first), bit), 16);
        w->q[2 * u + 1] = with_bits(w->q[2 * u + 1], vtstq_u8(vqtbl1q_u8(all, second), bit), 16);
    }
}

// 18 bytes: scale, nibbles.
INLINE void unpack_q4_0(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *src = group + quarter * QUARTER * 18;
    nibbles(w, src, 18, 2);
    w->scale = scales_of(src, 18);
}

// hearth_iq4_values
INLINE int8x16_t iq4_values(void)
{
    const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return vld1q_s8(values);
}

// 18 bytes: scale, nibbles that are indices.
INLINE void unpack_iq4_nl(struct weights *w, const uint8_t *group, size_t quarter)
{
    unpack_q4_0(w, group, quarter);
    look_up(w, iq4_values());
}

// 20 bytes: scale, minimum, nibbles.
INLINE void unpack_q4_1(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *src = group + quarter * QUARTER * 20;
    nibbles(w, src, 20, 4);
    w->scale = scales_of(src, 20);
    w->min = minima_of(src + 2, 20);
}

// 22 bytes: scale, fifth bits, nibbles.
INLINE void unpack_q5_0(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *src = group + quarter * QUARTER * 22;
    nibbles(w, src, 22, 6);
    fifth_bits(w, src, 22, 2);
    w->scale = scales_of(src, 22);
}

// 24 bytes: scale, minimum, fifth bits, nibbles.
INLINE void unpack_q5_1(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *src = group + quarter * QUARTER * 24;
    nibbles(w, src, 24, 8);
    fifth_bits(w, src, 24, 4);
    w->scale = scales_of(src, 24);
    w->min = minima_of(src + 2, 24);
}

// 17 bytes: an exponent, nibbles that are FP4.
INLINE void unpack_mxfp4(struct weights *w, const uint8_t *group, size_t quarter)
{
    const int8_t values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}; // twice those of FP4
    const uint8_t *src = group + quarter * QUARTER * 17;
    nibbles(w, src, 17, 1);
    look_up(w, vld1q_s8(values));
    const uint32_t bytes =
        src[0] | (uint32_t)src[17] << 8 | (uint32_t)src[34] << 16 | (uint32_t)src[51] << 24;
    const int32x4_t e = vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes)))));
    // The bits of 2^(e - 128): (e - 1) << 23, or of those that are not normal, 1 << 21 for e = 0 and 1 << 22
    // for 1.
    const int32x4_t normal = vsubq_s32(vshlq_n_s32(e, 23), vdupq_n_s32(1 << 23));
    const int32x4_t small = vaddq_s32(vshlq_n_s32(e, 21), vdupq_n_s32(1 << 21));
    w->scale = vreinterpretq_f32_s32(vmaxq_s32(normal, small));
}

// 34 bytes: scale, numbers.
INLINE void unpack_q8_0(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *src = group + quarter * QUARTER * 34;
    for (size_t i = 0; i < 8; i++)
        w->q[i] = vreinterpretq_s8_u8(vld1q_u8(src + i / 2 * 34 + 2 + i % 2 * 16));
    w->scale = scales_of(src, 34);
}

// ---- super-blocks of 256

// Scales and minima of half a block, from d, dmin and eight 6-bit scales and minima packed into 12 bytes.
INLINE void scales_k(struct weights *w, const uint8_t *src, size_t half)
{
    const uint32_t a = word32_at(src + 4), b = word32_at(src + 8), c = word32_at(src + 12);
    const uint32_t scale = half ? (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030) : a & 0x3f3f3f3f;
    const uint32_t min = half ? (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030) : b & 0x3f3f3f3f;
    const float32x4_t d = vcvt_f32_f16(vreinterpret_f16_u32(vdup_n_u32(word32_at(src))));
    const uint16x8_t both = vmovl_u8(vcreate_u8(scale | (uint64_t)min << 32));
    w->scale = vmulq_laneq_f32(vcvtq_f32_u32(vmovl_u16(vget_low_u16(both))), d, 0);
    w->min = vmulq_laneq_f32(vcvtq_f32_u32(vmovl_high_u16(both)), d, 1);
}

// 64 bytes of nibbles, 32 for two units.
INLINE void nibbles_k(struct weights *w, const uint8_t *src)
{
    for (size_t i = 0; i < 4; i++) {
        const uint8x16_t both = vld1q_u8(src + 16 * i);
        w->q[i / 2 * 4 + i % 2] = low_nibbles(both);
        w->q[i / 2 * 4 + i % 2 + 2] = high_nibbles(both);
    }
}

// 144 bytes: d, dmin, 12 bytes of scales, nibbles.
INLINE void unpack_q4_k(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *src = group + quarter / 2 * 144;
    nibbles_k(w, src + 16 + quarter % 2 * 64);
    scales_k(w, src, quarter % 2);
}

// 176 bytes: d, dmin, 12 bytes of scales, fifth bits (bit u of byte l: element l of unit u), nibbles.
INLINE void unpack_q5_k(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *src = group + quarter / 2 * 176;
    nibbles_k(w, src + 48 + quarter % 2 * 64);
    for (size_t h = 0; h < 2; h++) {
        const uint8x16_t bits = vld1q_u8(src + 16 + 16 * h);
        if (quarter % 2) {
            w->q[h] = with_bits(w->q[h], bits, 16);
            w->q[2 + h] = with_bits(w->q[2 + h], vshrq_n_u8(bits, 1), 16);
            w->q[4 + h] = with_bits(w->q[4 + h], vshrq_n_u8(bits, 2), 16);
            w->q[6 + h] = with_bits(w->q[6 + h], vshrq_n_u8(bits, 3), 16);
        } else {
            w->q[h] = with_bits(w->q[h], vshlq_n_u8(bits, 4), 16);
            w->q[2 + h] = with_bits(w->q[2 + h], vshlq_n_u8(bits, 3), 16);
            w->q[4 + h] = with_bits(w->q[4 + h], vshlq_n_u8(bits, 2), 16);
            w->q[6 + h] = with_bits(w->q[6 + h], vshlq_n_u8(bits, 1), 16);
        }
    }
    scales_k(w, src, quarter % 2);
}

// 136 bytes: d, upper bit pairs and low halves of 6-bit scales, nibbles that are indices.
INLINE void unpack_iq4_xs(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *src = group + quarter / 2 * 136;
    const size_t half = quarter % 2;
    nibbles(w, src + 8 + half * 64, 16, 0);
    look_up(w, iq4_values());
    uint32_t low = word16_at(src + 4 + 2 * half), high = src[2 + half]; // one number a byte
    low = (low | low << 8) & 0x00ff00ff;
    low = (low | low << 4) & 0x0f0f0f0f;
    high = (high | high << 12) & 0x000f000f;
    high = (high | high << 6) & 0x03030303;
    w->scale = scaled(half_at(src), less_32(low | high << 4));
}

// 210 bytes: 128 of low nibbles, 64 of upper bit pairs, 16 scales, d. Half of the first two are of 128
// elements.
INLINE void unpack_q6_k(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *low = group + quarter / 2 * 64, *high = group + 128 + quarter / 2 * 32;
    for (size_t i = 0; i < 2; i++) {
        const uint8x16_t a = vld1q_u8(low + 16 * i), b = vld1q_u8(low + 32 + 16 * i);
        const uint8x16_t bits = vld1q_u8(high + 16 * i);
        if (quarter % 2) {
            w->q[i] = with_bits(high_nibbles(a), bits, 0x30);
            w->q[2 + i] = with_bits(high_nibbles(b), vshrq_n_u8(bits, 2), 0x30);
        } else {
            w->q[i] = with_bits(low_nibbles(a), vshlq_n_u8(bits, 4), 0x30);
            w->q[2 + i] = with_bits(low_nibbles(b), vshlq_n_u8(bits, 2), 0x30);
        }
    }
    w->scale = scaled(half_at(group + 208), word32_at(group + 192 + 4 * quarter));
}

// 32 bytes carry 128 elements: bit pair j of byte l is element 32j + l.
INLINE void bit_pairs(struct weights *w, const uint8_t *src, size_t quarter)
{
    const uint8x16_t mask = vdupq_n_u8(3);
    for (size_t i = 0; i < 2; i++) {
        const uint8x16_t bits = vld1q_u8(src + quarter / 2 * 32 + 16 * i);
        if (quarter % 2) {
            w->q[i] = vreinterpretq_s8_u8(vandq_u8(vshrq_n_u8(bits, 4), mask));
            w->q[2 + i] = vreinterpretq_s8_u8(vshrq_n_u8(bits, 6));
        } else {
            w->q[i] = vreinterpretq_s8_u8(vandq_u8(bits, mask));
            w->q[2 + i] = vreinterpretq_s8_u8(vandq_u8(vshrq_n_u8(bits, 2), mask));
        }
    }
}

// 84 bytes: 16 of scales and minima, 64 of bit pairs, d, dmin.
INLINE void unpack_q2_k(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint32_t both = word32_at(group + 4 * quarter);
    bit_pairs(w, group + 16, quarter);
    w->scale = scaled(half_at(group + 80), both & 0x0f0f0f0f);
    w->min = scaled(half_at(group + 82), both >> 4 & 0x0f0f0f0f);
}

// 110 bytes: 32 of third bits (bit j of byte l: element 32j + l), 64 of bit pairs, 12 of 6-bit scales, d. A
// third bit that is not set takes off 4, which the offset gives back.
INLINE void unpack_q3_k(struct weights *w, const uint8_t *group, size_t quarter)
{
    bit_pairs(w, group + 32, quarter);
    for (size_t i = 0; i < 2; i++) {
        const uint8x16_t bits = vld1q_u8(group + 16 * i);
        uint8x16_t a, b; // bits 2 * quarter and 2 * quarter + 1, at bit 2
        switch (quarter) {
        case 0:
            a = vshlq_n_u8(bits, 2), b = vshlq_n_u8(bits, 1);
            break;
        case 1:
            a = bits, b = vshrq_n_u8(bits, 1);
            break;
        case 2:
            a = vshrq_n_u8(bits, 2), b = vshrq_n_u8(bits, 3);
            break;
        default:
            a = vshrq_n_u8(bits, 4), b = vshrq_n_u8(bits, 5);
            break;
        }
        w->q[i] = with_bits(w->q[i], a, 4);
        w->q[2 + i] = with_bits(w->q[2 + i], b, 4);
    }
    const uint32_t low = word32_at(group + 96 + quarter % 2 * 4) >> (quarter / 2 * 4) & 0x0f0f0f0f;
    const uint32_t high = word32_at(group + 104) >> (2 * quarter) & 0x03030303;
    w->scale = scaled(half_at(group + 108), less_32(low | high << 4));
}

// ---- few bits with one scale for a block

// 66 bytes: 64 of bit pairs, d.
INLINE void unpack_tq2_0(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *src = group + quarter / 2 * 66;
    const uint8x16_t mask = vdupq_n_u8(3);
    for (size_t h = 0; h < 2; h++) {
        const uint8x16_t bits = vld1q_u8(src + quarter % 2 * 32 + 16 * h);
        w->q[h] = vreinterpretq_s8_u8(vandq_u8(bits, mask));
        w->q[2 + h] = vreinterpretq_s8_u8(vandq_u8(vshrq_n_u8(bits, 2), mask));
        w->q[4 + h] = vreinterpretq_s8_u8(vandq_u8(vshrq_n_u8(bits, 4), mask));
        w->q[6 + h] = vreinterpretq_s8_u8(vshrq_n_u8(bits, 6));
    }
    w->scale = vdupq_n_f32(half_at(src + 64));
}

// Bytes times numbers, modulo 256; of what that makes, as fractions of 256, the first digits in base 3.
INLINE int8x16_t digits_behind(uint8x16_t bytes, uint8x16_t by)
{
    const uint8x16_t rest = vmulq_u8(bytes, by);
    const uint8x16_t less = vaddq_u8(vcgeq_u8(rest, vdupq_n_u8(86)), vcgeq_u8(rest, vdupq_n_u8(171)));
    return vnegq_s8(vreinterpretq_s8_u8(less));
}

// 54 bytes: 32, then 16 bytes of five digits, 4 of four, d. Digit n of a part's byte m is its element n * bytes + m; with
// each digit that is taken, what is left gets times 3.
INLINE void unpack_tq1_0(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *src = group + quarter / 2 * 54;
    const uint8x16_t a = vld1q_u8(src), b = vld1q_u8(src + 16), c = vld1q_u8(src + 32);
    if (quarter % 2) {
        const uint8_t powers[16] = {1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27};
        w->q[0] = digits_behind(a, vdupq_n_u8(81));
        w->q[1] = digits_behind(b, vdupq_n_u8(81));
        w->q[2] = digits_behind(c, vdupq_n_u8(1));
        w->q[3] = digits_behind(c, vdupq_n_u8(3));
        w->q[4] = digits_behind(c, vdupq_n_u8(9));
        w->q[5] = digits_behind(c, vdupq_n_u8(27));
        w->q[6] = digits_behind(c, vdupq_n_u8(81));
        w->q[7] = digits_behind(vreinterpretq_u8_u32(vdupq_n_u32(word32_at(src + 48))), vld1q_u8(powers));
    } else {
        const uint8_t powers[4] = {1, 3, 9, 27};
        ALL for (size_t u = 0; u < QUARTER; u++)
        {
            w->q[2 * u] = digits_behind(a, vdupq_n_u8(powers[u]));
            w->q[2 * u + 1] = digits_behind(b, vdupq_n_u8(powers[u]));
        }
    }
    w->scale = vdupq_n_f32(half_at(src + 52));
}

// 18 bytes: d, 128 bits.
INLINE void unpack_q1_0(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *src = group + quarter * 18;
    const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201)), all = vld1q_u8(src + 2);
    ALL for (size_t i = 0; i < 8; i++)
    {
        const uint8x16_t bytes = vcombine_u8(vdup_n_u8((uint8_t)(2 * i)), vdup_n_u8((uint8_t)(2 * i + 1)));
        const uint8x16_t set = vtstq_u8(vqtbl1q_u8(all, bytes), bit);
        w->q[i] = vreinterpretq_s8_u8(vandq_u8(set, vdupq_n_u8(2)));
    }
    w->scale = vdupq_n_f32(half_at(src));
}

// Two blocks of 18 bytes: d, 64 bit pairs.
INLINE void unpack_q2_0(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *src = group + quarter * 36;
    const int8x16_t right = vreinterpretq_s8_u32(vdupq_n_u32(0xfafcfe00)); // by 0, 2, 4 and 6
    const uint8x16_t first =
        vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(0x0101010100000000), vcreate_u64(0x0303030302020202)));
    for (size_t i = 0; i < 8; i++) {
        const uint8x16_t from = vaddq_u8(first, vdupq_n_u8((uint8_t)(i % 4 * 4)));
        const uint8x16_t bytes = vqtbl1q_u8(vld1q_u8(src + i / 4 * 18 + 2), from);
        w->q[i] = vreinterpretq_s8_u8(vandq_u8(vshlq_u8(bytes, right), vdupq_n_u8(3)));
    }
    w->scale = vcombine_f32(vdup_n_f32(half_at(src)), vdup_n_f32(half_at(src + 18)));
}

// 36 bytes: four scales, 32 bytes of FP4, 8 for a unit.
INLINE void unpack_nvfp4(struct weights *w, const uint8_t *group, size_t quarter)
{
    const int8_t values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}; // twice those of FP4
    const uint8_t *src = group + quarter * 36;
    const int8x16_t table = vld1q_s8(values);
    for (size_t i = 0; i < 2; i++) {
        const uint8x16_t both = vld1q_u8(src + 4 + 16 * i);
        const uint64x2_t low = vreinterpretq_u64_s8(low_nibbles(both));
        const uint64x2_t high = vreinterpretq_u64_s8(high_nibbles(both));
        w->q[2 * i] = vqtbl1q_s8(table, vreinterpretq_u8_u64(vzip1q_u64(low, high)));
        w->q[2 * i + 1] = vqtbl1q_s8(table, vreinterpretq_u8_u64(vzip2q_u64(low, high)));
    }
    // FP8 as the upper bits of halves, whose exponents count from 8 less; 0x7f is nothing, the sign does not count.
    const uint8x8_t bytes = vcreate_u8(word32_at(src)), most = vdup_n_u8(0x7f);
    const uint8x8_t some = vand_u8(vbic_u8(bytes, vceq_u8(bytes, most)), most);
    const uint16x4_t halves = vget_low_u16(vshll_n_u8(some, 7));
    w->scale = vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(halves)), 128.0f);
}

// ---- points of grids (quant/grids.h): eight numbers, half a register, are loaded at once

INLINE int8x16_t two_points(const uint64_t *a, const uint64_t *b)
{
    return vreinterpretq_s8_u64(vcombine_u64(vld1_u64(a), vld1_u64(b)));
}

// Four points of four numbers.
INLINE int8x16_t four_points(const uint32_t *grid, size_t a, size_t b, size_t c, size_t d)
{
    return vreinterpretq_s8_u64(vcombine_u64(vcreate_u64(hearth_two_points(grid[a], grid[b])),
                                             vcreate_u64(hearth_two_points(grid[c], grid[d]))));
}

// Negates numbers of `n` registers, eight by a byte of signs.
INLINE void put_signs(int8x16_t *q, uint8x16_t signs, size_t n)
{
    const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    ALL for (size_t i = 0; i < n; i++)
    {
        const uint8x16_t bytes = vcombine_u8(vdup_n_u8((uint8_t)(2 * i)), vdup_n_u8((uint8_t)(2 * i + 1)));
        const int8x16_t minus = vreinterpretq_s8_u8(vtstq_u8(vqtbl1q_u8(signs, bytes), bit));
        q[i] = vsubq_s8(veorq_s8(q[i], minus), minus);
    }
}

// Bytes of seven signs get an eighth, which makes the number of minuses even.
INLINE uint8x16_t even_signs(uint8x16_t seven)
{
    return vsliq_n_u8(seven, vcntq_u8(vandq_u8(seven, vdupq_n_u8(127))), 7);
}

// Bytes of four times seven signs, of every lane.
INLINE uint8x16_t sevens(uint32x4_t lanes)
{
    uint32x4_t bytes = vsliq_n_u32(lanes, vshrq_n_u32(lanes, 7), 8);
    bytes = vsliq_n_u32(bytes, vshrq_n_u32(lanes, 14), 16);
    return vreinterpretq_u8_u32(vsliq_n_u32(bytes, vshrq_n_u32(lanes, 21), 24));
}

// Four neighbouring numbers of so many bits.
INLINE uint32x4_t four_fields(uint32_t bits, int width)
{
    const int32_t right[4] = {0, -width, -2 * width, -3 * width};
    return vandq_u32(vshlq_u32(vdupq_n_u32(bits), vld1q_s32(right)), vdupq_n_u32((1u << width) - 1));
}

// d * (s + 1/2) * by
INLINE float32x4_t half_more(float d, uint32x4_t s, float by)
{
    return vmulq_n_f32(vmulq_n_f32(vaddq_f32(vcvtq_f32_u32(s), vdupq_n_f32(0.5f)), d), by);
}

// d * (2 s + 1)
INLINE float32x4_t odd(float d, uint32x4_t s)
{
    return vmulq_n_f32(vcvtq_f32_u32(vorrq_u32(vaddq_u32(s, s), vdupq_n_u32(1))), d);
}

// Points of IQ1: less 9 where they are shifted down (all bits set), else less 7.
INLINE int8x16_t shifted(int8x16_t points, uint8x16_t down)
{
    return vsubq_s8(points, vbslq_s8(down, vdupq_n_s8(9), vdupq_n_s8(7)));
}

// 50 bytes: d, 32 low bytes of points, 8 times four 3 upper bits, 3 of a scale, whether it is shifted down.
INLINE void unpack_iq1_s(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *src = group + quarter / 2 * 50, *low = src + 2 + quarter % 2 * 16;
    const uint8_t *high = src + 34 + quarter % 2 * 8;
    const uint64_t *grid = hearth_grids.iq1;
    ALL for (size_t u = 0; u < QUARTER; u++)
    {
        const uint32_t a = word32_at(low + 4 * u), b = word16_at(high + 2 * u);
        const uint8x16_t down = vdupq_n_u8((uint8_t)(0 - (b >> 15)));
        w->q[2 * u] = shifted(
            two_points(grid + ((a & 255) | (b & 7) << 8), grid + ((a >> 8 & 255) | (b >> 3 & 7) << 8)), down);
        w->q[2 * u + 1] = shifted(
            two_points(grid + ((a >> 16 & 255) | (b >> 6 & 7) << 8), grid + (a >> 24 | (b >> 9 & 7) << 8)),
            down);
    }
    const uint32x4_t bits = vmovl_u16(vreinterpret_u16_u8(vld1_u8(high)));
    w->scale = vmulq_n_f32(odd(half_at(src), vandq_u32(vshrq_n_u32(bits, 12), vdupq_n_u32(7))), 0.125f);
}

// 56 bytes: 32 low bytes of points, 32 times 3 upper bits and whether it is shifted down, 16 scales of 3 bits, four to
// two bytes, which have four bits of d above them.
INLINE void unpack_iq1_m(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint64_t low = word64_at(group + 8 * quarter), last = word64_at(group + 48);
    const uint32_t high = word32_at(group + 32 + 4 * quarter);
    const uint8x16_t bit = vcombine_u8(vdup_n_u8(8), vdup_n_u8(128));
    const uint64_t *grid = hearth_grids.iq1;
    ALL for (size_t u = 0; u < QUARTER; u++)
    {
        const size_t a = (low >> 16 * u & 255) | (high >> 8 * u & 7) << 8;
        const size_t b = (low >> (16 * u + 8) & 255) | (high >> (8 * u + 4) & 7) << 8;
        w->q[u] = shifted(two_points(grid + a, grid + b),
                          vtstq_u8(vld1q_dup_u8(group + 32 + 4 * quarter + u), bit));
    }
    const uint64_t d =
        (last >> 12 & 0xf) | (last >> 24 & 0xf0) | (last >> 36 & 0xf00) | (last >> 48 & 0xf000);
    const uint32x4_t s = four_fields((uint32_t)(last >> 16 * quarter), 3);
    w->scale =
        vmulq_n_f32(odd(vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u64(vcreate_u64(d))), 0), s), 0.125f);
}

// 66 bytes: d, 8 times four points, 28 bits of signs, 4 of a scale.
INLINE void unpack_iq2_xxs(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *src = group + quarter / 2 * 66, *from = src + 2 + quarter % 2 * 32;
    const uint64_t *grid = hearth_grids.iq2_xxs;
    for (size_t i = 0; i < 8; i++)
        w->q[i] = two_points(grid + from[i / 2 * 8 + i % 2 * 2], grid + from[i / 2 * 8 + i % 2 * 2 + 1]);
    const uint32x4_t rest =
        vuzp2q_u32(vreinterpretq_u32_u8(vld1q_u8(from)), vreinterpretq_u32_u8(vld1q_u8(from + 16)));
    put_signs(w->q, even_signs(sevens(rest)), 8);
    w->scale = half_more(half_at(src), vshrq_n_u32(rest, 28), 0.25f);
}

// 74 bytes: d, 32 times 9 bits of a point and 7 of signs, 16 scales of 4 bits.
INLINE void unpack_iq2_xs(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *from = group + 2 + 16 * quarter;
    const uint64_t *grid = hearth_grids.iq2_xs;
    ALL for (size_t u = 0; u < QUARTER; u++)
    {
        const uint32_t both = word32_at(from + 4 * u);
        w->q[u] = two_points(grid + (both & 511), grid + (both >> 16 & 511));
    }
    const uint8x8_t seven = vshr_n_u8(vshrn_n_u16(vreinterpretq_u16_u8(vld1q_u8(from)), 8), 1);
    put_signs(w->q, even_signs(vcombine_u8(seven, seven)), 4);
    w->scale = half_more(half_at(group), four_fields(word16_at(group + 66 + 2 * quarter), 4), 0.25f);
}

// 82 bytes: d, 32 low bytes of points, 32 of signs, 32 upper bit pairs of points, 16 scales of 4 bits.
INLINE void unpack_iq2_s(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint64_t low = word64_at(group + 2 + 8 * quarter);
    const uint32_t high = word16_at(group + 66 + 2 * quarter);
    const uint64_t *grid = hearth_grids.iq2_s;
    ALL for (size_t u = 0; u < QUARTER; u++)
    {
        const size_t a = (low >> 16 * u & 255) | (high >> 4 * u & 3) << 8;
        const size_t b = (low >> (16 * u + 8) & 255) | (high >> (4 * u + 2) & 3) << 8;
        w->q[u] = two_points(grid + a, grid + b);
    }
    const uint8x8_t signs = vld1_u8(group + 34 + 8 * quarter);
    put_signs(w->q, vcombine_u8(signs, signs), 4);
    w->scale = half_more(half_at(group), four_fields(word16_at(group + 74 + 2 * quarter), 4), 0.25f);
}

// 98 bytes: d, 64 points of four, 8 times 28 bits of signs and 4 of a scale.
INLINE void unpack_iq3_xxs(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *src = group + quarter / 2 * 98, *from = src + 2 + quarter % 2 * 32;
    for (size_t i = 0; i < 8; i++, from += 4)
        w->q[i] = four_points(hearth_grids.iq3_xxs, from[0], from[1], from[2], from[3]);
    const uint32x4_t rest = vreinterpretq_u32_u8(vld1q_u8(src + 66 + quarter % 2 * 16));
    put_signs(w->q, even_signs(sevens(rest)), 8);
    w->scale = half_more(half_at(src), vshrq_n_u32(rest, 28), 0.5f);
}

// 110 bytes: d, 64 low bytes of points of four, 64 upper bits of them, 32 bytes of signs, 8 scales of 4 bits.
INLINE void unpack_iq3_s(struct weights *w, const uint8_t *group, size_t quarter)
{
    const uint8_t *src = group + quarter / 2 * 110, *from = src + 2 + quarter % 2 * 32;
    uint32_t high = word32_at(src + 66 + quarter % 2 * 4);
    ALL for (size_t i = 0; i < 8; i++, from += 4, high >>= 4) w->q[i] =
        four_points(hearth_grids.iq3_s, from[0] | (high & 1) << 8, from[1] | (high & 2) << 7,
                    from[2] | (high & 4) << 6, from[3] | (high & 8) << 5);
    put_signs(w->q, vld1q_u8(src + 74 + quarter % 2 * 16), 8);
    w->scale = odd(half_at(src), four_fields(word16_at(src + 106 + quarter % 2 * 2), 4));
}

// ---- activations

// What four units take of the activations beside the products.
struct factors {
    float32x4_t d;
    int32x4_t sum;
};

// Those from unit u on, of both planes.
INLINE struct factors factors_at(const struct hearth_acts *x, size_t u, const struct shape *s)
{
    if (s->unit == 32)
        return (struct factors){vld1q_f32(x->d + u),
                                vpaddq_s32(vld1q_s32(x->sum + 2 * u), vld1q_s32(x->sum + 2 * u + 4))};
    const float32x2_t d = vld1_f32(x->d + u / 2);
    return (struct factors){vzip1q_f32(vcombine_f32(d, d), vcombine_f32(d, d)), vld1q_s32(x->sum + u)};
}

// Type, unpack function, shape.
#define HEARTH_UNITS_NEON(X)                                                                                 \
    X(Q4_0, unpack_q4_0, shape_q4_0)                                                                         \
    X(Q4_1, unpack_q4_1, shape_q4_1)                                                                         \
    X(Q5_0, unpack_q5_0, shape_q5_0)                                                                         \
    X(Q5_1, unpack_q5_1, shape_q5_1)                                                                         \
    X(Q8_0, unpack_q8_0, shape_q8_0)                                                                         \
    X(Q2_K, unpack_q2_k, shape_q2_k)                                                                         \
    X(Q3_K, unpack_q3_k, shape_q3_k)                                                                         \
    X(Q4_K, unpack_q4_k, shape_q4_k)                                                                         \
    X(Q5_K, unpack_q5_k, shape_q5_k)                                                                         \
    X(Q6_K, unpack_q6_k, shape_q6_k)                                                                         \
    X(IQ4_NL, unpack_iq4_nl, shape_iq4)                                                                      \
    X(IQ4_XS, unpack_iq4_xs, shape_iq4)                                                                      \
    X(MXFP4, unpack_mxfp4, shape_mxfp4)                                                                      \
    X(IQ1_S, unpack_iq1_s, shape_iq1_s)                                                                      \
    X(IQ1_M, unpack_iq1_m, shape_iq1_m)                                                                      \
    X(IQ2_XXS, unpack_iq2_xxs, shape_iq2_xxs)                                                                \
    X(IQ2_XS, unpack_iq2_xs, shape_iq2)                                                                      \
    X(IQ2_S, unpack_iq2_s, shape_iq2)                                                                        \
    X(IQ3_XXS, unpack_iq3_xxs, shape_iq3_xxs)                                                                \
    X(IQ3_S, unpack_iq3_s, shape_iq3_s)                                                                      \
    X(TQ1_0, unpack_tq1_0, shape_two_bits)                                                                   \
    X(TQ2_0, unpack_tq2_0, shape_two_bits)                                                                   \
    X(Q1_0, unpack_q1_0, shape_two_bits)                                                                     \
    X(Q2_0, unpack_q2_0, shape_two_bits)                                                                     \
    X(NVFP4, unpack_nvfp4, shape_nvfp4)

#endif
