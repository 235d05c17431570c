// SPDX-License-Identifier: MIT
// Products by neuron, AVX2 (see neuron_tmpl.h).
#include "kernels/x86/lanes16.h"
#include "kernels/x86/units_avx2.h"

// All in natural order.
struct taken {
    _Alignas(32) int8_t q[512];
    float scale[LANES], min[LANES];
};

typedef struct {
    uint8_t unit;
    bool has_min;
} format;

INLINE size_t format_unit(format f)
{
    return f.unit;
}
INLINE bool format_has_min(format f)
{
    return f.has_min;
}
INLINE size_t slot_piece(format f, size_t i)
{
    (void)f;
    return i;
}
INLINE size_t slot_lane(format f, size_t i)
{
    return i * LANES / f.unit;
}

#include "kernels/x86/neuron_tmpl.h"

INLINE void take_units(struct taken *t, const uint8_t *src, float p, uint32_t type, unpack_fn unpack,
                       format f)
{
    struct weights w;
    unpack(&w, src, type);
    for (size_t i = 0; i < f.unit / 2u; i++)
        _mm256_store_si256((__m256i *)(void *)(t->q + i * 32), w.q[i]);
    for (size_t i = 0; i < LANES; i += 8) {
        _mm256_storeu_ps(t->scale + i, _mm256_mul_ps(_mm256_set1_ps(p), _mm256_loadu_ps(w.scale + i)));
        if (f.has_min)
            _mm256_storeu_ps(t->min + i, _mm256_loadu_ps(w.min + i));
    }
}

#define FORMAT(TYPE, unpack, unit, has_min)                                                                  \
    INLINE void take_##TYPE(struct taken *t, const uint8_t *src, float p)                                    \
    {                                                                                                        \
        take_units(t, src, p, HEARTH_TYPE_##TYPE, unpack, (format){unit, has_min});                          \
    }                                                                                                        \
    BLOCKS(TYPE, take_##TYPE, ((format){unit, has_min}))
HEARTH_UNITS_AVX2(FORMAT)

void hearth_kernels_init_neuron_avx2(struct hearth_kernels *t)
{
    init_neuron_plain(t);
#define ENTER_BLOCKS(TYPE, unpack, unit, has_min) ENTER(TYPE)
    HEARTH_UNITS_AVX2(ENTER_BLOCKS)
}
