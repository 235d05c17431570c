// SPDX-License-Identifier: MIT
// Unpacking the formats of grids with AVX-512 (quant/grids.h says what they are).
//
// Points of the smaller grids are looked up in registers, 64 at once: two bytes are a point's digits, and each
// comes from a table of 128 by one instruction. Points of the others are loaded straight into registers.
#ifndef HEARTH_KERNELS_X86_UNITS_GRIDS_AVX512_H
#define HEARTH_KERNELS_X86_UNITS_GRIDS_AVX512_H

#include "kernels/x86/shape_avx512.h"
#include "quant/grids.h"

// Two super-blocks with units of 32. Piece 8L + i of a group is part L of register i, points of eight.
SHAPE shape_iq2_xxs = {
    8,
    32,
    43,
    true,
    false,
    {{0, 8, 16, 24},
     {1, 9, 17, 25},
     {2, 10, 18, 26},
     {3, 11, 19, 27},
     {4, 12, 20, 28},
     {5, 13, 21, 29},
     {6, 14, 22, 30},
     {7, 15, 23, 31}},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
};

// The same, points of four: piece 4L + i of a super-block is part L of its register i.
#define GRID3(offset)                                                                                        \
    {                                                                                                        \
        8, 32, offset, true, false,                                                                          \
            {{0, 4, 8, 12},    {1, 5, 9, 13},    {2, 6, 10, 14},   {3, 7, 11, 15},                           \
             {16, 20, 24, 28}, {17, 21, 25, 29}, {18, 22, 26, 30}, {19, 23, 27, 31}},                        \
            {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15},                                          \
            {0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15},                                          \
    }
SHAPE shape_iq3_xxs = GRID3(62);
SHAPE shape_iq3_s = GRID3(15);

// Read from memory in the row's own order.
SHAPE shape_iq2 = NATURAL16(43, false);
SHAPE shape_iq1_m = NATURAL16(9, false);
SHAPE shape_iq1_s = NATURAL32(9);

// ---- looking up

#define EACH_PART(...)  _mm512_broadcast_i32x4(_mm_setr_epi8(__VA_ARGS__))
#define EACH_QWORD(...) _mm512_broadcastq_epi64(_mm_setr_epi8(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0, 0))

INLINE __m512i load64(const void *p)
{
    return _mm512_loadu_si512(p);
}
INLINE __m256i load_32(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
INLINE __m128i load_16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}
INLINE __m128i load_8(const uint8_t *p)
{
    return _mm_loadl_epi64((const __m128i *)(const void *)p);
}

INLINE __m512i look_up_256(const uint8_t *table, __m512i i)
{
    const __m512i low = _mm512_permutex2var_epi8(load64(table), i, load64(table + 64));
    const __m512i high = _mm512_permutex2var_epi8(load64(table + 128), i, load64(table + 192));
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(i), low, high);
}

INLINE __m512i look_up_512(const uint8_t *table, __m512i i, __mmask64 ninth)
{
    return _mm512_mask_blend_epi8(ninth, look_up_256(table, i), look_up_256(table + 256, i));
}

// Bytes of first and of second halves as words: those of the first eight points of each 128-bit part in d[0], of the
// others in d[1].
INLINE void digits_of(__m512i d[2], __m512i first, __m512i second)
{
    d[0] = _mm512_unpacklo_epi8(first, second);
    d[1] = _mm512_unpackhi_epi8(first, second);
}

// The digits of points i. tables: those of the first halves of 256 points, then of the second ones.
INLINE void digits_256(__m512i d[2], const uint8_t *tables, __m512i i)
{
    digits_of(d, look_up_256(tables, i), look_up_256(tables + 256, i));
}

// The same of 512 points; `ninth` has that bit of each number.
INLINE void digits_512(__m512i d[2], const uint8_t *tables, __m512i i, __mmask64 ninth)
{
    digits_of(d, look_up_512(tables, i, ninth), look_up_512(tables + 512, i, ninth));
}

// Word `word` (a constant) of each qword of digits as eight numbers, plus the offset.
INLINE __m512i numbers_of_8(__m512i digits, int word, uint8_t offset)
{
    const __m512i from =
        _mm512_add_epi8(EACH_QWORD(0, 2, 4, 6, 8, 10, 12, 14), _mm512_set1_epi8((char)(16 * word)));
    const __m512i values = _mm512_set1_epi32((43 + offset) << 16 | (25 + offset) << 8 | (8 + offset));
    return _mm512_permutexvar_epi8(_mm512_multishift_epi64_epi8(from, digits), values);
}

// Words 2 `pair` and 2 `pair` + 1 (a constant) of each qword as four numbers each.
INLINE __m512i numbers_of_4(__m512i digits, int pair, __m512i values)
{
    const __m512i from =
        _mm512_add_epi8(EACH_QWORD(0, 3, 8, 11, 16, 19, 24, 27), _mm512_set1_epi8((char)(32 * pair)));
    return _mm512_permutexvar_epi8(_mm512_multishift_epi64_epi8(from, digits), values);
}

// ---- signs

// Four times seven signs, in each dword, as bytes.
INLINE __m512i sevens(__m512i dwords)
{
    return _mm512_multishift_epi64_epi8(EACH_QWORD(0, 7, 14, 21, 32, 39, 46, 53), dwords);
}

// Seven signs in each byte, whatever its eighth bit: that becomes what makes the number of minuses even.
INLINE __m512i even_signs(__m512i seven)
{
    const __m512i odd = EACH_PART(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0);
    const __m512i low = _mm512_and_si512(seven, _mm512_set1_epi8(15));
    const __m512i high = _mm512_and_si512(_mm512_srli_epi16(seven, 4), _mm512_set1_epi8(7));
    const __m512i eighth = _mm512_xor_si512(_mm512_shuffle_epi8(odd, low), _mm512_shuffle_epi8(odd, high));
    return _mm512_or_si512(_mm512_and_si512(seven, _mm512_set1_epi8(127)), eighth);
}

// u is the offset plus a number; where there is a minus, minus that number.
INLINE __m512i with_minus(__m512i u, __mmask64 minus, uint8_t offset)
{
    return _mm512_mask_sub_epi8(u, minus, _mm512_set1_epi8((char)(2 * offset)), u);
}

// Signs, a bit a number: those of 16 neighbours that are 128-bit part L of u are bytes first + apart * L of `signs` and
// the next one (constants). From registers, because what was stored in one piece is slow to load in pieces.
INLINE __m512i with_signs(__m512i u, __m512i signs, int first, int apart, uint8_t offset)
{
#define EIGHT_TIMES(byte) (0x0101010101010101 * (int64_t)(byte))
    const __m512i from = _mm512_setr_epi64(
        EIGHT_TIMES(first), EIGHT_TIMES(first + 1), EIGHT_TIMES(first + apart),
        EIGHT_TIMES(first + apart + 1), EIGHT_TIMES(first + 2 * apart), EIGHT_TIMES(first + 2 * apart + 1),
        EIGHT_TIMES(first + 3 * apart), EIGHT_TIMES(first + 3 * apart + 1));
#undef EIGHT_TIMES
    const __m512i bits = EACH_QWORD(1, 2, 4, 8, 16, 32, 64, -128);
    return with_minus(u, _mm512_test_epi8_mask(_mm512_permutexvar_epi8(from, signs), bits), offset);
}

// ---- formats

// Two super-blocks' d, in the lanes of their units.
INLINE __m512 scales_of_two(const uint8_t *first, const uint8_t *second)
{
    return halves(half_at(first), half_at(second));
}

// d * (1/2 + s) * factor
INLINE __m512 scale_and_half(__m512 d, __m512i s, float factor)
{
    const __m512 half = _mm512_add_ps(_mm512_set1_ps(0.5f), _mm512_cvtepi32_ps(s));
    return _mm512_mul_ps(_mm512_mul_ps(d, half), _mm512_set1_ps(factor));
}

// d * (2 s + 1)
INLINE __m512 scale_odd(__m512 d, __m512i s)
{
    return _mm512_mul_ps(d,
                         _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_add_epi32(s, s), _mm512_set1_epi32(1))));
}

// Sixteen nibbles, the low one of each byte first.
INLINE __m512i nibbles16(const uint8_t *src)
{
    const __m128i bytes = load_8(src), mask = _mm_set1_epi8(15);
    return _mm512_cvtepu8_epi32(
        _mm_unpacklo_epi8(_mm_and_si128(bytes, mask), _mm_and_si128(_mm_srli_epi16(bytes, 4), mask)));
}

INLINE void unpack_iq2_xxs(struct weights *w, const uint8_t *src)
{
    const __m512i evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odds = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    // Every other point first, so that the same word of two qwords is two neighbours.
    const __m512i neighbours = EACH_PART(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    const __m512i a = load64(src + 2), b = load64(src + 68);
    const __m512i rest = _mm512_permutex2var_epi32(a, odds, b);
    const __m512i signs = even_signs(sevens(rest));
    __m512i d[2];
    digits_256(d, hearth_grids.iq2_xxs_digits[0],
               _mm512_shuffle_epi8(_mm512_permutex2var_epi32(a, evens, b), neighbours));
    UNROLL
    for (int i = 0; i < 8; i++)
        w->u[i] = with_signs(numbers_of_8(d[i / 4], i % 4, 43), signs, 2 * i, 16, 43);
    w->scale = scale_and_half(scales_of_two(src, src + 66), _mm512_srli_epi32(rest, 28), 0.25f);
}

// Half a group of a format with points of four: super-block `half` (a constant).
INLINE void put_numbers_of_4(__m512i u[4], const __m512i d[2], __m512i values, __m512i signs, int half,
                             uint8_t offset)
{
    UNROLL
    for (int i = 0; i < 4; i++)
        u[i] = with_signs(numbers_of_4(d[i / 2], i % 2, values), signs, 32 * half + 2 * i, 8, offset);
}

// Points in such an order that two words of two qwords are four neighbours.
INLINE __m512i by_four(__m512i points)
{
    return _mm512_shuffle_epi8(points, EACH_PART(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
}

INLINE __m512i both(__m256i low, __m256i high)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

INLINE void unpack_iq3_xxs(struct weights *w, const uint8_t *src)
{
    const __m512i values = _mm512_broadcastq_epi64(_mm_cvtsi64_si128(0x7c726a625a524a42));
    const __m512i rest = both(load_32(src + 66), load_32(src + 98 + 66));
    const __m512i signs = even_signs(sevens(rest));
    UNROLL
    for (int i = 0; i < 2; i++) {
        __m512i d[2];
        digits_256(d, hearth_grids.iq3_xxs_digits[0], by_four(load64(src + 98 * i + 2)));
        put_numbers_of_4(w->u + 4 * i, d, values, signs, i, 62);
    }
    w->scale = ordered(scale_and_half(scales_of_two(src, src + 98), _mm512_srli_epi32(rest, 28), 0.5f),
                       &shape_iq3_xxs);
}

INLINE void unpack_iq3_s(struct weights *w, const uint8_t *src)
{
    const __m512i values = _mm512_broadcastq_epi64(_mm_cvtsi64_si128(0x1e1c1a1816141210));
    const __m512i signs = both(load_32(src + 74), load_32(src + 110 + 74));
    UNROLL
    for (int i = 0; i < 2; i++) {
        uint64_t ninth = word64_at(src + 110 * i + 66);
        __m512i d[2];
        ninth = (ninth & 0xc3c3c3c3c3c3c3c3) | (ninth & 0x0c0c0c0c0c0c0c0c) << 2 |
                (ninth & 0x3030303030303030) >> 2; // as by_four()
        digits_512(d, hearth_grids.iq3_s_digits[0], by_four(load64(src + 110 * i + 2)),
                   _cvtu64_mask64(ninth));
        put_numbers_of_4(w->u + 4 * i, d, values, signs, i, 15);
    }
    const __m512i shift = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    const __m512i all = both(_mm256_set1_epi32((int)word32_at(src + 106)),
                             _mm256_set1_epi32((int)word32_at(src + 110 + 106)));
    w->scale = ordered(scale_odd(scales_of_two(src, src + 110),
                                 _mm512_and_si512(_mm512_srlv_epi32(all, shift), _mm512_set1_epi32(15))),
                       &shape_iq3_s);
}

// ---- points read from memory

// Numbers of four points: their low bytes, and the bits above, which go where `to` says.
INLINE uint64_t four_numbers(const uint8_t *low, uint64_t high, uint64_t to)
{
    return _pdep_u64(word32_at(low), 0x00ff00ff00ff00ff) | _pdep_u64(high, to);
}

INLINE __m256i four_points(const uint64_t *grid, uint64_t four)
{
    const uint64_t *const at[4] = {grid + (four & 0xffff), grid + (four >> 16 & 0xffff),
                                   grid + (four >> 32 & 0xffff), grid + (four >> 48)};
    __m128i two[2];
    for (int i = 0; i < 2; i++)
        two[i] = _mm_castpd_si128(
            _mm_loadh_pd(_mm_castsi128_pd(_mm_loadl_epi64((const __m128i *)(const void *)at[2 * i])),
                         (const double *)(const void *)at[2 * i + 1]));
    return _mm256_set_m128i(two[1], two[0]);
}

INLINE __m512i eight_points(const uint64_t *grid, uint64_t first, uint64_t second)
{
    return both(four_points(grid, first), four_points(grid, second));
}

INLINE void unpack_iq2_xs(struct weights *w, const uint8_t *src)
{
    const uint64_t point = 0x01ff01ff01ff01ff;
    const __m512i seven = _mm512_srli_epi16(load64(src + 2), 9), offset = _mm512_set1_epi8(43);
    const __m512i signs = _mm512_castsi256_si512(_mm512_cvtepi16_epi8(even_signs(seven)));
    UNROLL
    for (int i = 0; i < 4; i++) {
        const uint8_t *b = src + 2 + 16 * i;
        const __m512i points =
            eight_points(hearth_grids.iq2_xs, word64_at(b) & point, word64_at(b + 8) & point);
        w->u[i] = with_signs(_mm512_add_epi8(offset, points), signs, 8 * i, 2, 43);
    }
    w->scale = ordered(scale_and_half(_mm512_set1_ps(half_at(src)), nibbles16(src + 66), 0.25f), &shape_iq2);
}

INLINE void unpack_iq2_s(struct weights *w, const uint8_t *src)
{
    const __m512i offset = _mm512_set1_epi8(43);
    const uint64_t to = 0x0300030003000300;
    UNROLL
    for (int i = 0; i < 4; i++) {
        const __m512i points =
            eight_points(hearth_grids.iq2_s, four_numbers(src + 2 + 8 * i, src[66 + 2 * i], to),
                         four_numbers(src + 6 + 8 * i, src[67 + 2 * i], to));
        w->u[i] =
            with_minus(_mm512_add_epi8(offset, points), _cvtu64_mask64(word64_at(src + 34 + 8 * i)), 43);
    }
    w->scale = ordered(scale_and_half(_mm512_set1_ps(half_at(src)), nibbles16(src + 74), 0.25f), &shape_iq2);
}

// Adds a quarter (all is times 8) to those of a register's eight points that are shifted up rather than down.
INLINE __m512i shifted_up(__m512i u, unsigned points)
{
    return _mm512_mask_add_epi64(u, (__mmask8)points, u, _mm512_set1_epi8(2));
}

INLINE void unpack_iq1_m(struct weights *w, const uint8_t *src)
{
    const uint64_t to = 0x0700070007000700;
    UNROLL
    for (int i = 0; i < 4; i++) {
        const uint32_t high = word32_at(src + 32 + 4 * i);
        const uint64_t points = _pext_u32(high, 0x77777777);
        w->u[i] = shifted_up(eight_points(hearth_grids.iq1, four_numbers(src + 8 * i, points, to),
                                          four_numbers(src + 8 * i + 4, points >> 12, to)),
                             ~_pext_u32(high, 0x88888888));
    }
    const uint64_t scales = word64_at(src + 48);
    const __m128i each = _mm_setr_epi8(0, 3, 6, 9, 16, 19, 22, 25, 32, 35, 38, 41, 48, 51, 54, 57);
    const __m128i s = _mm_multishift_epi64_epi8(each, _mm_set1_epi64x((int64_t)scales));
    const float d = _cvtsh_ss((unsigned short)_pext_u64(scales, 0xf000f000f000f000));
    w->scale = ordered(
        _mm512_mul_ps(scale_odd(_mm512_set1_ps(d), _mm512_cvtepu8_epi32(_mm_and_si128(s, _mm_set1_epi8(7)))),
                      _mm512_set1_ps(0.125f)),
        &shape_iq1_m);
}

INLINE void unpack_iq1_s(struct weights *w, const uint8_t *src)
{
    const uint64_t to = 0x0700070007000700;
    UNROLL
    for (int i = 0; i < 8; i++) {
        const uint8_t *b = src + i / 4 * 50;
        const uint32_t high = word32_at(b + 34 + i % 4 * 4); // of two units, each with four points
        w->u[i] = shifted_up(eight_points(hearth_grids.iq1, four_numbers(b + 2 + i % 4 * 8, high, to),
                                          four_numbers(b + 6 + i % 4 * 8, high >> 16, to)),
                             (high & 0x8000 ? 0 : 15) | (high & 0x80000000 ? 0 : 0xf0));
    }
    const __m512i s = _mm512_cvtepu16_epi32(_mm256_set_m128i(load_16(src + 50 + 34), load_16(src + 34)));
    w->scale =
        ordered(_mm512_mul_ps(scale_odd(scales_of_two(src, src + 50),
                                        _mm512_and_si512(_mm512_srli_epi32(s, 12), _mm512_set1_epi32(7))),
                              _mm512_set1_ps(0.125f)),
                &shape_iq1_s);
}

#endif
