// SPDX-License-Identifier: MIT
// PROMPT products of block formats, AVX2.
//
// Sixteen rows of weights are unpacked into a panel in which a lane is a row: four consecutive weights of
// each row side by side, as int8 dot products want them. The panel is then used for all tokens, a few at
// a time in registers. Each output has one accumulator and one fma per unit, in ascending order (kernels.h).
//
// Weights of at most four bits, against the high plane alone, are unsigned in the panel, so that a whole
// unit's products fit 16 bits (8 * 2 * 15 * 127 < 32768); the offset is taken off with the activations' sums.
#include "kernels/x86/units_avx2.h"
#include "kernels/x86/variants_x86.h"

// Sixteen rows' next four weights each, against the same four activations.
#define MAX_TOGETHER 4

typedef struct {
    __m256i a, b, abs_a, abs_b;
} fours;
INLINE fours load_fours(const uint8_t *p)
{
    const __m256i a = _mm256_load_si256((const __m256i *)(const void *)p);
    const __m256i b = _mm256_load_si256((const __m256i *)(const void *)(p + 32));
    return (fours){a, b, _mm256_abs_epi8(a), _mm256_abs_epi8(b)};
}
// |w| * (x with w's sign) keeps pairs within 16 bits: 2 * 128 * 127 < 32768.
INLINE i32x16 dot_fours(i32x16 acc, fours w, int32_t x)
{
    const __m256i ones = _mm256_set1_epi16(1), v = _mm256_set1_epi32(x);
    acc.a = _mm256_add_epi32(
        acc.a, _mm256_madd_epi16(_mm256_maddubs_epi16(w.abs_a, _mm256_sign_epi8(v, w.a)), ones));
    acc.b = _mm256_add_epi32(
        acc.b, _mm256_madd_epi16(_mm256_maddubs_epi16(w.abs_b, _mm256_sign_epi8(v, w.b)), ones));
    return acc;
}

// All formats with so narrow weights take the high plane alone (hearth_prompt_planes).
INLINE bool is_narrow(const struct shape *s)
{
    return s->most <= 15;
}

struct panel {
    uint8_t *q;   // [k/4][16 rows][4] weights
    float *scale; // [units][16 rows]
    float *min;   // same; only of formats with one
};

// ---- hot path

// Adds one plane's products of the unit from element `at` on to n tokens' sums.
INLINE void add_plane(i32x16 *dot, const struct panel *p, const struct hearth_acts *acts, bool low, size_t at,
                      size_t unit, int n)
{
    for (size_t i = at; i < at + unit; i += 4) {
        const fours w = load_fours(p->q + i * LANES);
        for (int t = 0; t < n; t++)
            dot[t] = dot_fours(dot[t], w, (int32_t)word32_at((low ? acts[t].lo : acts[t].hi) + i));
    }
}

// The same of a panel with unsigned weights and the high plane.
INLINE void add_narrow(i32x16 *dot, const struct panel *p, const struct hearth_acts *acts, size_t at,
                       size_t unit, int n)
{
    i32x16 pairs[MAX_TOGETHER];
    for (int t = 0; t < n; t++)
        pairs[t] = i_zero();
    for (size_t i = at; i < at + unit; i += 4) {
        const __m256i a = load32(p->q + i * LANES), b = load32(p->q + i * LANES + 32);
        for (int t = 0; t < n; t++) {
            const __m256i v = _mm256_set1_epi32((int32_t)word32_at(acts[t].hi + i));
            pairs[t].a = _mm256_add_epi16(pairs[t].a, _mm256_maddubs_epi16(a, v));
            pairs[t].b = _mm256_add_epi16(pairs[t].b, _mm256_maddubs_epi16(b, v));
        }
    }
    const __m256i ones = _mm256_set1_epi16(1);
    for (int t = 0; t < n; t++) {
        dot[t].a = _mm256_add_epi32(dot[t].a, _mm256_madd_epi16(pairs[t].a, ones));
        dot[t].b = _mm256_add_epi32(dot[t].b, _mm256_madd_epi16(pairs[t].b, ones));
    }
}

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
    const bool narrow = is_narrow(s);
    struct hearth_acts acts[MAX_TOGETHER];
    f32x16 acc[MAX_TOGETHER];
    for (int t = 0; t < n; t++) {
        acts[t] = hearth_acts_view(x + (size_t)t * x_stride, k);
        acc[t] = f_zero();
    }
    for (size_t u = 0; u < k / unit; u++) {
        i32x16 dot[MAX_TOGETHER];
        for (int t = 0; t < n; t++)
            dot[t] = narrow ? i_set1(-s->offset * unit_sum(&acts[t], u, unit, planes)) : i_zero();
        if (narrow)
            add_narrow(dot, p, acts, u * unit, unit, n);
        else
            add_plane(dot, p, acts, false, u * unit, unit, n);
        for (int t = 0; planes == 2 && t < n; t++)
            dot[t] = i_shl(dot[t], 7);
        if (planes == 2)
            add_plane(dot, p, acts, true, u * unit, unit, n);
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
    const __m256i offset = _mm256_set1_epi8((char)(is_narrow(s) ? 0 : s->offset));
    for (size_t r = 0; r < s->registers; r++) {
        const __m256i z = _mm256_sub_epi8(w->u[r], offset);
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

void hearth_kernels_init_prompt_avx2(struct hearth_kernels *t)
{
#define ENTER(type, unpack, shape) t->prompt[HEARTH_TYPE_##type] = prompt_##type;
    HEARTH_UNITS_AVX2(ENTER)
#undef ENTER
    hearth_kernels_raise_scratch(t, scratch_bytes);
}
