// SPDX-License-Identifier: MIT
// Weighted sums of rows, reference.
#include <math.h>

#include "kernels/variants.h"

// Elements unpacked at a time: whole blocks of every format.
#define CHUNK 256

static void axpy_row(uint32_t type, float *out, const uint8_t *row, size_t n, float p)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t count = n - at < CHUNK ? n - at : CHUNK;
        const uint8_t *src = row + at / info->block_elems * info->block_bytes;
        if (!info->unpack) {
            float value[CHUNK];
            info->decode(src, value, count);
            for (size_t i = 0; i < count; i++)
                out[at + i] = fmaf(p, value[i], out[at + i]);
            continue;
        }
        int8_t q[CHUNK];
        float scale[CHUNK / 16], min[CHUNK / 16];
        info->unpack(src, q, scale, min, count);
        for (size_t i = 0; i < count; i++) {
            size_t u = i / info->unit_elems;
            out[at + i] = fmaf(p * scale[u], (float)q[i], out[at + i]);
            if (info->has_min)
                out[at + i] = fmaf(-p, min[u], out[at + i]);
        }
    }
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

#define AXPY(type)                                                                                           \
    static void axpy_##type(float *out, const void *w, size_t w_stride, size_t n, size_t n_rows,             \
                            const float *p)                                                                  \
    {                                                                                                        \
        for (size_t r = 0; r < n_rows; r++)                                                                  \
            if (p[r] != 0.0f)                                                                                \
                axpy_row(HEARTH_TYPE_##type, out, (const uint8_t *)w + r * w_stride, n, p[r]);               \
    }                                                                                                        \
    static void axpy_rows_##type(float *out, const void *const *rows, size_t n_rows, size_t n,               \
                                 const float *p)                                                             \
    {                                                                                                        \
        for (size_t i = 0; i < n_rows; i++)                                                                  \
            if (p[i] != 0.0f)                                                                                \
                axpy_row(HEARTH_TYPE_##type, out, rows[i], n, p[i]);                                         \
    }                                                                                                        \
    static void prompt_t_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t first, \
                                size_t n, size_t n_rows, const float *p, size_t p_stride, size_t n_tokens,   \
                                void *scratch)                                                               \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        prompt_t(HEARTH_TYPE_##type, out, out_stride, w, w_stride, first, n, n_rows, p, p_stride, n_tokens); \
    }
HEARTH_PLAIN_TYPES(AXPY)
HEARTH_BLOCK_TYPES(AXPY)

void hearth_kernels_init_axpy_c(struct hearth_kernels *t)
{
#define ENTER(type)                                                                                          \
    t->axpy[HEARTH_TYPE_##type] = axpy_##type;                                                               \
    t->axpy_rows[HEARTH_TYPE_##type] = axpy_rows_##type;                                                     \
    t->prompt_t[HEARTH_TYPE_##type] = prompt_t_##type;
    HEARTH_PLAIN_TYPES(ENTER)
    HEARTH_BLOCK_TYPES(ENTER)
#undef ENTER
}
