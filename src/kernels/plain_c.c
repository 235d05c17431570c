// SPDX-License-Identifier: MIT
// Kernels over picked rows and over matrices stored by neuron, reference.
#include <math.h>
#include <string.h>

#include "kernels/variants.h"

static void dot_rows(uint32_t type, float *out, const void *const *rows, size_t n_rows, size_t k,
                     const void *x, size_t x_stride, size_t n_tokens)
{
    for (size_t i = 0; i < n_rows; i++)
        hearth_step_c(type, out + i, n_rows, rows[i], 0, k, 1, x, x_stride, n_tokens);
}

static void axpy_rows(uint32_t type, float *out, const void *const *rows, size_t n_rows, size_t n,
                      const float *p)
{
    for (size_t i = 0; i < n_rows; i++)
        if (p[i] != 0.0f)
            hearth_axpy_row_c(type, out, rows[i], n, p[i]);
}

static void prompt_t(uint32_t type, float *out, size_t out_stride, const void *w, size_t w_stride,
                     size_t first, size_t n, size_t n_rows, const float *p, size_t p_stride, size_t n_tokens)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    for (size_t r = 0; r < n_rows; r++)
        for (size_t at = 0; at < n; at += HEARTH_COLUMNS) {
            const size_t count = n - at < HEARTH_COLUMNS ? n - at : HEARTH_COLUMNS;
            float value[HEARTH_COLUMNS];
            info->decode((const uint8_t *)w + r * w_stride +
                             (first + at) / info->block_elems * info->block_bytes,
                         value, count);
            for (size_t t = 0; t < n_tokens; t++)
                for (size_t i = 0; i < count && p[t * p_stride + r] != 0.0f; i++) {
                    float *to = &out[t * out_stride + at + i];
                    *to = fmaf(p[t * p_stride + r], value[i], *to);
                }
        }
}

#define SPARSE(type)                                                                                         \
    static void dot_rows_##type(float *out, const void *const *rows, size_t n_rows, size_t k, const void *x, \
                                size_t x_stride, size_t n_tokens, void *scratch)                             \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        dot_rows(HEARTH_TYPE_##type, out, rows, n_rows, k, x, x_stride, n_tokens);                           \
    }                                                                                                        \
    static void axpy_rows_##type(float *out, const void *const *rows, size_t n_rows, size_t n,               \
                                 const float *p)                                                             \
    {                                                                                                        \
        axpy_rows(HEARTH_TYPE_##type, out, rows, n_rows, n, p);                                              \
    }                                                                                                        \
    static void prompt_t_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t first, \
                                size_t n, size_t n_rows, const float *p, size_t p_stride, size_t n_tokens,   \
                                void *scratch)                                                               \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        prompt_t(HEARTH_TYPE_##type, out, out_stride, w, w_stride, first, n, n_rows, p, p_stride, n_tokens); \
    }

#define FORMATS(X)                                                                                           \
    X(F32)                                                                                                   \
    X(F16)                                                                                                   \
    X(BF16)                                                                                                  \
    X(Q4_0)                                                                                                  \
    X(Q4_1)                                                                                                  \
    X(Q5_0)                                                                                                  \
    X(Q5_1)                                                                                                  \
    X(Q8_0)                                                                                                  \
    X(Q2_K)                                                                                                  \
    X(Q3_K)                                                                                                  \
    X(Q4_K)                                                                                                  \
    X(Q5_K)                                                                                                  \
    X(Q6_K)                                                                                                  \
    X(IQ4_NL)                                                                                                \
    X(IQ4_XS)                                                                                                \
    X(MXFP4)

FORMATS(SPARSE)

void hearth_kernels_init_sparse_c(struct hearth_kernels *t)
{
#define ENTER(type)                                                                                          \
    if (hearth_type_info(HEARTH_TYPE_##type)->decode) {                                                      \
        t->dot_rows[HEARTH_TYPE_##type] = dot_rows_##type;                                                   \
        t->axpy_rows[HEARTH_TYPE_##type] = axpy_rows_##type;                                                 \
        t->prompt_t[HEARTH_TYPE_##type] = prompt_t_##type;                                                   \
    }
    FORMATS(ENTER)
#undef ENTER
}
