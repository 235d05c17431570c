// SPDX-License-Identifier: MIT
// STEP products of block formats, AVX2.
//
// Int8 products of narrow weights (unsigned, with an offset) are added in 16 bits as far as they fit; wide ones are
// |w| * (x with w's sign), which keeps pairs within 16 bits (2 * 128 * 127 < 32768).
#include "kernels/x86/units_avx2.h"

INLINE int offset_of(const struct shape *s)
{
    return s->offset;
}

// 128 * high + low, pairs added up.
INLINE __m256i join_planes(__m256i high, __m256i low)
{
    return _mm256_add_epi32(_mm256_madd_epi16(high, _mm256_set1_epi16(128)),
                            _mm256_madd_epi16(low, _mm256_set1_epi16(1)));
}

// 128 * (w . high) + w . low for signed bytes w.
INLINE __m256i dot_wide(__m256i w, const uint8_t *planes)
{
    const __m256i abs = _mm256_abs_epi8(w);
    return join_planes(_mm256_maddubs_epi16(abs, _mm256_sign_epi8(load32(planes), w)),
                       _mm256_maddubs_epi16(abs, _mm256_sign_epi8(load32(planes + 32), w)));
}

// The same for unsigned bytes, of which two products by 128 fit in 16 bits.
INLINE __m256i dot_narrow(__m256i w, const uint8_t *planes)
{
    return join_planes(_mm256_maddubs_epi16(w, load32(planes)), _mm256_maddubs_epi16(w, load32(planes + 32)));
}

// Exact sums of eight units, offset not yet taken off.
INLINE __m256i dot_half(const struct weights *w, const uint8_t *x, const struct shape *s)
{
    __m256i t[4];
    for (size_t i = 0; i < 4; i++) {
        if (s->most == SIGNED) {
            t[i] = _mm256_add_epi32(dot_wide(w->u[2 * i], x + 128 * i),
                                    dot_wide(w->u[2 * i + 1], x + 128 * i + 64));
        } else if (s->unit == 32 && s->most > 31) {
            t[i] = _mm256_add_epi32(dot_narrow(w->u[2 * i], x + 128 * i),
                                    dot_narrow(w->u[2 * i + 1], x + 128 * i + 64));
        } else if (s->unit == 32) {
            // Four products of at most 31 * 128.
            const __m256i *u = &w->u[2 * i];
            t[i] = join_planes(_mm256_add_epi16(_mm256_maddubs_epi16(u[0], load32(x + 128 * i)),
                                                _mm256_maddubs_epi16(u[1], load32(x + 128 * i + 64))),
                               _mm256_add_epi16(_mm256_maddubs_epi16(u[0], load32(x + 128 * i + 32)),
                                                _mm256_maddubs_epi16(u[1], load32(x + 128 * i + 96))));
        } else {
            t[i] = dot_narrow(w->u[i], x + 64 * i);
        }
    }
    return transpose_add(t);
}

#include "kernels/x86/step_avx2_tmpl.h"

void hearth_kernels_init_step_avx2(struct hearth_kernels *t)
{
    init_step(t);
}
