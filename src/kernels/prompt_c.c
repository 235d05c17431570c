// SPDX-License-Identifier: MIT
// PROMPT products of block formats, reference.
#include "kernels/canonical_c.h"
#include "kernels/variants.h"

static float dot_row(uint32_t type, const uint8_t *row, size_t k, const struct hearth_acts *x)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t unit = info->unit_elems;
    const int planes = hearth_prompt_planes(type);
    float acc = 0;
    for (size_t at = 0; at < k; at += unit * LANES) {
        struct units g;
        unpack_units(&g, info, row, k, at);
        for (size_t i = 0; i < g.n; i++)
            acc = add_unit(acc, &g, i, info, x, at / unit + i, planes);
    }
    return acc;
}

static void prompt(uint32_t type, float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,
                   size_t n_rows, const void *x, size_t x_stride, size_t n_tokens)
{
    for (size_t t = 0; t < n_tokens; t++) {
        const struct hearth_acts acts = hearth_acts_view((const uint8_t *)x + t * x_stride, k);
        for (size_t r = 0; r < n_rows; r++)
            out[t * out_stride + r] = dot_row(type, (const uint8_t *)w + r * w_stride, k, &acts);
    }
}

#define PROMPT(type)                                                                                         \
    static void prompt_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,       \
                              size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch) \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        prompt(HEARTH_TYPE_##type, out, out_stride, w, w_stride, k, n_rows, x, x_stride, n_tokens);          \
    }
HEARTH_BLOCK_TYPES(PROMPT)

void hearth_kernels_init_prompt_c(struct hearth_kernels *t)
{
#define ENTER(type) t->prompt[HEARTH_TYPE_##type] = prompt_##type;
    HEARTH_BLOCK_TYPES(ENTER)
#undef ENTER
}
