// SPDX-License-Identifier: MIT
// Plain numbers: IEEE half, bfloat16, and f32 as stored in files (little-endian, unaligned). Conversions give
// the bits of the CPUs' instructions: round to nearest even; a NaN becomes quiet and keeps the upper part of
// its payload.
#include <string.h>

#include "quant/formats.h"

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

float hearth_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ff;
    if (exponent == 31)
        return float_of(sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0));
    if (exponent == 0)
        return float_of(sign | bits_of((float)mantissa * 0x1p-24f));
    return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t hearth_f32_to_f16(float f)
{
    uint32_t bits = bits_of(f), sign = bits >> 16 & 0x8000, a = bits & 0x7fffffff;
    if (a > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    if (a >= 0x47800000) // 65536 and more
        return (uint16_t)(sign | 0x7c00);
    if (a < 0x38800000) // below 2^-14: adding 0.5 leaves a multiple of 2^-24 in the low bits, rounded to even
        return (uint16_t)(sign | (bits_of(float_of(a) + 0.5f) - 0x3f000000));
    // 112 is the difference of the biases; a carry out of the mantissa raises the exponent, up to infinity.
    a += 0xfff + (a >> 13 & 1) - (112u << 23);
    return (uint16_t)(sign | a >> 13);
}

float hearth_bf16_to_f32(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

uint16_t hearth_f32_to_bf16(float f)
{
    uint32_t bits = bits_of(f);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void hearth_f32_decode(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = float_of(hearth_load_u32(p + 4 * i));
}

void hearth_f32_encode(const float *src, void *dst, size_t n)
{
    uint8_t *p = dst;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = bits_of(src[i]);
        hearth_store_u16(p + 4 * i, (uint16_t)bits);
        hearth_store_u16(p + 4 * i + 2, (uint16_t)(bits >> 16));
    }
}

void hearth_f16_decode(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = hearth_load_f16(p + 2 * i);
}

void hearth_f16_encode(const float *src, void *dst, size_t n)
{
    uint8_t *p = dst;
    for (size_t i = 0; i < n; i++)
        hearth_store_f16(p + 2 * i, src[i]);
}

void hearth_bf16_decode(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = hearth_bf16_to_f32(hearth_load_u16(p + 2 * i));
}

void hearth_bf16_encode(const float *src, void *dst, size_t n)
{
    uint8_t *p = dst;
    for (size_t i = 0; i < n; i++)
        hearth_store_u16(p + 2 * i, hearth_f32_to_bf16(src[i]));
}
