// SPDX-License-Identifier: MIT
// What AVX-512 makes of a group of 16 units of a block format: registers of unsigned bytes and of scales.
//
// Bytes stay in the order in which a format's layout gives them cheaply; a `shape` says which elements they
// are, so that step products put the activations in the same order once per call, and prompt products put the
// weights where they belong when they spread them over a panel.
#ifndef HEARTH_KERNELS_X86_SHAPE_AVX512_H
#define HEARTH_KERNELS_X86_SHAPE_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/x86/lanes16.h"

// Sanitizers check every access, which unrolled would take them minutes to compile.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(SANITIZED)
#define UNROLL _Pragma("GCC unroll 1")
#else
#define SANITIZED 0
#define UNROLL    _Pragma("GCC unroll 8")
#endif

// Bytes of the largest group of 16 units, rounded up.
#define GROUP_BYTES 576

// How a format's registers relate to units. Positions are 16-byte pieces and units counted within a group.
struct shape {
    uint8_t registers; // per group: 8 for units of 32, 4 for units of 16
    uint8_t unit;      // elements
    uint8_t offset;    // added to every weight to make it unsigned; 0 for formats with a minimum
    bool pairs;        // registers 2i and 2i+1 hold the two halves of the same units
    bool has_min;
    uint8_t pieces[8][4];   // 16-byte pieces of a row that are in each register
    uint8_t order[LANES];   // lane of a sum, scale or minimum -> unit
    uint8_t inverse[LANES]; // unit -> lane
};

// The weights of one group: what an unpack function fills.
struct weights {
    __m512i u[8];      // unsigned bytes
    __m512 scale, min; // lanes in the format's order; min only of formats with one
};

// src holds a whole group and is not read beyond it.
typedef void (*unpack_fn)(struct weights *w, const uint8_t *src);

#define SHAPE static const struct shape __attribute__((unused))

// Units 2i and 2i+1 in register i.
#define NATURAL32(offset)                                                                                    \
    {                                                                                                        \
        8, 32, offset, false, false,                                                                         \
            {{0, 1, 2, 3},     {4, 5, 6, 7},     {8, 9, 10, 11},   {12, 13, 14, 15},                         \
             {16, 17, 18, 19}, {20, 21, 22, 23}, {24, 25, 26, 27}, {28, 29, 30, 31}},                        \
            {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15},                                          \
            {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15},                                          \
    }

// Units 4i to 4i+3 in register i.
#define NATURAL16(offset, has_min)                                                                           \
    {                                                                                                        \
        4, 16, offset, false, has_min, {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}},       \
            {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15},                                          \
            {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15},                                          \
    }

INLINE __m512 halves(float low, float high)
{
    return _mm512_insertf32x8(_mm512_set1_ps(low), _mm256_set1_ps(high), 1);
}

// A number of each unit, in the format's order.
INLINE __m512 ordered(__m512 units, const struct shape *s)
{
    const __m128i order = _mm_loadu_si128((const __m128i *)(const void *)s->order);
    return _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(order), units);
}

// d * (float)s for 16 small integers, in the format's order.
INLINE __m512 scaled(__m512 d, __m512i s, const struct shape *shape)
{
    return ordered(_mm512_mul_ps(d, _mm512_cvtepi32_ps(s)), shape);
}

#endif
