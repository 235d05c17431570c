// SPDX-License-Identifier: MIT
// Weighted sums of rows, NEON (see axpy_tmpl.h).
#include "kernels/arm/units_neon.h"
#include "kernels/arm/variants_arm.h"

struct unpacked {
    int8_t q[512];
    float scale[LANES], min[LANES];
};

typedef const struct shape *format;

INLINE size_t format_unit(format f)
{
    return f->unit;
}
INLINE bool format_has_min(format f)
{
    return f->has_min;
}
INLINE size_t slot_piece(format f, size_t i)
{
    (void)f;
    return i;
}
INLINE size_t slot_lane(format f, size_t i)
{
    return i * LANES / f->unit;
}

INLINE void unpack_units(struct unpacked *t, const uint8_t *src, float p, unpack_fn unpack, format f)
{
    const size_t registers = f->unit / 16u * QUARTER;
    for (size_t quarter = 0; quarter < 4; quarter++) {
        struct weights w;
        unpack(&w, src, quarter);
        for (size_t i = 0; i < registers; i++)
            vst1q_s8(t->q + (quarter * registers + i) * 16,
                     f->offset ? vsubq_s8(w.q[i], vdupq_n_s8((int8_t)f->offset)) : w.q[i]);
        vst1q_f32(t->scale + QUARTER * quarter, vmulq_n_f32(w.scale, p));
        if (f->has_min)
            vst1q_f32(t->min + QUARTER * quarter, w.min);
    }
}

#define BLOCK_FORMATS HEARTH_UNITS_NEON
#include "kernels/axpy_tmpl.h"

void hearth_kernels_init_axpy_neon(struct hearth_kernels *t)
{
    init_axpy(t);
}
