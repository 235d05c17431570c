// SPDX-License-Identifier: MIT
// PROMPT products of block formats, with SMMLA: eight weights of two rows against eight activations of two tokens;
// a register has the four sums: first row and first token, first row and second token, second row...
#include "kernels/arm/prompt_arm.h"

#define STRIP       8
#define PAIRS       (STRIP / 2)
#define SCALES      (2 * STRIP)
#define FACTORS     (2 * TOKENS)
#define TOKEN_BYTES 2 // two planes

INLINE size_t strip_bytes(const struct shape *s)
{
    (void)s;
    return 1;
}

// Eight bytes of each side by side.
INLINE int8x16_t eights(int8x16_t a, int8x16_t b)
{
    return vreinterpretq_s8_s64(vzip1q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}
INLINE int8x16_t next_eights(int8x16_t a, int8x16_t b)
{
    return vreinterpretq_s8_s64(vzip2q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}

// [k / 8][4 pairs of rows][16]
INLINE void pack_strip(int8_t *to, const int8_t *q, size_t depth, const struct shape *s)
{
    (void)s;
    for (size_t at = 0; at < depth; at += 16)
        for (size_t i = 0; i < PAIRS; i++) {
            const int8x16_t a = vld1q_s8(q + 2 * i * DEPTH + at), b = vld1q_s8(q + (2 * i + 1) * DEPTH + at);
            vst1q_s8(to + at * STRIP + 16 * i, eights(a, b));
            vst1q_s8(to + (at + 8) * STRIP + 16 * i, next_eights(a, b));
        }
}

// Each row's twice, as a register of sums has two tokens of it.
INLINE void pack_scales(float *to, const vec *rows)
{
    for (size_t i = 0; i < 2; i++) {
        v_store(to + 8 * i, vzip1q_f32(rows[i], rows[i]));
        v_store(to + 8 * i + 4, vzip2q_f32(rows[i], rows[i]));
    }
}

// Each pair's twice, as a register of sums has two rows of it.
INLINE void pack_factors(float *to, vec tokens)
{
    v_store(to, vcombine_f32(vget_low_f32(tokens), vget_low_f32(tokens)));
    v_store(to + 4, vcombine_f32(vget_high_f32(tokens), vget_high_f32(tokens)));
}

// [planes][k / 8][2 pairs of tokens][16]
INLINE void pack_tokens(int8_t *to, const struct tokens *x, size_t depth, const struct shape *s)
{
    for (size_t plane = 0; plane < s->planes; plane++, to += TOKENS * DEPTH) {
        const int8_t *const *from = plane ? x->lo : x->hi;
        for (size_t at = 0; at < depth; at += 16)
            for (size_t i = 0; i < 2; i++) {
                const int8x16_t a = vld1q_s8(from[2 * i] + at), b = vld1q_s8(from[2 * i + 1] + at);
                vst1q_s8(to + at * TOKENS + 16 * i, eights(a, b));
                vst1q_s8(to + (at + 8) * TOKENS + 16 * i, next_eights(a, b));
            }
    }
}

// Adds a unit's products with one plane.
INLINE void add_plane(int32x4_t (*sum)[2], const int8_t *q, const int8_t *x, size_t pairs,
                      const struct shape *s)
{
    ALL for (size_t i = 0; i < s->unit; i += 8, q += 8 * STRIP, x += 8 * TOKENS)
    {
        int8x16_t v[2];
        for (size_t t = 0; t < pairs; t++)
            v[t] = vld1q_s8(x + 16 * t);
        ALL for (size_t r = 0; r < PAIRS; r++)
        {
            const int8x16_t w = vld1q_s8(q + 16 * r);
            for (size_t t = 0; t < pairs; t++)
                sum[r][t] = vmmlaq_s32(sum[r][t], w, v[t]);
        }
    }
}

// acc[t] of n tokens (a constant after inlining) and STRIP rows.
INLINE void strip_tokens(float (*out)[STRIP], const struct strip *p, const struct tokens *x, size_t units,
                         size_t n, const struct shape *s)
{
    const size_t pairs = n / 2;
    const int8_t *q = p->q, *v = x->packed;
    float32x4_t acc[PAIRS][2];
    for (size_t t = 0; t < pairs; t++)
        for (size_t h = 0; h < 2; h++) {
            const float32x4_t a = vld1q_f32(out[2 * t] + 4 * h), b = vld1q_f32(out[2 * t + 1] + 4 * h);
            acc[2 * h][t] = vzip1q_f32(a, b);
            acc[2 * h + 1][t] = vzip2q_f32(a, b);
        }
    for (size_t u = 0; u < units; u++, q += s->unit * (size_t)STRIP, v += s->unit * (size_t)TOKENS) {
        int32x4_t sum[PAIRS][2];
        ALL for (size_t r = 0; r < PAIRS; r++) sum[r][0] = sum[r][1] = vdupq_n_s32(0);
        add_plane(sum, q, v, pairs, s);
        if (s->planes == 2) {
            ALL for (size_t r = 0; r < PAIRS; r++) for (size_t t = 0; t < pairs; t++) sum[r][t] =
                vshlq_n_s32(sum[r][t], 7);
            add_plane(sum, q, v + TOKENS * DEPTH, pairs, s);
        }
        float32x4_t d[2], isum[2];
        for (size_t t = 0; t < pairs; t++) {
            d[t] = vld1q_f32(x->d + u * FACTORS + 4 * t);
            isum[t] = s->has_min ? vld1q_f32(x->sum + u * FACTORS + 4 * t) : d[t];
        }
        ALL for (size_t r = 0; r < PAIRS; r++)
        {
            const float32x4_t scale = vld1q_f32(p->scale + u * SCALES + 4 * r);
            const float32x4_t min = s->has_min ? vld1q_f32(p->min + u * SCALES + 4 * r) : scale;
            for (size_t t = 0; t < pairs; t++) {
                acc[r][t] = vfmaq_f32(acc[r][t], vmulq_f32(scale, d[t]), vcvtq_f32_s32(sum[r][t]));
                if (s->has_min)
                    acc[r][t] = vfmsq_f32(acc[r][t], vmulq_f32(min, d[t]), isum[t]);
            }
        }
    }
    for (size_t t = 0; t < pairs; t++)
        for (size_t h = 0; h < 2; h++) {
            vst1q_f32(out[2 * t] + 4 * h, vuzp1q_f32(acc[2 * h][t], acc[2 * h + 1][t]));
            vst1q_f32(out[2 * t + 1] + 4 * h, vuzp2q_f32(acc[2 * h][t], acc[2 * h + 1][t]));
        }
}

#include "kernels/arm/prompt_tmpl.h"

void hearth_kernels_init_prompt_i8mm(struct hearth_kernels *t)
{
    init_prompt(t);
}
