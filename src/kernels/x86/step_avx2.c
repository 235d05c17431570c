// SPDX-License-Identifier: MIT
// STEP products of block formats, AVX2.
//
// A row is walked in groups of 16 units. Weights of a group are unpacked to signed bytes in natural order;
// products use |w| * (x with w's sign), which keeps pairs within 16 bits (2 * 128 * 127 < 32768), one per
// plane of the activations.
#include "kernels/variants.h"
#include "kernels/x86/units_avx2.h"

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

// Rows that are asked for before their turn, where they lie anywhere.
#define AHEAD 3

INLINE void prefetch(const uint8_t *p, size_t n)
{
    for (size_t line = 0; line < n; line += 64)
        _mm_prefetch((const char *)p + line, _MM_HINT_T0);
}

// Rows of a matrix, or those of the list when it is not NULL.
INLINE void step(float *out, size_t out_stride, const void *w, size_t w_stride, const void *const *rows,
                 size_t k, size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, uint32_t type,
                 unpack_fn unpack, size_t unit, bool has_min)
{
    enum { TOGETHER = 4 };
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t elements = unit * LANES, n_groups = (k + elements - 1) / elements;
    const size_t group_bytes = elements / info->block_elems * info->block_bytes;
    const size_t row_bytes = k / info->block_elems * info->block_bytes;
    uint8_t padded[GROUP_BYTES] = {0};
    for (size_t r = 0; rows && r < AHEAD && r < n_rows; r++)
        prefetch(rows[r], row_bytes);

    for (size_t first = 0; first < n_tokens; first += TOGETHER) {
        const size_t count = n_tokens - first < TOGETHER ? n_tokens - first : TOGETHER;
        struct hearth_acts acts[TOGETHER];
        for (size_t t = 0; t < count; t++)
            acts[t] = hearth_acts_view((const uint8_t *)x + (first + t) * x_stride, k);
        for (size_t r = 0; r < n_rows; r++) {
            const uint8_t *row = rows ? rows[r] : (const uint8_t *)w + r * w_stride;
            const uint8_t *ahead = rows && r + AHEAD < n_rows ? rows[r + AHEAD] : row;
            __m256 acc[TOGETHER][2];
            for (size_t t = 0; t < count; t++)
                acc[t][0] = acc[t][1] = _mm256_setzero_ps();
            for (size_t g = 0; g < n_groups; g++) {
                const uint8_t *src = row + g * group_bytes;
                if ((g + 1) * group_bytes > row_bytes)
                    src = memcpy(padded, src, row_bytes - g * group_bytes);
                if (rows)
                    prefetch(ahead + g * group_bytes, group_bytes);
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

#define STEP(type, unpack, unit, has_min)                                                                    \
    static void step_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,         \
                            size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch)   \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        step(out, out_stride, w, w_stride, NULL, k, n_rows, x, x_stride, n_tokens, HEARTH_TYPE_##type,       \
             unpack, unit, has_min);                                                                         \
    }                                                                                                        \
    static void dot_rows_##type(float *out, const void *const *rows, size_t n_rows, size_t k, const void *x, \
                                size_t x_stride, size_t n_tokens, void *scratch)                             \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        step(out, n_rows, NULL, 0, rows, k, n_rows, x, x_stride, n_tokens, HEARTH_TYPE_##type, unpack, unit, \
             has_min);                                                                                       \
    }

HEARTH_UNITS_AVX2(STEP)

void hearth_kernels_init_step_avx2(struct hearth_kernels *t)
{
#define ENTER(type, unpack, unit, has_min)                                                                   \
    t->step[HEARTH_TYPE_##type] = step_##type;                                                               \
    t->dot_rows[HEARTH_TYPE_##type] = dot_rows_##type;
    HEARTH_UNITS_AVX2(ENTER)
#undef ENTER
}
