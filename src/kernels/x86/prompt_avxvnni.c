// SPDX-License-Identifier: MIT
// PROMPT products of block formats, AVX-VNNI: the panel's weights are unsigned, and four products are added in 32 bits
// at once.
#include "kernels/x86/panel_avx2.h"
#include "kernels/x86/units_avxvnni.h"

INLINE int more_of(const struct shape *s)
{
    return offset_of(s);
}

INLINE void add_plane(i32x16 *dot, const struct panel *p, const struct hearth_acts *acts, bool low, size_t at,
                      size_t unit, int n, const struct shape *s)
{
    (void)s;
    for (size_t i = at; i < at + unit; i += 4) {
        const __m256i a = load32(p->q + i * LANES), b = load32(p->q + i * LANES + 32);
        for (int t = 0; t < n; t++) {
            const __m256i v = _mm256_set1_epi32((int32_t)word32_at((low ? acts[t].lo : acts[t].hi) + i));
            dot[t].a = _mm256_dpbusd_avx_epi32(dot[t].a, a, v);
            dot[t].b = _mm256_dpbusd_avx_epi32(dot[t].b, b, v);
        }
    }
}

#include "kernels/x86/prompt_avx2_tmpl.h"

void hearth_kernels_init_prompt_avxvnni(struct hearth_kernels *t)
{
    init_prompt(t);
}
