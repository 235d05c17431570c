// SPDX-License-Identifier: MIT
// Weighted sums of rows over lanes in C (lanes_model.h); blocks are unpacked by the formats' own functions.
#include <stdbool.h>

#include "kernels/variants.h"
#include "lanes_model.h"

#define GROUP_BYTES (32 * LANES * 2) // no format needs two bytes an element

struct unpacked {
    int8_t q[512];
    float scale[LANES], min[LANES];
};

struct shape {
    uint32_t type;
};
typedef const struct shape *format;
typedef hearth_unpack_fn (*unpack_fn)(format f);

static hearth_unpack_fn unpack_of(format f)
{
    return hearth_type_info(f->type)->unpack;
}

INLINE size_t format_unit(format f)
{
    return hearth_type_info(f->type)->unit_elems;
}
INLINE bool format_has_min(format f)
{
    return hearth_type_info(f->type)->has_min;
}
INLINE size_t slot_piece(format f, size_t i)
{
    (void)f;
    return i;
}
INLINE size_t slot_lane(format f, size_t i)
{
    return i * LANES / format_unit(f);
}

INLINE void unpack_units(struct unpacked *to, const uint8_t *src, float p, unpack_fn unpack, format f)
{
    unpack(f)(src, to->q, to->scale, to->min, format_unit(f) * LANES);
    for (size_t i = 0; i < LANES; i++)
        to->scale[i] *= p;
}

#define SHAPE(type) static const struct shape shape_##type = {HEARTH_TYPE_##type};
HEARTH_BLOCK_TYPES(SHAPE)

#define BLOCK_FORMATS(X)                                                                                     \
    X(Q4_0, unpack_of, shape_Q4_0)                                                                           \
    X(Q4_1, unpack_of, shape_Q4_1)                                                                           \
    X(Q5_0, unpack_of, shape_Q5_0)                                                                           \
    X(Q5_1, unpack_of, shape_Q5_1)                                                                           \
    X(Q8_0, unpack_of, shape_Q8_0)                                                                           \
    X(Q2_K, unpack_of, shape_Q2_K)                                                                           \
    X(Q3_K, unpack_of, shape_Q3_K)                                                                           \
    X(Q4_K, unpack_of, shape_Q4_K)                                                                           \
    X(Q5_K, unpack_of, shape_Q5_K)                                                                           \
    X(Q6_K, unpack_of, shape_Q6_K)                                                                           \
    X(IQ4_NL, unpack_of, shape_IQ4_NL)                                                                       \
    X(IQ4_XS, unpack_of, shape_IQ4_XS)                                                                       \
    X(MXFP4, unpack_of, shape_MXFP4)                                                                         \
    X(IQ1_S, unpack_of, shape_IQ1_S)                                                                         \
    X(IQ1_M, unpack_of, shape_IQ1_M)                                                                         \
    X(IQ2_XXS, unpack_of, shape_IQ2_XXS)                                                                     \
    X(IQ2_XS, unpack_of, shape_IQ2_XS)                                                                       \
    X(IQ2_S, unpack_of, shape_IQ2_S)                                                                         \
    X(IQ3_XXS, unpack_of, shape_IQ3_XXS)                                                                     \
    X(IQ3_S, unpack_of, shape_IQ3_S)                                                                         \
    X(TQ1_0, unpack_of, shape_TQ1_0)                                                                         \
    X(TQ2_0, unpack_of, shape_TQ2_0)                                                                         \
    X(Q1_0, unpack_of, shape_Q1_0)                                                                           \
    X(Q2_0, unpack_of, shape_Q2_0)                                                                           \
    X(NVFP4, unpack_of, shape_NVFP4)

#include "kernels/axpy_tmpl.h"

void init_axpy_model(struct hearth_kernels *t)
{
    init_axpy(t);
}
