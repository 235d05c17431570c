// SPDX-License-Identifier: MIT
// Small vector operations over the 16 lanes of instruction_set.h; included by PROCESSOR/vector_LEVEL.c after
// its lanes16.h.
#include <math.h>

#include "kernels/variants.h"

// Runs `body` for i = 0, 16, ... with LOAD/STORE of whole groups, and once more for the rest with partial
// ones.
#define FOR_LANES(n, body_full, body_part)                                                                   \
    do {                                                                                                     \
        size_t i = 0;                                                                                        \
        for (; i + LANES <= (n); i += LANES) {                                                               \
            body_full                                                                                        \
        }                                                                                                    \
        if (i < (n)) {                                                                                       \
            const size_t rest = (n)-i;                                                                       \
            body_part                                                                                        \
        }                                                                                                    \
    } while (0)

// One unit of 32 activations.
static void quantize_unit(const float *x, int8_t *hi, int8_t *lo, float *d, int32_t *sum, int32_t *bias)
{
    f32x16 v[2] = {f_load(x), f_load(x + LANES)};
    const float amax = f_most(f_max(f_abs(v[0]), f_max(f_abs(v[1]), f_zero())));
    float inverse = amax > 0 ? (float)HEARTH_ACTS_QMAX / amax : 0.0f;
    // x - x is 0, or NaN where x is not finite.
    const float bad = f_sum(f_add(f_sub(v[0], v[0]), f_sub(v[1], v[1])));
    *d = bad == 0.0f ? 0.0f : NAN;
    sum[0] = sum[1] = bias[0] = bias[1] = 0;
    if (bad != 0.0f || !(inverse <= 3.0e38f)) {
        memset(hi, 0, 32);
        memset(lo, 0, 32);
        return;
    }
    *d = amax / (float)HEARTH_ACTS_QMAX;
    i32x16 q[2], high[2];
    for (size_t i = 0; i < 2; i++) {
        q[i] = f_to_i(f_mul(v[i], f_set1(inverse)));
        high[i] = i_sar(i_add(q[i], i_set1(64)), 7);
        i_store_i8(hi + i * LANES, high[i]);
        i_store_i8(lo + i * LANES, i_sub(q[i], i_shl(high[i], 7)));
    }
    // Sums of integers below 2^24: exact as floats in any order.
    float sums[4];
    f_sum4(sums, i_to_f(q[0]), i_to_f(q[1]), i_to_f(high[0]), i_to_f(high[1]));
    for (size_t i = 0; i < 2; i++) {
        sum[i] = (int32_t)sums[i];
        bias[i] = -128 * (int32_t)sums[2 + i];
    }
}

static void quantize_acts(void *block, const float *x, size_t k)
{
    const size_t kp = hearth_acts_padded(k);
    int8_t *hi = block, *lo = hi + kp;
    float *d = (float *)(void *)(lo + kp);
    int32_t *sum = (int32_t *)(void *)(d + kp / 32), *bias = sum + kp / 16;
    size_t at = 0;
    for (; at + 32 <= k; at += 32)
        quantize_unit(x + at, hi + at, lo + at, d + at / 32, sum + at / 16, bias + at / 16);
    for (; at < kp; at += 32) {
        float part[32] = {0};
        if (at < k)
            memcpy(part, x + at, (k - at) * sizeof *part);
        quantize_unit(part, hi + at, lo + at, d + at / 32, sum + at / 16, bias + at / 16);
    }
}

static void rms_norm(float *out, const float *x, const float *w, size_t n, float eps)
{
    f32x16 acc = f_zero();
    FOR_LANES(
        n,
        {
            f32x16 v = f_load(x + i);
            acc = f_fma(v, v, acc);
        },
        {
            f32x16 v = f_load_part(x + i, rest);
            acc = f_fma(v, v, acc);
        });
    f32x16 scale = f_set1(1.0f / sqrtf(f_sum(acc) / (float)n + eps));
    FOR_LANES(
        n, { f_store(out + i, f_mul(f_mul(f_load(x + i), scale), f_load(w + i))); },
        {
            f_store_part(out + i, f_mul(f_mul(f_load_part(x + i, rest), scale), f_load_part(w + i, rest)),
                         rest);
        });
}

// Groups of 16 whose unused lanes are zero in the sums, whatever the mean is.
static void layer_norm(float *out, const float *x, const float *w, const float *b, size_t n, float eps)
{
    f32x16 acc = f_zero();
    FOR_LANES(
        n, { acc = f_add(acc, f_load(x + i)); }, { acc = f_add(acc, f_load_part(x + i, rest)); });
    const f32x16 mean = f_set1(f_sum(acc) / (float)n);
    acc = f_zero();
    FOR_LANES(
        n,
        {
            f32x16 d = f_sub(f_load(x + i), mean);
            acc = f_fma(d, d, acc);
        },
        {
            float part[LANES];
            f_store(part, f_sub(f_load_part(x + i, rest), mean));
            f32x16 d = f_load_part(part, rest);
            acc = f_fma(d, d, acc);
        });
    const f32x16 scale = f_set1(1.0f / sqrtf(f_sum(acc) / (float)n + eps));
    FOR_LANES(
        n,
        {
            f32x16 d = f_mul(f_sub(f_load(x + i), mean), scale);
            f_store(out + i, f_fma(d, f_load(w + i), b ? f_load(b + i) : f_zero()));
        },
        {
            f32x16 d = f_mul(f_sub(f_load_part(x + i, rest), mean), scale);
            f32x16 bias = b ? f_load_part(b + i, rest) : f_zero();
            f_store_part(out + i, f_fma(d, f_load_part(w + i, rest), bias), rest);
        });
}

static void add(float *x, const float *y, size_t n)
{
    FOR_LANES(
        n, { f_store(x + i, f_add(f_load(x + i), f_load(y + i))); },
        { f_store_part(x + i, f_add(f_load_part(x + i, rest), f_load_part(y + i, rest)), rest); });
}

INLINE f32x16 activated(f32x16 x, enum hearth_activation act)
{
    switch (act) {
    case HEARTH_ACT_SILU:
        return f_div(x, f_add(f_set1(1.0f), f_exp(f_neg(x))));
    case HEARTH_ACT_GELU:
        return f_gelu(x);
    case HEARTH_ACT_GELU_TANH: {
        const f32x16 slope = f_fma(f_mul(x, x), f_set1(0.0713548162726f), f_set1(1.5957691216057f));
        return f_div(x, f_add(f_set1(1.0f), f_exp(f_neg(f_mul(x, slope)))));
    }
    case HEARTH_ACT_SWIGLU_CLAMPED: {
        const f32x16 top = f_set1(7.0f), cut = f_if_less(top, x, top, x);
        return f_div(cut, f_add(f_set1(1.0f), f_exp(f_neg(f_mul(f_set1(1.702f), cut)))));
    }
    case HEARTH_ACT_SIGMOID:
        return f_div(f_set1(1.0f), f_add(f_set1(1.0f), f_exp(f_neg(x))));
    case HEARTH_ACT_JUMP_RELU:
        return f_if_less(f_zero(), x, f_add(x, f_set1(1.0f)), f_zero());
    case HEARTH_ACT_RELU_SQUARED:
        return f_if_less(f_zero(), x, f_mul(x, x), f_zero());
    case HEARTH_ACT_RELU:
    case HEARTH_ACT_DRELU:
        break;
    }
    return f_if_less(f_zero(), x, x, f_zero());
}

// What up becomes before the gate meets it.
INLINE f32x16 factor(f32x16 u, enum hearth_activation act)
{
    if (act == HEARTH_ACT_DRELU)
        return activated(u, act);
    if (act != HEARTH_ACT_SWIGLU_CLAMPED)
        return u;
    const f32x16 top = f_set1(7.0f), bottom = f_set1(-7.0f);
    const f32x16 cut = f_if_less(top, u, top, f_if_less(u, bottom, bottom, u));
    return f_add(cut, f_set1(1.0f));
}

INLINE f32x16 glu_lanes(f32x16 g, f32x16 u, enum hearth_activation act)
{
    return f_mul(activated(g, act), factor(u, act));
}

INLINE void glu_of(float *out, const float *gate, const float *up, size_t n, enum hearth_activation act)
{
    FOR_LANES(
        n, { f_store(out + i, glu_lanes(f_load(gate + i), f_load(up + i), act)); },
        {
            f_store_part(out + i, glu_lanes(f_load_part(gate + i, rest), f_load_part(up + i, rest), act),
                         rest);
        });
}

INLINE void activate_of(float *x, size_t n, enum hearth_activation act)
{
    FOR_LANES(
        n, { f_store(x + i, activated(f_load(x + i), act)); },
        { f_store_part(x + i, activated(f_load_part(x + i, rest), act), rest); });
}

// One loop an activation, so that none decides per element.
#define FOR_ACTIVATION(act, call)                                                                            \
    switch (act) {                                                                                           \
    case HEARTH_ACT_SILU:                                                                                    \
        call(HEARTH_ACT_SILU);                                                                               \
        break;                                                                                               \
    case HEARTH_ACT_RELU:                                                                                    \
        call(HEARTH_ACT_RELU);                                                                               \
        break;                                                                                               \
    case HEARTH_ACT_DRELU:                                                                                   \
        call(HEARTH_ACT_DRELU);                                                                              \
        break;                                                                                               \
    case HEARTH_ACT_GELU:                                                                                    \
        call(HEARTH_ACT_GELU);                                                                               \
        break;                                                                                               \
    case HEARTH_ACT_GELU_TANH:                                                                               \
        call(HEARTH_ACT_GELU_TANH);                                                                          \
        break;                                                                                               \
    case HEARTH_ACT_SWIGLU_CLAMPED:                                                                          \
        call(HEARTH_ACT_SWIGLU_CLAMPED);                                                                     \
        break;                                                                                               \
    case HEARTH_ACT_SIGMOID:                                                                                 \
        call(HEARTH_ACT_SIGMOID);                                                                            \
        break;                                                                                               \
    case HEARTH_ACT_JUMP_RELU:                                                                               \
        call(HEARTH_ACT_JUMP_RELU);                                                                          \
        break;                                                                                               \
    case HEARTH_ACT_RELU_SQUARED:                                                                            \
        call(HEARTH_ACT_RELU_SQUARED);                                                                       \
        break;                                                                                               \
    }

static void glu(float *out, const float *gate, const float *up, size_t n, enum hearth_activation act)
{
#define GLU(one) glu_of(out, gate, up, n, one)
    FOR_ACTIVATION(act, GLU)
#undef GLU
}

static void activate(float *x, size_t n, enum hearth_activation act)
{
#define ACTIVATE(one) activate_of(x, n, one)
    FOR_ACTIVATION(act, ACTIVATE)
#undef ACTIVATE
}

static float softmax_tile(float *s, size_t n, float scale, float *sum)
{
    f32x16 top = f_set1(-__builtin_inff()), by = f_set1(scale), acc = f_zero();
    FOR_LANES(
        n,
        {
            f32x16 v = f_mul(f_load(s + i), by);
            f_store(s + i, v);
            top = f_max(v, top);
        },
        {
            f32x16 v = f_mul(f_load_part(s + i, rest), by);
            f_store_part(s + i, v, rest);
            for (size_t k = i; k < n; k++)
                top = f_max(f_set1(s[k]), top);
        });
    const float max = f_most(top);
    f32x16 m = f_set1(max);
    FOR_LANES(
        n,
        {
            f32x16 e = f_exp(f_sub(f_load(s + i), m));
            f_store(s + i, e);
            acc = f_add(acc, e);
        },
        {
            f_store_part(s + i, f_exp(f_sub(f_load_part(s + i, rest), m)), rest);
            acc = f_add(acc, f_load_part(s + i, rest));
        });
    *sum = f_sum(acc);
    return max;
}

static void scale_add(float *out, float a, const float *y, float b, size_t n)
{
    f32x16 va = f_set1(a), vb = f_set1(b);
    FOR_LANES(
        n, { f_store(out + i, f_fma(f_load(y + i), vb, f_mul(f_load(out + i), va))); },
        {
            f_store_part(out + i, f_fma(f_load_part(y + i, rest), vb, f_mul(f_load_part(out + i, rest), va)),
                         rest);
        });
}

// Rows that pass a token together, so that their sums do not wait for one another.
#define DELTA_ROWS 4

enum rule { DELTA, DELTA_EACH, SCAN };

// What stays of 16 elements of a row, from element i on.
INLINE f32x16 kept(const float *from, size_t i, const struct hearth_delta *d, enum rule rule)
{
    return f_mul(f_load(from + i), rule == DELTA_EACH ? f_load(d->decays + i) : f_set1(d->decay));
}

// By how much of the keys each of `many` rows changes.
INLINE void delta_changes(f32x16 *change, const float *from, const float *v, size_t many,
                          const struct hearth_delta *d, enum rule rule)
{
    f32x16 acc[DELTA_ROWS] = {f_zero(), f_zero(), f_zero(), f_zero()};
    float sum[DELTA_ROWS] = {0};
    for (size_t i = 0; i < d->dim && rule != SCAN; i += LANES)
        for (size_t r = 0; r < many; r++) {
            const float *row = from + r * d->dim;
            acc[r] = f_fma(rule == DELTA ? f_load(row + i) : kept(row, i, d, rule), f_load(d->k + i), acc[r]);
        }
    if (rule != SCAN)
        f_sum4(sum, acc[0], acc[1], acc[2], acc[3]);
    for (size_t r = 0; r < many; r++)
        change[r] = f_set1(d->beta * (rule == SCAN    ? v[r]
                                      : rule == DELTA ? v[r] - d->decay * sum[r]
                                                      : v[r] - sum[r]));
}

// `many` rows, 1 or DELTA_ROWS.
INLINE void delta_rows(float *out, float *to, const float *from, const float *v, size_t many,
                       const struct hearth_delta *d, enum rule rule)
{
    f32x16 acc[DELTA_ROWS] = {f_zero(), f_zero(), f_zero(), f_zero()};
    float sum[DELTA_ROWS];
    f32x16 change[DELTA_ROWS];
    delta_changes(change, from, v, many, d, rule);
    for (size_t i = 0; i < d->dim; i += LANES)
        for (size_t r = 0; r < many; r++) {
            const f32x16 s = f_fma(f_load(d->k + i), change[r], kept(from + r * d->dim, i, d, rule));
            f_store(to + r * d->dim + i, s);
            acc[r] = f_fma(s, f_load(d->q + i), acc[r]);
        }
    f_sum4(sum, acc[0], acc[1], acc[2], acc[3]);
    for (size_t r = 0; r < many; r++)
        out[r] = sum[r];
}

INLINE void delta_all(float *out, float *to, const float *from, const float *v, size_t n,
                      const struct hearth_delta *d, enum rule rule)
{
    size_t r = 0;
    for (; r + DELTA_ROWS <= n; r += DELTA_ROWS)
        delta_rows(out + r, to + r * d->dim, from + r * d->dim, v + r, DELTA_ROWS, d, rule);
    for (; r < n; r++)
        delta_rows(out + r, to + r * d->dim, from + r * d->dim, v + r, 1, d, rule);
}

static void delta(float *out, float *to, const float *from, const float *v, size_t n,
                  const struct hearth_delta *d)
{
    delta_all(out, to, from, v, n, d, DELTA);
}

static void delta_each(float *out, float *to, const float *from, const float *v, size_t n,
                       const struct hearth_delta *d)
{
    delta_all(out, to, from, v, n, d, DELTA_EACH);
}

static void scan(float *out, float *to, const float *from, const float *v, size_t n,
                 const struct hearth_delta *d)
{
    delta_all(out, to, from, v, n, d, SCAN);
}

static void init_vector(struct hearth_kernels *t)
{
    HEARTH_ENTER_VECTOR(t)
}
