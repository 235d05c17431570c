// SPDX-License-Identifier: MIT
// Weighted sums of rows, AVX2 (see axpy_tmpl.h).
#include "kernels/x86/units_avx2.h"
#include "kernels/x86/variants_x86.h"

// Slots are in the format's own order, scales in its order of lanes: first half, second half.
struct unpacked {
    _Alignas(32) int8_t q[512];
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
    const size_t slots = f->unit / 2u; // of half a group
    return i / slots * slots + f->pieces[i % slots / 2][i % 2];
}
INLINE size_t slot_lane(format f, size_t i)
{
    const size_t unit = slot_piece(f, i) * LANES / f->unit;
    return unit / HALF * HALF + f->inverse[unit % HALF];
}

INLINE void unpack_units(struct unpacked *t, const uint8_t *src, float p, unpack_fn unpack, format f)
{
    int8_t *to = t->q;
    for (size_t half = 0; half < 2; half++) {
        struct weights w;
        unpack(&w, src, half);
        for (size_t i = 0; i < f->registers; i++, to += 32)
            _mm256_store_si256((__m256i *)(void *)to,
                               _mm256_sub_epi8(w.u[i], _mm256_set1_epi8((char)f->offset)));
        _mm256_storeu_ps(t->scale + half * HALF, _mm256_mul_ps(_mm256_set1_ps(p), w.scale));
        if (f->has_min)
            _mm256_storeu_ps(t->min + half * HALF, w.min);
    }
}

#define BLOCK_FORMATS HEARTH_UNITS_AVX2
#include "kernels/axpy_tmpl.h"

void hearth_kernels_init_axpy_avx2(struct hearth_kernels *t)
{
    init_axpy(t);
}
