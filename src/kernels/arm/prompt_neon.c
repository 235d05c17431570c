// SPDX-License-Identifier: MIT
// PROMPT products of block formats, NEON: a lane is a row.
//
// Narrow weights and the high plane alone are multiplied as bytes, eight rows an instruction, and added in 16
// bits for half a unit at least. All others become 16 bits wide, as the 15-bit activations do, which then
// need one product instead of two.
#include "kernels/arm/prompt_arm.h"

#define STRIP       16
#define SCALES      STRIP
#define FACTORS     TOKENS
#define TOKEN_BYTES 2 // 16-bit numbers

// The largest absolute value in a panel.
INLINE int largest(const struct shape *s)
{
    return s->offset > s->most - s->offset ? s->offset : s->most - s->offset;
}

// Sums of 16 products fit.
INLINE bool is_narrow(const struct shape *s)
{
    return s->planes == 1 && largest(s) * 127 * 16 <= INT16_MAX;
}

INLINE size_t strip_bytes(const struct shape *s)
{
    return is_narrow(s) ? 1 : 2;
}

// Narrow: [k][16 rows]; wide: [2][k][8 rows] of 16 bits.
INLINE void pack_strip(int8_t *to, const int8_t *q, size_t depth, const struct shape *s)
{
    if (is_narrow(s)) {
        for (size_t at = 0; at < depth; at += 16) {
            int8x16_t z[16], a[16];
            ALL for (size_t r = 0; r < 16; r++) z[r] = vld1q_s8(q + r * DEPTH + at);
            ALL for (size_t round = 0; round < 4; round++)
            {
                ALL for (size_t i = 0; i < 8; i++) a[2 * i] = vzip1q_s8(z[i], z[i + 8]),
                                                         a[2 * i + 1] = vzip2q_s8(z[i], z[i + 8]);
                ALL for (size_t i = 0; i < 16; i++) z[i] = a[i];
            }
            ALL for (size_t i = 0; i < 16; i++) vst1q_s8(to + (at + i) * STRIP, z[i]);
        }
        return;
    }
    int16_t *words = (int16_t *)(void *)to;
    for (size_t half = 0; half < 2; half++, q += 8 * DEPTH, words += 8 * DEPTH)
        for (size_t at = 0; at < depth; at += 8) {
            int16x8_t z[8], a[8];
            ALL for (size_t r = 0; r < 8; r++) z[r] = vmovl_s8(vld1_s8(q + r * DEPTH + at));
            ALL for (size_t round = 0; round < 3; round++)
            {
                ALL for (size_t i = 0; i < 4; i++) a[2 * i] = vzip1q_s16(z[i], z[i + 4]),
                                                         a[2 * i + 1] = vzip2q_s16(z[i], z[i + 4]);
                ALL for (size_t i = 0; i < 8; i++) z[i] = a[i];
            }
            ALL for (size_t i = 0; i < 8; i++) vst1q_s16(words + (at + i) * 8, z[i]);
        }
}

INLINE void pack_scales(float *to, const vec *rows)
{
    for (size_t i = 0; i < 4; i++)
        v_store(to + 4 * i, rows[i]);
}

INLINE void pack_factors(float *to, vec tokens)
{
    v_store(to, tokens);
}

// Wide: [TOKENS][DEPTH] of 16 bits.
INLINE void pack_tokens(int8_t *to, const struct tokens *x, size_t depth, const struct shape *s)
{
    int16_t *words = (int16_t *)(void *)to;
    for (size_t t = 0; t < TOKENS && !is_narrow(s); t++, words += DEPTH)
        for (size_t at = 0; at < depth; at += 16) {
            const int8x16_t hi = vld1q_s8(x->hi[t] + at);
            int16x8_t a = vmovl_s8(vget_low_s8(hi)), b = vmovl_high_s8(hi);
            if (s->planes == 2) {
                const int8x16_t lo = vld1q_s8(x->lo[t] + at);
                a = vaddw_s8(vshlq_n_s16(a, 7), vget_low_s8(lo));
                b = vaddw_high_s8(vshlq_n_s16(b, 7), lo);
            }
            vst1q_s16(words + at, a);
            vst1q_s16(words + at + 8, b);
        }
}

// Adds to acc of four rows and token t what their exact sums give.
#define FINISH(acc, scale, min, d, isum, t, exact)                                                           \
    acc = vfmaq_f32(acc, vmulq_laneq_f32(scale, d, t), vcvtq_f32_s32(exact));                                \
    if (s->has_min)                                                                                          \
        acc = vfmsq_laneq_f32(acc, vmulq_laneq_f32(min, d, t), isum, t);

// A byte 16 times, and on to the next one. Compilers would go through an integer register.
INLINE int8x16_t replicate(const int8_t **p)
{
    int8x16_t v;
    __asm__("ld1r {%0.16b}, [%1], #1" : "=w"(v), "+r"(*p) : "m"(**p));
    return v;
}

// acc[t] of n tokens (a constant after inlining) and 16 rows.
INLINE void narrow_tokens(float (*out)[STRIP], const struct strip *p, const struct tokens *x, size_t units,
                          size_t n, const struct shape *s)
{
    const size_t fit = s->unit == 32 && largest(s) * 127 * 32 <= INT16_MAX ? 32 : 16; // products that fit
    const bool in_memory = fit < s->unit; // two registers of sums leave none for accumulators
    const int8_t *q = p->q, *from[TOKENS];
    float32x4_t acc[4][TOKENS];
    for (size_t t = 0; t < n; t++) {
        from[t] = x->hi[t];
        for (size_t i = 0; i < 4; i++)
            acc[i][t] = vld1q_f32(out[t] + 4 * i);
    }
    for (size_t u = 0; u < units; u++) {
        int16x8_t sum[2][TOKENS], before[2][TOKENS];
        ALL for (size_t part = 0; part < s->unit; part += fit)
        {
            ALL for (size_t t = 0; t < n; t++)
            {
                before[0][t] = part ? sum[0][t] : vdupq_n_s16(0);
                before[1][t] = part ? sum[1][t] : vdupq_n_s16(0);
                sum[0][t] = sum[1][t] = vdupq_n_s16(0);
            }
            _Pragma("GCC unroll 32") for (size_t i = 0; i < fit; i++, q += STRIP)
            {
                const int8x16_t w = vld1q_s8(q);
                ALL for (size_t t = 0; t < n; t++)
                {
                    const int8x16_t v = replicate(&from[t]);
                    sum[0][t] = vmlal_s8(sum[0][t], vget_low_s8(w), vget_low_s8(v));
                    sum[1][t] = vmlal_high_s8(sum[1][t], w, v);
                }
            }
        }
        const float32x4_t d = vld1q_f32(x->d + u * FACTORS);
        const float32x4_t isum = s->has_min ? vld1q_f32(x->sum + u * FACTORS) : d;
        ALL for (size_t i = 0; i < 4; i++)
        {
            const float32x4_t scale = vld1q_f32(p->scale + u * SCALES + 4 * i);
            const float32x4_t min = s->has_min ? vld1q_f32(p->min + u * SCALES + 4 * i) : scale;
#define TOKEN(t)                                                                                             \
    if (n > t) {                                                                                             \
        float32x4_t a = in_memory ? vld1q_f32(out[t] + 4 * i) : acc[i][t];                                   \
        const int16x8_t now = sum[i / 2][t], other = before[i / 2][t];                                       \
        int32x4_t exact = i % 2 ? vmovl_high_s16(now) : vmovl_s16(vget_low_s16(now));                        \
        if (fit < s->unit)                                                                                   \
            exact = i % 2 ? vaddl_high_s16(now, other) : vaddl_s16(vget_low_s16(now), vget_low_s16(other));  \
        FINISH(a, scale, min, d, isum, t, exact)                                                             \
        if (in_memory)                                                                                       \
            vst1q_f32(out[t] + 4 * i, a);                                                                    \
        acc[i][t] = a;                                                                                       \
    }
            TOKEN(0)
            TOKEN(1)
            TOKEN(2)
            TOKEN(3)
#undef TOKEN
        }
    }
    for (size_t t = 0; t < n && !in_memory; t++)
        for (size_t i = 0; i < 4; i++)
            vst1q_f32(out[t] + 4 * i, acc[i][t]);
}

// The same of 8 rows from row `first` on, in 16 bits.
INLINE void wide_tokens(float (*out)[STRIP], size_t first, const struct strip *p, const struct tokens *x,
                        size_t units, size_t n, const struct shape *s)
{
    const int16_t *q = (const int16_t *)(const void *)p->q + first * DEPTH, *v = x->packed;
    float32x4_t acc[2][TOKENS];
    for (size_t t = 0; t < n; t++)
        for (size_t h = 0; h < 2; h++)
            acc[h][t] = vld1q_f32(out[t] + first + 4 * h);
    for (size_t u = 0; u < units; u++) {
        int32x4_t sum[2][TOKENS];
        ALL for (size_t t = 0; t < n; t++) sum[0][t] = sum[1][t] = vdupq_n_s32(0);
        ALL for (size_t i = 0; i < s->unit; i += 8, q += 64)
        {
            int16x8_t at[TOKENS];
            for (size_t t = 0; t < n; t++)
                at[t] = vld1q_s16(v + t * DEPTH + u * s->unit + i);
#define ONE(j)                                                                                               \
    {                                                                                                        \
        const int16x8_t w = vld1q_s16(q + 8 * (j));                                                          \
        ALL for (size_t t = 0; t < n; t++)                                                                   \
        {                                                                                                    \
            sum[0][t] = vmlal_laneq_s16(sum[0][t], vget_low_s16(w), at[t], j);                               \
            sum[1][t] = vmlal_high_laneq_s16(sum[1][t], w, at[t], j);                                        \
        }                                                                                                    \
    }
            ONE(0)
            ONE(1)
            ONE(2)
            ONE(3)
            ONE(4)
            ONE(5)
            ONE(6)
            ONE(7)
#undef ONE
        }
        const float32x4_t d = vld1q_f32(x->d + u * FACTORS);
        const float32x4_t isum = s->has_min ? vld1q_f32(x->sum + u * FACTORS) : d;
        ALL for (size_t h = 0; h < 2; h++)
        {
            const size_t at = u * SCALES + first + 4 * h;
            const float32x4_t scale = vld1q_f32(p->scale + at);
            const float32x4_t min = s->has_min ? vld1q_f32(p->min + at) : scale;
#define TOKEN(t)                                                                                             \
    if (n > t) {                                                                                             \
        FINISH(acc[h][t], scale, min, d, isum, t, sum[h][t])                                                 \
    }
            TOKEN(0)
            TOKEN(1)
            TOKEN(2)
            TOKEN(3)
#undef TOKEN
        }
    }
    for (size_t t = 0; t < n; t++)
        for (size_t h = 0; h < 2; h++)
            vst1q_f32(out[t] + first + 4 * h, acc[h][t]);
}

INLINE void strip_tokens(float (*out)[STRIP], const struct strip *p, const struct tokens *x, size_t units,
                         size_t n, const struct shape *s)
{
    if (is_narrow(s)) {
        narrow_tokens(out, p, x, units, n, s);
        return;
    }
    wide_tokens(out, 0, p, x, units, n, s);
    wide_tokens(out, 8, p, x, units, n, s);
}

#include "kernels/arm/prompt_tmpl.h"

void hearth_kernels_init_prompt_neon(struct hearth_kernels *t)
{
    init_prompt(t);
}
