// SPDX-License-Identifier: MIT
// STEP products of block formats, AVX-VNNI: four products of unsigned weights with signed activations are added in 32
// bits at once.
#include "kernels/x86/units_avxvnni.h"

// 128 * (w . high) + w . low of n registers, whose planes lie 64 bytes apart.
INLINE __m256i dot_registers(const __m256i *w, const uint8_t *planes, size_t n)
{
    __m256i sum = _mm256_setzero_si256();
    for (size_t i = 0; i < n; i++)
        sum = _mm256_dpbusd_avx_epi32(sum, w[i], load32(planes + 64 * i));
    sum = _mm256_slli_epi32(sum, 7);
    for (size_t i = 0; i < n; i++)
        sum = _mm256_dpbusd_avx_epi32(sum, w[i], load32(planes + 64 * i + 32));
    return sum;
}

INLINE __m256i dot_half(const struct weights *w, const uint8_t *x, const struct shape *s)
{
    const size_t n = s->unit / 16u; // registers that have the same units
    __m256i t[4];
    for (size_t i = 0; i < 4; i++) {
        __m256i u[2];
        for (size_t r = 0; r < n; r++)
            u[r] = made_unsigned(w->u[n * i + r], s);
        t[i] = dot_registers(u, x + 64 * n * i, n);
    }
    return transpose_add(t);
}

#include "kernels/x86/step_avx2_tmpl.h"

void hearth_kernels_init_step_avxvnni(struct hearth_kernels *t)
{
    init_step(t);
}
