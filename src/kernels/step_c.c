// SPDX-License-Identifier: MIT
// STEP products of block formats, reference.
#include "kernels/canonical_c.h"
#include "kernels/variants.h"

static float dot_row(uint32_t type, const uint8_t *row, size_t k, const struct hearth_acts *x)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t unit = info->unit_elems;
    float lane[LANES] = {0};
    for (size_t at = 0; at < k; at += unit * LANES) {
        struct units g;
        unpack_units(&g, info, row, k, at);
        for (size_t i = 0; i < LANES; i++) // those of the padding, too
            lane[i] = add_unit(lane[i], &g, i, info, x, at / unit + i, 2);
    }
    return sum_lanes(lane);
}

static void step(uint32_t type, float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,
                 size_t n_rows, const void *x, size_t x_stride, size_t n_tokens)
{
    for (size_t t = 0; t < n_tokens; t++) {
        const struct hearth_acts acts = hearth_acts_view((const uint8_t *)x + t * x_stride, k);
        for (size_t r = 0; r < n_rows; r++)
            out[t * out_stride + r] = dot_row(type, (const uint8_t *)w + r * w_stride, k, &acts);
    }
}

#define STEP(type)                                                                                           \
    static void step_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,         \
                            size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch)   \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        step(HEARTH_TYPE_##type, out, out_stride, w, w_stride, k, n_rows, x, x_stride, n_tokens);            \
    }                                                                                                        \
    static void dot_rows_##type(float *out, const void *const *rows, size_t n_rows, size_t k, const void *x, \
                                size_t x_stride, size_t n_tokens, void *scratch)                             \
    {                                                                                                        \
        for (size_t i = 0; i < n_rows; i++)                                                                  \
            step_##type(out + i, n_rows, rows[i], 0, k, 1, x, x_stride, n_tokens, scratch);                  \
    }
HEARTH_BLOCK_TYPES(STEP)

void hearth_kernels_init_step_c(struct hearth_kernels *t)
{
#define ENTER(type)                                                                                          \
    t->step[HEARTH_TYPE_##type] = step_##type;                                                               \
    t->dot_rows[HEARTH_TYPE_##type] = dot_rows_##type;
    HEARTH_BLOCK_TYPES(ENTER)
#undef ENTER
}
