// SPDX-License-Identifier: MIT
// PROMPT products of block formats, AVX2.
//
// Weights of at most four bits, against the high plane alone, are unsigned in the panel, so that a whole
// unit's products fit 16 bits (8 * 2 * 15 * 127 < 32768). Others are signed.
#include "kernels/x86/panel_avx2.h"

INLINE int more_of(const struct shape *s)
{
    return is_narrow(s) ? s->offset : 0;
}

// Sixteen rows' next four weights each, against the same four activations.
typedef struct {
    __m256i a, b, abs_a, abs_b;
} fours;
INLINE fours load_fours(const uint8_t *p)
{
    const __m256i a = _mm256_load_si256((const __m256i *)(const void *)p);
    const __m256i b = _mm256_load_si256((const __m256i *)(const void *)(p + 32));
    return (fours){a, b, _mm256_abs_epi8(a), _mm256_abs_epi8(b)};
}
// |w| * (x with w's sign) keeps pairs within 16 bits: 2 * 128 * 127 < 32768.
INLINE i32x16 dot_fours(i32x16 acc, fours w, int32_t x)
{
    const __m256i ones = _mm256_set1_epi16(1), v = _mm256_set1_epi32(x);
    acc.a = _mm256_add_epi32(
        acc.a, _mm256_madd_epi16(_mm256_maddubs_epi16(w.abs_a, _mm256_sign_epi8(v, w.a)), ones));
    acc.b = _mm256_add_epi32(
        acc.b, _mm256_madd_epi16(_mm256_maddubs_epi16(w.abs_b, _mm256_sign_epi8(v, w.b)), ones));
    return acc;
}

// Adds one plane's products of the unit from element `at` on to n tokens' sums.
INLINE void add_wide(i32x16 *dot, const struct panel *p, const struct hearth_acts *acts, bool low, size_t at,
                     size_t unit, int n)
{
    for (size_t i = at; i < at + unit; i += 4) {
        const fours w = load_fours(p->q + i * LANES);
        for (int t = 0; t < n; t++)
            dot[t] = dot_fours(dot[t], w, (int32_t)word32_at((low ? acts[t].lo : acts[t].hi) + i));
    }
}

// The same of a panel with unsigned weights and the high plane.
INLINE void add_narrow(i32x16 *dot, const struct panel *p, const struct hearth_acts *acts, size_t at,
                       size_t unit, int n)
{
    i32x16 pairs[MAX_TOGETHER];
    for (int t = 0; t < n; t++)
        pairs[t] = i_zero();
    for (size_t i = at; i < at + unit; i += 4) {
        const __m256i a = load32(p->q + i * LANES), b = load32(p->q + i * LANES + 32);
        for (int t = 0; t < n; t++) {
            const __m256i v = _mm256_set1_epi32((int32_t)word32_at(acts[t].hi + i));
            pairs[t].a = _mm256_add_epi16(pairs[t].a, _mm256_maddubs_epi16(a, v));
            pairs[t].b = _mm256_add_epi16(pairs[t].b, _mm256_maddubs_epi16(b, v));
        }
    }
    const __m256i ones = _mm256_set1_epi16(1);
    for (int t = 0; t < n; t++) {
        dot[t].a = _mm256_add_epi32(dot[t].a, _mm256_madd_epi16(pairs[t].a, ones));
        dot[t].b = _mm256_add_epi32(dot[t].b, _mm256_madd_epi16(pairs[t].b, ones));
    }
}

INLINE void add_plane(i32x16 *dot, const struct panel *p, const struct hearth_acts *acts, bool low, size_t at,
                      size_t unit, int n, const struct shape *s)
{
    if (is_narrow(s))
        add_narrow(dot, p, acts, at, unit, n);
    else
        add_wide(dot, p, acts, low, at, unit, n);
}

#include "kernels/x86/prompt_avx2_tmpl.h"

void hearth_kernels_init_prompt_avx2(struct hearth_kernels *t)
{
    init_prompt(t);
}
