// SPDX-License-Identifier: MIT
// PROMPT products of block formats, with SDOT: a lane is a row, and has four consecutive weights of it; the four
// activations that they meet are one lane of a register.
#include "kernels/arm/prompt_arm.h"

#define STRIP       8
#define SCALES      STRIP
#define FACTORS     TOKENS
#define TOKEN_BYTES 0

INLINE size_t strip_bytes(const struct shape *s)
{
    (void)s;
    return 1;
}

// [k / 4][8 rows][4]
INLINE void pack_strip(int8_t *to, const int8_t *q, size_t depth, const struct shape *s)
{
    (void)s;
    for (size_t at = 0; at < depth; at += 16)
        for (size_t half = 0; half < 2; half++) {
            vec z[4];
            for (size_t r = 0; r < 4; r++)
                z[r] = vreinterpretq_f32_s8(vld1q_s8(q + (4 * half + r) * DEPTH + at));
            v_transpose(z);
            for (size_t i = 0; i < 4; i++)
                vst1q_s8(to + (at + 4 * i) * STRIP + 16 * half, vreinterpretq_s8_f32(z[i]));
        }
}

INLINE void pack_scales(float *to, const vec *rows)
{
    v_store(to, rows[0]);
    v_store(to + 4, rows[1]);
}

INLINE void pack_factors(float *to, vec tokens)
{
    v_store(to, tokens);
}

INLINE void pack_tokens(int8_t *to, const struct tokens *x, size_t depth, const struct shape *s)
{
    (void)to, (void)x, (void)depth, (void)s;
}

// Adds a unit's products with one plane.
INLINE void add_plane(int32x4_t (*sum)[TOKENS], const int8_t *q, const int8_t *const *x, size_t at, size_t n,
                      const struct shape *s)
{
    for (size_t i = 0; i < s->unit; i += 16, q += 16 * STRIP) {
        int8x16_t v[TOKENS];
        for (size_t t = 0; t < n; t++)
            v[t] = vld1q_s8(x[t] + at + i);
#define FOUR(j)                                                                                              \
    {                                                                                                        \
        const int8x16_t a = vld1q_s8(q + (j)*4 * STRIP), b = vld1q_s8(q + (j)*4 * STRIP + 16);               \
        ALL for (size_t t = 0; t < n; t++)                                                                   \
        {                                                                                                    \
            sum[0][t] = vdotq_laneq_s32(sum[0][t], a, v[t], j);                                              \
            sum[1][t] = vdotq_laneq_s32(sum[1][t], b, v[t], j);                                              \
        }                                                                                                    \
    }
        FOUR(0)
        FOUR(1)
        FOUR(2)
        FOUR(3)
#undef FOUR
    }
}

// acc[t] of n tokens (a constant after inlining) and STRIP rows.
INLINE void strip_tokens(float (*out)[STRIP], const struct strip *p, const struct tokens *x, size_t units,
                         size_t n, const struct shape *s)
{
    const int8_t *q = p->q;
    float32x4_t acc[2][TOKENS];
    for (size_t t = 0; t < n; t++)
        for (size_t h = 0; h < 2; h++)
            acc[h][t] = vld1q_f32(out[t] + 4 * h);
    for (size_t u = 0; u < units; u++, q += s->unit * (size_t)STRIP) {
        int32x4_t sum[2][TOKENS];
        for (size_t t = 0; t < n; t++)
            sum[0][t] = sum[1][t] = vdupq_n_s32(0);
        add_plane(sum, q, x->hi, u * s->unit, n, s);
        if (s->planes == 2) {
            for (size_t t = 0; t < n; t++)
                for (size_t h = 0; h < 2; h++)
                    sum[h][t] = vshlq_n_s32(sum[h][t], 7);
            add_plane(sum, q, x->lo, u * s->unit, n, s);
        }
        const float32x4_t d = vld1q_f32(x->d + u * FACTORS);
        const float32x4_t isum = s->has_min ? vld1q_f32(x->sum + u * FACTORS) : d;
        ALL for (size_t h = 0; h < 2; h++)
        {
            const float32x4_t scale = vld1q_f32(p->scale + u * SCALES + 4 * h);
            const float32x4_t min = s->has_min ? vld1q_f32(p->min + u * SCALES + 4 * h) : scale;
#define FINISH(t)                                                                                            \
    if (n > t) {                                                                                             \
        acc[h][t] = vfmaq_f32(acc[h][t], vmulq_laneq_f32(scale, d, t), vcvtq_f32_s32(sum[h][t]));            \
        if (s->has_min)                                                                                      \
            acc[h][t] = vfmsq_laneq_f32(acc[h][t], vmulq_laneq_f32(min, d, t), isum, t);                     \
    }
            FINISH(0)
            FINISH(1)
            FINISH(2)
            FINISH(3)
#undef FINISH
        }
    }
    for (size_t t = 0; t < n; t++)
        for (size_t h = 0; h < 2; h++)
            vst1q_f32(out[t] + 4 * h, acc[h][t]);
}

#include "kernels/arm/prompt_tmpl.h"

void hearth_kernels_init_prompt_dotprod(struct hearth_kernels *t)
{
    init_prompt(t);
}
