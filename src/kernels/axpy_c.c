// SPDX-License-Identifier: MIT
// Weighted sums of rows, reference.
#include <math.h>
#include <string.h>

#include "kernels/variants.h"

// Elements unpacked at a time: whole blocks of every format.
#define CHUNK 256

void hearth_axpy_row_c(uint32_t type, float *out, const uint8_t *row, size_t n, float p)
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

static void axpy(uint32_t type, float *out, const void *w, size_t w_stride, size_t n, size_t n_rows,
                 const float *p)
{
    for (size_t r = 0; r < n_rows; r++)
        if (p[r] != 0.0f)
            hearth_axpy_row_c(type, out, (const uint8_t *)w + r * w_stride, n, p[r]);
}

#define AXPY(type)                                                                                           \
    static void axpy_##type(float *out, const void *w, size_t w_stride, size_t n, size_t n_rows,             \
                            const float *p)                                                                  \
    {                                                                                                        \
        axpy(HEARTH_TYPE_##type, out, w, w_stride, n, n_rows, p);                                            \
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

FORMATS(AXPY)

void hearth_kernels_init_axpy_c(struct hearth_kernels *t)
{
#define ENTER(type)                                                                                          \
    if (hearth_type_info(HEARTH_TYPE_##type)->decode)                                                        \
        t->axpy[HEARTH_TYPE_##type] = axpy_##type;
    FORMATS(ENTER)
#undef ENTER
}
