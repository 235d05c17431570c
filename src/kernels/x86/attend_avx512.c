// SPDX-License-Identifier: MIT
// Attention of a step past one tile, AVX-512: up to eight queries that share keys and values.
//
// Scores lie by position: a register holds 16 / w positions' scores of w queries (w = 1, 2, 4 or 8, the last
// query repeated where there are fewer), so maxima, exponentials and their sums need no shuffles, each row of
// keys or values is converted once for all queries, and what a tile adds to the queries' values stays in
// registers until it is merged.
#include "kernels/variants.h"
#include "kernels/x86/lanes16.h"

#define ALL    _Pragma("GCC unroll 16")
#define MAX_W  8
#define PACKED (HEARTH_ATTEND_ROWS * MAX_W) // floats of a tile's scores

// The smallest width for n queries.
static size_t width_for(size_t n)
{
    return n > 4 ? 8 : n > 2 ? 4 : n;
}

// Lane i of the result: which query lane i of a register of scores belongs to.
INLINE __m512i query_of_lane(size_t w, size_t n)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i query = _mm512_and_si512(lane, _mm512_set1_epi32((int)w - 1));
    return _mm512_min_epi32(query, _mm512_set1_epi32((int)n - 1));
}

// Lane i of the result is lane i + by of x.
INLINE __m512 rotate(__m512 x, size_t by)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_permutexvar_ps(_mm512_add_epi32(lane, _mm512_set1_epi32((int)by)), x);
}

INLINE void ask(const struct hearth_tile *t, size_t row, size_t n_rows)
{
    if (!t->ahead)
        return;
    const char *from = (const char *)t->ahead + row * t->stride;
    for (size_t at = 0; at < n_rows * t->stride; at += 64)
        _mm_prefetch(from + at, _MM_HINT_T0);
}

INLINE const uint8_t *row_of(const struct hearth_tile *t, size_t row)
{
    return (const uint8_t *)t->rows + (row < t->n_rows ? row : t->n_rows - 1) * t->stride;
}

// ---- scores
// --------------------------------------------------------------------------------------------------------

// The canonical trees of 16 sums of 16 lanes: lane i of the result is that of a[i].
INLINE __m512 trees(const __m512 *a)
{
    __m512 b[8], c[4], d[2];
    // The last two steps leave item 4L + j where item 4j + L went in.
#define ITEM(p) a[4 * ((p) % 4) + (p) / 4]
    ALL for (int i = 0; i < 8; i++) b[i] =
        _mm512_add_ps(_mm512_shuffle_f32x4(ITEM(2 * i), ITEM(2 * i + 1), 0x44),
                      _mm512_shuffle_f32x4(ITEM(2 * i), ITEM(2 * i + 1), 0xee));
#undef ITEM
    ALL for (int i = 0; i < 4; i++) c[i] =
        _mm512_add_ps(_mm512_shuffle_f32x4(b[2 * i], b[2 * i + 1], 0x88),
                      _mm512_shuffle_f32x4(b[2 * i], b[2 * i + 1], 0xdd));
    ALL for (int i = 0; i < 2; i++)
    {
        const __m512d x = _mm512_castps_pd(c[2 * i]), y = _mm512_castps_pd(c[2 * i + 1]);
        d[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
                             _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
    }
    return _mm512_add_ps(_mm512_shuffle_ps(d[0], d[1], 0x88), _mm512_shuffle_ps(d[0], d[1], 0xdd));
}

typedef __m512 (*load_fn)(const void *p);

INLINE __m512 load_f32(const void *p)
{
    return _mm512_loadu_ps(p);
}

INLINE void plain_scores(float *s, float *max, const struct hearth_tile *keys, const void *q, size_t q_stride,
                         size_t n, float scale, size_t w, size_t bytes, load_fn load)
{
    const size_t rows = 16 / w;
    const float *query[MAX_W];
    for (size_t i = 0; i < w; i++)
        query[i] = (const float *)(const void *)((const uint8_t *)q + (i < n ? i : n - 1) * q_stride);
    __m512 top = _mm512_set1_ps(-__builtin_inff());
    for (size_t r = 0; r < keys->n_rows; r += rows) {
        const uint8_t *row[16];
        ALL for (size_t i = 0; i < rows; i++) row[i] = row_of(keys, r + i);
        ask(keys, r, rows);
        __m512 acc[16];
        ALL for (int i = 0; i < 16; i++) acc[i] = _mm512_setzero_ps();
        for (size_t at = 0; at < keys->dim; at += 16) {
            __m512 k[16];
            ALL for (size_t i = 0; i < rows; i++) k[i] = load(row[i] + at * bytes);
            ALL for (size_t i = 0; i < w; i++)
            {
                __m512 v = _mm512_loadu_ps(query[i] + at);
                // Else each product loads it anew, and loads are what this is bound by.
                __asm__("" : "+v"(v));
                ALL for (size_t j = 0; j < rows; j++) acc[j * w + i] =
                    _mm512_fmadd_ps(k[j], v, acc[j * w + i]);
            }
        }
        const __m512 v = _mm512_mul_ps(trees(acc), _mm512_set1_ps(scale));
        _mm512_storeu_ps(s + r * w, v);
        top = _mm512_max_ps(v, top);
    }
    for (size_t by = 8; by >= w; by /= 2)
        top = _mm512_max_ps(rotate(top, by), top);
    _mm512_mask_storeu_ps(max, (__mmask16)((1u << n) - 1), top);
}

// ---- softmax
// -------------------------------------------------------------------------------------------------------

// hearth_exp() of what is at most 0 (or NaN), where one product with a power of two rounds like its two.
INLINE __m512 exp_negative(__m512 x)
{
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504088896341f)),
                                          _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0.693145751953125f), x);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(-1.428606765330187045e-6f), r);
    __m512 p = _mm512_set1_ps(0.0013814599f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.008368717f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.04166839f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.16666521f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.49999994f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.3f), _CMP_NLT_UQ), p, n);
}

// s = exp(s - m) in place, and the 16-lane sum of each query's. Returns whether some of them are 0.
INLINE bool exponentials(float *s, __m512 *sum, __m512 m, size_t n_rows, size_t w)
{
    const size_t used = n_rows * w;
    __m512 acc[MAX_W];
    __mmask16 zeros = 0;
    ALL for (size_t j = 0; j < w; j++) acc[j] = _mm512_setzero_ps();
    for (size_t at = 0; at < used; at += 16 * w)
        ALL for (size_t j = 0; j < w; j++)
        {
            const size_t first = at + 16 * j, left = used > first ? used - first : 0;
            const __mmask16 k = (__mmask16)(left < 16 ? (1u << left) - 1 : 0xffff);
            const __m512 e =
                _mm512_maskz_mov_ps(k, exp_negative(_mm512_sub_ps(_mm512_maskz_loadu_ps(k, s + first), m)));
            _mm512_mask_storeu_ps(s + first, k, e);
            zeros |= _mm512_mask_cmp_ps_mask(k, e, _mm512_setzero_ps(), _CMP_EQ_OQ);
            acc[j] = _mm512_add_ps(acc[j], e);
        }
    for (size_t half = w / 2; half; half /= 2)
        for (size_t j = 0; j < half; j++)
            acc[j] = _mm512_add_ps(acc[j], acc[j + half]);
    for (size_t by = 8; by >= w; by /= 2)
        acc[0] = _mm512_add_ps(acc[0], rotate(acc[0], by));
    *sum = acc[0];
    return zeros != 0;
}

// How a tile is merged with those before: out = out * a + tile * b, or out = tile.
struct merge {
    float a[16], b[16];
    bool is_first;
};

// Turns scores into weights and moves the queries' maxima and sums on. Returns whether some weight is 0.
INLINE bool softmax(float *s, float *max, float *sum, const float *tile_max, struct merge *merge,
                    size_t n_rows, size_t n, size_t w)
{
    const __m512i queries = query_of_lane(w, n);
    const __mmask16 used = (__mmask16)((1u << n) - 1);
    const __m512 m = _mm512_permutexvar_ps(queries, _mm512_maskz_loadu_ps(used, tile_max));
    __m512 tile_sum;
    const bool zeros = exponentials(s, &tile_sum, m, n_rows, w);
    if (merge->is_first) {
        _mm512_mask_storeu_ps(max, used, m);
        _mm512_mask_storeu_ps(sum, used, tile_sum);
        return zeros;
    }
    const __m512 before = _mm512_permutexvar_ps(queries, _mm512_maskz_loadu_ps(used, max));
    const __m512 top = _mm512_max_ps(before, m);
    const __m512 a = exp_negative(_mm512_sub_ps(before, top)), b = exp_negative(_mm512_sub_ps(m, top));
    const __m512 sums = _mm512_maskz_loadu_ps(used, sum);
    _mm512_mask_storeu_ps(sum, used, _mm512_fmadd_ps(tile_sum, b, _mm512_mul_ps(sums, a)));
    _mm512_mask_storeu_ps(max, used, top);
    _mm512_storeu_ps(merge->a, a);
    _mm512_storeu_ps(merge->b, b);
    return zeros;
}

// ---- values
// --------------------------------------------------------------------------------------------------------

INLINE void merge_columns(float *out, const __m512 *acc, size_t dim, size_t n, size_t w, size_t vectors,
                          const struct merge *merge)
{
    ALL for (size_t i = 0; i < w; i++)
    {
        if (i >= n)
            continue;
        const __m512 a = _mm512_set1_ps(merge->a[i]), b = _mm512_set1_ps(merge->b[i]);
        ALL for (size_t v = 0; v < vectors; v++)
        {
            float *to = out + i * dim + v * 16;
            const __m512 tile = acc[i * vectors + v];
            _mm512_storeu_ps(to, merge->is_first ? tile
                                                 : _mm512_fmadd_ps(tile, b, _mm512_mul_ps(_mm512_loadu_ps(to), a)));
        }
    }
}

// `vectors` registers of columns; with `zeros`, weights of 0 are skipped. p: weights, by: what the columns
// are multiplied by in their place (the same for plain numbers).
INLINE void columns(float *out, const float *p, const float *by, const struct hearth_tile *values, size_t at,
                    size_t n, size_t w, size_t vectors, bool zeros, const struct merge *merge, size_t bytes,
                    load_fn load)
{
    const uint8_t *row = (const uint8_t *)values->rows + at;
    __m512 acc[16];
    ALL for (size_t i = 0; i < w * vectors; i++) acc[i] = _mm512_setzero_ps();
    for (size_t r = 0; r < values->n_rows; r++, row += values->stride) {
        if (!at)
            ask(values, r, 1);
        __m512 x[8];
        ALL for (size_t v = 0; v < vectors; v++) x[v] = load(row + v * 16 * bytes);
        ALL for (size_t i = 0; i < w; i++)
        {
            const __m512 weight = _mm512_set1_ps(by[r * w + i]);
            if (zeros) {
                const __mmask16 k = p[r * w + i] != 0.0f ? 0xffff : 0;
                ALL for (size_t v = 0; v < vectors; v++) acc[i * vectors + v] =
                    _mm512_mask3_fmadd_ps(weight, x[v], acc[i * vectors + v], k);
            } else {
                ALL for (size_t v = 0; v < vectors; v++) acc[i * vectors + v] =
                    _mm512_fmadd_ps(weight, x[v], acc[i * vectors + v]);
            }
        }
    }
    merge_columns(out, acc, values->dim, n, w, vectors, merge);
}

INLINE void plain_columns(float *out, const float *s, const struct hearth_tile *values, size_t n, size_t w,
                          bool zeros, const struct merge *merge, size_t bytes, load_fn load)
{
    const size_t vectors = w == 8 ? 2 : 4;
    size_t at = 0;
    for (; at + 16 * vectors <= values->dim; at += 16 * vectors)
        columns(out + at, s, s, values, at * bytes, n, w, vectors, zeros, merge, bytes, load);
    for (; at < values->dim; at += 16)
        columns(out + at, s, s, values, at * bytes, n, w, 1, zeros, merge, bytes, load);
}

INLINE void plain_values(float *out, float *max, float *sum, bool is_first, float *s, const float *tile_max,
                         const struct hearth_tile *values, size_t n, size_t w, size_t bytes, load_fn load)
{
    struct merge merge = {.is_first = is_first};
    const bool zeros = softmax(s, max, sum, tile_max, &merge, values->n_rows, n, w);
    if (zeros)
        plain_columns(out, s, values, n, w, true, &merge, bytes, load);
    else
        plain_columns(out, s, values, n, w, false, &merge, bytes, load);
}

// ---- types

#define FOR_WIDTH(n, call)                                                                                   \
    switch (width_for(n)) {                                                                                  \
    case 8:                                                                                                  \
        call(8);                                                                                             \
        break;                                                                                               \
    case 4:                                                                                                  \
        call(4);                                                                                             \
        break;                                                                                               \
    case 2:                                                                                                  \
        call(2);                                                                                             \
        break;                                                                                               \
    default:                                                                                                 \
        call(1);                                                                                             \
    }

#define PLAIN(name, bytes, load)                                                                             \
    static void scores_##name(float *s, float *max, const struct hearth_tile *keys, const void *q,           \
                              size_t q_stride, size_t n, float scale)                                        \
    {                                                                                                        \
        FOR_WIDTH(n, SCORES_##name)                                                                          \
    }                                                                                                        \
    static void values_##name(float *out, float *max, float *sum, bool is_first, float *s,                   \
                              const float *tile_max, const struct hearth_tile *values, size_t n)             \
    {                                                                                                        \
        FOR_WIDTH(n, VALUES_##name)                                                                          \
    }
#define SCORES_f16(w) plain_scores(s, max, keys, q, q_stride, n, scale, w, 2, f_load_f16)
#define VALUES_f16(w) plain_values(out, max, sum, is_first, s, tile_max, values, n, w, 2, f_load_f16)
#define SCORES_f32(w) plain_scores(s, max, keys, q, q_stride, n, scale, w, 4, load_f32)
#define VALUES_f32(w) plain_values(out, max, sum, is_first, s, tile_max, values, n, w, 4, load_f32)
PLAIN(f16, 2, f_load_f16)
PLAIN(f32, 4, load_f32)

void hearth_kernels_init_attend_avx512(struct hearth_kernels *t)
{
    t->attend_scores[HEARTH_TYPE_F16] = scores_f16;
    t->attend_values[HEARTH_TYPE_F16] = values_f16;
    t->attend_scores[HEARTH_TYPE_F32] = scores_f32;
    t->attend_values[HEARTH_TYPE_F32] = values_f32;
}
