// SPDX-License-Identifier: MIT
// Matrix products, reference: the canonical reductions of kernels.h written down as plainly as possible.
#include <math.h>
#include <string.h>

#include "kernels/variants.h"

#define LANES 16
// Elements that hold 16 units of any format, and a whole number of its blocks.
#define GROUP 512

// ---- block formats

// Up to 16 consecutive units of a row, padded with zeros.
struct units {
    int8_t q[GROUP];
    float scale[2 * LANES], min[2 * LANES];
};

// Exact sum of q * x over one unit.
static int32_t dot_unit(const int8_t *q, const int8_t *x, size_t n)
{
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += q[i] * x[i];
    return sum;
}

// The two fmas of unit `u` of the row, which is unit `at` of g.
static float add_unit(float acc, const struct units *g, size_t at, const struct hearth_type_info *info,
                      const struct hearth_acts *x, size_t u, int planes)
{
    size_t unit = info->unit_elems, first = u * unit;
    float d = planes == 2 ? x->d[first / 32] : 128.0f * x->d[first / 32];
    int32_t dot = dot_unit(g->q + at * unit, x->hi + first, unit);
    if (planes == 2)
        dot = 128 * dot + dot_unit(g->q + at * unit, x->lo + first, unit);
    acc = fmaf(g->scale[at] * d, (float)dot, acc);
    if (!info->has_min)
        return acc;
    const int32_t *sums = planes == 2 ? x->sum : x->bias;
    int32_t sum = unit == 32 ? sums[2 * u] + sums[2 * u + 1] : sums[u];
    if (planes == 1)
        sum /= -128;
    return fmaf(-(g->min[at] * d), (float)sum, acc);
}

static float sum_lanes(float lane[LANES])
{
    for (size_t width = LANES / 2; width; width /= 2)
        for (size_t i = 0; i < width; i++)
            lane[i] += lane[i + width];
    return lane[0];
}

static float dot_row(uint32_t type, const uint8_t *row, size_t k, const struct hearth_acts *x, bool step)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const int planes = hearth_prompt_planes(type);
    const size_t group = (size_t)info->unit_elems * LANES;
    float lane[LANES] = {0}, acc = 0;
    for (size_t at = 0; at < k; at += group) {
        struct units g;
        memset(&g, 0, sizeof g);
        size_t n = k - at < group ? k - at : group;
        info->unpack(row + at / info->block_elems * info->block_bytes, g.q, g.scale, g.min, n);
        if (step)
            for (size_t i = 0; i < LANES; i++)
                lane[i] = add_unit(lane[i], &g, i, info, x, at / info->unit_elems + i, 2);
        else
            for (size_t i = 0; i < n / info->unit_elems; i++)
                acc = add_unit(acc, &g, i, info, x, at / info->unit_elems + i, planes);
    }
    return step ? sum_lanes(lane) : acc;
}

static void matmul_blocks(uint32_t type, bool step, float *out, size_t out_stride, const void *w,
                          size_t w_stride, size_t k, size_t n_rows, const void *x, size_t x_stride,
                          size_t n_tokens)
{
    for (size_t t = 0; t < n_tokens; t++) {
        struct hearth_acts acts = hearth_acts_view((const uint8_t *)x + t * x_stride, k);
        for (size_t r = 0; r < n_rows; r++)
            out[t * out_stride + r] = dot_row(type, (const uint8_t *)w + r * w_stride, k, &acts, step);
    }
}

// ---- plain numbers

static float load_f32(const uint8_t *p)
{
    float f;
    memcpy(&f, p, sizeof f);
    return f;
}

static float load_f16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return hearth_f16_to_f32(h);
}

static float load_bf16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return hearth_bf16_to_f32(h);
}

static float dot_plain(float (*load)(const uint8_t *), const uint8_t *row, size_t width, const float *x,
                       size_t k, bool step)
{
    float lane[LANES] = {0}, acc = 0;
    if (!step) {
        for (size_t i = 0; i < k; i++)
            acc = fmaf(load(row + i * width), x[i], acc);
        return acc;
    }
    for (size_t i = 0; i < (k + LANES - 1) / LANES * LANES; i++)
        lane[i % LANES] =
            i < k ? fmaf(load(row + i * width), x[i], lane[i % LANES]) : fmaf(0.0f, 0.0f, lane[i % LANES]);
    return sum_lanes(lane);
}

static void matmul_plain(uint32_t type, bool step, float *out, size_t out_stride, const void *w,
                         size_t w_stride, size_t k, size_t n_rows, const void *x, size_t x_stride,
                         size_t n_tokens)
{
    float (*load)(const uint8_t *) = type == HEARTH_TYPE_F32   ? load_f32
                                     : type == HEARTH_TYPE_F16 ? load_f16
                                                               : load_bf16;
    size_t width = hearth_type_info(type)->block_bytes;
    for (size_t t = 0; t < n_tokens; t++)
        for (size_t r = 0; r < n_rows; r++)
            out[t * out_stride + r] =
                dot_plain(load, (const uint8_t *)w + r * w_stride, width,
                          (const float *)(const void *)((const uint8_t *)x + t * x_stride), k, step);
}

void hearth_step_c(uint32_t type, float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,
                   size_t n_rows, const void *x, size_t x_stride, size_t n_tokens)
{
    if (hearth_type_info(type)->unpack)
        matmul_blocks(type, true, out, out_stride, w, w_stride, k, n_rows, x, x_stride, n_tokens);
    else
        matmul_plain(type, true, out, out_stride, w, w_stride, k, n_rows, x, x_stride, n_tokens);
}

// ---- one function per format and class

#define MATMUL(type, kind)                                                                                   \
    static void step_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,         \
                            size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch)   \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        matmul_##kind(HEARTH_TYPE_##type, true, out, out_stride, w, w_stride, k, n_rows, x, x_stride,        \
                      n_tokens);                                                                             \
    }                                                                                                        \
    static void prompt_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,       \
                              size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch) \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        matmul_##kind(HEARTH_TYPE_##type, false, out, out_stride, w, w_stride, k, n_rows, x, x_stride,       \
                      n_tokens);                                                                             \
    }

#define FORMATS(X)                                                                                           \
    X(F32, plain)                                                                                            \
    X(F16, plain)                                                                                            \
    X(BF16, plain)                                                                                           \
    X(Q4_0, blocks)                                                                                          \
    X(Q4_1, blocks)                                                                                          \
    X(Q5_0, blocks)                                                                                          \
    X(Q5_1, blocks)                                                                                          \
    X(Q8_0, blocks)                                                                                          \
    X(Q2_K, blocks)                                                                                          \
    X(Q3_K, blocks)                                                                                          \
    X(Q4_K, blocks)                                                                                          \
    X(Q5_K, blocks)                                                                                          \
    X(Q6_K, blocks)                                                                                          \
    X(IQ4_NL, blocks)                                                                                        \
    X(IQ4_XS, blocks)                                                                                        \
    X(MXFP4, blocks)

FORMATS(MATMUL)

void hearth_kernels_init_matmul_c(struct hearth_kernels *t)
{
#define ENTER(type, kind)                                                                                    \
    if (hearth_type_info(HEARTH_TYPE_##type)->decode) {                                                      \
        t->step[HEARTH_TYPE_##type] = step_##type;                                                           \
        t->prompt[HEARTH_TYPE_##type] = prompt_##type;                                                       \
    }
    FORMATS(ENTER)
#undef ENTER
}
