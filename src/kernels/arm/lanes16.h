// SPDX-License-Identifier: MIT
// The 16 lanes of kernels/instruction_set.h on 64-bit ARM: four registers.
#ifndef HEARTH_KERNELS_ARM_LANES16_H
#define HEARTH_KERNELS_ARM_LANES16_H

#include <arm_neon.h>

#include "kernels/instruction_set.h"

typedef struct {
    float32x4_t r[4];
} f32x16;
typedef struct {
    int32x4_t r[4];
} i32x16;

// A value whose register i is `expression`.
#define F_EACH(expression)                                                                                   \
    f32x16 z;                                                                                                \
    for (int i = 0; i < 4; i++)                                                                              \
        z.r[i] = expression;                                                                                 \
    return z
#define I_EACH(expression)                                                                                   \
    i32x16 z;                                                                                                \
    for (int i = 0; i < 4; i++)                                                                              \
        z.r[i] = expression;                                                                                 \
    return z

INLINE float half_at(const void *p)
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(word16_at(p)))), 0);
}

INLINE f32x16 f_zero(void)
{
    F_EACH(vdupq_n_f32(0));
}
INLINE f32x16 f_set1(float x)
{
    F_EACH(vdupq_n_f32(x));
}
INLINE f32x16 f_load(const float *p)
{
    F_EACH(vld1q_f32(p + 4 * i));
}
INLINE void f_store(float *p, f32x16 x)
{
    for (int i = 0; i < 4; i++)
        vst1q_f32(p + 4 * i, x.r[i]);
}
INLINE f32x16 f_fma(f32x16 a, f32x16 b, f32x16 c)
{
    F_EACH(vfmaq_f32(c.r[i], a.r[i], b.r[i]));
}
INLINE f32x16 f_add(f32x16 a, f32x16 b)
{
    F_EACH(vaddq_f32(a.r[i], b.r[i]));
}
INLINE f32x16 f_sub(f32x16 a, f32x16 b)
{
    F_EACH(vsubq_f32(a.r[i], b.r[i]));
}
INLINE f32x16 f_mul(f32x16 a, f32x16 b)
{
    F_EACH(vmulq_f32(a.r[i], b.r[i]));
}
INLINE f32x16 f_div(f32x16 a, f32x16 b)
{
    F_EACH(vdivq_f32(a.r[i], b.r[i]));
}
// The instruction for maxima has another opinion of NaN.
INLINE f32x16 f_max(f32x16 a, f32x16 b)
{
    F_EACH(vbslq_f32(vcgtq_f32(a.r[i], b.r[i]), a.r[i], b.r[i]));
}
INLINE f32x16 f_abs(f32x16 a)
{
    F_EACH(vabsq_f32(a.r[i]));
}
INLINE f32x16 f_neg(f32x16 a)
{
    F_EACH(vnegq_f32(a.r[i]));
}
INLINE f32x16 f_round(f32x16 a)
{
    F_EACH(vrndnq_f32(a.r[i]));
}
INLINE f32x16 f_if_less(f32x16 a, f32x16 b, f32x16 x, f32x16 y)
{
    F_EACH(vbslq_f32(vcltq_f32(a.r[i], b.r[i]), x.r[i], y.r[i]));
}
INLINE i32x16 f_to_i(f32x16 a)
{
    I_EACH(vcvtnq_s32_f32(a.r[i]));
}
INLINE f32x16 i_to_f(i32x16 a)
{
    F_EACH(vcvtq_f32_s32(a.r[i]));
}
INLINE i32x16 i_zero(void)
{
    I_EACH(vdupq_n_s32(0));
}
INLINE i32x16 i_set1(int32_t x)
{
    I_EACH(vdupq_n_s32(x));
}
INLINE i32x16 i_add(i32x16 a, i32x16 b)
{
    I_EACH(vaddq_s32(a.r[i], b.r[i]));
}
INLINE i32x16 i_sub(i32x16 a, i32x16 b)
{
    I_EACH(vsubq_s32(a.r[i], b.r[i]));
}
#define EACH_SHIFTED(shift, x, n)                                                                            \
    ((i32x16){{shift((x).r[0], n), shift((x).r[1], n), shift((x).r[2], n), shift((x).r[3], n)}})
#define i_shl(x, n) EACH_SHIFTED(vshlq_n_s32, x, n)
#define i_sar(x, n) EACH_SHIFTED(vshrq_n_s32, x, n)
INLINE f32x16 i_as_f(i32x16 a)
{
    F_EACH(vreinterpretq_f32_s32(a.r[i]));
}
INLINE void i_store_i8(int8_t *p, i32x16 x)
{
    const int16x8_t a = vcombine_s16(vmovn_s32(x.r[0]), vmovn_s32(x.r[1]));
    const int16x8_t b = vcombine_s16(vmovn_s32(x.r[2]), vmovn_s32(x.r[3]));
    vst1q_s8(p, vcombine_s8(vmovn_s16(a), vmovn_s16(b)));
}
INLINE i32x16 i_load_i8(const int8_t *p)
{
    const int8x16_t bytes = vld1q_s8(p);
    const int16x8_t a = vmovl_s8(vget_low_s8(bytes)), b = vmovl_s8(vget_high_s8(bytes));
    return (i32x16){{vmovl_s16(vget_low_s16(a)), vmovl_s16(vget_high_s16(a)), vmovl_s16(vget_low_s16(b)),
                     vmovl_s16(vget_high_s16(b))}};
}
INLINE f32x16 f_load_f16(const void *p)
{
    const uint8_t *from = p;
    F_EACH(vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(from + 8 * i))));
}
INLINE float32x4_t from_bf16(uint8x8_t x)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(x), 16));
}
INLINE f32x16 f_load_bf16(const void *p)
{
    const uint8_t *from = p;
    F_EACH(from_bf16(vld1_u8(from + 8 * i)));
}

// Lane i of the first result is the sum of lanes i, i + 4, i + 8 and i + 12, as the canonical tree adds them.
INLINE float32x4_t f_fold(f32x16 a)
{
    return vaddq_f32(vaddq_f32(a.r[0], a.r[2]), vaddq_f32(a.r[1], a.r[3]));
}
INLINE float f_sum(f32x16 a)
{
    const float32x4_t s4 = f_fold(a);
    const float32x2_t s2 = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));
    return vget_lane_f32(vpadd_f32(s2, s2), 0);
}
INLINE float f_most(f32x16 a)
{
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.r[0], a.r[1]), vmaxq_f32(a.r[2], a.r[3])));
}
INLINE void f_sum4(float *to, f32x16 a, f32x16 b, f32x16 c, f32x16 d)
{
    const float64x2_t a4 = vreinterpretq_f64_f32(f_fold(a)), b4 = vreinterpretq_f64_f32(f_fold(b));
    const float64x2_t c4 = vreinterpretq_f64_f32(f_fold(c)), d4 = vreinterpretq_f64_f32(f_fold(d));
    const float32x4_t ab =
        vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(a4, b4)), vreinterpretq_f32_f64(vzip2q_f64(a4, b4)));
    const float32x4_t cd =
        vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(c4, d4)), vreinterpretq_f32_f64(vzip2q_f64(c4, d4)));
    vst1q_f32(to, vpaddq_f32(ab, cd));
}

typedef float32x4_t vec;
#define VEC         4
#define V_REGISTERS 32
INLINE vec v_load(const float *p)
{
    return vld1q_f32(p);
}
INLINE void v_store(float *p, vec x)
{
    vst1q_f32(p, x);
}
INLINE vec v_set1(float x)
{
    return vdupq_n_f32(x);
}
INLINE vec v_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}
INLINE vec v_load_f16(const void *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}
INLINE vec v_load_bf16(const void *p)
{
    return from_bf16(vld1_u8(p));
}
INLINE void v_transpose(vec z[VEC])
{
    const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(z[0], z[1])),
                      b = vreinterpretq_f64_f32(vtrn2q_f32(z[0], z[1]));
    const float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(z[2], z[3])),
                      d = vreinterpretq_f64_f32(vtrn2q_f32(z[2], z[3]));
    z[0] = vreinterpretq_f32_f64(vzip1q_f64(a, c));
    z[1] = vreinterpretq_f32_f64(vzip1q_f64(b, d));
    z[2] = vreinterpretq_f32_f64(vzip2q_f64(a, c));
    z[3] = vreinterpretq_f32_f64(vzip2q_f64(b, d));
}

#include "kernels/lanes16_tmpl.h"

#endif
