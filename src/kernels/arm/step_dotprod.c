// SPDX-License-Identifier: MIT
// STEP products of block formats, with SDOT: two of them for 16 weights, one a plane.
#include "kernels/arm/units_neon.h"

// Adds a unit's products of one plane, in all rows. The plane's registers are loaded before the first product, so that
// one instruction loads two of them.
INLINE void add_unit(int32x4_t *sum, const struct weights *w, size_t n_rows, size_t u, size_t registers,
                     const int8_t *plane)
{
    int8x16_t x[2];
    ALL for (size_t i = 0; i < registers; i++) x[i] = vld1q_s8(plane + 16 * (u * registers + i));
    ALL for (size_t i = 0; i < registers; i++)
    {
        ALL for (size_t r = 0; r < n_rows; r++) sum[r] = vdotq_s32(sum[r], w[r].q[u * registers + i], x[i]);
    }
}

INLINE void dot_quarter(int32x4_t *dot, const struct weights *w, size_t n_rows, const int8_t *hi,
                        const int8_t *lo, const struct shape *s)
{
    const size_t registers = s->unit / 16u;
    int32x4_t sum[QUARTER][2];
    ALL for (size_t u = 0; u < QUARTER; u++)
    {
        for (size_t r = 0; r < n_rows; r++)
            sum[u][r] = vdupq_n_s32(0);
        add_unit(sum[u], w, n_rows, u, registers, hi);
        ALL for (size_t r = 0; r < n_rows; r++) sum[u][r] = vshlq_n_s32(sum[u][r], 7);
        add_unit(sum[u], w, n_rows, u, registers, lo);
    }
    ALL for (size_t r = 0; r < n_rows; r++) dot[r] =
        vpaddq_s32(vpaddq_s32(sum[0][r], sum[1][r]), vpaddq_s32(sum[2][r], sum[3][r]));
}

#include "kernels/arm/step_tmpl.h"

void hearth_kernels_init_step_dotprod(struct hearth_kernels *t)
{
    init_step(t);
}
