// SPDX-License-Identifier: MIT
// Products by neuron, AVX-512 (see neuron_tmpl.h).
#include "kernels/x86/units_avx512.h"

// Slots are in the format's own order, scales in its order of lanes.
struct taken {
    _Alignas(64) int8_t q[512];
    _Alignas(64) float scale[LANES];
    _Alignas(64) float min[LANES];
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
    return f->pieces[i / 4][i % 4];
}
INLINE size_t slot_lane(format f, size_t i)
{
    return f->inverse[slot_piece(f, i) * LANES / f->unit];
}

#include "kernels/x86/neuron_tmpl.h"

INLINE void take_units(struct taken *t, const uint8_t *src, float p, unpack_fn unpack, format f)
{
    struct weights w;
    unpack(&w, src);
    for (size_t i = 0; i < f->registers; i++)
        _mm512_store_si512(t->q + i * 64, _mm512_sub_epi8(w.u[i], _mm512_set1_epi8((char)f->offset)));
    _mm512_store_ps(t->scale, _mm512_mul_ps(_mm512_set1_ps(p), w.scale));
    if (f->has_min)
        _mm512_store_ps(t->min, w.min);
}

#define FORMAT(TYPE, unpack, shape)                                                                          \
    INLINE void take_##TYPE(struct taken *t, const uint8_t *src, float p)                                    \
    {                                                                                                        \
        take_units(t, src, p, unpack, &shape);                                                               \
    }                                                                                                        \
    BLOCKS(TYPE, take_##TYPE, &shape)
HEARTH_UNITS_AVX512(FORMAT)

void hearth_kernels_init_neuron_avx512(struct hearth_kernels *t)
{
    init_neuron_plain(t);
#define ENTER_BLOCKS(TYPE, unpack, shape) ENTER(TYPE)
    HEARTH_UNITS_AVX512(ENTER_BLOCKS)
}
