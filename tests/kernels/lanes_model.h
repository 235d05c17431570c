// SPDX-License-Identifier: MIT
// The 16 lanes of kernels/instruction_set.h in C: what a processor has to provide, as plainly as possible.
// The kernels that are written once for all processors (src/kernels/*_tmpl.h) are compiled over them as one
// more level for checkkernels, so that they are proved on every machine, with registers of four floats.
#ifndef HEARTH_TESTS_LANES_MODEL_H
#define HEARTH_TESTS_LANES_MODEL_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/instruction_set.h"
#include "quant/quant.h"

struct hearth_kernels;
// Each fills the entries of its family.
void init_plain_model(struct hearth_kernels *t);
void init_axpy_model(struct hearth_kernels *t);
void init_vector_model(struct hearth_kernels *t);

typedef struct {
    float of[LANES];
} f32x16;
typedef struct {
    int32_t of[LANES];
} i32x16;

// Of rows of weights, which begin anywhere.
INLINE float float_at(const void *p)
{
    float x;
    memcpy(&x, p, sizeof x);
    return x;
}

INLINE float half_at(const void *p)
{
    return hearth_f16_to_f32(word16_at(p));
}

// A function of lane i of its arguments. Inlined, so many of them would take half a minute to compile.
#define EACH(type, name, params, value)                                                                      \
    static __attribute__((noinline, unused)) type name params                                                \
    {                                                                                                        \
        type y;                                                                                              \
        for (size_t i = 0; i < LANES; i++)                                                                   \
            y.of[i] = value;                                                                                 \
        return y;                                                                                            \
    }

EACH(f32x16, f_zero, (void), 0.0f)
EACH(f32x16, f_set1, (float x), x)
EACH(f32x16, f_load, (const float *p), float_at(p + i))
EACH(f32x16, f_load_f16, (const void *p), half_at((const uint8_t *)p + 2 * i))
EACH(f32x16, f_load_bf16, (const void *p), hearth_bf16_to_f32(word16_at((const uint8_t *)p + 2 * i)))
EACH(f32x16, f_fma, (f32x16 a, f32x16 b, f32x16 c), fmaf(a.of[i], b.of[i], c.of[i]))
EACH(f32x16, f_add, (f32x16 a, f32x16 b), a.of[i] + b.of[i])
EACH(f32x16, f_sub, (f32x16 a, f32x16 b), a.of[i] - b.of[i])
EACH(f32x16, f_mul, (f32x16 a, f32x16 b), a.of[i] * b.of[i])
EACH(f32x16, f_div, (f32x16 a, f32x16 b), a.of[i] / b.of[i])
EACH(f32x16, f_max, (f32x16 a, f32x16 b), a.of[i] > b.of[i] ? a.of[i] : b.of[i])
EACH(f32x16, f_abs, (f32x16 a), fabsf(a.of[i]))
EACH(f32x16, f_neg, (f32x16 a), -a.of[i])
EACH(f32x16, f_round, (f32x16 a), rintf(a.of[i]))
EACH(f32x16, f_if_less, (f32x16 a, f32x16 b, f32x16 x, f32x16 y_), a.of[i] < b.of[i] ? x.of[i] : y_.of[i])
EACH(f32x16, i_to_f, (i32x16 a), (float)a.of[i])
// What does not fit may become anything.
EACH(i32x16, f_to_i, (f32x16 a), fabsf(a.of[i]) < 2147483648.0f ? (int32_t)rintf(a.of[i]) : INT32_MIN)
EACH(i32x16, i_set1, (int32_t x), x)
EACH(i32x16, i_add, (i32x16 a, i32x16 b), (int32_t)((uint32_t)a.of[i] + (uint32_t)b.of[i]))
EACH(i32x16, i_sub, (i32x16 a, i32x16 b), (int32_t)((uint32_t)a.of[i] - (uint32_t)b.of[i]))
EACH(i32x16, i_shl, (i32x16 a, int n), (int32_t)((uint32_t)a.of[i] << n))
EACH(i32x16, i_sar, (i32x16 a, int n), a.of[i] >> n)
EACH(i32x16, i_load_i8, (const int8_t *p), p[i])

INLINE void f_store(float *p, f32x16 a)
{
    memcpy(p, a.of, sizeof a.of);
}
INLINE void i_store_i8(int8_t *p, i32x16 a)
{
    for (size_t i = 0; i < LANES; i++)
        p[i] = (int8_t)a.of[i];
}
INLINE f32x16 i_as_f(i32x16 a)
{
    f32x16 y;
    memcpy(&y, &a, sizeof y);
    return y;
}
INLINE float f_sum(f32x16 a)
{
    for (size_t width = LANES / 2; width; width /= 2)
        for (size_t i = 0; i < width; i++)
            a.of[i] += a.of[i + width];
    return a.of[0];
}
INLINE float f_most(f32x16 a)
{
    float most = a.of[0];
    for (int i = 1; i < LANES; i++)
        most = a.of[i] > most ? a.of[i] : most;
    return most;
}
INLINE void f_sum4(float *to, f32x16 a, f32x16 b, f32x16 c, f32x16 d)
{
    to[0] = f_sum(a);
    to[1] = f_sum(b);
    to[2] = f_sum(c);
    to[3] = f_sum(d);
}

#define VEC         4
#define V_REGISTERS 32
typedef struct {
    float of[VEC];
} vec;

INLINE vec v_load(const float *p)
{
    vec y;
    memcpy(y.of, p, sizeof y.of);
    return y;
}
INLINE void v_store(float *p, vec a)
{
    memcpy(p, a.of, sizeof a.of);
}
INLINE vec v_set1(float x)
{
    return (vec){{x, x, x, x}};
}
INLINE vec v_fma(vec a, vec b, vec c)
{
    for (size_t i = 0; i < VEC; i++)
        c.of[i] = fmaf(a.of[i], b.of[i], c.of[i]);
    return c;
}
INLINE vec v_load_f16(const void *p)
{
    vec y;
    for (size_t i = 0; i < VEC; i++)
        y.of[i] = half_at((const uint8_t *)p + 2 * i);
    return y;
}
INLINE vec v_load_bf16(const void *p)
{
    vec y;
    for (size_t i = 0; i < VEC; i++)
        y.of[i] = hearth_bf16_to_f32(word16_at((const uint8_t *)p + 2 * i));
    return y;
}
INLINE void v_transpose(vec z[VEC])
{
    for (size_t i = 0; i < VEC; i++)
        for (size_t j = 0; j < i; j++) {
            const float x = z[i].of[j];
            z[i].of[j] = z[j].of[i];
            z[j].of[i] = x;
        }
}

#include "kernels/lanes16_tmpl.h"

#endif
