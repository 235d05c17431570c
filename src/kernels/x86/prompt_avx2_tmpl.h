// SPDX-License-Identifier: MIT
// PROMPT products of block formats in registers of 256 bits; included by prompt_LEVEL.c after it has defined
//
//   more_of(s)   what the panel's weights have too much
//   add_plane(dot, p, acts, low, at, unit, n, s)
//                adds one plane's products of the unit from element `at` on to n tokens' sums
//
// Sixteen rows of weights are unpacked into a panel in which a lane is a row: four consecutive weights of
// each row side by side, as int8 dot products want them. The panel is then used for all tokens, a few at
// a time in registers. Each output has one accumulator and one fma per unit, in ascending order (kernels.h).
#include "kernels/x86/panel_avx2.h"
#include "kernels/x86/variants_x86.h"

// ---- hot path

// The sum of what products take of the activations: q, or its high plane alone.
INLINE int32_t unit_sum(const struct hearth_acts *x, size_t u, size_t unit, int planes)
{
    const int32_t *sums = planes == 2 ? x->sum : x->bias;
    const int32_t sum = unit == 32 ? sums[2 * u] + sums[2 * u + 1] : sums[u];
    return planes == 2 ? sum : sum / -128;
}

// n tokens (a constant after inlining) against the panel.
INLINE void tokens_by_panel(float *out, size_t out_stride, const struct panel *p, size_t k, size_t rows,
                            const uint8_t *x, size_t x_stride, int n, int planes, const struct shape *s)
{
    const size_t unit = s->unit;
    const int more = more_of(s); // taken off first, or with two planes when the high one has been shifted
    struct hearth_acts acts[MAX_TOGETHER];
    f32x16 acc[MAX_TOGETHER];
    for (int t = 0; t < n; t++) {
        acts[t] = hearth_acts_view(x + (size_t)t * x_stride, k);
        acc[t] = f_zero();
    }
    for (size_t u = 0; u < k / unit; u++) {
        i32x16 dot[MAX_TOGETHER];
        for (int t = 0; t < n; t++)
            dot[t] = more && planes == 1 ? i_set1(-more * unit_sum(&acts[t], u, unit, 1)) : i_zero();
        add_plane(dot, p, acts, false, u * unit, unit, n, s);
        if (planes == 2) {
            for (int t = 0; t < n; t++)
                dot[t] = i_shl(dot[t], 7);
            for (int t = 0; more && t < n; t++)
                dot[t] = i_sub(dot[t], i_set1(more * unit_sum(&acts[t], u, unit, 2)));
            add_plane(dot, p, acts, true, u * unit, unit, n, s);
        }
        const f32x16 scale = f_load(p->scale + u * LANES);
        const f32x16 min = s->has_min ? f_load(p->min + u * LANES) : f_zero();
        for (int t = 0; t < n; t++) {
            const f32x16 d = f_set1((planes == 2 ? 1.0f : 128.0f) * acts[t].d[u * unit / 32]);
            acc[t] = f_fma(f_mul(scale, d), i_to_f(dot[t]), acc[t]);
            if (s->has_min)
                acc[t] =
                    f_fma(f_neg(f_mul(min, d)), f_set1((float)unit_sum(&acts[t], u, unit, planes)), acc[t]);
        }
    }
    for (int t = 0; t < n; t++) {
        if (rows == LANES)
            f_store(out + (size_t)t * out_stride, acc[t]);
        else
            f_store_part(out + (size_t)t * out_stride, acc[t], rows);
    }
}

// Puts half a group of one row into the panel, from element `at` on, of which `n` elements are the row's.
INLINE void spread(const struct panel *p, size_t row, size_t at, size_t n, const struct weights *w,
                   const struct shape *s)
{
    _Alignas(32) uint8_t q[256];
    float scale[HALF], min[HALF];
    const __m256i less = _mm256_set1_epi8((char)(s->offset - more_of(s)));
    for (size_t r = 0; r < s->registers; r++) {
        const __m256i z = _mm256_sub_epi8(w->u[r], less);
        _mm_store_si128((__m128i *)(void *)(q + s->pieces[r][0] * 16), _mm256_castsi256_si128(z));
        _mm_store_si128((__m128i *)(void *)(q + s->pieces[r][1] * 16), _mm256_extracti128_si256(z, 1));
    }
    for (size_t i = 0; i < n; i += 4)
        memcpy(p->q + (at + i) * LANES + row * 4, q + i, 4);
    _mm256_storeu_ps(scale, w->scale);
    if (s->has_min)
        _mm256_storeu_ps(min, w->min);
    for (size_t u = 0; u < n / s->unit; u++) {
        p->scale[(at / s->unit + u) * LANES + row] = scale[s->inverse[u]];
        if (s->has_min)
            p->min[(at / s->unit + u) * LANES + row] = min[s->inverse[u]];
    }
}

// Unpacks `rows` rows into the panel; missing ones repeat the last one.
INLINE void fill_panel(const struct panel *p, const uint8_t *w, size_t w_stride, size_t k, size_t rows,
                       uint32_t type, unpack_fn unpack, const struct shape *s)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t half = (size_t)s->unit * HALF,
                 group_bytes = 2 * half / info->block_elems * info->block_bytes;
    const size_t row_bytes = k / info->block_elems * info->block_bytes;
    for (size_t row = 0; row < LANES; row++) {
        const uint8_t *from = w + (row < rows ? row : rows - 1) * w_stride;
        for (size_t at = 0, byte = 0; at < k; at += 2 * half, byte += group_bytes) {
            const uint8_t *src = from + byte;
            uint8_t padded[GROUP_BYTES];
            if (row_bytes - byte < group_bytes) {
                memset(padded, 0, sizeof padded);
                src = memcpy(padded, src, row_bytes - byte);
            }
            for (size_t h = 0; h < 2 && at + h * half < k; h++) {
                const size_t first = at + h * half;
                struct weights weights;
                unpack(&weights, src, h);
                spread(p, row, first, k - first < half ? k - first : half, &weights, s);
            }
        }
    }
}

INLINE void prompt(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k, size_t n_rows,
                   const void *x, size_t x_stride, size_t n_tokens, void *scratch, uint32_t type,
                   unpack_fn unpack, const struct shape *s)
{
    const int planes = is_narrow(s) ? 1 : hearth_prompt_planes(type);
    struct panel p = {.q = scratch};
    p.scale = (float *)(void *)(p.q + k * LANES);
    p.min = p.scale + k / s->unit * LANES;
    for (size_t r = 0; r < n_rows; r += LANES) {
        const size_t rows = n_rows - r < LANES ? n_rows - r : LANES;
        fill_panel(&p, (const uint8_t *)w + r * w_stride, w_stride, k, rows, type, unpack, s);
        const uint8_t *from = x;
        float *to = out + r;
        size_t t = 0;
        for (; t + MAX_TOGETHER <= n_tokens; t += MAX_TOGETHER)
            tokens_by_panel(to + t * out_stride, out_stride, &p, k, rows, from + t * x_stride, x_stride,
                            MAX_TOGETHER, planes, s);
        for (; t < n_tokens; t++)
            tokens_by_panel(to + t * out_stride, out_stride, &p, k, rows, from + t * x_stride, x_stride, 1,
                            planes, s);
    }
}

#define PROMPT(type, unpack, shape)                                                                          \
    static void prompt_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,       \
                              size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch) \
    {                                                                                                        \
        prompt(out, out_stride, w, w_stride, k, n_rows, x, x_stride, n_tokens, scratch, HEARTH_TYPE_##type,  \
               unpack, &shape);                                                                              \
    }

HEARTH_UNITS_AVX2(PROMPT)

static size_t scratch_bytes(size_t k)
{
    return k * LANES + k / 16 * LANES * 2 * sizeof(float); // of units of 16 elements
}

static void init_prompt(struct hearth_kernels *t)
{
#define ENTER(type, unpack, shape) t->prompt[HEARTH_TYPE_##type] = prompt_##type;
    HEARTH_UNITS_AVX2(ENTER)
#undef ENTER
    hearth_kernels_raise_scratch(t, scratch_bytes);
}
