// SPDX-License-Identifier: MIT
// Attention of a step past one tile, AVX-512: up to eight queries that share keys and values.
//
// Scores lie by position: a register holds 16 / w positions' scores of w queries (w = 1, 2, 4 or 8, the last
// query repeated where there are fewer), so maxima, exponentials and their sums need no shuffles, each row of
// keys or values is converted once for all queries, and what a tile adds to the queries' values stays in
// registers until it is merged.
#include "kernels/x86/lanes16.h"
#include "kernels/x86/variants_x86.h"

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

// How many bytes ahead plain rows are prefetched: a little more than a core has on its way from memory. Rows
// in blocks are prefetched a tile ahead, because all scales of a tile are read first.
#define AHEAD 4096

INLINE size_t rows_ahead(const struct hearth_tile *t, size_t bytes)
{
    return bytes > 1 ? AHEAD / t->stride : t->n_rows;
}

// Prefetches n_rows rows that are `ahead` rows behind `row`, in the tile or in what comes next.
INLINE void prefetch_rows(const struct hearth_tile *t, size_t row, size_t n_rows, size_t ahead)
{
    const size_t at = row + ahead;
    const char *from = (const char *)t->rows + at * t->stride;
    if (at >= t->n_rows) {
        if (!t->next)
            return;
        from = (const char *)t->next + (at - t->n_rows) * t->stride;
    }
    for (size_t i = 0; i < n_rows * t->stride; i += 64)
        _mm_prefetch(from + i, _MM_HINT_T0);
}

INLINE const uint8_t *row_of(const struct hearth_tile *t, size_t row)
{
    return (const uint8_t *)t->rows + (row < t->n_rows ? row : t->n_rows - 1) * t->stride;
}

// ---- scores

// The canonical trees of 16 sums of 16 lanes: lane i of the result is that of a[i]. Blends run beside
// products, shuffles are few: each step takes half of two registers as they are and the other halves swapped.
INLINE __m512 trees(const __m512 *a)
{
    __m512 b[8], c[4], d[2];
#define MIDDLE(i) ((i) % 4 == 1 ? 2 : (i) % 4 == 2 ? 1 : (i) % 4) // the order that the steps below leave
#define ITEM(i)   a[4 * MIDDLE(i) + MIDDLE((i) / 4)]
    ALL for (int i = 0; i < 8; i++) b[i] =
        _mm512_add_ps(_mm512_mask_blend_ps(0xff00, ITEM(2 * i), ITEM(2 * i + 1)),
                      _mm512_shuffle_f32x4(ITEM(2 * i), ITEM(2 * i + 1), 0x4e));
#undef ITEM
#undef MIDDLE
    ALL for (int i = 0; i < 4; i++)
    {
        const __m512 other = _mm512_mask_blend_ps(0x0f0f, b[2 * i], b[2 * i + 1]);
        c[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xf0f0, b[2 * i], b[2 * i + 1]),
                             _mm512_shuffle_f32x4(other, other, 0xb1));
    }
    ALL for (int i = 0; i < 2; i++)
    {
        const __m512d x = _mm512_castps_pd(c[2 * i]), y = _mm512_castps_pd(c[2 * i + 1]);
        d[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xcccc, c[2 * i], c[2 * i + 1]),
                             _mm512_castpd_ps(_mm512_shuffle_pd(x, y, 0x55)));
    }
    return _mm512_add_ps(_mm512_mask_blend_ps(0xaaaa, d[0], d[1]),
                         _mm512_permute_ps(_mm512_mask_blend_ps(0x5555, d[0], d[1]), 0xb1));
}

INLINE void plain_scores(float *s, float *max, const struct hearth_tile *keys, const void *q, size_t q_stride,
                         size_t n, float scale, size_t w, size_t bytes, load_fn load)
{
    const size_t rows = 16 / w;
    const float *query[MAX_W];
    for (size_t i = 0; i < w; i++)
        query[i] = (const float *)(const void *)((const uint8_t *)q + (i < n ? i : n - 1) * q_stride);
    const size_t ahead = rows_ahead(keys, bytes);
    __m512 top = _mm512_set1_ps(-__builtin_inff());
    for (size_t r = 0; r < keys->n_rows; r += rows) {
        const uint8_t *row[16];
        ALL for (size_t i = 0; i < rows; i++) row[i] = row_of(keys, r + i);
        prefetch_rows(keys, r, rows, ahead);
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

// ---- scores of keys in Q8_0
//
// A register holds two units of eight (row, query) items: items 0-3 of the first unit, of the second, then
// items 4-7. Sums over four lanes are exact, so their order is free.

#define Q8_BYTES 34
#define MAX_Z    (HEARTH_ATTEND_MAX_DIM / 64)

// A tile's scales by pairs of units.
struct scales {
    float of[MAX_Z][HEARTH_ATTEND_ROWS][2];
    float padding[32]; // read behind the last rows, not used
};

static void read_scales(struct scales *to, const struct hearth_tile *t)
{
    uint16_t half[HEARTH_ATTEND_ROWS][2] = {{0}};
    const size_t units = t->dim / 32;
    for (size_t z = 0; 2 * z < units; z++) {
        const uint8_t *row = (const uint8_t *)t->rows + 2 * z * Q8_BYTES;
        for (size_t r = 0; r < t->n_rows; r++, row += t->stride) {
            memcpy(&half[r][0], row, sizeof half[r][0]);
            if (2 * z + 1 < units)
                memcpy(&half[r][1], row + Q8_BYTES, sizeof half[r][1]);
            else
                half[r][1] = 0;
        }
        for (size_t r = 0; r < HEARTH_ATTEND_ROWS; r += 8)
            _mm512_storeu_ps(to->of[z][r], f_load_f16(half[r]));
    }
}

// Queries of one call: planes, what makes up for weights being taken as unsigned, and d by item.
struct queries {
    const int8_t *hi[MAX_W], *lo[MAX_W];
    __m512i start[MAX_Z][MAX_W];
    float d[MAX_Z][16];
};

// The item and the unit of lane i of a register.
#define ITEM(i) ((i) / 8 * 4 + (i) % 4)
#define UNIT(i) ((i) / 4 % 2)

static void prepare(struct queries *to, const void *q, size_t q_stride, size_t n, size_t dim, size_t w)
{
    const __m512i ones = _mm512_set1_epi8(1);
    for (size_t i = 0; i < w; i++) {
        const struct hearth_acts x =
            hearth_acts_view((const uint8_t *)q + (i < n ? i : n - 1) * q_stride, dim);
        to->hi[i] = x.hi;
        to->lo[i] = x.lo;
        for (size_t z = 0; z * 64 < dim; z++) {
            const __m512i high =
                _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, _mm512_loadu_si512(x.hi + z * 64));
            const __m512i sum =
                _mm512_dpbusd_epi32(_mm512_slli_epi32(high, 7), ones, _mm512_loadu_si512(x.lo + z * 64));
            to->start[z][i] = _mm512_sub_epi32(_mm512_setzero_si512(), sum);
            for (size_t lane = 0; lane < 16; lane++)
                if (ITEM(lane) % w == i)
                    to->d[z][lane] = x.d[2 * z + UNIT(lane)];
        }
    }
}

// Exact sums over 128-bit halves' units of eight registers.
INLINE __m512i sums_of_units(const __m512i *t)
{
    __m512i a[4], b[2];
    ALL for (int i = 0; i < 4; i++) a[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(t[2 * i], t[2 * i + 1]),
                                                            _mm512_unpackhi_epi32(t[2 * i], t[2 * i + 1]));
    ALL for (int i = 0; i < 2; i++) b[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(a[2 * i], a[2 * i + 1]),
                                                            _mm512_unpackhi_epi64(a[2 * i], a[2 * i + 1]));
    return _mm512_add_epi32(_mm512_shuffle_i32x4(b[0], b[1], 0x88), _mm512_shuffle_i32x4(b[0], b[1], 0xdd));
}

// The lanes of eight items, rows r on: what is left to add is the odd units' to the even ones'.
INLINE __m512 q8_items(const struct hearth_tile *keys, size_t r, const struct queries *q,
                       const struct scales *scales, size_t w)
{
    const size_t rows = 8 / w;
#define AT(i) (int)((size_t)ITEM(i) / w * 2 + (size_t)UNIT(i))
    const __m512i by_lane = _mm512_setr_epi32(AT(0), AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), AT(7), AT(8),
                                              AT(9), AT(10), AT(11), AT(12), AT(13), AT(14), AT(15));
#undef AT
    const uint8_t *row[8];
    ALL for (size_t i = 0; i < rows; i++) row[i] = row_of(keys, r + i);
    __m512 unit[MAX_Z];
    unit[0] = _mm512_setzero_ps();
    size_t n = 0;
    for (; n * 64 < keys->dim; n++) {
        __m512i k[8], t[8];
        ALL for (size_t i = 0; i < rows; i++)
        {
            const uint8_t *from = row[i] + 2 * n * Q8_BYTES + 2;
            // A unit that is not there meets activations of 0.
            const __m256i first = _mm256_loadu_si256((const __m256i *)(const void *)from);
            const __m256i second = n * 64 + 32 < keys->dim
                                       ? _mm256_loadu_si256((const __m256i *)(const void *)(from + Q8_BYTES))
                                       : _mm256_setzero_si256();
            k[i] = _mm512_xor_si512(_mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1),
                                    _mm512_set1_epi8(-128));
        }
        ALL for (size_t i = 0; i < 8; i++)
        {
            const __m512i high =
                _mm512_dpbusd_epi32(q->start[n][i % w], k[i / w], _mm512_loadu_si512(q->hi[i % w] + n * 64));
            t[i] = _mm512_dpbusd_epi32(_mm512_slli_epi32(high, 7), k[i / w],
                                       _mm512_loadu_si512(q->lo[i % w] + n * 64));
        }
        const __m512 scale = _mm512_permutexvar_ps(by_lane, _mm512_loadu_ps(scales->of[n][r]));
        unit[n] = _mm512_fmadd_ps(_mm512_mul_ps(scale, _mm512_loadu_ps(q->d[n])),
                                  _mm512_cvtepi32_ps(sums_of_units(t)), _mm512_setzero_ps());
    }
    for (size_t half = MAX_Z / 2; half; half /= 2)
        for (size_t i = 0; i < half && i + half < n; i++)
            unit[i] = _mm512_add_ps(unit[i], unit[i + half]);
    return unit[0];
}

INLINE void q8_scores(float *s, float *max, const struct hearth_tile *keys, const void *q, size_t q_stride,
                      size_t n, float scale, size_t w)
{
    const size_t rows = 16 / w;
    struct scales scales;
    struct queries queries;
    read_scales(&scales, keys);
    prepare(&queries, q, q_stride, n, keys->dim, w);
    const size_t ahead = rows_ahead(keys, 1);
    __m512 top = _mm512_set1_ps(-__builtin_inff());
    for (size_t r = 0; r < keys->n_rows; r += rows) {
        prefetch_rows(keys, r, rows, ahead);
        const __m512 a = q8_items(keys, r, &queries, &scales, w);
        const __m512 b = q8_items(keys, r + rows / 2, &queries, &scales, w);
        const __m512 sum = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
        const __m512 v = _mm512_mul_ps(sum, _mm512_set1_ps(scale));
        // Rows that are not there have scales of 0.
        const size_t left = (keys->n_rows - r) * w;
        top = _mm512_mask_max_ps(top, (__mmask16)(left < 16 ? (1u << left) - 1 : 0xffff), v, top);
        _mm512_storeu_ps(s + r * w, v);
    }
    for (size_t by = 8; by >= w; by /= 2)
        top = _mm512_max_ps(rotate(top, by), top);
    _mm512_mask_storeu_ps(max, (__mmask16)((1u << n) - 1), top);
}

// ---- softmax

// hearth_exp() of what is at most 0 (or NaN), where one product with a power of two rounds like its two.
INLINE __m512 exp_negative(__m512 x)
{
    __m512 n;
    const __m512 p = f_exp_fraction(x, &n);
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
            _mm512_storeu_ps(
                to, merge->is_first ? tile : _mm512_fmadd_ps(tile, b, _mm512_mul_ps(_mm512_loadu_ps(to), a)));
        }
    }
}

// `vectors` registers of columns; with `zeros`, weights of 0 are skipped. p: weights, by: what the columns
// are multiplied by in their place (the same for plain numbers).
INLINE void columns(float *out, const float *p, const float *by, const struct hearth_tile *values, size_t at,
                    size_t n, size_t w, size_t vectors, bool zeros, const struct merge *merge, size_t bytes,
                    load_fn load)
{
    const bool asks = at < 16; // the first columns
    const size_t ahead = rows_ahead(values, bytes);
    const uint8_t *row = (const uint8_t *)values->rows + at;
    __m512 acc[16];
    ALL for (size_t i = 0; i < w * vectors; i++) acc[i] = _mm512_setzero_ps();
    for (size_t r = 0; r < values->n_rows; r++, row += values->stride) {
        if (asks)
            prefetch_rows(values, r, 1, ahead);
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

INLINE __m512 load_i8(const void *p)
{
    return _mm512_cvtepi32_ps(i_load_i8(p));
}

INLINE void q8_columns(float *out, const float *s, const struct hearth_tile *values, size_t n, size_t w,
                       bool zeros, const struct merge *merge, const struct scales *scales)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i twice = _mm512_slli_epi32(_mm512_srli_epi32(lane, w == 8   ? 3
                                                                    : w == 4 ? 2
                                                                    : w == 2 ? 1
                                                                             : 0),
                                            1);
    for (size_t u = 0; u * 32 < values->dim; u++) {
        float by[HEARTH_ATTEND_ROWS * MAX_W];
        const __m512i which = _mm512_add_epi32(twice, _mm512_set1_epi32((int)(u % 2)));
        for (size_t r = 0; r < values->n_rows; r += 16 / w) {
            const float *from = scales->of[u / 2][r];
            const __m512 scale =
                _mm512_permutex2var_ps(_mm512_loadu_ps(from), which, _mm512_loadu_ps(from + 16));
            _mm512_storeu_ps(by + r * w, _mm512_mul_ps(_mm512_loadu_ps(s + r * w), scale));
        }
        columns(out + u * 32, s, by, values, u * Q8_BYTES + 2, n, w, 2, zeros, merge, 1, load_i8);
    }
}

INLINE void q8_values(float *out, float *max, float *sum, bool is_first, float *s, const float *tile_max,
                      const struct hearth_tile *values, size_t n, size_t w)
{
    struct merge merge = {.is_first = is_first};
    struct scales scales;
    read_scales(&scales, values);
    const bool zeros = softmax(s, max, sum, tile_max, &merge, values->n_rows, n, w);
    if (zeros)
        q8_columns(out, s, values, n, w, true, &merge, &scales);
    else
        q8_columns(out, s, values, n, w, false, &merge, &scales);
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

#define KIND(name)                                                                                           \
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
#define SCORES_f32(w) plain_scores(s, max, keys, q, q_stride, n, scale, w, 4, f_load_f32)
#define VALUES_f32(w) plain_values(out, max, sum, is_first, s, tile_max, values, n, w, 4, f_load_f32)
#define SCORES_q8(w)  q8_scores(s, max, keys, q, q_stride, n, scale, w)
#define VALUES_q8(w)  q8_values(out, max, sum, is_first, s, tile_max, values, n, w)
KIND(f16)
KIND(f32)
KIND(q8)

void hearth_kernels_init_attend_avx512(struct hearth_kernels *t)
{
    t->attend_scores[HEARTH_TYPE_F16] = scores_f16;
    t->attend_values[HEARTH_TYPE_F16] = values_f16;
    t->attend_scores[HEARTH_TYPE_Q8_0] = scores_q8;
    t->attend_values[HEARTH_TYPE_Q8_0] = values_q8;
    t->attend_scores[HEARTH_TYPE_F32] = scores_f32;
    t->attend_values[HEARTH_TYPE_F32] = values_f32;
}
