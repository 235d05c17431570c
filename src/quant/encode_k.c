// SPDX-License-Identifier: MIT
// Encodes into the K-quants: searches for scales (and minima) that keep the weighted squared error of a block
// of 256 elements small. Larger elements have larger weights in that error, because they contribute most to
// products.
//
// 1. Each unit is fitted alone. For several starting steps, elements are rounded to integers, and least
//    squares gives the best real scale and minimum for these integers. The best of the starts is improved by
//    turns.
// 2. The units' scales become small integers times the block's f16 factor. Neighbouring integers are tried
//    too: elements are rounded again, so the nearest integer is not always the best.
// 3. Least squares over all integers gives new factors of the block, which are kept if they are better.
// Elements that are not finite give an unspecified block, never undefined behaviour: hearth_encode_checked() tells of
// them.
//
// On x86-64 there is a second copy of everything for AVX2: it does the same operations in the same order.
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/cpu.h"
#include "quant/formats.h"

#define INLINE static inline __attribute__((always_inline))

#define BLOCK  256
#define STARTS 7 // steps that are tried on either side of the obvious one
#define LANES  8 // independent partial sums

// ---- rounding and sums

// Rounds to the nearest integer in low..high, ties to even; NaN gives low. Adding 1.5 * 2^23 pushes the
// fraction out of the mantissa. Compilers can vectorise that, but not a call of rintf().
INLINE float round_into(float v, float low, float high)
{
    v = v > low ? v : low;
    v = v < high ? v : high;
    return (v + 12582912.0f) - 12582912.0f;
}

// Passed by address: vectors of 32 bytes have no calling convention that all x86-64 share.
typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t lane_bits __attribute__((vector_size(4 * LANES)));

// round_into() of each lane.
INLINE void round_lanes(lanes *v, float low, float high)
{
    const lanes least = low - (lanes){0}, most = high - (lanes){0};
    lane_bits inside = *v > least;
    *v = (lanes)((inside & (lane_bits)*v) | (~inside & (lane_bits)least));
    inside = *v < most;
    *v = (lanes)((inside & (lane_bits)*v) | (~inside & (lane_bits)most));
    *v = (*v + 12582912.0f) - 12582912.0f;
}

INLINE float add_lanes(const lanes *v)
{
    const lanes l = *v;
    return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
}

// Elements and their weights, and q = (x + shift) * inverse rounded within low..high.
INLINE void load_and_round(lanes *xi, lanes *wi, lanes *q, const float *x, const float *w, float inverse,
                           float shift, float low, float high)
{
    memcpy(xi, x, sizeof *xi);
    memcpy(wi, w, sizeof *wi);
    *q = (*xi + shift) * inverse;
    round_lanes(q, low, high);
}

// Weighted sums over a unit, for least squares.
struct sums {
    float w, x, q, qq, xq;
};

// The weighted squared error of x = scale * q - min for the integers of these sums, without the terms that do
// not depend on scale and min. Cheap, and exact enough to compare candidates.
INLINE float gain_of(const struct sums *t, float scale, float min)
{
    return scale * (scale * t->qq - 2.0f * (t->xq + min * t->q)) + min * (min * t->w + 2.0f * t->x);
}

// Rounds elements to q = (x + shift) * inverse within low..high and adds up.
INLINE struct sums round_and_sum(const float *x, const float *w, int n, float inverse, float shift, float low,
                                 float high)
{
    lanes sw = {0}, sx = {0}, sq = {0}, sqq = {0}, sxq = {0};
    for (int i = 0; i < n; i += LANES) {
        lanes xi, wi, q;
        load_and_round(&xi, &wi, &q, x + i, w + i, inverse, shift, low, high);
        sw += wi;
        sx += wi * xi;
        sq += wi * q;
        sqq += wi * q * q;
        sxq += wi * xi * q;
    }
    return (struct sums){add_lanes(&sw), add_lanes(&sx), add_lanes(&sq), add_lanes(&sqq), add_lanes(&sxq)};
}

// Weighted squared error of x = scale * q - min when every element takes its best q.
INLINE float error_of(const float *x, const float *w, int n, float scale, float min, float low, float high)
{
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    lanes sum = {0};
    for (int i = 0; i < n; i += LANES) {
        lanes xi, wi, q;
        load_and_round(&xi, &wi, &q, x + i, w + i, inverse, min, low, high);
        const lanes e = xi + min - scale * q;
        sum += wi * e * e;
    }
    return add_lanes(&sum);
}

INLINE void round_unit(const float *x, int n, float scale, float min, float low, float high, int8_t *q)
{
    float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    for (int i = 0; i < n; i++)
        q[i] = (int8_t)round_into((x[i] + min) * inverse, low, high);
}

// Rounds to f16: the factor that a reader will see.
INLINE float stored(float v)
{
    return hearth_f16_to_f32(hearth_f32_to_f16(v));
}

INLINE int clamp_int(int v, int low, int high)
{
    return v < low ? low : v > high ? high : v;
}

// An integer scale near v / factor.
INLINE int nearest(float v, float factor, int low, int high)
{
    float inverse = factor != 0.0f ? 1.0f / factor : 0.0f;
    return (int)round_into(v * inverse, (float)low, (float)high);
}

// Weights of elements in the error: mean magnitude plus their own, between "all alike" and "only large ones".
INLINE void weigh(const float *x, int unit, float *w)
{
    for (int u = 0; u < BLOCK; u += unit) {
        float sum = 0.0f;
        for (int i = 0; i < unit; i++)
            sum += x[u + i] * x[u + i];
        float mean = sqrtf(sum / (float)unit);
        for (int i = 0; i < unit; i++)
            w[u + i] = mean + fabsf(x[u + i]);
    }
}

// ---- formats with minima: Q2_K, Q4_K, Q5_K

struct affine_format {
    int unit, q_max, s_max; // elements of a unit; largest q; largest integer scale and minimum
};

struct affine_block {
    float d, dmin;
    int s[16], m[16];
    int8_t q[BLOCK];
};

// The best scale and minimum (both at least 0) for the integers of these sums. False: they are all alike.
INLINE bool solve_affine(const struct sums *t, float *scale, float *min)
{
    float det = t->w * t->qq - t->q * t->q;
    if (!(det > 0.0f))
        return false;
    *scale = (t->w * t->xq - t->x * t->q) / det;
    *min = (t->q * t->xq - t->qq * t->x) / det;
    if (*min < 0.0f) {
        *min = 0.0f;
        *scale = t->xq / t->qq;
    }
    return *scale > 0.0f;
}

INLINE void fit_affine_unit(const float *x, const float *w, int n, int q_max, float *scale, float *min)
{
    float low = 0.0f, high = x[0], top = (float)q_max;
    for (int i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    *min = -low;
    *scale = (high - low) / top;
    if (!(*scale > 0.0f)) {
        *scale = 0.0f;
        return;
    }
    float best = INFINITY, s, m;
    // Steps that would spread the range over q_max - 1 to q_max + 1 integers.
    for (int i = -STARTS; i <= STARTS; i++) {
        struct sums t = round_and_sum(x, w, n, (top + (float)i / STARTS) / (high - low), -low, 0.0f, top);
        if (!solve_affine(&t, &s, &m))
            continue;
        float e = gain_of(&t, s, m);
        if (e < best) {
            best = e;
            *scale = s;
            *min = m;
        }
    }
    best = error_of(x, w, n, *scale, *min, 0.0f, top);
    for (int i = 0; i < 4; i++) {
        struct sums t = round_and_sum(x, w, n, 1.0f / *scale, *min, 0.0f, top);
        if (!solve_affine(&t, &s, &m))
            break;
        float e = error_of(x, w, n, s, m, 0.0f, top);
        if (!(e < best))
            break;
        best = e;
        *scale = s;
        *min = m;
    }
}

// Chooses integer scales and minima for the block's factors. Returns the block's error.
INLINE float choose_affine(const struct affine_format *f, const float *x, const float *w, const float *scale,
                           const float *min, struct affine_block *b)
{
    float total = 0.0f;
    for (int u = 0; u < BLOCK / f->unit; u++, x += f->unit, w += f->unit) {
        int s0 = nearest(scale[u], b->d, 0, f->s_max), m0 = nearest(min[u], b->dmin, 0, f->s_max);
        float best = INFINITY;
        for (int i = 0; i < 5; i++) {
            static const int8_t ds[5] = {0, -1, 1, 0, 0}, dm[5] = {0, 0, 0, -1, 1};
            int s = clamp_int(s0 + ds[i], 0, f->s_max), m = clamp_int(m0 + dm[i], 0, f->s_max);
            float e = error_of(x, w, f->unit, b->d * (float)s, b->dmin * (float)m, 0.0f, (float)f->q_max);
            if (i == 0 || e < best) {
                best = e;
                b->s[u] = s;
                b->m[u] = m;
            }
        }
        total += best;
    }
    return total;
}

// The block's best factors for its integers, by least squares of x = d * (s * q) - dmin * m.
INLINE bool solve_affine_block(const struct affine_format *f, const float *x, const float *w,
                               struct affine_block *b, float *d, float *dmin)
{
    double aa = 0, am = 0, mm = 0, xa = 0, xm = 0;
    for (int u = 0; u < BLOCK / f->unit; u++) {
        float s = (float)b->s[u], m = (float)b->m[u];
        float inverse = b->d * s != 0.0f ? 1.0f / (b->d * s) : 0.0f;
        struct sums t = round_and_sum(x + u * f->unit, w + u * f->unit, f->unit, inverse, b->dmin * m, 0.0f,
                                      (float)f->q_max);
        aa += (double)(s * s * t.qq);
        am += (double)(s * m * t.q);
        mm += (double)(m * m * t.w);
        xa += (double)(s * t.xq);
        xm += (double)(m * t.x);
    }
    double det = aa * mm - am * am;
    if (det > 1e-9 * aa * mm) {
        *d = (float)((xa * mm - xm * am) / det);
        *dmin = (float)((xa * am - xm * aa) / det);
    } else if (aa > 0) {
        *d = (float)(xa / aa);
        *dmin = b->dmin;
    } else {
        return false;
    }
    return *d > 0.0f && *dmin >= 0.0f;
}

INLINE void fit_affine_block(const struct affine_format *f, const float *x, struct affine_block *b)
{
    float w[BLOCK], scale[16], min[16], largest_scale = 0.0f, largest_min = 0.0f;
    weigh(x, f->unit, w);
    for (int u = 0; u < BLOCK / f->unit; u++) {
        fit_affine_unit(x + u * f->unit, w + u * f->unit, f->unit, f->q_max, &scale[u], &min[u]);
        largest_scale = scale[u] > largest_scale ? scale[u] : largest_scale;
        largest_min = min[u] > largest_min ? min[u] : largest_min;
    }
    *b = (struct affine_block){.d = stored(largest_scale / (float)f->s_max),
                               .dmin = stored(largest_min / (float)f->s_max)};
    float best = choose_affine(f, x, w, scale, min, b);
    for (int i = 0; i < 2; i++) {
        struct affine_block next = *b;
        if (!solve_affine_block(f, x, w, b, &next.d, &next.dmin))
            break;
        next.d = stored(next.d);
        next.dmin = stored(next.dmin);
        float e = choose_affine(f, x, w, scale, min, &next);
        if (!(e < best))
            break;
        best = e;
        *b = next;
    }
    for (int u = 0; u < BLOCK / f->unit; u++)
        round_unit(x + u * f->unit, f->unit, b->d * (float)b->s[u], b->dmin * (float)b->m[u], 0.0f,
                   (float)f->q_max, b->q + u * f->unit);
}

// ---- formats without minima: Q3_K, Q6_K

struct symmetric_format {
    int q_min, s_min; // q in q_min .. -q_min - 1, scales in s_min .. -s_min - 1; units have 16 elements
};

struct symmetric_block {
    float d;
    int s[16];
    int8_t q[BLOCK];
};

INLINE float fit_symmetric_unit(const float *x, const float *w, int q_min)
{
    float extreme = 0.0f, low = (float)q_min, high = (float)(-q_min - 1);
    for (int i = 0; i < 16; i++)
        extreme = fabsf(x[i]) > fabsf(extreme) ? x[i] : extreme;
    if (extreme == 0.0f)
        return 0.0f;
    float best = INFINITY, scale = 0.0f;
    // The element of largest magnitude goes near q_min, which has one step more than the other end. The other
    // end is tried too.
    for (int side = 0; side < 2; side++)
        for (int i = -STARTS; i <= STARTS; i++) {
            float inverse = ((side ? high : low) + (float)i / STARTS) / extreme;
            struct sums t = round_and_sum(x, w, 16, inverse, 0.0f, low, high);
            float s = t.qq > 0.0f ? t.xq / t.qq : 0.0f;
            float e = gain_of(&t, s, 0.0f);
            if (e < best) {
                best = e;
                scale = s;
            }
        }
    best = error_of(x, w, 16, scale, 0.0f, low, high);
    for (int i = 0; i < 4 && scale != 0.0f; i++) {
        struct sums t = round_and_sum(x, w, 16, 1.0f / scale, 0.0f, low, high);
        float s = t.qq > 0.0f ? t.xq / t.qq : 0.0f;
        float e = error_of(x, w, 16, s, 0.0f, low, high);
        if (!(e < best))
            break;
        best = e;
        scale = s;
    }
    return scale;
}

INLINE float choose_symmetric(const struct symmetric_format *f, const float *x, const float *w,
                              const float *scale, struct symmetric_block *b)
{
    float total = 0.0f;
    for (int u = 0; u < 16; u++, x += 16, w += 16) {
        int top = -f->s_min - 1, s0 = nearest(scale[u], b->d, f->s_min, top);
        float best = INFINITY;
        b->s[u] = s0;
        for (int s = clamp_int(s0 - 1, f->s_min, top); s <= clamp_int(s0 + 1, f->s_min, top); s++) {
            float e = error_of(x, w, 16, b->d * (float)s, 0.0f, (float)f->q_min, (float)(-f->q_min - 1));
            if (e < best) {
                best = e;
                b->s[u] = s;
            }
        }
        total += best;
    }
    return total;
}

INLINE float solve_symmetric_block(const struct symmetric_format *f, const float *x, const float *w,
                                   const struct symmetric_block *b)
{
    double aa = 0, xa = 0;
    for (int u = 0; u < 16; u++) {
        float s = (float)b->s[u], inverse = b->d * s != 0.0f ? 1.0f / (b->d * s) : 0.0f;
        struct sums t =
            round_and_sum(x + 16 * u, w + 16 * u, 16, inverse, 0.0f, (float)f->q_min, (float)(-f->q_min - 1));
        aa += (double)(s * s * t.qq);
        xa += (double)(s * t.xq);
    }
    return aa > 0 ? (float)(xa / aa) : 0.0f;
}

INLINE void fit_symmetric_block(const struct symmetric_format *f, const float *x, struct symmetric_block *b)
{
    float w[BLOCK], scale[16], largest = 0.0f;
    weigh(x, 16, w);
    for (int u = 0; u < 16; u++) {
        scale[u] = fit_symmetric_unit(x + 16 * u, w + 16 * u, f->q_min);
        largest = fabsf(scale[u]) > fabsf(largest) ? scale[u] : largest;
    }
    *b = (struct symmetric_block){.d = stored(largest / (float)f->s_min)};
    float best = choose_symmetric(f, x, w, scale, b);
    for (int i = 0; i < 2; i++) {
        struct symmetric_block next = *b;
        next.d = stored(solve_symmetric_block(f, x, w, b));
        float e = choose_symmetric(f, x, w, scale, &next);
        if (!(e < best))
            break;
        best = e;
        *b = next;
    }
    for (int u = 0; u < 16; u++)
        round_unit(x + 16 * u, 16, b->d * (float)b->s[u], 0.0f, (float)f->q_min, (float)(-f->q_min - 1),
                   b->q + 16 * u);
}

// ---- a block, by what this CPU has

#if defined(__x86_64__)
#define FOR_AVX2 __attribute__((target("avx2")))
#define HAS_AVX2 (hearth_cpu_flags() & HEARTH_CPU_AVX2)
#else
#define FOR_AVX2
#define HAS_AVX2 false
#endif

FOR_AVX2 static void fit_affine_avx2(const struct affine_format *f, const float *x, struct affine_block *b)
{
    fit_affine_block(f, x, b);
}
FOR_AVX2 static void fit_symmetric_avx2(const struct symmetric_format *f, const float *x,
                                        struct symmetric_block *b)
{
    fit_symmetric_block(f, x, b);
}

static void fit_affine(const struct affine_format *f, const float *x, struct affine_block *b)
{
    if (HAS_AVX2)
        fit_affine_avx2(f, x, b);
    else
        fit_affine_block(f, x, b);
}
static void fit_symmetric(const struct symmetric_format *f, const float *x, struct symmetric_block *b)
{
    if (HAS_AVX2)
        fit_symmetric_avx2(f, x, b);
    else
        fit_symmetric_block(f, x, b);
}

// ---- packing: the reverse of the functions in quant_k.c, where the layouts are described

static void pack_scales_k4(const struct affine_block *b, uint8_t *dst)
{
    hearth_store_f16(dst, b->d);
    hearth_store_f16(dst + 2, b->dmin);
    uint8_t *s = dst + 4;
    for (int j = 0; j < 4; j++) {
        s[j] = (uint8_t)(b->s[j] | b->s[j + 4] >> 4 << 6);
        s[j + 4] = (uint8_t)(b->m[j] | b->m[j + 4] >> 4 << 6);
        s[j + 8] = (uint8_t)((b->s[j + 4] & 15) | (b->m[j + 4] & 15) << 4);
    }
}

void hearth_q4_k_encode(const float *x, void *dst, size_t n)
{
    static const struct affine_format format = {.unit = 32, .q_max = 15, .s_max = 63};
    struct affine_block b;
    for (uint8_t *out = dst; n >= BLOCK; n -= BLOCK, x += BLOCK, out += 144) {
        fit_affine(&format, x, &b);
        pack_scales_k4(&b, out);
        for (int j = 0; j < 4; j++)
            for (int l = 0; l < 32; l++)
                out[16 + 32 * j + l] = (uint8_t)(b.q[64 * j + l] | b.q[64 * j + 32 + l] << 4);
    }
}

void hearth_q5_k_encode(const float *x, void *dst, size_t n)
{
    static const struct affine_format format = {.unit = 32, .q_max = 31, .s_max = 63};
    struct affine_block b;
    for (uint8_t *out = dst; n >= BLOCK; n -= BLOCK, x += BLOCK, out += 176) {
        fit_affine(&format, x, &b);
        pack_scales_k4(&b, out);
        for (int l = 0; l < 32; l++) {
            int high = 0;
            for (int u = 0; u < 8; u++)
                high |= (b.q[32 * u + l] >> 4) << u;
            out[16 + l] = (uint8_t)high;
        }
        for (int j = 0; j < 4; j++)
            for (int l = 0; l < 32; l++)
                out[48 + 32 * j + l] = (uint8_t)((b.q[64 * j + l] & 15) | (b.q[64 * j + 32 + l] & 15) << 4);
    }
}

// 32 bytes per half block: bit pair j of byte l is element 32 * j + l.
static void pack_pairs(const int8_t *q, uint8_t *dst)
{
    for (int half = 0; half < 2; half++, q += 128, dst += 32)
        for (int l = 0; l < 32; l++)
            dst[l] =
                (uint8_t)((q[l] & 3) | (q[l + 32] & 3) << 2 | (q[l + 64] & 3) << 4 | (q[l + 96] & 3) << 6);
}

void hearth_q2_k_encode(const float *x, void *dst, size_t n)
{
    static const struct affine_format format = {.unit = 16, .q_max = 3, .s_max = 15};
    struct affine_block b;
    for (uint8_t *out = dst; n >= BLOCK; n -= BLOCK, x += BLOCK, out += 84) {
        fit_affine(&format, x, &b);
        for (int u = 0; u < 16; u++)
            out[u] = (uint8_t)(b.s[u] | b.m[u] << 4);
        pack_pairs(b.q, out + 16);
        hearth_store_f16(out + 80, b.d);
        hearth_store_f16(out + 82, b.dmin);
    }
}

void hearth_q3_k_encode(const float *x, void *dst, size_t n)
{
    static const struct symmetric_format format = {.q_min = -4, .s_min = -32};
    struct symmetric_block b;
    for (uint8_t *out = dst; n >= BLOCK; n -= BLOCK, x += BLOCK, out += 110) {
        fit_symmetric(&format, x, &b);
        memset(out, 0, 108);
        for (int i = 0; i < BLOCK; i++) {
            b.q[i] = (int8_t)(b.q[i] + 4);
            out[i % 32] = (uint8_t)(out[i % 32] | (b.q[i] >> 2) << (i / 32));
        }
        pack_pairs(b.q, out + 32);
        for (int u = 0; u < 16; u++) {
            int s = b.s[u] + 32;
            out[96 + u % 8] = (uint8_t)(out[96 + u % 8] | (s & 15) << (u < 8 ? 0 : 4));
            out[104 + u % 4] = (uint8_t)(out[104 + u % 4] | (s >> 4) << (2 * (u / 4)));
        }
        hearth_store_f16(out + 108, b.d);
    }
}

void hearth_q6_k_encode(const float *x, void *dst, size_t n)
{
    static const struct symmetric_format format = {.q_min = -32, .s_min = -128};
    struct symmetric_block b;
    for (uint8_t *out = dst; n >= BLOCK; n -= BLOCK, x += BLOCK, out += 210) {
        fit_symmetric(&format, x, &b);
        for (int half = 0; half < 2; half++) {
            const int8_t *q = b.q + 128 * half;
            uint8_t *ql = out + 64 * half, *qh = out + 128 + 32 * half;
            for (int l = 0; l < 32; l++) {
                int a = q[l] + 32, c = q[l + 32] + 32, e = q[l + 64] + 32, g = q[l + 96] + 32;
                ql[l] = (uint8_t)((a & 15) | (e & 15) << 4);
                ql[l + 32] = (uint8_t)((c & 15) | (g & 15) << 4);
                qh[l] = (uint8_t)(a >> 4 | c >> 4 << 2 | e >> 4 << 4 | g >> 4 << 6);
            }
        }
        for (int u = 0; u < 16; u++)
            out[192 + u] = (uint8_t)(int8_t)b.s[u];
        hearth_store_f16(out + 208, b.d);
    }
}
