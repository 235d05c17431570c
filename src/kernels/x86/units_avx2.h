// SPDX-License-Identifier: MIT
// Taking block formats apart with AVX2: 16 units of a row become signed bytes in natural order and scales.
#ifndef HEARTH_KERNELS_X86_UNITS_AVX2_H
#define HEARTH_KERNELS_X86_UNITS_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "kernels/kernels.h"

#define INLINE static inline __attribute__((always_inline, unused))
#define LANES  16
// Bytes of the largest group of 16 units, rounded up.
#define GROUP_BYTES 640

struct weights {
    __m256i q[LANES]; // signed bytes: one unit of 32 or two of 16 each
    float scale[LANES], min[LANES];
};

typedef void (*unpack_fn)(struct weights *w, const uint8_t *src, uint32_t type);

// ---- formats
// -------------------------------------------------------------------------------------------------

INLINE float half_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return _cvtsh_ss(h);
}

// Low nibbles in the first half, high ones in the second.
INLINE __m256i nibbles16(const uint8_t *p)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes), _mm256_set1_epi8(15));
}

INLINE void unpack_q4_0(struct weights *w, const uint8_t *src, uint32_t type)
{
    (void)type;
    for (size_t i = 0; i < LANES; i++, src += 18) {
        w->scale[i] = half_at(src);
        w->q[i] = _mm256_sub_epi8(nibbles16(src + 2), _mm256_set1_epi8(8));
    }
}

INLINE void unpack_q8_0(struct weights *w, const uint8_t *src, uint32_t type)
{
    (void)type;
    for (size_t i = 0; i < LANES; i++, src += 34) {
        w->scale[i] = half_at(src);
        w->q[i] = _mm256_loadu_si256((const __m256i *)(const void *)(src + 2));
    }
}

// Two super-blocks of 144 bytes: d, dmin, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles.
INLINE void unpack_q4_k(struct weights *w, const uint8_t *src, uint32_t type)
{
    (void)type;
    for (size_t b = 0; b < 2; b++, src += 144) {
        const float d = half_at(src), dmin = half_at(src + 2);
        uint32_t s[3];
        memcpy(s, src + 4, sizeof s);
        const uint32_t packed[4] = {s[0] & 0x3f3f3f3f, (s[2] & 0x0f0f0f0f) | (s[0] >> 2 & 0x30303030),
                                    s[1] & 0x3f3f3f3f, (s[2] >> 4 & 0x0f0f0f0f) | (s[1] >> 2 & 0x30303030)};
        uint8_t bytes[16];
        memcpy(bytes, packed, sizeof bytes);
        for (size_t i = 0; i < 8; i++) {
            w->scale[8 * b + i] = d * (float)bytes[i];
            w->min[8 * b + i] = dmin * (float)bytes[8 + i];
        }
        for (size_t i = 0; i < 4; i++) {
            const __m256i q = _mm256_loadu_si256((const __m256i *)(const void *)(src + 16 + 32 * i));
            const __m256i mask = _mm256_set1_epi8(15);
            w->q[8 * b + 2 * i] = _mm256_and_si256(q, mask);
            w->q[8 * b + 2 * i + 1] = _mm256_and_si256(_mm256_srli_epi16(q, 4), mask);
        }
    }
}

// A super-block of 210 bytes: 128 of low nibbles, 64 of upper bit pairs, 16 scales, d.
INLINE void unpack_q6_k(struct weights *w, const uint8_t *src, uint32_t type)
{
    (void)type;
    const __m256i nibble = _mm256_set1_epi8(15), pair = _mm256_set1_epi8(0x30), offset = _mm256_set1_epi8(32);
    for (size_t half = 0; half < 2; half++) {
        const __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(src + 64 * half));
        const __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(src + 64 * half + 32));
        const __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)(src + 128 + 32 * half));
        const __m256i low[4] = {a, b, _mm256_srli_epi16(a, 4), _mm256_srli_epi16(b, 4)};
        const __m256i high[4] = {_mm256_slli_epi16(bits, 4), _mm256_slli_epi16(bits, 2), bits,
                                 _mm256_srli_epi16(bits, 2)};
        for (size_t i = 0; i < 4; i++)
            w->q[4 * half + i] = _mm256_sub_epi8(
                _mm256_or_si256(_mm256_and_si256(low[i], nibble), _mm256_and_si256(high[i], pair)), offset);
    }
    const float d = half_at(src + 208);
    for (size_t i = 0; i < LANES; i++)
        w->scale[i] = d * (float)(int8_t)src[192 + i];
}

// Any other format, by way of its plain C unpacking.
INLINE void unpack_any(struct weights *w, const uint8_t *src, uint32_t type, size_t unit)
{
    int8_t q[512];
    hearth_type_info(type)->unpack(src, q, w->scale, w->min, unit * LANES);
    memcpy(w->q, q, unit * LANES);
}

INLINE void unpack_any32(struct weights *w, const uint8_t *src, uint32_t type)
{
    unpack_any(w, src, type, 32);
}

INLINE void unpack_any16(struct weights *w, const uint8_t *src, uint32_t type)
{
    unpack_any(w, src, type, 16);
}

// format, how to take it apart, elements of a unit, whether units have a minimum
#define HEARTH_UNITS_AVX2(X)                                                                                 \
    X(Q4_0, unpack_q4_0, 32, false)                                                                          \
    X(Q8_0, unpack_q8_0, 32, false)                                                                          \
    X(Q4_K, unpack_q4_k, 32, true)                                                                           \
    X(Q6_K, unpack_q6_k, 16, false)                                                                          \
    X(Q4_1, unpack_any32, 32, true)                                                                          \
    X(Q5_0, unpack_any32, 32, false)                                                                         \
    X(Q5_1, unpack_any32, 32, true)                                                                          \
    X(Q5_K, unpack_any32, 32, true)                                                                          \
    X(IQ4_NL, unpack_any32, 32, false)                                                                       \
    X(IQ4_XS, unpack_any32, 32, false)                                                                       \
    X(MXFP4, unpack_any32, 32, false)                                                                        \
    X(Q2_K, unpack_any16, 16, true)                                                                          \
    X(Q3_K, unpack_any16, 16, false)

#endif
