// SPDX-License-Identifier: MIT
// STEP products of block formats, AVX2.
//
// A row is walked in groups of 16 units. Weights of a group are unpacked to signed bytes in natural order;
// products use |w| * (x with w's sign), which keeps pairs within 16 bits (2 * 128 * 127 < 32768), one per
// plane of the activations.
#include <immintrin.h>
#include <string.h>

#include "kernels/variants.h"

#define INLINE static inline __attribute__((always_inline, unused))
#define LANES  16

struct weights {
    __m256i q[LANES]; // signed bytes: one unit of 32 or two of 16 each
    float scale[LANES], min[LANES];
};

typedef void (*unpack_fn)(struct weights *w, const uint8_t *src, uint32_t type);

// ---- hot path
// ------------------------------------------------------------------------------------------------

INLINE __m256i dot_fours(__m256i w, __m256i abs_w, const int8_t *x)
{
    const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)x);
    return _mm256_madd_epi16(_mm256_maddubs_epi16(abs_w, _mm256_sign_epi8(v, w)), _mm256_set1_epi16(1));
}

// 128 * (w . hi) + w . lo, as eight partial sums
INLINE __m256i dot_planes(__m256i w, const int8_t *hi, const int8_t *lo)
{
    const __m256i abs_w = _mm256_abs_epi8(w);
    return _mm256_add_epi32(_mm256_slli_epi32(dot_fours(w, abs_w, hi), 7), dot_fours(w, abs_w, lo));
}

INLINE __m256i load_sums(const int32_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

// Eight units' exact sums. Units of 32: eight registers of 32 products; units of 16: four of them, two units
// each.
INLINE __m256i dot_units(const struct weights *w, size_t first, const struct hearth_acts *x, size_t at,
                         size_t unit)
{
    if (unit == 16) {
        __m256i t[4];
        for (size_t i = 0; i < 4; i++)
            t[i] = dot_planes(w->q[first / 2 + i], x->hi + at + 32 * i, x->lo + at + 32 * i);
        // Within 128 bits: u0, u2, u4, u6 and u1, u3, u5, u7.
        const __m256i s = _mm256_hadd_epi32(_mm256_hadd_epi32(t[0], t[1]), _mm256_hadd_epi32(t[2], t[3]));
        return _mm256_permutevar8x32_epi32(s, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    }
    __m256i t[8];
    for (size_t i = 0; i < 8; i++)
        t[i] = dot_planes(w->q[first + i], x->hi + at + 32 * i, x->lo + at + 32 * i);
    const __m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(t[0], t[1]), _mm256_hadd_epi32(t[2], t[3]));
    const __m256i b = _mm256_hadd_epi32(_mm256_hadd_epi32(t[4], t[5]), _mm256_hadd_epi32(t[6], t[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

// Eight units' d: one each, or one for two units of 16.
INLINE __m256 load_d(const struct hearth_acts *x, size_t at, size_t unit)
{
    const float *d = x->d + at / 32;
    if (unit == 32)
        return _mm256_loadu_ps(d);
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(d)),
                                    _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
}

// Eight units' sums of q.
INLINE __m256i load_isum(const struct hearth_acts *x, size_t at, size_t unit)
{
    const int32_t *sum = x->sum + at / 16;
    if (unit == 16)
        return load_sums(sum);
    return _mm256_permute4x64_epi64(_mm256_hadd_epi32(load_sums(sum), load_sums(sum + 8)), 0xd8);
}

INLINE void add_group(__m256 acc[2], const struct weights *w, const struct hearth_acts *x, size_t at,
                      size_t unit, bool has_min)
{
    for (size_t half = 0; half < 2; half++, at += 8 * unit) {
        const __m256i dot = dot_units(w, 8 * half, x, at, unit);
        const __m256 d = load_d(x, at, unit);
        acc[half] = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_loadu_ps(w->scale + 8 * half), d),
                                    _mm256_cvtepi32_ps(dot), acc[half]);
        if (has_min)
            acc[half] = _mm256_fnmadd_ps(_mm256_mul_ps(_mm256_loadu_ps(w->min + 8 * half), d),
                                         _mm256_cvtepi32_ps(load_isum(x, at, unit)), acc[half]);
    }
}

INLINE float sum_lanes(const __m256 acc[2])
{
    const __m256 s8 = _mm256_add_ps(acc[0], acc[1]);
    const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}

INLINE void step(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k, size_t n_rows,
                 const void *x, size_t x_stride, size_t n_tokens, uint32_t type, unpack_fn unpack,
                 size_t unit, bool has_min)
{
    enum { TOGETHER = 4 };
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t elements = unit * LANES, n_groups = (k + elements - 1) / elements;
    const size_t group_bytes = elements / info->block_elems * info->block_bytes;
    const size_t row_bytes = k / info->block_elems * info->block_bytes;
    uint8_t padded[640] = {0};

    for (size_t first = 0; first < n_tokens; first += TOGETHER) {
        const size_t count = n_tokens - first < TOGETHER ? n_tokens - first : TOGETHER;
        struct hearth_acts acts[TOGETHER];
        for (size_t t = 0; t < count; t++)
            acts[t] = hearth_acts_view((const uint8_t *)x + (first + t) * x_stride, k);
        for (size_t r = 0; r < n_rows; r++) {
            const uint8_t *row = (const uint8_t *)w + r * w_stride;
            __m256 acc[TOGETHER][2];
            for (size_t t = 0; t < count; t++)
                acc[t][0] = acc[t][1] = _mm256_setzero_ps();
            for (size_t g = 0; g < n_groups; g++) {
                const uint8_t *src = row + g * group_bytes;
                if ((g + 1) * group_bytes > row_bytes)
                    src = memcpy(padded, src, row_bytes - g * group_bytes);
                struct weights weights;
                unpack(&weights, src, type);
                for (size_t t = 0; t < count; t++)
                    add_group(acc[t], &weights, &acts[t], g * elements, unit, has_min);
            }
            for (size_t t = 0; t < count; t++)
                out[(first + t) * out_stride + r] = sum_lanes(acc[t]);
        }
    }
}

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

#define STEP(type, unpack, unit, has_min)                                                                    \
    static void step_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,         \
                            size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch)   \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        step(out, out_stride, w, w_stride, k, n_rows, x, x_stride, n_tokens, HEARTH_TYPE_##type, unpack,     \
             unit, has_min);                                                                                 \
    }

#define FORMATS(X)                                                                                           \
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

FORMATS(STEP)

void hearth_kernels_init_step_avx2(struct hearth_kernels *t)
{
#define ENTER(type, unpack, unit, has_min) t->step[HEARTH_TYPE_##type] = step_##type;
    FORMATS(ENTER)
#undef ENTER
}
