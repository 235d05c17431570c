// SPDX-License-Identifier: MIT
// Unpacking block formats with AVX2: half a group, 8 units of a row, becomes registers of bytes and of
// scales.
//
// As in units_avx512.h, bytes stay in the order in which a format's layout gives them cheaply, and a `shape`
// says which elements they are. Each 128-bit half of a register belongs to one unit.
#ifndef HEARTH_KERNELS_X86_UNITS_AVX2_H
#define HEARTH_KERNELS_X86_UNITS_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/x86/lanes16.h"
#include "quant/grids.h"

// Bytes of the largest group of 16 units, rounded up.
#define GROUP_BYTES 640
#define UNROLL      _Pragma("GCC unroll 8")
// Units of half a group.
#define HALF 8

// Weights that take all of a byte stay signed.
#define SIGNED 128

// How a format's registers relate to units. Positions are 16-byte pieces and units counted within the half.
struct shape {
    uint8_t registers; // of half a group: 8 for units of 32, whose two halves are in registers 2i and 2i+1
    uint8_t unit;      // elements
    uint8_t offset;    // added to every weight to make it unsigned; 0 for formats with a minimum
    uint8_t most;      // the largest unsigned weight, or SIGNED
    bool has_min;
    uint8_t pieces[8][2];  // 16-byte pieces of a row that are in each register
    uint8_t order[HALF];   // lane of a sum, scale or minimum -> unit
    uint8_t inverse[HALF]; // unit -> lane
};

// The weights of half a group: what an unpack function fills.
struct weights {
    __m256i u[8];      // bytes
    __m256 scale, min; // lanes in the format's order; min only of formats with one
};

// Unpacks the first or (half = 1) the second half of a group. Nothing behind the group is read.
typedef void (*unpack_fn)(struct weights *w, const uint8_t *group, size_t half);

#define SHAPE static const struct shape __attribute__((unused))

// Blocks 2i and 2i+1: their first halves in register 2i, their second ones in 2i+1.
#define BLOCKS_OF_32(offset, most, has_min)                                                                  \
    {                                                                                                        \
        8, 32, offset, most, has_min,                                                                        \
            {{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}},                          \
            {0, 2, 4, 6, 1, 3, 5, 7}, {0, 4, 1, 5, 2, 6, 3, 7},                                              \
    }
SHAPE shape_q4_0 = BLOCKS_OF_32(8, 15, false);
SHAPE shape_q4_1 = BLOCKS_OF_32(0, 15, true);
SHAPE shape_q5_0 = BLOCKS_OF_32(16, 31, false);
SHAPE shape_q5_1 = BLOCKS_OF_32(0, 31, true);
SHAPE shape_mxfp4 = BLOCKS_OF_32(12, 24, false);
SHAPE shape_wide = BLOCKS_OF_32(0, SIGNED, false);
SHAPE shape_iq1_s = BLOCKS_OF_32(9, 18, false);
SHAPE shape_iq2_xxs = BLOCKS_OF_32(43, 86, false);
SHAPE shape_iq3_xxs = BLOCKS_OF_32(62, 124, false);
SHAPE shape_iq3_s = BLOCKS_OF_32(15, 30, false);
SHAPE shape_two_bits = BLOCKS_OF_32(1, 3, false);

// Per 64 bytes of nibbles of a super-block: the low ones are units 4i and 4i+2, the high ones 4i+1 and 4i+3.
#define SUPER_BLOCKS(most)                                                                                   \
    {                                                                                                        \
        8, 32, 0, most, true, {{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}},        \
            {0, 1, 4, 5, 2, 3, 6, 7}, {0, 1, 4, 5, 2, 3, 6, 7},                                              \
    }
SHAPE shape_q4_k = SUPER_BLOCKS(15);
SHAPE shape_q5_k = SUPER_BLOCKS(31);

// Units 2i and 2i+1 in register i.
#define NATURAL16(offset, most, has_min)                                                                     \
    {                                                                                                        \
        4, 16, offset, most, has_min, {{0, 1}, {2, 3}, {4, 5}, {6, 7}}, {0, 2, 4, 6, 1, 3, 5, 7},            \
            {0, 4, 1, 5, 2, 6, 3, 7},                                                                        \
    }
SHAPE shape_q6_k = NATURAL16(32, 63, false);
SHAPE shape_q3_k = NATURAL16(4, 7, false);
SHAPE shape_q2_k = NATURAL16(0, 3, true);
SHAPE shape_iq1_m = NATURAL16(9, 18, false);
SHAPE shape_iq2 = NATURAL16(43, 86, false);

// Of every four units of 16, two for each register: 0 and 2, 1 and 3.
SHAPE shape_nvfp4 = {
    4,
    16,
    12,
    24,
    false,
    {{0, 2}, {1, 3}, {4, 6}, {5, 7}},
    {0, 1, 4, 5, 2, 3, 6, 7},
    {0, 1, 4, 5, 2, 3, 6, 7},
};

// ---- helpers

INLINE __m256i load32(const void *p)
{
    return _mm256_loadu_si256(p);
}

// Sums of adjacent fours: lane 4L+k of the result is the sum of 128-bit part L of t[k].
INLINE __m256i transpose_add(const __m256i *t)
{
    const __m256i a = _mm256_add_epi32(_mm256_unpacklo_epi32(t[0], t[1]), _mm256_unpackhi_epi32(t[0], t[1]));
    const __m256i b = _mm256_add_epi32(_mm256_unpacklo_epi32(t[2], t[3]), _mm256_unpackhi_epi32(t[2], t[3]));
    return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

// 16 bytes from each.
INLINE __m256i load_both(const void *low, const void *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)), _mm_loadu_si128(high), 1);
}

// The low and the high half of each byte.
INLINE void split_nibbles(__m256i *low, __m256i *high, __m256i bytes)
{
    const __m256i mask = _mm256_set1_epi8(15);
    *low = _mm256_and_si256(bytes, mask);
    *high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask);
}

// Adds 16 where the byte has any of the bits.
INLINE __m256i add_fifth(__m256i q, __m256i bytes, __m256i bits)
{
    const __m256i none = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bits), _mm256_setzero_si256());
    return _mm256_or_si256(q, _mm256_andnot_si256(none, _mm256_set1_epi8(16)));
}

// Two bytes of each of eight blocks, in the order of BLOCKS_OF_32.
INLINE __m128i heads(const uint8_t *p, size_t stride)
{
    return _mm_setr_epi16((short)word16_at(p), (short)word16_at(p + 2 * stride),
                          (short)word16_at(p + 4 * stride), (short)word16_at(p + 6 * stride),
                          (short)word16_at(p + stride), (short)word16_at(p + 3 * stride),
                          (short)word16_at(p + 5 * stride), (short)word16_at(p + 7 * stride));
}

INLINE __m256 scales_of(const uint8_t *p, size_t stride)
{
    return _mm256_cvtph_ps(heads(p, stride));
}

// These formats store what is added.
INLINE __m256 minima_of(const uint8_t *p, size_t stride)
{
    return _mm256_cvtph_ps(_mm_xor_si128(heads(p, stride), _mm_set1_epi16(INT16_MIN)));
}

// d times eight small unsigned numbers, which are in natural order, in that of Q4_K and Q5_K.
INLINE __m256 scaled_k(float d, uint64_t numbers)
{
    const __m128i bytes = _mm_shufflelo_epi16(_mm_cvtsi64_si128((int64_t)numbers), 0xd8);
    return _mm256_mul_ps(_mm256_set1_ps(d), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)));
}

// d times eight small signed numbers, in the order of BLOCKS_OF_32 and NATURAL16.
INLINE __m256 scaled(float d, uint64_t numbers)
{
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m128i bytes = _mm_shuffle_epi8(_mm_cvtsi64_si128((int64_t)numbers), order);
    return _mm256_mul_ps(_mm256_set1_ps(d), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)));
}

// Takes 32 off in every byte of six bits: the sixth is the opposite of the sign.
INLINE uint64_t less_32(uint64_t bits)
{
    const uint64_t sign = ~bits & 0x2020202020202020;
    return (bits & 0x1f1f1f1f1f1f1f1f) | sign | sign << 1 | sign << 2;
}

// A table of 16 bytes for every nibble.
INLINE void look_up(struct weights *w, __m128i table)
{
    const __m256i both = _mm256_broadcastsi128_si256(table);
    for (int i = 0; i < 8; i++)
        w->u[i] = _mm256_shuffle_epi8(both, w->u[i]);
}

// ---- blocks of 32

// 16 bytes of nibbles `at` bytes into every block of `bytes`.
INLINE void nibbles(struct weights *w, const uint8_t *src, size_t bytes, size_t at)
{
    for (size_t i = 0; i < 4; i++)
        split_nibbles(&w->u[2 * i], &w->u[2 * i + 1],
                      load_both(src + 2 * i * bytes + at, src + (2 * i + 1) * bytes + at));
}

// 32 fifth bits `at` bytes into every block of `bytes`.
INLINE void fifth_bits(struct weights *w, const uint8_t *src, size_t bytes, size_t at)
{
    const __m256i first = _mm256_setr_epi64x(0, 0x0101010101010101, 0, 0x0101010101010101);
    const __m256i second = _mm256_add_epi8(first, _mm256_set1_epi8(2));
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    for (size_t i = 0; i < 4; i++) {
        const __m256i all =
            _mm256_set_m128i(_mm_set1_epi32((int32_t)word32_at(src + (2 * i + 1) * bytes + at)),
                             _mm_set1_epi32((int32_t)word32_at(src + 2 * i * bytes + at)));
        w->u[2 * i] = add_fifth(w->u[2 * i], _mm256_shuffle_epi8(all, first), bit);
        w->u[2 * i + 1] = add_fifth(w->u[2 * i + 1], _mm256_shuffle_epi8(all, second), bit);
    }
}

// 18 bytes: scale, nibbles.
INLINE void unpack_q4_0(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * HALF * 18;
    nibbles(w, src, 18, 2);
    w->scale = scales_of(src, 18);
}

// hearth_iq4_values
INLINE __m128i iq4_values(void)
{
    return _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
}

// 18 bytes: scale, nibbles that are indices.
INLINE void unpack_iq4_nl(struct weights *w, const uint8_t *group, size_t half)
{
    unpack_q4_0(w, group, half);
    look_up(w, iq4_values());
}

// 20 bytes: scale, minimum, nibbles.
INLINE void unpack_q4_1(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * HALF * 20;
    nibbles(w, src, 20, 4);
    w->scale = scales_of(src, 20);
    w->min = minima_of(src + 2, 20);
}

// 22 bytes: scale, fifth bits, nibbles.
INLINE void unpack_q5_0(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * HALF * 22;
    nibbles(w, src, 22, 6);
    fifth_bits(w, src, 22, 2);
    w->scale = scales_of(src, 22);
}

// 24 bytes: scale, minimum, fifth bits, nibbles.
INLINE void unpack_q5_1(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * HALF * 24;
    nibbles(w, src, 24, 8);
    fifth_bits(w, src, 24, 4);
    w->scale = scales_of(src, 24);
    w->min = minima_of(src + 2, 24);
}

// 17 bytes: an exponent, nibbles that are FP4.
INLINE void unpack_mxfp4(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * HALF * 17;
    nibbles(w, src, 17, 1);
    // Twice the values of FP4, plus 12.
    look_up(w, _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m256i e =
        _mm256_setr_epi32(src[0], src[34], src[68], src[102], src[17], src[51], src[85], src[119]);
    // 2^(e - 128), which is not a normal number for e below 2.
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    w->scale =
        _mm256_castsi256_ps(_mm256_blendv_epi8(small, normal, _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1))));
}

// 34 bytes: scale, numbers.
INLINE void unpack_q8_0(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * HALF * 34;
    for (size_t i = 0; i < 4; i++)
        for (size_t h = 0; h < 2; h++)
            w->u[2 * i + h] = load_both(src + 68 * i + 2 + 16 * h, src + 68 * i + 36 + 16 * h);
    w->scale = scales_of(src, 34);
}

// ---- super-blocks of 256

// Scales and minima, from d, dmin and eight 6-bit scales and minima packed into 12 bytes.
INLINE void scales_k(struct weights *w, const uint8_t *src)
{
    const uint32_t a = word32_at(src + 4), b = word32_at(src + 8), c = word32_at(src + 12);
    w->scale =
        scaled_k(half_at(src), (a & 0x3f3f3f3f) | (uint64_t)((c & 0x0f0f0f0f) | (a >> 2 & 0x30303030)) << 32);
    w->min = scaled_k(half_at(src + 2),
                      (b & 0x3f3f3f3f) | (uint64_t)((c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030)) << 32);
}

// 128 bytes of nibbles, 32 for two units.
INLINE void nibbles_k(struct weights *w, const uint8_t *src)
{
    for (size_t i = 0; i < 2; i++)
        for (size_t h = 0; h < 2; h++)
            split_nibbles(&w->u[4 * i + h], &w->u[4 * i + 2 + h],
                          load_both(src + 64 * i + 16 * h, src + 64 * i + 32 + 16 * h));
}

// 144 bytes: d, dmin, 12 bytes of scales, nibbles.
INLINE void unpack_q4_k(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * 144;
    nibbles_k(w, src + 16);
    scales_k(w, src);
}

// 176 bytes: d, dmin, 12 bytes of scales, fifth bits (bit u of byte l: element l of unit u), nibbles.
INLINE void unpack_q5_k(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * 176;
    nibbles_k(w, src + 48);
    for (size_t h = 0; h < 2; h++) {
        const __m256i bits =
            _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(src + 16 + 16 * h)));
        __m256i bit = _mm256_set_m128i(_mm_set1_epi8(4), _mm_set1_epi8(1)); // of units 0 and 2
        for (size_t i = 0; i < 8; i += 4, bit = _mm256_slli_epi16(bit, 3)) {
            w->u[i + h] = add_fifth(w->u[i + h], bits, bit);
            bit = _mm256_add_epi8(bit, bit);
            w->u[i + 2 + h] = add_fifth(w->u[i + 2 + h], bits, bit);
        }
    }
    scales_k(w, src);
}

// 136 bytes: d, 8 upper bit pairs and 8 low halves of scales, nibbles of one unit after the other.
INLINE void unpack_iq4_xs(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * 136;
    nibbles(w, src, 16, 8);
    look_up(w, iq4_values());
    const uint64_t bits =
        _pdep_u64(word32_at(src + 4), 0x0f0f0f0f0f0f0f0f) | _pdep_u64(word16_at(src + 2), 0x3030303030303030);
    w->scale = scaled(half_at(src), less_32(bits));
}

// Half of 210 bytes: 128 of low nibbles, 64 of upper bit pairs, 16 scales, d.
INLINE void unpack_q6_k(struct weights *w, const uint8_t *group, size_t half)
{
    const __m256i pair = _mm256_set1_epi8(0x30);
    const __m256i bits = load32(group + 128 + 32 * half);
    for (size_t i = 0; i < 2; i++)
        split_nibbles(&w->u[i], &w->u[2 + i], load32(group + 64 * half + 32 * i));
    w->u[0] = _mm256_or_si256(w->u[0], _mm256_and_si256(_mm256_slli_epi16(bits, 4), pair));
    w->u[1] = _mm256_or_si256(w->u[1], _mm256_and_si256(_mm256_slli_epi16(bits, 2), pair));
    w->u[2] = _mm256_or_si256(w->u[2], _mm256_and_si256(bits, pair));
    w->u[3] = _mm256_or_si256(w->u[3], _mm256_and_si256(_mm256_srli_epi16(bits, 2), pair));
    w->scale = scaled(half_at(group + 208), word64_at(group + 192 + 8 * half));
}

// 32 bytes carry 128 elements: bit pair j of byte l is element 32j + l.
INLINE void bit_pairs(struct weights *w, const uint8_t *src)
{
    const __m256i mask = _mm256_set1_epi8(3), bits = load32(src);
    w->u[0] = _mm256_and_si256(bits, mask);
    w->u[1] = _mm256_and_si256(_mm256_srli_epi16(bits, 2), mask);
    w->u[2] = _mm256_and_si256(_mm256_srli_epi16(bits, 4), mask);
    w->u[3] = _mm256_and_si256(_mm256_srli_epi16(bits, 6), mask);
}

// Half of 84 bytes: 16 of scales and minima, 64 of bit pairs, d, dmin.
INLINE void unpack_q2_k(struct weights *w, const uint8_t *group, size_t half)
{
    const uint64_t both = word64_at(group + 8 * half), mask = 0x0f0f0f0f0f0f0f0f;
    bit_pairs(w, group + 16 + 32 * half);
    w->scale = scaled(half_at(group + 80), both & mask);
    w->min = scaled(half_at(group + 82), both >> 4 & mask);
}

// Half of 110 bytes: 32 of third bits (bit j of byte l: element 32j + l), 64 of bit pairs, 12 of 6-bit
// scales, d. A third bit that is not set takes off 4, which the offset gives back.
INLINE void unpack_q3_k(struct weights *w, const uint8_t *group, size_t half)
{
    const __m256i thirds = load32(group), third = _mm256_set1_epi8(4);
    bit_pairs(w, group + 32 + 32 * half);
    for (int i = 0; i < 4; i++) {
        const __m256i bit = _mm256_set1_epi8((char)(1 << (4 * half + (size_t)i)));
        const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(thirds, bit), bit);
        w->u[i] = _mm256_or_si256(w->u[i], _mm256_and_si256(set, third));
    }
    const uint64_t low = word64_at(group + 96) >> 4 * half & 0x0f0f0f0f0f0f0f0f;
    const uint64_t high = (uint64_t)word32_at(group + 104) >> 4 * half;
    const uint64_t bits = low | (high & 0x03030303) << 4 | (high >> 2 & 0x03030303) << 36;
    w->scale = scaled(half_at(group + 108), less_32(bits));
}

// ---- few bits with one scale for a block

// Those of eight units, whose blocks begin `apart` bytes after each other: how many units have one is a power of two.
INLINE __m256 scales_of_blocks(const uint8_t *p, size_t apart, size_t units)
{
    const __m128i h =
        _mm_setr_epi16((short)word16_at(p), (short)word16_at(p + 2 / units * apart),
                       (short)word16_at(p + 4 / units * apart), (short)word16_at(p + 6 / units * apart),
                       (short)word16_at(p + 1 / units * apart), (short)word16_at(p + 3 / units * apart),
                       (short)word16_at(p + 5 / units * apart), (short)word16_at(p + 7 / units * apart));
    return _mm256_cvtph_ps(h);
}

// Half of two blocks of 66 bytes: 64 of bit pairs (bit pair j of byte l of 32: element 32j + l), d.
INLINE void unpack_tq2_0(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * 66;
    const __m256i mask = _mm256_set1_epi8(3), low = _mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2);
    const __m256i high = _mm256_setr_epi32(4, 4, 4, 4, 6, 6, 6, 6);
    for (size_t i = 0; i < 4; i++) {
        const __m256i both = load_both(src + 16 * i, src + 16 * i);
        __m256i *u = &w->u[i / 2 * 4 + i % 2];
        u[0] = _mm256_and_si256(_mm256_srlv_epi32(both, low), mask);
        u[2] = _mm256_and_si256(_mm256_srlv_epi32(both, high), mask);
    }
    w->scale = _mm256_set1_ps(half_at(src + 64));
}

// Bytes times odd numbers that are the same for two neighbours, modulo 256.
INLINE __m256i times_pairs(__m256i bytes, __m256i by)
{
    const __m256i even = _mm256_and_si256(_mm256_mullo_epi16(bytes, by), _mm256_set1_epi16(255));
    const __m256i odd = _mm256_mullo_epi16(_mm256_srli_epi16(bytes, 8), by);
    return _mm256_or_si256(even, _mm256_slli_epi16(odd, 8));
}

// The first digits in base 3 of fractions of 256.
INLINE __m256i first_digits(__m256i bytes)
{
    const __m256i one = _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, _mm256_set1_epi8(86)), bytes);
    const __m256i two = _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, _mm256_set1_epi8((char)171)), bytes);
    return _mm256_sub_epi8(_mm256_setzero_si256(), _mm256_add_epi8(one, two));
}

// Half of two blocks of 54 bytes: 32, then 16 bytes of five digits, 4 of four, d. Digit n of a part's byte m is its
// element n * bytes + m; with each digit that is taken, what is left gets times 3.
INLINE void unpack_tq1_0(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * 54;
    const __m256i last = _mm256_set1_epi32((int)word32_at(src + 48));
    const __m256i third = load_both(src + 32, src + 32);
    for (size_t h = 0; h < 2; h++) {
        // Units 0 and 1 in the halves of a register, then times 9 units 2 and 3. Unit 4 has the fifth digits.
        const __m256i first = load_both(src + 16 * h, src + 16 * h);
        const __m256i powers = _mm256_set_m128i(_mm_set1_epi16(3), _mm_set1_epi16(1));
        w->u[h] = first_digits(times_pairs(first, powers));
        w->u[2 + h] = first_digits(times_pairs(first, _mm256_mullo_epi16(powers, _mm256_set1_epi16(9))));
        w->u[4 + h] =
            first_digits(times_pairs(_mm256_blend_epi32(first, third, 0xf0),
                                     _mm256_set_m128i(_mm_set1_epi16(h ? 3 : 1), _mm_set1_epi16(81))));
    }
    // Unit 6 has digits 2 and 3 of the second part, unit 7 its last ones and the third part's.
    w->u[6] = first_digits(times_pairs(third, _mm256_set_m128i(_mm_set1_epi16(81), _mm_set1_epi16(9))));
    w->u[7] = first_digits(
        times_pairs(_mm256_blend_epi32(third, last, 0xf0),
                    _mm256_setr_epi16(27, 27, 27, 27, 27, 27, 27, 27, 1, 1, 3, 3, 9, 9, 27, 27)));
    w->scale = _mm256_set1_ps(half_at(src + 52));
}

// Half of four blocks of 18 bytes: d, 128 bits.
INLINE void unpack_q1_0(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * 36;
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201), two = _mm256_set1_epi8(2);
    const __m256i first = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0404040404040404, 0x0505050505050505);
    for (size_t i = 0; i < 4; i++) {
        const __m256i all = _mm256_set1_epi64x((int64_t)word64_at(src + i / 2 * 18 + 2 + i % 2 * 8));
        for (size_t h = 0; h < 2; h++) {
            const __m256i from = _mm256_add_epi8(first, _mm256_set1_epi8((char)(2 * h)));
            const __m256i set = _mm256_and_si256(_mm256_shuffle_epi8(all, from), bit);
            w->u[2 * i + h] = _mm256_and_si256(_mm256_cmpeq_epi8(set, bit), two);
        }
    }
    w->scale = scales_of_blocks(src, 18, 4);
}

// Half of eight blocks of 18 bytes: d, 64 bit pairs.
INLINE void unpack_q2_0(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * 72;
    for (size_t i = 0; i < 4; i++) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(src + 18 * i + 2));
        __m128i eight = _mm_shuffle_epi32(bytes, 0xd8); // of a unit's first half and of the next one's
        for (size_t h = 0; h < 2; h++, eight = _mm_unpackhi_epi64(eight, eight)) {
            // A byte times 1 + 2^6 + 2^12 + 2^18 has its pairs at the bottom of four bytes.
            __m256i four = _mm256_cvtepu8_epi32(eight);
            four = _mm256_or_si256(four, _mm256_slli_epi32(four, 6));
            four = _mm256_or_si256(four, _mm256_slli_epi32(four, 12));
            w->u[2 * i + h] = _mm256_and_si256(four, _mm256_set1_epi8(3));
        }
    }
    w->scale = scales_of_blocks(src, 18, 2);
}

// Half of four blocks of 36 bytes: four scales, 32 bytes of FP4.
INLINE void unpack_nvfp4(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * 72;
    const __m256i values = _mm256_broadcastsi128_si256( // twice those of FP4, plus 12
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    for (size_t i = 0; i < 2; i++) {
        __m256i low, high;
        split_nibbles(&low, &high, load32(src + 36 * i + 4));
        w->u[2 * i] = _mm256_shuffle_epi8(values, _mm256_unpacklo_epi64(low, high));
        w->u[2 * i + 1] = _mm256_shuffle_epi8(values, _mm256_unpackhi_epi64(low, high));
    }
    // FP8 as the upper bits of halves, whose exponents count from 8 less; 0x7f is nothing, the sign does not count.
    const __m128i bytes = _mm_unpacklo_epi16(_mm_cvtsi32_si128((int)word32_at(src)),
                                             _mm_cvtsi32_si128((int)word32_at(src + 36)));
    const __m128i some = _mm_andnot_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f)), bytes);
    const __m128i words = _mm_cvtepu8_epi16(_mm_and_si128(some, _mm_set1_epi8(0x7f)));
    w->scale = _mm256_mul_ps(_mm256_cvtph_ps(_mm_slli_epi16(words, 7)), _mm256_set1_ps(128.0f));
}

// ---- points of grids (quant/grids.h), loaded straight into registers

INLINE __m256i points_of_8(const uint64_t *grid, size_t a, size_t b, size_t c, size_t d)
{
    return _mm256_setr_epi64x((int64_t)grid[a], (int64_t)grid[b], (int64_t)grid[c], (int64_t)grid[d]);
}

INLINE __m128i points_of_4(const uint32_t *grid, size_t a, size_t b, size_t c, size_t d)
{
    return _mm_setr_epi32((int)grid[a], (int)grid[b], (int)grid[c], (int)grid[d]);
}

// Bytes of seven signs, whatever their eighth bits: these become what makes the number of minuses even.
INLINE __m256i even_signs(__m256i seven)
{
    const __m256i odd = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
    const __m256i low = _mm256_and_si256(seven, _mm256_set1_epi8(15));
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(seven, 4), _mm256_set1_epi8(7));
    const __m256i eighth = _mm256_xor_si256(_mm256_shuffle_epi8(odd, low), _mm256_shuffle_epi8(odd, high));
    return _mm256_or_si256(_mm256_and_si256(seven, _mm256_set1_epi8(127)), eighth);
}

// Four times seven signs, in each lane, as bytes.
INLINE __m256i sevens(__m256i lanes)
{
    const __m256i a = _mm256_and_si256(lanes, _mm256_set1_epi32(0x7f));
    const __m256i b = _mm256_and_si256(_mm256_slli_epi32(lanes, 1), _mm256_set1_epi32(0x7f00));
    const __m256i c = _mm256_and_si256(_mm256_slli_epi32(lanes, 2), _mm256_set1_epi32(0x7f0000));
    const __m256i d = _mm256_and_si256(_mm256_slli_epi32(lanes, 3), _mm256_set1_epi32(0x7f000000));
    return _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
}

// Numbers negated by their signs, a bit each, plus the offset. Signs of the lower half's numbers are bytes low and
// low + 1 of `signs`, those of the upper half's are bytes high and high + 1 of its upper half.
INLINE __m256i with_signs(__m256i q, __m256i signs, int low, int high, int offset)
{
    const __m256i bits = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i eights = _mm256_setr_epi64x(0, 0x0101010101010101, 0, 0x0101010101010101);
    const __m256i from =
        _mm256_add_epi8(eights, _mm256_setr_m128i(_mm_set1_epi8((char)low), _mm_set1_epi8((char)high)));
    const __m256i minus = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(signs, from), bits), bits);
    const __m256i more = _mm256_sub_epi8(_mm256_set1_epi8((char)offset), minus);
    return _mm256_add_epi8(_mm256_xor_si256(q, minus), more);
}

// A value of each of eight units, in the order of BLOCKS_OF_32 and NATURAL16.
INLINE __m256i units_in_order(__m256i natural)
{
    return _mm256_permutevar8x32_epi32(natural, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

// Eight neighbouring nibbles, in that order.
INLINE __m256i nibbles_in_order(const uint8_t *p)
{
    const __m256i all = _mm256_set1_epi32((int)word32_at(p));
    return _mm256_and_si256(_mm256_srlv_epi32(all, _mm256_setr_epi32(0, 8, 16, 24, 4, 12, 20, 28)),
                            _mm256_set1_epi32(15));
}

// d * (1/2 + s) * factor
INLINE __m256 scale_and_half(const uint8_t *d, __m256i s, float factor)
{
    const __m256 half = _mm256_add_ps(_mm256_set1_ps(0.5f), _mm256_cvtepi32_ps(s));
    return _mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(half_at(d)), half), _mm256_set1_ps(factor));
}

// d * (2 s + 1)
INLINE __m256 scale_odd(float d, __m256i s)
{
    const __m256i odd = _mm256_or_si256(_mm256_add_epi32(s, s), _mm256_set1_epi32(1));
    return _mm256_mul_ps(_mm256_set1_ps(d), _mm256_cvtepi32_ps(odd));
}

INLINE void unpack_iq2_xxs(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * 66;
    const __m256 odds =
        _mm256_shuffle_ps(_mm256_castsi256_ps(load32(src + 2)), _mm256_castsi256_ps(load32(src + 34)), 0xdd);
    const __m256i rest =
        _mm256_permutevar8x32_epi32(_mm256_castps_si256(odds), _mm256_setr_epi32(0, 4, 2, 6, 1, 5, 3, 7));
    const __m256i signs = even_signs(sevens(rest));
    UNROLL
    for (int i = 0; i < 8; i++) {
        const uint8_t *p = src + 2 + i / 2 * 16 + i % 2 * 2;
        w->u[i] =
            with_signs(points_of_8(hearth_grids.iq2_xxs, p[0], p[1], p[8], p[9]), signs, 2 * i, 2 * i, 43);
    }
    w->scale = scale_and_half(src, _mm256_srli_epi32(rest, 28), 0.25f);
}

INLINE void unpack_iq3_xxs(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * 98;
    const __m256i rest = units_in_order(load32(src + 66)), signs = even_signs(sevens(rest));
    const uint32_t *grid = hearth_grids.iq3_xxs;
    UNROLL
    for (int i = 0; i < 8; i++) {
        const uint8_t *p = src + 2 + i / 2 * 16 + i % 2 * 4;
        w->u[i] = with_signs(_mm256_setr_m128i(points_of_4(grid, p[0], p[1], p[2], p[3]),
                                               points_of_4(grid, p[8], p[9], p[10], p[11])),
                             signs, 2 * i, 2 * i, 62);
    }
    w->scale = scale_and_half(src, _mm256_srli_epi32(rest, 28), 0.5f);
}

// Four points of IQ3_S, whose ninth bits are the lowest four of `high`.
INLINE __m128i points_of_iq3_s(const uint8_t *p, unsigned high)
{
    return points_of_4(hearth_grids.iq3_s, p[0] | (high & 1) << 8, p[1] | (high & 2) << 7,
                       p[2] | (high & 4) << 6, p[3] | (high & 8) << 5);
}

INLINE void unpack_iq3_s(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * 110;
    const __m256i signs = units_in_order(load32(src + 74));
    UNROLL
    for (int i = 0; i < 8; i++) {
        const uint8_t *p = src + 2 + i / 2 * 16 + i % 2 * 4;
        const unsigned high = (unsigned)word16_at(src + 66 + i / 2 * 2) >> i % 2 * 4;
        w->u[i] = with_signs(_mm256_setr_m128i(points_of_iq3_s(p, high), points_of_iq3_s(p + 8, high >> 8)),
                             signs, 2 * i, 2 * i, 15);
    }
    w->scale = scale_odd(half_at(src), nibbles_in_order(src + 106));
}

INLINE void unpack_iq2_xs(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + 2 + 32 * half;
    const __m256i seven = _mm256_srli_epi16(load32(src), 9);
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(seven), _mm256_extracti128_si256(seven, 1));
    const __m256i signs = even_signs(_mm256_broadcastsi128_si256(bytes));
    UNROLL
    for (int i = 0; i < 4; i++) {
        const uint64_t four = word64_at(src + 8 * i);
        w->u[i] = with_signs(points_of_8(hearth_grids.iq2_xs, four & 511, four >> 16 & 511, four >> 32 & 511,
                                         four >> 48 & 511),
                             signs, 4 * i, 4 * i + 2, 43);
    }
    w->scale = scale_and_half(group, nibbles_in_order(group + 66 + 4 * half), 0.25f);
}

INLINE void unpack_iq2_s(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *low = group + 2 + 16 * half;
    const __m256i signs = load_both(group + 34 + 16 * half, group + 34 + 16 * half);
    UNROLL
    for (int i = 0; i < 4; i++, low += 4) {
        const unsigned high = group[66 + 4 * half + (size_t)i];
        w->u[i] =
            with_signs(points_of_8(hearth_grids.iq2_s, low[0] | (high & 3) << 8, low[1] | (high & 12) << 6,
                                   low[2] | (high & 48) << 4, low[3] | (high & 192) << 2),
                       signs, 4 * i, 4 * i + 2, 43);
    }
    w->scale = scale_and_half(group, nibbles_in_order(group + 74 + 4 * half), 0.25f);
}

// Four points of IQ1, all times 8, plus 1: three upper bits of each are the lowest of every `step` of `high`.
INLINE __m256i points_of_iq1(const uint8_t *low, unsigned high, int step)
{
    return points_of_8(hearth_grids.iq1, low[0] | (high & 7) << 8, low[1] | (high >> step & 7) << 8,
                       low[2] | (high >> 2 * step & 7) << 8, low[3] | (high >> 3 * step & 7) << 8);
}

INLINE void unpack_iq1_s(struct weights *w, const uint8_t *group, size_t half)
{
    const uint8_t *src = group + half * 50;
    const __m256i high =
        units_in_order(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(src + 34))));
    const __m256i down = _mm256_srai_epi32(_mm256_slli_epi32(high, 16), 31);
    const __m256i up = _mm256_andnot_si256(down, _mm256_set1_epi8(2));
    const __m256i ups[4] = {_mm256_shuffle_epi32(up, 0x00), _mm256_shuffle_epi32(up, 0x55),
                            _mm256_shuffle_epi32(up, 0xaa), _mm256_shuffle_epi32(up, 0xff)};
    UNROLL
    for (int i = 0; i < 4; i++) {
        const __m256i a = points_of_iq1(src + 2 + 8 * i, word16_at(src + 34 + 4 * i), 3);
        const __m256i b = points_of_iq1(src + 6 + 8 * i, word16_at(src + 36 + 4 * i), 3);
        w->u[2 * i] = _mm256_add_epi8(_mm256_permute2x128_si256(a, b, 0x20), ups[i]);
        w->u[2 * i + 1] = _mm256_add_epi8(_mm256_permute2x128_si256(a, b, 0x31), ups[i]);
    }
    const __m256i s = _mm256_and_si256(_mm256_srli_epi32(high, 12), _mm256_set1_epi32(7));
    w->scale = _mm256_mul_ps(scale_odd(half_at(src), s), _mm256_set1_ps(0.125f));
}

INLINE void unpack_iq1_m(struct weights *w, const uint8_t *group, size_t half)
{
    const __m256i bits = _mm256_setr_epi64x(8, 0x80, 0x800, 0x8000);
    UNROLL
    for (int i = 0; i < 4; i++) {
        const unsigned high = word16_at(group + 32 + 8 * half + 2 * i);
        const __m256i up =
            _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(high), bits), _mm256_setzero_si256());
        w->u[i] = _mm256_add_epi8(points_of_iq1(group + 16 * half + 4 * i, high, 4),
                                  _mm256_and_si256(up, _mm256_set1_epi8(2)));
    }
    const uint64_t last = word64_at(group + 48);
    const uint32_t d =
        (last >> 12 & 0xf) | (last >> 24 & 0xf0) | (last >> 36 & 0xf00) | (last >> 48 & 0xf000);
    const __m256i all = _mm256_set1_epi32((int)(last >> 32 * half));
    const __m256i s = _mm256_and_si256(_mm256_srlv_epi32(all, _mm256_setr_epi32(0, 6, 16, 22, 3, 9, 19, 25)),
                                       _mm256_set1_epi32(7));
    w->scale = _mm256_mul_ps(scale_odd(_cvtsh_ss((unsigned short)d), s), _mm256_set1_ps(0.125f));
}

// Type, unpack function, shape.
#define HEARTH_UNITS_AVX2(X)                                                                                 \
    X(Q4_0, unpack_q4_0, shape_q4_0)                                                                         \
    X(Q4_1, unpack_q4_1, shape_q4_1)                                                                         \
    X(Q5_0, unpack_q5_0, shape_q5_0)                                                                         \
    X(Q5_1, unpack_q5_1, shape_q5_1)                                                                         \
    X(Q8_0, unpack_q8_0, shape_wide)                                                                         \
    X(Q2_K, unpack_q2_k, shape_q2_k)                                                                         \
    X(Q3_K, unpack_q3_k, shape_q3_k)                                                                         \
    X(Q4_K, unpack_q4_k, shape_q4_k)                                                                         \
    X(Q5_K, unpack_q5_k, shape_q5_k)                                                                         \
    X(Q6_K, unpack_q6_k, shape_q6_k)                                                                         \
    X(IQ4_NL, unpack_iq4_nl, shape_wide)                                                                     \
    X(IQ4_XS, unpack_iq4_xs, shape_wide)                                                                     \
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
