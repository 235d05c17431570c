// SPDX-License-Identifier: MIT
// Internals of src/quant: the functions of the table in quant.c, and what all block formats use.
#ifndef HEARTH_QUANT_FORMATS_H
#define HEARTH_QUANT_FORMATS_H

#include <stdbool.h>

#include "quant/quant.h"

#define HEARTH_DECLARE_PLAIN(f)                                                                              \
    void f##_decode(const void *src, float *dst, size_t n);                                                  \
    void f##_encode(const float *src, void *dst, size_t n)
#define HEARTH_DECLARE_BLOCKS(f)                                                                             \
    void f##_decode(const void *src, float *dst, size_t n);                                                  \
    void f##_unpack(const void *src, int8_t *q, float *scale, float *min, size_t n)

HEARTH_DECLARE_PLAIN(hearth_f32);
HEARTH_DECLARE_PLAIN(hearth_f16);
HEARTH_DECLARE_PLAIN(hearth_bf16);

HEARTH_DECLARE_BLOCKS(hearth_q4_0);
HEARTH_DECLARE_BLOCKS(hearth_q4_1);
HEARTH_DECLARE_BLOCKS(hearth_q5_0);
HEARTH_DECLARE_BLOCKS(hearth_q5_1);
HEARTH_DECLARE_BLOCKS(hearth_q8_0);
HEARTH_DECLARE_BLOCKS(hearth_iq4_nl);
HEARTH_DECLARE_BLOCKS(hearth_mxfp4);
HEARTH_DECLARE_BLOCKS(hearth_q2_k);
HEARTH_DECLARE_BLOCKS(hearth_q3_k);
HEARTH_DECLARE_BLOCKS(hearth_q4_k);
HEARTH_DECLARE_BLOCKS(hearth_q5_k);
HEARTH_DECLARE_BLOCKS(hearth_q6_k);
HEARTH_DECLARE_BLOCKS(hearth_iq4_xs);
HEARTH_DECLARE_BLOCKS(hearth_iq1_s);
HEARTH_DECLARE_BLOCKS(hearth_iq1_m);
HEARTH_DECLARE_BLOCKS(hearth_iq2_xxs);
HEARTH_DECLARE_BLOCKS(hearth_iq2_xs);
HEARTH_DECLARE_BLOCKS(hearth_iq2_s);
HEARTH_DECLARE_BLOCKS(hearth_iq3_xxs);
HEARTH_DECLARE_BLOCKS(hearth_iq3_s);
HEARTH_DECLARE_BLOCKS(hearth_tq1_0);
HEARTH_DECLARE_BLOCKS(hearth_tq2_0);
HEARTH_DECLARE_BLOCKS(hearth_q1_0);
HEARTH_DECLARE_BLOCKS(hearth_q2_0);
HEARTH_DECLARE_BLOCKS(hearth_nvfp4);

void hearth_q4_0_encode(const float *src, void *dst, size_t n);
void hearth_q4_1_encode(const float *src, void *dst, size_t n);
void hearth_q5_0_encode(const float *src, void *dst, size_t n);
void hearth_q5_1_encode(const float *src, void *dst, size_t n);
void hearth_q8_0_encode(const float *src, void *dst, size_t n);
void hearth_iq4_nl_encode(const float *src, void *dst, size_t n);
void hearth_q2_k_encode(const float *src, void *dst, size_t n);
void hearth_q3_k_encode(const float *src, void *dst, size_t n);
void hearth_q4_k_encode(const float *src, void *dst, size_t n);
void hearth_q5_k_encode(const float *src, void *dst, size_t n);
void hearth_q6_k_encode(const float *src, void *dst, size_t n);
void hearth_tq1_0_encode(const float *src, void *dst, size_t n);
void hearth_tq2_0_encode(const float *src, void *dst, size_t n);
void hearth_q1_0_encode(const float *src, void *dst, size_t n);
void hearth_q2_0_encode(const float *src, void *dst, size_t n);

// The sixteen values of IQ4_NL and IQ4_XS.
extern const int8_t hearth_iq4_values[16];
// Twice the values of FP4 (E2M1), so that they are integers.
extern const int8_t hearth_fp4_values[16];

static inline uint16_t hearth_load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}
static inline uint32_t hearth_load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline float hearth_load_f16(const uint8_t *p)
{
    return hearth_f16_to_f32(hearth_load_u16(p));
}
static inline void hearth_store_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}
static inline void hearth_store_f16(uint8_t *p, float v)
{
    hearth_store_u16(p, hearth_f32_to_f16(v));
}

// Unpacks one block. `min` may be ignored by formats without minima.
typedef void (*hearth_block_fn)(const uint8_t *block, int8_t *q, float *scale, float *min);

// The function that unpacks a block defines its format. Decoding multiplies what it gives.
static inline void hearth_unpack_blocks(hearth_block_fn f, uint32_t elems, uint32_t bytes, uint32_t unit,
                                        int has_min, const uint8_t *src, int8_t *q, float *scale, float *min,
                                        size_t n)
{
    for (size_t i = 0; i < n; i += elems, src += bytes, q += elems, scale += elems / unit) {
        f(src, q, scale, min);
        if (has_min)
            min += elems / unit;
    }
}
static inline void hearth_decode_blocks(hearth_block_fn f, uint32_t elems, uint32_t bytes, uint32_t unit,
                                        int has_min, const uint8_t *src, float *dst, size_t n)
{
    int8_t q[256];
    float scale[16], min[16];
    for (; n >= elems; n -= elems, src += bytes, dst += elems) {
        f(src, q, scale, min);
        for (uint32_t u = 0; u < elems / unit; u++)
            for (uint32_t i = u * unit; i < (u + 1) * unit; i++)
                dst[i] = has_min ? scale[u] * (float)q[i] - min[u] : scale[u] * (float)q[i];
    }
}

// Defines f_decode and f_unpack from f_block.
#define HEARTH_DEFINE_BLOCKS(f, elems, bytes, unit, has_min)                                                 \
    void f##_decode(const void *src, float *dst, size_t n)                                                   \
    {                                                                                                        \
        hearth_decode_blocks(f##_block, elems, bytes, unit, has_min, src, dst, n);                           \
    }                                                                                                        \
    void f##_unpack(const void *src, int8_t *q, float *scale, float *min, size_t n)                          \
    {                                                                                                        \
        hearth_unpack_blocks(f##_block, elems, bytes, unit, has_min, src, q, scale, min, n);                 \
    }

#endif
