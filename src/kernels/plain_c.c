// SPDX-License-Identifier: MIT
// STEP and PROMPT products of plain numbers, reference.
#include "kernels/canonical_c.h"
#include "kernels/variants.h"

typedef float (*load_fn)(const uint8_t *);

static float load_F32(const uint8_t *p)
{
    float f;
    memcpy(&f, p, sizeof f);
    return f;
}

static float load_F16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return hearth_f16_to_f32(h);
}

static float load_BF16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return hearth_bf16_to_f32(h);
}

static float step_row(load_fn load, const uint8_t *row, size_t width, const float *x, size_t k)
{
    float lane[LANES] = {0};
    for (size_t i = 0; i < (k + LANES - 1) / LANES * LANES; i++)
        lane[i % LANES] =
            i < k ? fmaf(load(row + i * width), x[i], lane[i % LANES]) : fmaf(0.0f, 0.0f, lane[i % LANES]);
    return sum_lanes(lane);
}

static float prompt_row(load_fn load, const uint8_t *row, size_t width, const float *x, size_t k)
{
    float acc = 0;
    for (size_t i = 0; i < k; i++)
        acc = fmaf(load(row + i * width), x[i], acc);
    return acc;
}

typedef float (*row_fn)(load_fn load, const uint8_t *row, size_t width, const float *x, size_t k);

static void matmul(row_fn dot, load_fn load, uint32_t type, float *out, size_t out_stride, const void *w,
                   size_t w_stride, size_t k, size_t n_rows, const void *x, size_t x_stride, size_t n_tokens)
{
    const size_t width = hearth_type_info(type)->block_bytes;
    for (size_t t = 0; t < n_tokens; t++) {
        const float *token = (const float *)(const void *)((const uint8_t *)x + t * x_stride);
        for (size_t r = 0; r < n_rows; r++)
            out[t * out_stride + r] = dot(load, (const uint8_t *)w + r * w_stride, width, token, k);
    }
}

#define PLAIN(type)                                                                                          \
    static void step_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,         \
                            size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch)   \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        matmul(step_row, load_##type, HEARTH_TYPE_##type, out, out_stride, w, w_stride, k, n_rows, x,        \
               x_stride, n_tokens);                                                                          \
    }                                                                                                        \
    static void dot_rows_##type(float *out, const void *const *rows, size_t n_rows, size_t k, const void *x, \
                                size_t x_stride, size_t n_tokens, void *scratch)                             \
    {                                                                                                        \
        for (size_t i = 0; i < n_rows; i++)                                                                  \
            step_##type(out + i, n_rows, rows[i], 0, k, 1, x, x_stride, n_tokens, scratch);                  \
    }                                                                                                        \
    static void prompt_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,       \
                              size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch) \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        matmul(prompt_row, load_##type, HEARTH_TYPE_##type, out, out_stride, w, w_stride, k, n_rows, x,      \
               x_stride, n_tokens);                                                                          \
    }
HEARTH_PLAIN_TYPES(PLAIN)

void hearth_kernels_init_plain_c(struct hearth_kernels *t)
{
    HEARTH_ENTER_PLAIN(t)
}
