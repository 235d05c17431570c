// SPDX-License-Identifier: MIT
// Formats with 32 elements in a block, which share a scale (and a minimum). With 4 or 5 bits, byte j holds
// element j in its low half and element j + 16 in its high half.
#include <string.h>

#include "quant/formats.h"

const int8_t hearth_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

const int8_t hearth_fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static inline void nibbles(const uint8_t *src, int8_t *q, int bias)
{
    for (int j = 0; j < 16; j++) {
        q[j] = (int8_t)((src[j] & 15) - bias);
        q[j + 16] = (int8_t)((src[j] >> 4) - bias);
    }
}

static inline void table_nibbles(const uint8_t *src, int8_t *q, const int8_t *values)
{
    for (int j = 0; j < 16; j++) {
        q[j] = values[src[j] & 15];
        q[j + 16] = values[src[j] >> 4];
    }
}

// Fifth bits: bit i of `high` belongs to element i.
static inline void five_bits(const uint8_t *src, uint32_t high, int8_t *q, int bias)
{
    for (int j = 0; j < 16; j++) {
        q[j] = (int8_t)((int)((src[j] & 15) | (high >> j & 1) << 4) - bias);
        q[j + 16] = (int8_t)((int)((src[j] >> 4) | (high >> (j + 16) & 1) << 4) - bias);
    }
}

// f16 d, 16 bytes: d * (q - 8)
static void hearth_q4_0_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    (void)min;
    *scale = hearth_load_f16(b);
    nibbles(b + 2, q, 8);
}
HEARTH_DEFINE_BLOCKS(hearth_q4_0, 32, 18, 32, 0)

// f16 d, f16 m, 16 bytes: d * q + m
static void hearth_q4_1_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    *scale = hearth_load_f16(b);
    *min = -hearth_load_f16(b + 2);
    nibbles(b + 4, q, 0);
}
HEARTH_DEFINE_BLOCKS(hearth_q4_1, 32, 20, 32, 1)

// f16 d, u32 fifth bits, 16 bytes: d * (q - 16)
static void hearth_q5_0_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    (void)min;
    *scale = hearth_load_f16(b);
    five_bits(b + 6, hearth_load_u32(b + 2), q, 16);
}
HEARTH_DEFINE_BLOCKS(hearth_q5_0, 32, 22, 32, 0)

// f16 d, f16 m, u32 fifth bits, 16 bytes: d * q + m
static void hearth_q5_1_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    *scale = hearth_load_f16(b);
    *min = -hearth_load_f16(b + 2);
    five_bits(b + 8, hearth_load_u32(b + 4), q, 0);
}
HEARTH_DEFINE_BLOCKS(hearth_q5_1, 32, 24, 32, 1)

// f16 d, 32 signed bytes: d * q
static void hearth_q8_0_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    (void)min;
    *scale = hearth_load_f16(b);
    for (int j = 0; j < 32; j++)
        q[j] = (int8_t)b[2 + j];
}
HEARTH_DEFINE_BLOCKS(hearth_q8_0, 32, 34, 32, 0)

// f16 d, 16 bytes of indices: d * values[q]
static void hearth_iq4_nl_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    (void)min;
    *scale = hearth_load_f16(b);
    table_nibbles(b + 2, q, hearth_iq4_values);
}
HEARTH_DEFINE_BLOCKS(hearth_iq4_nl, 32, 18, 32, 0)

// One byte e, 16 bytes of FP4: 2^(e - 127) * value. The scale is half of that, as the values are doubled.
static void hearth_mxfp4_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    (void)min;
    // The bits of 2^(e - 128), which is subnormal for e below 2.
    uint32_t bits = b[0] < 2 ? 0x00200000u << b[0] : (uint32_t)(b[0] - 1) << 23;
    memcpy(scale, &bits, sizeof bits);
    table_nibbles(b + 1, q, hearth_fp4_values);
}
HEARTH_DEFINE_BLOCKS(hearth_mxfp4, 32, 17, 32, 0)
