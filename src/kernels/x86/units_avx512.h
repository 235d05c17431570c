// SPDX-License-Identifier: MIT
// Unpacking block formats with AVX-512: 16 units of a row become registers of unsigned bytes and of scales.
#ifndef HEARTH_KERNELS_X86_UNITS_AVX512_H
#define HEARTH_KERNELS_X86_UNITS_AVX512_H

#include <string.h>

#include "kernels/x86/units_grids_avx512.h"

SHAPE shape_q8_0 = NATURAL32(128);
SHAPE shape_q6_k = NATURAL16(32, false);
SHAPE shape_q3_k = NATURAL16(4, false);
SHAPE shape_q2_k = NATURAL16(0, true);
SHAPE shape_nvfp4 = NATURAL16(12, false);
SHAPE shape_two_bits = NATURAL32(1);

// Four blocks' low nibbles (their first halves) in register 2i, the high ones in 2i+1; both add to the same
// units.
#define NIBBLES(offset, has_min)                                                                             \
    {                                                                                                        \
        8, 32, offset, true, has_min,                                                                        \
            {{0, 2, 4, 6},     {1, 3, 5, 7},     {8, 10, 12, 14},  {9, 11, 13, 15},                          \
             {16, 18, 20, 22}, {17, 19, 21, 23}, {24, 26, 28, 30}, {25, 27, 29, 31}},                        \
            {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15},                                          \
            {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15},                                          \
    }
SHAPE shape_q4_0 = NIBBLES(8, false);
SHAPE shape_q4_1 = NIBBLES(0, true);
SHAPE shape_q5_0 = NIBBLES(16, false);
SHAPE shape_q5_1 = NIBBLES(0, true);
SHAPE shape_iq4 = NIBBLES(128, false);
SHAPE shape_mxfp4 = NIBBLES(12, false);

// Per super-block: low nibbles of the first halves of units 0, 2, 4 and 6, of their second halves, then high
// nibbles, which are units 1, 3, 5 and 7.
SHAPE shape_q45_k = {
    8,
    32,
    0,
    true,
    true,
    {{0, 4, 8, 12},
     {1, 5, 9, 13},
     {2, 6, 10, 14},
     {3, 7, 11, 15},
     {16, 20, 24, 28},
     {17, 21, 25, 29},
     {18, 22, 26, 30},
     {19, 23, 27, 31}},
    {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15},
    {0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15},
};

// ---- helpers

// Bytes that several operations take: left alone, compilers load them anew for each, and half of what is not aligned
// lies in two lines of the cache.
INLINE __m512i load_kept(const uint8_t *at)
{
    __m512i x = _mm512_loadu_si512(at);
    __asm__("" : "+v"(x));
    return x;
}

INLINE __m512i bytes16(uint64_t low, uint64_t high)
{
    return _mm512_cvtepu8_epi32(_mm_set_epi64x((int64_t)high, (int64_t)low));
}

// The low and the high half of each byte.
INLINE void split_nibbles(__m512i u[2], __m512i bytes)
{
    const __m512i mask = _mm512_set1_epi8(15);
    u[0] = _mm512_and_si512(bytes, mask);
    u[1] = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask);
}

// ---- blocks of 32: four at a time are picked from two overlapping loads, whose second starts `shift` words
// later

#define PICK(w, shift) ((w) < 32 ? (w) : 32 + (w) - (shift))
#define PICK8(w, shift)                                                                                      \
    PICK(w, shift), PICK((w) + 1, shift), PICK((w) + 2, shift), PICK((w) + 3, shift), PICK((w) + 4, shift),  \
        PICK((w) + 5, shift), PICK((w) + 6, shift), PICK((w) + 7, shift)
// Eight words from word `first` of each block of `words`.
#define PICK_NIBBLES(words, first, shift)                                                                    \
    {                                                                                                        \
        PICK8(first, shift), PICK8((words) + (first), shift), PICK8(2 * (words) + (first), shift),           \
            PICK8(3 * (words) + (first), shift)                                                              \
    }

INLINE __m512i pick(__m512i low, __m512i high, const uint16_t index[32])
{
    return _mm512_permutex2var_epi16(low, _mm512_loadu_si512(index), high);
}

// Where the parts of a block begin at multiples of four bytes, doublewords are picked: Intel's CPUs take three
// operations to pick words from two registers, and one for these. SECOND(n) is number n of the second register.
#define SECOND(n)     (16 + (n))
#define FOUR(n)       (n), (n) + 1, (n) + 2, (n) + 3
#define FOUR_TIMES(n) (n), (n), (n), (n)

INLINE __m512i pick_doubles(__m512i low, __m512i high, const uint32_t index[16])
{
    return _mm512_permutex2var_epi32(low, _mm512_loadu_si512(index), high);
}

// Scales and minima, pairs of halves: `first` has blocks 0 of registers 0 and 1, their blocks 1, 2 and 3, and `last`
// those of registers 2 and 3. Minima are negated: these formats store what is added.
INLINE void spread_pairs(struct weights *w, __m256i first, __m256i last)
{
    const __m512 a = _mm512_cvtph_ps(first), b = _mm512_cvtph_ps(last);
    w->scale = _mm512_shuffle_ps(a, b, 0x88);
    w->min = _mm512_xor_ps(_mm512_shuffle_ps(a, b, 0xdd), _mm512_set1_ps(-0.0f));
}

// 18 bytes: the scale, 16 bytes of nibbles. Sixteen blocks are four and a half registers, of which register i
// and the next one hold blocks 4i to 4i+3.
INLINE void unpack_18(struct weights *w, const uint8_t *src, const __m512i *values)
{
    static const uint16_t nibbles[4][32] = {PICK_NIBBLES(9, 1, 32), PICK_NIBBLES(9, 5, 32),
                                            PICK_NIBBLES(9, 9, 32), PICK_NIBBLES(9, 13, 32)};
    // Lane 4L+i: block L of register i. The last one is in the fifth register.
    const __m512i scales01 =
        _mm512_castsi256_si512(_mm256_set_epi16(0, 0, 63, 27, 0, 0, 54, 18, 0, 0, 45, 9, 0, 0, 36, 0));
    const __m512i scales23 =
        _mm512_castsi256_si512(_mm256_set_epi16(0, 35, 0, 0, 62, 26, 0, 0, 53, 17, 0, 0, 44, 8, 0, 0));
    __m512i z[5];
    for (int i = 0; i < 4; i++)
        z[i] = load_kept(src + 64 * i);
    z[4] = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)(src + 256)));
    for (int i = 0; i < 4; i++) {
        split_nibbles(w->u + 2 * i, pick(z[i], z[i + 1], nibbles[i]));
        for (int h = 2 * i; values && h < 2 * i + 2; h++)
            w->u[h] = _mm512_shuffle_epi8(*values, w->u[h]);
    }
    const __m512i low = _mm512_permutex2var_epi16(z[0], scales01, z[1]);
    const __m512i high = _mm512_permutex2var_epi16(z[2], scales23, z[3]);
    const __m256i most =
        _mm256_mask_blend_epi16(0xcccc, _mm512_castsi512_si256(low), _mm512_castsi512_si256(high));
    w->scale = _mm512_cvtph_ps(
        _mm256_mask_permutexvar_epi16(most, 0x8000, _mm256_set1_epi16(7), _mm512_castsi512_si256(z[4])));
}

INLINE void unpack_q4_0(struct weights *w, const uint8_t *src)
{
    unpack_18(w, src, NULL);
}

// hearth_iq4_values plus 128.
INLINE __m512i iq4_values(void)
{
    return _mm512_broadcast_i32x4(
        _mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, -127, -115, -103, -90, -75, -59, -39, -15));
}

INLINE void unpack_iq4_nl(struct weights *w, const uint8_t *src)
{
    const __m512i values = iq4_values();
    unpack_18(w, src, &values);
}

// 20 bytes: scale, minimum, 16 bytes of nibbles.
INLINE void unpack_q4_1(struct weights *w, const uint8_t *src)
{
    static const uint32_t nibbles[16] = {FOUR(1), FOUR(6), FOUR(11), FOUR(SECOND(12))};
    static const uint32_t heads[8] = {0, SECOND(0), 5, SECOND(5), 10, SECOND(10), 15, SECOND(15)};
    __m512i low[4];
    for (int i = 0; i < 4; i++) {
        low[i] = load_kept(src + 80 * i);
        split_nibbles(w->u + 2 * i, pick_doubles(low[i], _mm512_loadu_si512(src + 80 * i + 16), nibbles));
    }
    const __m512i at = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)heads));
    spread_pairs(w, _mm512_castsi512_si256(_mm512_permutex2var_epi32(low[0], at, low[1])),
                 _mm512_castsi512_si256(_mm512_permutex2var_epi32(low[2], at, low[3])));
}

// Adds 16 where the fifth bits say so: 16 bits for the low nibbles of a block, 16 for the high ones, which stand in
// each doubleword of its 16 bytes. A byte gets the eight bits from the fourth one before its own on.
INLINE void add_fifth_bits(__m512i u[2], __m512i bits)
{
    const __m512i fifth = _mm512_set1_epi8(16);
    const __m512i low =
        _mm512_broadcast_i32x4(_mm_setr_epi8(60, 61, 62, 63, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
    const __m512i high =
        _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27));
    // a | (b & c)
    u[0] = _mm512_ternarylogic_epi32(u[0], _mm512_multishift_epi64_epi8(low, bits), fifth, 0xf8);
    u[1] = _mm512_ternarylogic_epi32(u[1], _mm512_multishift_epi64_epi8(high, bits), fifth, 0xf8);
}

// 22 bytes: scale, 32 fifth bits, 16 bytes of nibbles.
INLINE void unpack_q5_0(struct weights *w, const uint8_t *src)
{
    static const uint32_t nibbles[16] = {FOUR(1), FOUR(SECOND(1)), FOUR(12), FOUR(SECOND(12))};
    static const uint32_t bits[16] = {FOUR_TIMES(0), FOUR_TIMES(SECOND(0)), FOUR_TIMES(11),
                                      FOUR_TIMES(SECOND(11))};
    // Lane 4L+i: the doubleword with the scale of block L of register i, which is its upper half in blocks 2 and 3.
    static const uint32_t scales[16] = {FOUR_TIMES(0), FOUR_TIMES(5), FOUR_TIMES(10), FOUR_TIMES(SECOND(10))};
    const __m512i halves_of =
        _mm512_castsi256_si512(_mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29, 34,
                                                35, 38, 39, 42, 43, 46, 47, 50, 51, 54, 55, 58, 59, 62, 63));
    __m512i head = _mm512_setzero_si512();
    for (int i = 0; i < 4; i++) {
        // From the bits of the first and of the second block on, to the end of the third and of the fourth.
        const __m512i even = load_kept(src + 88 * i + 2), odd = load_kept(src + 88 * i + 24);
        split_nibbles(w->u + 2 * i, pick_doubles(even, odd, nibbles));
        add_fifth_bits(w->u + 2 * i, pick_doubles(even, odd, bits));
        head = _mm512_mask_mov_epi32(head, (__mmask16)(0x1110 << i), pick_doubles(even, odd, scales));
        head = _mm512_mask_broadcastd_epi32(head, (__mmask16)(1 << i), _mm_loadu_si32(src + 88 * i));
    }
    w->scale = _mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutexvar_epi8(halves_of, head)));
}

// 24 bytes: scale, minimum, 32 fifth bits, 16 bytes of nibbles.
INLINE void unpack_q5_1(struct weights *w, const uint8_t *src)
{
    static const uint32_t nibbles[16] = {FOUR(2), FOUR(8), FOUR(SECOND(6)), FOUR(SECOND(12))};
    static const uint32_t bits[16] = {FOUR_TIMES(1), FOUR_TIMES(7), FOUR_TIMES(13), FOUR_TIMES(SECOND(11))};
    const __m512i heads = _mm512_castsi128_si512(_mm_setr_epi32(0, 6, 12, SECOND(10)));
    __m128i head[4];
    for (int i = 0; i < 4; i++) {
        const __m512i low = load_kept(src + 96 * i), high = load_kept(src + 96 * i + 32);
        split_nibbles(w->u + 2 * i, pick_doubles(low, high, nibbles));
        add_fifth_bits(w->u + 2 * i, pick_doubles(low, high, bits));
        head[i] = _mm512_castsi512_si128(_mm512_permutex2var_epi32(low, heads, high));
    }
    spread_pairs(
        w, _mm256_set_m128i(_mm_unpackhi_epi32(head[0], head[1]), _mm_unpacklo_epi32(head[0], head[1])),
        _mm256_set_m128i(_mm_unpackhi_epi32(head[2], head[3]), _mm_unpacklo_epi32(head[2], head[3])));
}

// 17 bytes: an exponent, 16 bytes of FP4.
INLINE void unpack_mxfp4(struct weights *w, const uint8_t *src)
{
#define BYTE(b)    ((b) < 64 ? (b) : 64 + (b)-4)
#define BYTES4(b)  BYTE(b), BYTE((b) + 1), BYTE((b) + 2), BYTE((b) + 3)
#define BYTES16(b) BYTES4(b), BYTES4((b) + 4), BYTES4((b) + 8), BYTES4((b) + 12)
    static const uint8_t nibbles[64] = {BYTES16(1), BYTES16(18), BYTES16(35), BYTES16(52)};
    // Twice the values of FP4, plus 12.
    const __m512i values =
        _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m512i heads = _mm512_castsi128_si512(_mm_cvtsi32_si128(51 << 24 | 34 << 16 | 17 << 8));
    __m128i head[4];
    for (int i = 0; i < 4; i++) {
        const __m512i low = load_kept(src + 68 * i), high = _mm512_loadu_si512(src + 68 * i + 4);
        split_nibbles(w->u + 2 * i, _mm512_permutex2var_epi8(low, _mm512_loadu_si512(nibbles), high));
        for (int h = 2 * i; h < 2 * i + 2; h++)
            w->u[h] = _mm512_shuffle_epi8(values, w->u[h]);
        head[i] = _mm512_castsi512_si128(_mm512_permutexvar_epi8(heads, low));
    }
    const __m128i e =
        _mm_unpacklo_epi16(_mm_unpacklo_epi8(head[0], head[1]), _mm_unpacklo_epi8(head[2], head[3]));
    const __m512i power = _mm512_cvtepu8_epi32(e), one = _mm512_set1_epi32(1);
    // 2^(e - 128), which is not a normal number for e below 2.
    const __m512i bits = _mm512_slli_epi32(_mm512_sub_epi32(power, one), 23);
    w->scale = _mm512_castsi512_ps(_mm512_mask_sllv_epi32(bits, _mm512_cmple_epi32_mask(power, one),
                                                          _mm512_set1_epi32(0x00200000), power));
#undef BYTES16
#undef BYTES4
#undef BYTE
}

// Two blocks of 34 bytes are 34 words; the scales are words 0 and 17.
INLINE void unpack_q8_0(struct weights *w, const uint8_t *src)
{
    const __m512i sign = _mm512_set1_epi8(INT8_MIN);
    const __m512i scales =
        _mm512_castsi256_si512(_mm256_set_epi16(49, 17, 49, 17, 32, 0, 32, 0, 49, 17, 49, 17, 32, 0, 32, 0));
    __m256i h[4];
    for (int i = 0; i < 4; i++) {
        __m512i z[2];
        for (int b = 0; b < 2; b++) {
            const uint8_t *at = src + 68 * (2 * i + b);
            z[b] = _mm512_loadu_si512(at);
            const __m512i low =
                _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)(at + 2)));
            const __m512i both =
                _mm512_inserti64x4(low, _mm256_loadu_si256((const __m256i *)(const void *)(at + 36)), 1);
            w->u[2 * i + b] = _mm512_xor_si512(both, sign);
        }
        h[i] = _mm512_castsi512_si256(_mm512_permutex2var_epi16(z[0], scales, z[1]));
    }
    // h[i] has units 4i to 4i+3 in every half; lanes 0, 1, 4, 5 take them from h[0], 2, 3, 6, 7 from h[1],
    // and so on.
    const __m256i low = _mm256_mask_blend_epi16(0x00cc, h[0], h[1]);
    const __m256i high = _mm256_mask_blend_epi16(0xcc00, h[2], h[3]);
    w->scale = _mm512_cvtph_ps(_mm256_mask_blend_epi16(0xff00, low, high));
}

// ---- super-blocks of 256

// Scales and minima of two super-blocks, from d, dmin and eight 6-bit scales and minima packed into 12 bytes:
// six bits each of scales 0 to 3 and of minima 0 to 3, then the low nibbles of scales 4 to 7 and, in the same
// bytes, of minima 4 to 7, whose upper two bits are those that the first eight bytes have left.
INLINE void scales_k(struct weights *w, const uint8_t *first, const uint8_t *second)
{
    const __m256i heads = _mm256_set_m128i(_mm_loadu_si128((const __m128i *)(const void *)second),
                                           _mm_loadu_si128((const __m128i *)(const void *)first));
    // Scales' bytes 0 to 3 and 8 to 11, minima's bytes 4 to 7 and 8 to 11.
    const __m256i packed = _mm256_shuffle_epi32(heads, 0xed);
    const __m256i low = _mm256_multishift_epi64_epi8(
        _mm256_set_epi64x(0x3c342c2418100800, 0x3830282018100800, 0x3c342c2418100800, 0x3830282018100800),
        packed);
    const __m256i high = _mm256_multishift_epi64_epi8(_mm256_set1_epi64x(0x1a120a0200000000), packed);
    const __m256i bytes = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi64x(0x0f0f0f0f3f3f3f3f)),
                                          _mm256_and_si256(high, _mm256_set1_epi64x(0x3030303000000000)));
    // Lanes 4L to 4L+3: units 2L and 2L+1 of the first super-block, then of the second.
    const __m512i units = _mm512_setr_epi32(0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23);
    const __m512i all = _mm512_castsi256_si512(bytes);
    const __m512i scale = _mm512_maskz_permutexvar_epi8(0x1111111111111111, units, all);
    const __m512i min =
        _mm512_maskz_permutexvar_epi8(0x1111111111111111, _mm512_add_epi32(units, _mm512_set1_epi32(8)), all);
    const __m256i d = _mm256_set1_epi64x(0x0008000800000000);
    w->scale = _mm512_mul_ps(_mm512_cvtph_ps(_mm256_permutexvar_epi16(d, heads)), _mm512_cvtepi32_ps(scale));
    w->min = _mm512_mul_ps(
        _mm512_cvtph_ps(_mm256_permutexvar_epi16(_mm256_add_epi16(d, _mm256_set1_epi16(1)), heads)),
        _mm512_cvtepi32_ps(min));
}

// 128 bytes of a super-block's nibbles, 32 for two units: first halves of the units side by side, and second
// ones.
INLINE void split_nibbles_k(__m512i u[4], const uint8_t *src)
{
    const __m512i a = load_kept(src), b = load_kept(src + 64);
    __m512i first[2], second[2];
    split_nibbles(first, _mm512_shuffle_i32x4(a, b, 0x88));
    split_nibbles(second, _mm512_shuffle_i32x4(a, b, 0xdd));
    u[0] = first[0];
    u[1] = second[0];
    u[2] = first[1];
    u[3] = second[1];
}

// Two super-blocks of 144 bytes: d, dmin, 12 bytes of scales, 128 bytes of nibbles.
INLINE void unpack_q4_k(struct weights *w, const uint8_t *src)
{
    for (int b = 0; b < 2; b++)
        split_nibbles_k(w->u + 4 * b, src + 144 * b + 16);
    scales_k(w, src, src + 144);
}

// Two super-blocks of 176 bytes: as Q4_K, with 32 bytes of fifth bits (bit u of byte l: element l of unit u)
// before the nibbles.
INLINE void unpack_q5_k(struct weights *w, const uint8_t *src)
{
    const __m512i fifth = _mm512_set1_epi8(16);
    // Bits 0, 2, 4 and 6 of the four quarters; units with odd numbers have the ones above.
    const __m512i even =
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set_m128i(_mm_set1_epi8(4), _mm_set1_epi8(1))),
                           _mm256_set_m128i(_mm_set1_epi8(64), _mm_set1_epi8(16)), 1);
    const __m512i odd = _mm512_add_epi8(even, even);
    for (int b = 0; b < 2; b++) {
        const uint8_t *at = src + 176 * b;
        __m512i *u = w->u + 4 * b;
        split_nibbles_k(u, at + 48);
        for (int half = 0; half < 2; half++) {
            const __m512i bits =
                _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)(at + 16 + 16 * half)));
            u[half] = _mm512_mask_add_epi8(u[half], _mm512_test_epi8_mask(bits, even), u[half], fifth);
            u[2 + half] =
                _mm512_mask_add_epi8(u[2 + half], _mm512_test_epi8_mask(bits, odd), u[2 + half], fifth);
        }
    }
    scales_k(w, src, src + 176);
}

// A super-block of 210 bytes: 128 of low nibbles, 64 of upper bit pairs, 16 scales, d.
INLINE void unpack_q6_k(struct weights *w, const uint8_t *src)
{
    const __m512i nibble = _mm512_set1_epi8(15), pair = _mm512_set1_epi8(0x30);
    const __m512i shift_low = _mm512_inserti64x4(_mm512_set1_epi32(0), _mm256_set1_epi32(2), 1);
    const __m512i shift_high = _mm512_inserti64x4(_mm512_set1_epi32(4), _mm256_set1_epi32(6), 1);
    for (int i = 0; i < 2; i++) {
        const __m512i low = load_kept(src + 64 * i);
        // Shifted up by four, so that a right shift by 0, 2, 4, 6 leaves the pair in bits 4 and 5 of its
        // byte.
        const __m512i bits =
            _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)(src + 128 + 32 * i)));
        const __m512i high_low = _mm512_slli_epi16(_mm512_srlv_epi32(bits, shift_low), 4);
        const __m512i high_high = _mm512_slli_epi16(_mm512_srlv_epi32(bits, shift_high), 4);
        w->u[2 * i] = _mm512_or_si512(_mm512_and_si512(low, nibble), _mm512_and_si512(high_low, pair));
        w->u[2 * i + 1] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(low, 4), nibble),
                                          _mm512_and_si512(high_high, pair));
    }
    const __m512i s = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(src + 192)));
    w->scale = scaled(_mm512_set1_ps(half_at(src + 208)), s, &shape_q6_k);
}

// Bit pairs: 32 bytes at src carry 128 elements, those of pair j being elements 32j to 32j+31.
INLINE void split_pairs(__m512i u[2], const uint8_t *src)
{
    const __m512i pair = _mm512_set1_epi8(3);
    const __m512i shift_low = _mm512_inserti64x4(_mm512_set1_epi32(0), _mm256_set1_epi32(2), 1);
    const __m512i shift_high = _mm512_inserti64x4(_mm512_set1_epi32(4), _mm256_set1_epi32(6), 1);
    const __m512i bytes = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)src));
    u[0] = _mm512_and_si512(_mm512_srlv_epi32(bytes, shift_low), pair);
    u[1] = _mm512_and_si512(_mm512_srlv_epi32(bytes, shift_high), pair);
}

// A super-block of 84 bytes: 16 of scales and minima, 64 of bit pairs, d, dmin.
INLINE void unpack_q2_k(struct weights *w, const uint8_t *src)
{
    split_pairs(w->u, src + 16);
    split_pairs(w->u + 2, src + 48);
    const __m512i both = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)src));
    const __m512i scale = _mm512_and_si512(both, _mm512_set1_epi32(15)), min = _mm512_srli_epi32(both, 4);
    w->scale = scaled(_mm512_set1_ps(half_at(src + 80)), scale, &shape_q2_k);
    w->min = scaled(_mm512_set1_ps(half_at(src + 82)), min, &shape_q2_k);
}

// A super-block of 110 bytes: 32 of third bits (bit j of byte l: element 32j + l), 64 of bit pairs, 12 of
// 6-bit scales, d. A third bit that is not set takes off 4, which the offset gives back.
INLINE void unpack_q3_k(struct weights *w, const uint8_t *src)
{
    const __m512i bits = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)src));
    const __m512i third = _mm512_set1_epi8(4);
    split_pairs(w->u, src + 32);
    split_pairs(w->u + 2, src + 64);
    for (int r = 0; r < 4; r++) {
        const __m512i which =
            _mm512_inserti64x4(_mm512_set1_epi8((char)(1 << 2 * r)), _mm256_set1_epi8((char)(2 << 2 * r)), 1);
        w->u[r] = _mm512_mask_add_epi8(w->u[r], _mm512_test_epi8_mask(bits, which), w->u[r], third);
    }
    const uint64_t low = word64_at(src + 96), high = word32_at(src + 104), four = 0x0f0f0f0f0f0f0f0f;
    const uint64_t upper0 = (high & 0x03030303) | (high >> 2 & 0x03030303) << 32;
    const uint64_t upper1 = (high >> 4 & 0x03030303) | (high >> 6 & 0x03030303) << 32;
    const __m512i s = bytes16((low & four) | upper0 << 4, (low >> 4 & four) | upper1 << 4);
    w->scale =
        scaled(_mm512_set1_ps(half_at(src + 108)), _mm512_sub_epi32(s, _mm512_set1_epi32(32)), &shape_q3_k);
}

// Two super-blocks of 136 bytes: d, 8 upper bit pairs and 8 low halves of scales, 128 bytes of nibbles.
INLINE void unpack_iq4_xs(struct weights *w, const uint8_t *src)
{
    const __m512i values = iq4_values();
    uint64_t scale[2];
    for (int b = 0; b < 2; b++) {
        const uint8_t *at = src + 136 * b;
        for (int i = 0; i < 2; i++) {
            __m512i *u = w->u + 4 * b + 2 * i;
            split_nibbles(u, load_kept(at + 8 + 64 * i));
            u[0] = _mm512_shuffle_epi8(values, u[0]);
            u[1] = _mm512_shuffle_epi8(values, u[1]);
        }
        scale[b] = _pdep_u64(word32_at(at + 4), 0x0f0f0f0f0f0f0f0f) |
                   _pdep_u64(word32_at(at) >> 16, 0x3030303030303030);
    }
    const __m512i s = _mm512_sub_epi32(bytes16(scale[0], scale[1]), _mm512_set1_epi32(32));
    w->scale = scaled(halves(half_at(src), half_at(src + 136)), s, &shape_iq4);
}

// ---- few bits with one scale for a block

// Two blocks of 66 bytes: 64 of bit pairs, d.
INLINE void unpack_tq2_0(struct weights *w, const uint8_t *src)
{
    for (int i = 0; i < 4; i++)
        split_pairs(w->u + 2 * i, src + i / 2 * 66 + i % 2 * 32);
    w->scale = halves(half_at(src + 64), half_at(src + 66 + 64));
}

// Bytes times odd numbers that are the same for two neighbours, modulo 256; of what that makes, as fractions of 256,
// the first digits in base 3.
INLINE __m512i digits_behind(__m512i bytes, __m512i by)
{
    const __m512i odd = _mm512_mullo_epi16(_mm512_srli_epi16(bytes, 8), by);
    const __m512i rest =
        _mm512_mask_mov_epi8(_mm512_slli_epi16(odd, 8), 0x5555555555555555, _mm512_mullo_epi16(bytes, by));
    const __m512i one = _mm512_set1_epi8(1);
    const __m512i some = _mm512_maskz_mov_epi8(_mm512_cmpge_epu8_mask(rest, _mm512_set1_epi8(86)), one);
    return _mm512_mask_add_epi8(some, _mm512_cmpge_epu8_mask(rest, _mm512_set1_epi8((char)171)), some, one);
}

// The same number in each of 8 words: of four parts of a register.
INLINE __m512i of_parts(short a, short b, short c, short d)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set_m128i(_mm_set1_epi16(b), _mm_set1_epi16(a))),
                              _mm256_set_m128i(_mm_set1_epi16(d), _mm_set1_epi16(c)), 1);
}

// Two blocks of 54 bytes: 32, then 16 bytes of five digits, 4 of four, d. Digit n of a part's byte m is its element
// n * bytes + m; with each digit that is taken, what is left gets times 3.
INLINE void unpack_tq1_0(struct weights *w, const uint8_t *src)
{
    for (int b = 0; b < 2; b++, src += 54) {
        __m512i *u = w->u + 4 * b;
        const __m512i first = _mm512_broadcast_i64x4(load_32(src));
        const __m512i second = _mm512_broadcast_i32x4(load_16(src + 32));
        const __m512i last = _mm512_set1_epi32((int)word32_at(src + 48));
        u[0] = digits_behind(first, of_parts(1, 1, 3, 3));
        u[1] = digits_behind(first, of_parts(9, 9, 27, 27));
        u[2] = digits_behind(_mm512_mask_blend_epi32(0xff00, first, second), of_parts(81, 81, 1, 3));
        const __m512i by =
            _mm512_inserti32x4(of_parts(9, 27, 81, 0), _mm_setr_epi16(1, 1, 3, 3, 9, 9, 27, 27), 3);
        u[3] = digits_behind(_mm512_mask_blend_epi32(0xf000, second, last), by);
    }
    w->scale = halves(half_at(src - 54 - 2), half_at(src - 2));
}

// Four blocks of 18 bytes: d, 128 bits.
INLINE void unpack_q1_0(struct weights *w, const uint8_t *src)
{
    const __m512i two = _mm512_set1_epi8(2);
    for (int i = 0; i < 8; i++)
        w->u[i] = _mm512_maskz_mov_epi8(word64_at(src + i / 2 * 18 + 2 + i % 2 * 8), two);
    const __m256i heads = _mm256_setr_epi16(0, 0, 9, 9, 0, 0, 9, 9, 18, 18, 27, 27, 18, 18, 27, 27);
    w->scale = _mm512_cvtph_ps(_mm512_castsi512_si256(
        _mm512_permutexvar_epi16(_mm512_castsi256_si512(heads), _mm512_loadu_si512(src))));
}

// Eight blocks of 18 bytes: d, 64 bit pairs.
INLINE void unpack_q2_0(struct weights *w, const uint8_t *src)
{
    const __m512i pairs = EACH_QWORD(0, 2, 4, 6, 8, 10, 12, 14), mask = _mm512_set1_epi8(3);
    for (int i = 0; i < 8; i++) {
        const __m512i words = _mm512_cvtepu16_epi64(load_16(src + 18 * i + 2));
        w->u[i] = _mm512_and_si512(_mm512_multishift_epi64_epi8(pairs, words), mask);
    }
    const __m256i heads = _mm256_setr_epi16(0, 9, 18, 27, 0, 9, 18, 27, 36, 45, 54, 63, 36, 45, 54, 63);
    w->scale = _mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutex2var_epi16(
        _mm512_loadu_si512(src), _mm512_castsi256_si512(heads), _mm512_loadu_si512(src + 64))));
}

// Four blocks of 36 bytes: four scales, 32 bytes of FP4, 8 for a unit.
INLINE void unpack_nvfp4(struct weights *w, const uint8_t *src)
{
    // Twice the values of FP4, plus 12.
    const __m512i values =
        _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m512i twice = _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3), nibble = _mm512_set1_epi8(15);
    const __m512i shift = _mm512_setr_epi64(0, 4, 0, 4, 0, 4, 0, 4);
    for (int i = 0; i < 4; i++) {
        const __m512i bytes =
            _mm512_permutexvar_epi64(twice, _mm512_castsi256_si512(load_32(src + 36 * i + 4)));
        const __m512i halves_of = _mm512_and_si512(_mm512_srlv_epi64(bytes, shift), nibble);
        w->u[i] = _mm512_shuffle_epi8(values, halves_of);
    }
    // FP8 as the upper bits of halves, whose exponents count from 8 less; 0x7f is nothing, the sign does not count.
    const __m128i bytes = _mm_setr_epi32((int)word32_at(src), (int)word32_at(src + 36),
                                         (int)word32_at(src + 72), (int)word32_at(src + 108));
    const __m128i some = _mm_andnot_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f)), bytes);
    const __m256i words = _mm256_cvtepu8_epi16(_mm_and_si128(some, _mm_set1_epi8(0x7f)));
    w->scale = ordered(_mm512_mul_ps(_mm512_cvtph_ps(_mm256_slli_epi16(words, 7)), _mm512_set1_ps(128.0f)),
                       &shape_nvfp4);
}

// Type, unpack function, shape.
#define HEARTH_UNITS_AVX512(X)                                                                               \
    X(Q4_0, unpack_q4_0, shape_q4_0)                                                                         \
    X(Q4_1, unpack_q4_1, shape_q4_1)                                                                         \
    X(Q5_0, unpack_q5_0, shape_q5_0)                                                                         \
    X(Q5_1, unpack_q5_1, shape_q5_1)                                                                         \
    X(Q8_0, unpack_q8_0, shape_q8_0)                                                                         \
    X(Q2_K, unpack_q2_k, shape_q2_k)                                                                         \
    X(Q3_K, unpack_q3_k, shape_q3_k)                                                                         \
    X(Q4_K, unpack_q4_k, shape_q45_k)                                                                        \
    X(Q5_K, unpack_q5_k, shape_q45_k)                                                                        \
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

// STEP products of a format with at most so many tokens, and with any number of them by those.
typedef void (*some_fn)(float *out, size_t out_stride, const uint8_t *w, size_t w_stride, size_t k,
                        size_t n_rows, const uint8_t *x, size_t x_stride, size_t n, void *scratch);
INLINE void some_at_a_time(some_fn fn, size_t most, float *out, size_t out_stride, const uint8_t *w,
                           size_t w_stride, size_t k, size_t n_rows, const uint8_t *x, size_t x_stride,
                           size_t n_tokens, void *scratch)
{
    for (size_t t = 0; t < n_tokens; t += most)
        fn(out + t * out_stride, out_stride, w, w_stride, k, n_rows, x + t * x_stride, x_stride,
           n_tokens - t < most ? n_tokens - t : most, scratch);
}

#endif
