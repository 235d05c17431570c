// SPDX-License-Identifier: MIT
// STEP products of block formats, NEON.
//
// Products of bytes are added in 16 bits as far as they fit: of narrow weights, until four units' sums lie
// side by side.
#include "kernels/arm/units_neon.h"

// Sums in 16 bits of a unit, or of a register's 16 weights, with one plane.
INLINE int16x8_t dot_registers(const int8x16_t *q, const int8_t *x, size_t registers)
{
    const int8x16_t first = vld1q_s8(x);
    int16x8_t sum = vmull_s8(vget_low_s8(q[0]), vget_low_s8(first));
    sum = vmlal_high_s8(sum, q[0], first);
    ALL for (size_t i = 1; i < registers; i++)
    {
        const int8x16_t v = vld1q_s8(x + 16 * i);
        sum = vmlal_s8(sum, vget_low_s8(q[i]), vget_low_s8(v));
        sum = vmlal_high_s8(sum, q[i], v);
    }
    return sum;
}

// Two units' sums side by side, four lanes each.
INLINE int16x8_t dot_pair(const int8x16_t *q, const int8_t *x, size_t registers)
{
    return vpaddq_s16(dot_registers(q, x, registers),
                      dot_registers(q + registers, x + 16 * registers, registers));
}

// Those of weights of up to eight bits, of which no more than two products fit into 16 bits.
INLINE int32x4_t dot_wide(const int8x16_t *q, const int8_t *hi, const int8_t *lo)
{
    int32x4_t sum = vpaddlq_s16(dot_registers(q, hi, 1));
    sum = vshlq_n_s32(vpadalq_s16(sum, dot_registers(q + 1, hi + 16, 1)), 7);
    sum = vpadalq_s16(sum, dot_registers(q, lo, 1));
    return vpadalq_s16(sum, dot_registers(q + 1, lo + 16, 1));
}

INLINE int32x4_t dot_row(const struct weights *w, const int8_t *hi, const int8_t *lo, const struct shape *s)
{
    const size_t registers = s->unit / 16u;
    const int8x16_t *q = w->q;
    const size_t lane = 127u * s->most * 2 * registers; // the largest sum in a lane of dot_registers()
    if (4 * lane <= INT16_MAX) {
        const int16x8_t high = vpaddq_s16(dot_pair(q, hi, registers),
                                          dot_pair(q + 2 * registers, hi + 32 * registers, registers));
        const int16x8_t low = vpaddq_s16(dot_pair(q, lo, registers),
                                         dot_pair(q + 2 * registers, lo + 32 * registers, registers));
        return vpadalq_s16(vshlq_n_s32(vpaddlq_s16(high), 7), low);
    }
    if (2 * lane <= INT16_MAX) {
        int32x4_t pair[2];
        ALL for (size_t i = 0; i < 2; i++)
        {
            const size_t at = 2 * registers * i;
            pair[i] = vpadalq_s16(vshlq_n_s32(vpaddlq_s16(dot_pair(q + at, hi + 16 * at, registers)), 7),
                                  dot_pair(q + at, lo + 16 * at, registers));
        }
        return vpaddq_s32(pair[0], pair[1]);
    }
    int32x4_t sum[QUARTER];
    ALL for (size_t u = 0; u < QUARTER; u++) sum[u] = dot_wide(q + 2 * u, hi + 32 * u, lo + 32 * u);
    return vpaddq_s32(vpaddq_s32(sum[0], sum[1]), vpaddq_s32(sum[2], sum[3]));
}

INLINE void dot_quarter(int32x4_t *dot, const struct weights *w, size_t n_rows, const int8_t *hi,
                        const int8_t *lo, const struct shape *s)
{
    ALL for (size_t r = 0; r < n_rows; r++) dot[r] = dot_row(&w[r], hi, lo, s);
}

#include "kernels/arm/step_tmpl.h"

void hearth_kernels_init_step_neon(struct hearth_kernels *t)
{
    init_step(t);
}
