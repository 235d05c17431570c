// SPDX-License-Identifier: MIT
// Small vector operations, reference.
#include "kernels/canonical_c.h"
#include "kernels/variants.h"

// Range reduction x = n ln 2 + r, |r| <= ln 2 / 2, then a polynomial of degree 6 whose coefficients minimise
// the relative error on that range, then 2^n by way of the exponent bits in two steps (n may be -127 or 128).
float hearth_exp(float x)
{
    if (!(x >= -87.3f))
        return x < -87.3f ? 0.0f : x; // NaN stays NaN
    if (x > 88.7f)
        return INFINITY;
    float n = rintf(x * 1.44269504088896341f);
    float r = fmaf(n, -0.693145751953125f, x);
    r = fmaf(n, -1.428606765330187045e-6f, r);
    float p = 0.0013814599f;
    p = fmaf(p, r, 0.008368717f);
    p = fmaf(p, r, 0.04166839f);
    p = fmaf(p, r, 0.16666521f);
    p = fmaf(p, r, 0.49999994f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    int32_t half = (int32_t)n >> 1, rest = (int32_t)n - half;
    uint32_t a = (uint32_t)(half + 127) << 23, b = (uint32_t)(rest + 127) << 23;
    float fa, fb;
    memcpy(&fa, &a, sizeof fa);
    memcpy(&fb, &b, sizeof fb);
    return p * fa * fb;
}

// Phi(-|x|) = erfcx(z) / 2 * exp(-x * x / 2) with z = |x| / sqrt(2). erfcx(z) / 2 is a polynomial of degree 8
// without constant term in 1 / (1 + 0.42 z), whose coefficients minimise the relative error for z in 0..9.4.
float hearth_gelu(float x)
{
    if (!(x >= -13.2f))
        return x < -13.2f ? 0.0f : x; // NaN stays NaN
    if (x > 13.2f)
        return x;
    float t = 1.0f / fmaf(fabsf(x), 0.29698484809834995f, 1.0f);
    float p = 0.03519554494949891f;
    p = fmaf(p, t, -0.16046557839532272f);
    p = fmaf(p, t, 0.22092558869448145f);
    p = fmaf(p, t, -0.06581381182663448f);
    p = fmaf(p, t, 0.13466761185023565f);
    p = fmaf(p, t, 0.09727156141864896f);
    p = fmaf(p, t, 0.1198078838055423f);
    p = fmaf(p, t, 0.11841111823033978f);
    float tail = p * t * hearth_exp(x * x * -0.5f);
    return x < 0.0f ? x * tail : fmaf(-x, tail, x);
}

static void quantize_acts(void *block, const float *x, size_t k)
{
    const size_t kp = hearth_acts_padded(k);
    int8_t *hi = block, *lo = hi + kp;
    float *d = (float *)(void *)(lo + kp);
    int32_t *sum = (int32_t *)(void *)(d + kp / 32), *bias = sum + kp / 16;
    memset(block, 0, hearth_acts_bytes(k));
    for (size_t at = 0; at < k; at += 32) {
        size_t n = k - at < 32 ? k - at : 32;
        float amax = 0;
        bool finite = true;
        for (size_t i = 0; i < n; i++) {
            amax = fabsf(x[at + i]) > amax ? fabsf(x[at + i]) : amax;
            finite &= isfinite(x[at + i]) != 0;
        }
        if (!finite) {
            d[at / 32] = NAN;
            continue;
        }
        float inverse = amax > 0 ? (float)HEARTH_ACTS_QMAX / amax : 0.0f;
        // So small that its inverse overflows: as good as zero.
        if (!(inverse <= 3.0e38f))
            continue;
        d[at / 32] = amax / (float)HEARTH_ACTS_QMAX;
        for (size_t i = 0; i < n; i++) {
            int32_t q = (int32_t)rintf(x[at + i] * inverse);
            int32_t high = (q + 64) >> 7;
            hi[at + i] = (int8_t)high;
            lo[at + i] = (int8_t)(q - 128 * high);
            sum[(at + i) / 16] += q;
            bias[(at + i) / 16] -= 128 * high;
        }
    }
}

static void rms_norm(float *out, const float *x, const float *w, size_t n, float eps)
{
    float lane[LANES] = {0};
    for (size_t i = 0; i < (n + LANES - 1) / LANES * LANES; i++)
        lane[i % LANES] = fmaf(i < n ? x[i] : 0.0f, i < n ? x[i] : 0.0f, lane[i % LANES]);
    float scale = 1.0f / sqrtf(sum_lanes(lane) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * scale * w[i];
}

static void layer_norm(float *out, const float *x, const float *w, const float *b, size_t n, float eps)
{
    float lane[LANES] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % LANES] += x[i];
    const float mean = sum_lanes(lane) / (float)n;
    memset(lane, 0, sizeof lane);
    for (size_t i = 0; i < n; i++)
        lane[i % LANES] = fmaf(x[i] - mean, x[i] - mean, lane[i % LANES]);
    const float scale = 1.0f / sqrtf(sum_lanes(lane) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = fmaf((x[i] - mean) * scale, w[i], b ? b[i] : 0.0f);
}

static void add(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

static float activated(float x, enum hearth_activation act)
{
    switch (act) {
    case HEARTH_ACT_SILU:
        return x / (1.0f + hearth_exp(-x));
    case HEARTH_ACT_GELU:
        return hearth_gelu(x);
    case HEARTH_ACT_GELU_TANH:
        return x / (1.0f + hearth_exp(-(x * fmaf(x * x, 0.0713548162726f, 1.5957691216057f))));
    case HEARTH_ACT_SWIGLU_CLAMPED:
        x = x > 7.0f ? 7.0f : x;
        return x / (1.0f + hearth_exp(-(1.702f * x)));
    case HEARTH_ACT_SIGMOID:
        return 1.0f / (1.0f + hearth_exp(-x));
    case HEARTH_ACT_JUMP_RELU:
        return x > 0 ? x + 1.0f : 0.0f;
    case HEARTH_ACT_RELU_SQUARED:
        return x > 0 ? x * x : 0.0f;
    case HEARTH_ACT_RELU:
    case HEARTH_ACT_DRELU:
        break;
    }
    return x > 0 ? x : 0.0f;
}

// What up becomes before the gate meets it.
static float factor(float up, enum hearth_activation act)
{
    if (act == HEARTH_ACT_DRELU)
        return activated(up, act);
    if (act != HEARTH_ACT_SWIGLU_CLAMPED)
        return up;
    const float cut = up > 7.0f ? 7.0f : up < -7.0f ? -7.0f : up;
    return cut + 1.0f;
}

static void glu(float *out, const float *gate, const float *up, size_t n, enum hearth_activation act)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = activated(gate[i], act) * factor(up[i], act);
    }
}

static void activate(float *x, size_t n, enum hearth_activation act)
{
    for (size_t i = 0; i < n; i++)
        x[i] = activated(x[i], act);
}

static void rope(float *x, const float *cos_sin, size_t n_heads, size_t head_dim, size_t n_rot, bool neox)
{
    const size_t pairs = n_rot / 2;
    for (size_t h = 0; h < n_heads; h++)
        for (size_t i = 0; i < pairs; i++) {
            float *a = x + h * head_dim + (neox ? i : 2 * i), *b = a + (neox ? pairs : 1);
            float c = cos_sin[i], s = cos_sin[pairs + i], old_a = *a, old_b = *b;
            *a = fmaf(old_a, c, -(old_b * s));
            *b = fmaf(old_a, s, old_b * c);
        }
}

static float softmax_tile(float *s, size_t n, float scale, float *sum)
{
    float max = -INFINITY, lane[LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        s[i] *= scale;
        max = s[i] > max ? s[i] : max;
    }
    for (size_t i = 0; i < n; i++) {
        s[i] = hearth_exp(s[i] - max);
        lane[i % LANES] += s[i];
    }
    *sum = sum_lanes(lane);
    return max;
}

static void scale_add(float *out, float a, const float *y, float b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = fmaf(y[i], b, out[i] * a);
}

static float dot(const float *a, const float *b, size_t n)
{
    float lane[LANES] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % LANES] = fmaf(a[i], b[i], lane[i % LANES]);
    return sum_lanes(lane);
}

static void delta(float *out, float *to, const float *from, const float *v, size_t n,
                  const struct hearth_delta *d)
{
    for (size_t r = 0; r < n; r++, to += d->dim, from += d->dim) {
        const float change = d->beta * (v[r] - d->decay * dot(from, d->k, d->dim));
        for (size_t i = 0; i < d->dim; i++)
            to[i] = fmaf(d->k[i], change, from[i] * d->decay);
        out[r] = dot(to, d->q, d->dim);
    }
}

static void delta_each(float *out, float *to, const float *from, const float *v, size_t n,
                       const struct hearth_delta *d)
{
    for (size_t r = 0; r < n; r++, to += d->dim, from += d->dim) {
        for (size_t i = 0; i < d->dim; i++)
            to[i] = from[i] * d->decays[i];
        const float change = d->beta * (v[r] - dot(to, d->k, d->dim));
        for (size_t i = 0; i < d->dim; i++)
            to[i] = fmaf(d->k[i], change, to[i]);
        out[r] = dot(to, d->q, d->dim);
    }
}

static void scan(float *out, float *to, const float *from, const float *v, size_t n,
                 const struct hearth_delta *d)
{
    for (size_t r = 0; r < n; r++, to += d->dim, from += d->dim) {
        const float change = d->beta * v[r];
        for (size_t i = 0; i < d->dim; i++)
            to[i] = fmaf(d->k[i], change, from[i] * d->decay);
        out[r] = dot(to, d->q, d->dim);
    }
}

void hearth_kernels_init_vector_c(struct hearth_kernels *t)
{
    HEARTH_ENTER_VECTOR(t)
    t->rope = rope;
}
