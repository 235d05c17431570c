// SPDX-License-Identifier: MIT
// Encodes into the formats with 32 elements in a block. All but IQ4_NL work as ggml's reference quantisers do,
// so the same weights give the same file: the largest element gives the scale, and elements are multiplied by
// the reciprocal of the scale before it is rounded. Elements that are not finite give a block that is not finite
// either, never undefined behaviour.
#include <math.h>

#include "quant/formats.h"

// Truncates v to an integer in 0..top.
static uint8_t clamp(float v, uint8_t top)
{
    if (!(v > 0.0f))
        return 0;
    return v < (float)top ? (uint8_t)v : top;
}

static float reciprocal(float d)
{
    return d != 0.0f ? 1.0f / d : 0.0f;
}

// The element of largest magnitude, with its sign; the first of equals.
static float extreme(const float *x)
{
    float largest = 0.0f, value = 0.0f;
    for (int j = 0; j < 32; j++) {
        if (largest < fabsf(x[j])) {
            largest = fabsf(x[j]);
            value = x[j];
        }
    }
    return value;
}

static void range(const float *x, float *lowest, float *highest)
{
    *lowest = *highest = x[0];
    for (int j = 1; j < 32; j++) {
        if (x[j] < *lowest)
            *lowest = x[j];
        if (x[j] > *highest)
            *highest = x[j];
    }
}

// Packs q[32] of up to 5 bits: low 4 bits into 16 bytes, fifth bits into `high` (NULL: there are none).
static void pack(const uint8_t *q, uint8_t *low, uint8_t *high)
{
    for (int j = 0; j < 16; j++)
        low[j] = (uint8_t)((q[j] & 15) | (q[j + 16] & 15) << 4);
    if (!high)
        return;
    for (int j = 0; j < 4; j++) {
        high[j] = 0;
        for (int i = 0; i < 8; i++)
            high[j] = (uint8_t)(high[j] | (q[8 * j + i] >> 4) << i);
    }
}

// d * (q - bias). The element of largest magnitude gets q = 0, which is farthest from the bias.
static float symmetric(const float *x, uint8_t *q, int bias)
{
    float d = extreme(x) / (float)-bias, inverse = reciprocal(d);
    for (int j = 0; j < 32; j++)
        q[j] = clamp(x[j] * inverse + ((float)bias + 0.5f), (uint8_t)(2 * bias - 1));
    return d;
}

// d * q + m: m is the lowest element, q at most `top`.
static float affine(const float *x, uint8_t *q, uint8_t top, float *m)
{
    float highest;
    range(x, m, &highest);
    float d = (highest - *m) / (float)top, inverse = reciprocal(d);
    for (int j = 0; j < 32; j++)
        q[j] = clamp((x[j] - *m) * inverse + 0.5f, top);
    return d;
}

void hearth_q4_0_encode(const float *x, void *dst, size_t n)
{
    uint8_t q[32];
    for (uint8_t *b = dst; n >= 32; n -= 32, x += 32, b += 18) {
        hearth_store_f16(b, symmetric(x, q, 8));
        pack(q, b + 2, NULL);
    }
}

void hearth_q4_1_encode(const float *x, void *dst, size_t n)
{
    uint8_t q[32];
    float m;
    for (uint8_t *b = dst; n >= 32; n -= 32, x += 32, b += 20) {
        hearth_store_f16(b, affine(x, q, 15, &m));
        hearth_store_f16(b + 2, m);
        pack(q, b + 4, NULL);
    }
}

void hearth_q5_0_encode(const float *x, void *dst, size_t n)
{
    uint8_t q[32];
    for (uint8_t *b = dst; n >= 32; n -= 32, x += 32, b += 22) {
        hearth_store_f16(b, symmetric(x, q, 16));
        pack(q, b + 6, b + 2);
    }
}

void hearth_q5_1_encode(const float *x, void *dst, size_t n)
{
    uint8_t q[32];
    float m;
    for (uint8_t *b = dst; n >= 32; n -= 32, x += 32, b += 24) {
        hearth_store_f16(b, affine(x, q, 31, &m));
        hearth_store_f16(b + 2, m);
        pack(q, b + 8, b + 4);
    }
}

void hearth_q8_0_encode(const float *x, void *dst, size_t n)
{
    for (uint8_t *b = dst; n >= 32; n -= 32, x += 32, b += 34) {
        float d = fabsf(extreme(x)) / 127.0f, inverse = reciprocal(d);
        hearth_store_f16(b, d);
        for (int j = 0; j < 32; j++) {
            float v = roundf(x[j] * inverse);
            v = v > -127.0f ? v : -127.0f; // also catches NaN
            b[2 + j] = (uint8_t)(int8_t)(v < 127.0f ? v : 127.0f);
        }
    }
}

// The index of the value that is nearest to v.
static uint8_t nearest_value(float v)
{
    uint8_t q = 0;
    for (int i = 0; i < 15; i++)
        q = (uint8_t)(q + (v > 0.5f * (float)(hearth_iq4_values[i] + hearth_iq4_values[i + 1])));
    return q;
}

// The scale of least squared error, larger elements counting more, among those that bring the largest element
// to one of a few places: near either end of the values, as these are not symmetric.
static float nonlinear_scale(const float *x)
{
    static const float places[] = {-127, 113, -120, 106, -113, 100, -134, 120};
    const float largest = extreme(x);
    float best = -1.0f, scale = 0.0f, mean = 0.0f;
    for (int j = 0; j < 32; j++)
        mean += x[j] * x[j] / 32.0f;
    if (!isfinite(mean))
        return mean;
    for (size_t k = 0; largest != 0.0f && k < sizeof places / sizeof places[0]; k++) {
        float product = 0.0f, square = 0.0f;
        for (int j = 0; j < 32; j++) {
            const float weight = x[j] * x[j] + mean;
            const float value = hearth_iq4_values[nearest_value(x[j] * (places[k] / largest))];
            product += weight * value * x[j];
            square += weight * value * value;
        }
        // What is left of the sum of squares is less by this.
        const float explained = product * product / square;
        if (explained > best) {
            best = explained;
            scale = product / square;
        }
    }
    return scale;
}

void hearth_iq4_nl_encode(const float *x, void *dst, size_t n)
{
    uint8_t q[32];
    for (uint8_t *b = dst; n >= 32; n -= 32, x += 32, b += 18) {
        hearth_store_f16(b, nonlinear_scale(x));
        const float inverse = reciprocal(hearth_load_f16(b));
        for (int j = 0; j < 32; j++)
            q[j] = nearest_value(x[j] * inverse);
        pack(q, b + 2, NULL);
    }
}
