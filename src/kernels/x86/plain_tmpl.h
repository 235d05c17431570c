// SPDX-License-Identifier: MIT
// Matrix products of plain numbers (F32, F16, BF16) over 16 lanes; included by plain_avx2.c and
// plain_avx512.c.
#include "kernels/variants.h"
#include "kernels/x86/lanes16.h"

// STEP class. Four rows at a time hide the latency of the fma chains; the tail of a row is padded with zeros.
#define STEP_PLAIN(name, width, load)                                                                        \
    INLINE void step_rows_##name(float *out, const uint8_t *w, size_t w_stride, size_t k, size_t n_rows,     \
                                 const float *x)                                                             \
    {                                                                                                        \
        f32x16 acc[4] = {f_zero(), f_zero(), f_zero(), f_zero()};                                            \
        size_t i = 0;                                                                                        \
        for (; i + LANES <= k; i += LANES) {                                                                 \
            const f32x16 v = f_load(x + i);                                                                  \
            for (size_t r = 0; r < n_rows; r++)                                                              \
                acc[r] = f_fma(load(w + r * w_stride + i * (width)), v, acc[r]);                             \
        }                                                                                                    \
        if (i < k) {                                                                                         \
            const f32x16 v = f_load_part(x + i, k - i);                                                      \
            for (size_t r = 0; r < n_rows; r++) {                                                            \
                uint8_t part[LANES * 4] = {0};                                                               \
                memcpy(part, w + r * w_stride + i * (width), (k - i) * (width));                             \
                acc[r] = f_fma(load(part), v, acc[r]);                                                       \
            }                                                                                                \
        }                                                                                                    \
        for (size_t r = 0; r < n_rows; r++)                                                                  \
            out[r] = f_sum(acc[r]);                                                                          \
    }                                                                                                        \
    static void step_##name(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,         \
                            size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch)   \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        const uint8_t *base = w;                                                                             \
        size_t r = 0;                                                                                        \
        for (; r + 4 <= n_rows; r += 4)                                                                      \
            for (size_t t = 0; t < n_tokens; t++)                                                            \
                step_rows_##name(out + t * out_stride + r, base + r * w_stride, w_stride, k, 4,              \
                                 (const float *)(const void *)((const uint8_t *)x + t * x_stride));          \
        for (; r < n_rows; r++)                                                                              \
            for (size_t t = 0; t < n_tokens; t++)                                                            \
                step_rows_##name(out + t * out_stride + r, base + r * w_stride, w_stride, k, 1,              \
                                 (const float *)(const void *)((const uint8_t *)x + t * x_stride));          \
    }

// PROMPT class: a panel of 16 rows, transposed piece by piece so that a lane is a row; one fma per element.
#define PROMPT_PLAIN(name, width, load)                                                                      \
    static void prompt_##name(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,       \
                              size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch) \
    {                                                                                                        \
        float *panel = scratch; /* [k][16] */                                                                \
        for (size_t r = 0; r < n_rows; r += LANES) {                                                         \
            const size_t rows = n_rows - r < LANES ? n_rows - r : LANES;                                     \
            for (size_t row = 0; row < LANES; row++)                                                         \
                for (size_t i = 0; i < k; i += LANES) {                                                      \
                    const size_t rest = k - i < LANES ? k - i : LANES;                                       \
                    uint8_t part[LANES * 4] = {0};                                                           \
                    if (row < rows)                                                                          \
                        memcpy(part, (const uint8_t *)w + (r + row) * w_stride + i * (width),                \
                               rest * (width));                                                              \
                    float value[LANES];                                                                      \
                    f_store(value, load(part));                                                              \
                    for (size_t e = 0; e < rest; e++)                                                        \
                        panel[(i + e) * LANES + row] = value[e];                                             \
                }                                                                                            \
            size_t t = 0;                                                                                    \
            for (; t + 8 <= n_tokens; t += 8)                                                                \
                prompt_tokens(out + t * out_stride + r, out_stride, panel, k, rows,                          \
                              (const uint8_t *)x + t * x_stride, x_stride, 8);                               \
            for (; t < n_tokens; t++)                                                                        \
                prompt_tokens(out + t * out_stride + r, out_stride, panel, k, rows,                          \
                              (const uint8_t *)x + t * x_stride, x_stride, 1);                               \
        }                                                                                                    \
    }

INLINE void prompt_tokens(float *out, size_t out_stride, const float *panel, size_t k, size_t rows,
                          const uint8_t *x, size_t x_stride, size_t n_tokens)
{
    f32x16 acc[8];
    for (size_t t = 0; t < n_tokens; t++)
        acc[t] = f_zero();
    for (size_t i = 0; i < k; i++) {
        const f32x16 w = f_load(panel + i * LANES);
        for (size_t t = 0; t < n_tokens; t++)
            acc[t] = f_fma(w, f_set1(((const float *)(const void *)(x + t * x_stride))[i]), acc[t]);
    }
    for (size_t t = 0; t < n_tokens; t++) {
        if (rows == LANES)
            f_store(out + t * out_stride, acc[t]);
        else
            f_store_part(out + t * out_stride, acc[t], rows);
    }
}

INLINE f32x16 load_f32_bytes(const void *p)
{
    return f_load(p);
}

STEP_PLAIN(f32, 4, load_f32_bytes)
STEP_PLAIN(f16, 2, f_load_f16)
STEP_PLAIN(bf16, 2, f_load_bf16)
PROMPT_PLAIN(f32, 4, load_f32_bytes)
PROMPT_PLAIN(f16, 2, f_load_f16)
PROMPT_PLAIN(bf16, 2, f_load_bf16)

static void init_plain(struct hearth_kernels *t)
{
    t->step[HEARTH_TYPE_F32] = step_f32;
    t->step[HEARTH_TYPE_F16] = step_f16;
    t->step[HEARTH_TYPE_BF16] = step_bf16;
    t->prompt[HEARTH_TYPE_F32] = prompt_f32;
    t->prompt[HEARTH_TYPE_F16] = prompt_f16;
    t->prompt[HEARTH_TYPE_BF16] = prompt_bf16;
}
