// SPDX-License-Identifier: MIT
// STEP products of block formats, with SDOT: two of them for 16 weights, one a plane.
#include "kernels/arm/units_neon.h"

INLINE void dot_quarter(int32x4_t *dot, const struct weights *w, size_t n_rows, const int8_t *hi,
                        const int8_t *lo, const struct shape *s)
{
    const size_t registers = s->unit / 16u;
    int32x4_t sum[QUARTER][2];
    ALL for (size_t u = 0; u < QUARTER; u++)
    {
        for (size_t r = 0; r < n_rows; r++)
            sum[u][r] = vdupq_n_s32(0);
        ALL for (size_t i = u * registers; i < (u + 1) * registers; i++)
        {
            const int8x16_t x = vld1q_s8(hi + 16 * i);
            ALL for (size_t r = 0; r < n_rows; r++) sum[u][r] = vdotq_s32(sum[u][r], w[r].q[i], x);
        }
        ALL for (size_t r = 0; r < n_rows; r++) sum[u][r] = vshlq_n_s32(sum[u][r], 7);
        ALL for (size_t i = u * registers; i < (u + 1) * registers; i++)
        {
            const int8x16_t x = vld1q_s8(lo + 16 * i);
            ALL for (size_t r = 0; r < n_rows; r++) sum[u][r] = vdotq_s32(sum[u][r], w[r].q[i], x);
        }
    }
    ALL for (size_t r = 0; r < n_rows; r++) dot[r] =
        vpaddq_s32(vpaddq_s32(sum[0][r], sum[1][r]), vpaddq_s32(sum[2][r], sum[3][r]));
}

#include "kernels/arm/step_tmpl.h"

void hearth_kernels_init_step_dotprod(struct hearth_kernels *t)
{
    init_step(t);
}
