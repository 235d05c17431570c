// SPDX-License-Identifier: MIT
// Formats of one and two bits a weight without minima, and NVFP4.
#include <math.h>
#include <string.h>

#include "quant/formats.h"

static void same_scale(float *scale, size_t units, const uint8_t *half)
{
    for (size_t u = 0; u < units; u++)
        scale[u] = hearth_load_f16(half);
}

// ---- ternary: -d, 0, d

// 48 bytes of five digits each, 4 bytes of four, f16 d. The first 32 bytes have elements 0 to 159, the next 16 those to
// 239: digit n of byte m is element n * bytes + m. A byte is the fraction .d0 d1 d2 d3 d4 in base 3, in 256ths, rounded
// up: times 3, what carries out is a digit, what is left has the next ones.
static void tq1_digits(const uint8_t *src, size_t bytes, int digits, int8_t *q)
{
    for (size_t m = 0; m < bytes; m++) {
        unsigned rest = src[m];
        for (int n = 0; n < digits; n++) {
            q[(size_t)n * bytes + m] = (int8_t)((int)(3 * rest >> 8) - 1);
            rest = 3 * rest & 255;
        }
    }
}
static void hearth_tq1_0_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    (void)min;
    same_scale(scale, 8, b + 52);
    tq1_digits(b, 32, 5, q);
    tq1_digits(b + 32, 16, 5, q + 160);
    tq1_digits(b + 48, 4, 4, q + 240);
}
HEARTH_DEFINE_BLOCKS(hearth_tq1_0, 256, 54, 32, 0)

// 64 bytes, f16 d: d * (q - 1). 32 bytes carry 128 elements: bit pair j of byte l is element 32 * j + l.
static void hearth_tq2_0_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    (void)min;
    same_scale(scale, 8, b + 64);
    for (int half = 0; half < 2; half++, b += 32)
        for (int j = 0; j < 4; j++, q += 32)
            for (int l = 0; l < 32; l++)
                q[l] = (int8_t)((b[l] >> (2 * j) & 3) - 1);
}
HEARTH_DEFINE_BLOCKS(hearth_tq2_0, 256, 66, 32, 0)

// ---- one scale, then elements in their order from the lowest bits on

// f16 d, 16 bytes: d where the bit is set, else -d.
static void hearth_q1_0_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    (void)min;
    same_scale(scale, 4, b);
    for (int i = 0; i < 128; i++)
        q[i] = (int8_t)(2 * (b[2 + i / 8] >> i % 8 & 1) - 1);
}
HEARTH_DEFINE_BLOCKS(hearth_q1_0, 128, 18, 32, 0)

// f16 d, 16 bytes: d * (q - 1)
static void hearth_q2_0_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    (void)min;
    same_scale(scale, 2, b);
    for (int i = 0; i < 64; i++)
        q[i] = (int8_t)((b[2 + i / 4] >> i % 4 * 2 & 3) - 1);
}
HEARTH_DEFINE_BLOCKS(hearth_q2_0, 64, 18, 32, 0)

// ---- NVFP4

// Half of the scale of a byte: FP8 (E4M3) whose sign does not count, where 0x7f is nothing. The bits of a half have the
// same places but for the exponent, which counts from 8 less.
static float half_of_e4m3(uint8_t byte)
{
    return byte == 0x7f ? 0.0f : 128.0f * hearth_f16_to_f32((uint16_t)((byte & 0x7f) << 7));
}

// Four scales, 32 bytes of FP4, 8 for each 16 elements: byte j has element j in its low half, j + 8 in its high half.
// The values are doubled, so scales are halved.
static void hearth_nvfp4_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    (void)min;
    const uint8_t *src = b + 4;
    for (int u = 0; u < 4; u++, src += 8, q += 16) {
        scale[u] = half_of_e4m3(b[u]);
        for (int j = 0; j < 8; j++) {
            q[j] = hearth_fp4_values[src[j] & 15];
            q[j + 8] = hearth_fp4_values[src[j] >> 4];
        }
    }
}
HEARTH_DEFINE_BLOCKS(hearth_nvfp4, 64, 36, 16, 0)

// ---- encoding, as ggml's reference

static float largest(const float *x, size_t n)
{
    float most = 0.0f;
    for (size_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

// The nearest of least to most; what is no number becomes one of them.
static int nearest(float v, int least, int most)
{
    const float r = roundf(v), low = r > (float)least ? r : (float)least;
    return (int)(low < (float)most ? low : (float)most);
}

// A block's scale, the largest magnitude, as a half; returns what elements are multiplied by.
static float store_largest(uint8_t *half, const float *x, size_t n)
{
    const float d = largest(x, n);
    hearth_store_f16(half, d);
    return d > 0.0f ? 1.0f / d : 0.0f;
}

static void tq1_pack(const float *x, float inverse, size_t bytes, int digits, uint8_t *dst)
{
    for (size_t m = 0; m < bytes; m++) {
        unsigned number = 0;
        for (int n = 0; n < 5; n++)
            number = 3 * number +
                     (n < digits ? (unsigned)(nearest(x[(size_t)n * bytes + m] * inverse, -1, 1) + 1) : 0);
        dst[m] = (uint8_t)((number * 256 + 242) / 243);
    }
}

void hearth_tq1_0_encode(const float *x, void *dst, size_t n)
{
    for (uint8_t *b = dst; n >= 256; n -= 256, x += 256, b += 54) {
        const float inverse = store_largest(b + 52, x, 256);
        tq1_pack(x, inverse, 32, 5, b);
        tq1_pack(x + 160, inverse, 16, 5, b + 32);
        tq1_pack(x + 240, inverse, 4, 4, b + 48);
    }
}

void hearth_tq2_0_encode(const float *x, void *dst, size_t n)
{
    for (uint8_t *b = dst; n >= 256; n -= 256, x += 256, b += 66) {
        const float inverse = store_largest(b + 64, x, 256);
        memset(b, 0, 64);
        for (int i = 0; i < 256; i++)
            b[i / 128 * 32 + i % 32] |= (uint8_t)((nearest(x[i] * inverse, -1, 1) + 1) << i % 128 / 32 * 2);
    }
}

void hearth_q1_0_encode(const float *x, void *dst, size_t n)
{
    for (uint8_t *b = dst; n >= 128; n -= 128, x += 128, b += 18) {
        float sum = 0.0f;
        for (int i = 0; i < 128; i++)
            sum += fabsf(x[i]);
        hearth_store_f16(b, sum / 128.0f);
        memset(b + 2, 0, 16);
        for (int i = 0; i < 128; i++)
            b[2 + i / 8] |= (uint8_t)((x[i] >= 0.0f) << i % 8);
    }
}

void hearth_q2_0_encode(const float *x, void *dst, size_t n)
{
    for (uint8_t *b = dst; n >= 64; n -= 64, x += 64, b += 18) {
        const float inverse = store_largest(b, x, 64);
        memset(b + 2, 0, 16);
        for (int i = 0; i < 64; i++)
            b[2 + i / 4] |= (uint8_t)((nearest(x[i] * inverse, -1, 2) + 1) << i % 4 * 2);
    }
}
