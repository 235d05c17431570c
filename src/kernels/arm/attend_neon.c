// SPDX-License-Identifier: MIT
// Attention past one tile, NEON: keys and values in plain numbers, up to eight queries that share them.
//
// Scores lie by query. Rows of keys are converted once for all queries, and what a tile adds to the queries'
// values stays in registers until it is merged.
#include <math.h>

#include "kernels/arm/lanes16.h"
#include "kernels/arm/variants_arm.h"

#define ALL _Pragma("GCC unroll 16")

// Rows of keys that are converted together.
#define ROWS 4

INLINE const uint8_t *row_of(const struct hearth_tile *t, size_t row)
{
    return (const uint8_t *)t->rows + (row < t->n_rows ? row : t->n_rows - 1) * t->stride;
}

// ---- scores

// The products of 2 rows and 2 queries or of 4 rows and one (constants after inlining): all rows with the
// first query, then with the next one.
INLINE void products(float *to, float (*row)[HEARTH_ATTEND_MAX_DIM], size_t n_rows, const float *const *query,
                     size_t n_queries, size_t dim)
{
    f32x16 acc[4];
    ALL for (size_t i = 0; i < 4; i++) acc[i] = f_zero();
    for (size_t at = 0; at < dim; at += LANES) {
        f32x16 v[2];
        ALL for (size_t i = 0; i < n_queries; i++) v[i] = f_load(query[i] + at);
        ALL for (size_t j = 0; j < n_rows; j++)
        {
            const f32x16 x = f_load(row[j] + at);
            ALL for (size_t i = 0; i < n_queries; i++) acc[i * n_rows + j] =
                f_fma(x, v[i], acc[i * n_rows + j]);
        }
    }
    f_sum4(to, acc[0], acc[1], acc[2], acc[3]);
}

// Enters those of them that there are, times scale.
INLINE void enter(float *s, const float *four, size_t row, size_t n_rows, size_t end, size_t n_queries,
                  float scale)
{
    for (size_t i = 0; i < n_queries; i++)
        for (size_t j = 0; j < n_rows && row + j < end; j++)
            s[i * HEARTH_ATTEND_ROWS + row + j] = four[i * n_rows + j] * scale;
}

INLINE float largest(const float *s, size_t n)
{
    float max = -__builtin_inff();
    for (size_t r = 0; r < n; r++)
        max = s[r] > max ? s[r] : max;
    return max;
}

INLINE void scores(float *s, float *max, const struct hearth_tile *keys, const void *q, size_t q_stride,
                   size_t n, float scale, size_t bytes, load_fn load)
{
    const float *query[HEARTH_ATTEND_QUERIES];
    for (size_t i = 0; i < n; i++)
        query[i] = (const float *)(const void *)((const uint8_t *)q + i * q_stride);
    for (size_t r = 0; r < keys->n_rows; r += ROWS) {
        float converted[ROWS][HEARTH_ATTEND_MAX_DIM];
        for (size_t j = 0; j < ROWS; j++) {
            const uint8_t *row = row_of(keys, r + j);
            for (size_t at = 0; at < keys->dim; at += LANES)
                f_store(converted[j] + at, load(row + at * bytes));
            if (keys->next)
                prefetch((const uint8_t *)keys->next + (r + j) * keys->stride, keys->stride);
        }
        float four[4];
        size_t i = 0;
        for (; i + 2 <= n; i += 2)
            for (size_t j = 0; j < ROWS; j += 2) {
                products(four, converted + j, 2, query + i, 2, keys->dim);
                enter(s + i * HEARTH_ATTEND_ROWS, four, r + j, 2, keys->n_rows, 2, scale);
            }
        if (i < n) {
            products(four, converted, ROWS, query + i, 1, keys->dim);
            enter(s + i * HEARTH_ATTEND_ROWS, four, r, ROWS, keys->n_rows, 1, scale);
        }
    }
    for (size_t i = 0; i < n; i++)
        max[i] = largest(s + i * HEARTH_ATTEND_ROWS, keys->n_rows);
}

// ---- softmax

// How a tile is merged with those before: out = out * a + tile * b, or out = tile.
struct merge {
    float a[HEARTH_ATTEND_QUERIES], b[HEARTH_ATTEND_QUERIES];
    bool is_first;
};

// One query's scores become weights; returns their sum. *zeros becomes true when one is 0.
INLINE float exponentials(float *s, float max, size_t n, bool *zeros)
{
    f32x16 acc = f_zero();
    for (size_t r = 0; r < n; r += LANES) {
        const size_t rest = n - r;
        const f32x16 x = rest < LANES ? f_load_part(s + r, rest) : f_load(s + r);
        const f32x16 e = f_exp(f_sub(x, f_set1(max)));
        if (rest < LANES)
            f_store_part(s + r, e, rest);
        else
            f_store(s + r, e);
        acc = f_add(acc, rest < LANES ? f_load_part(s + r, rest) : e);
    }
    for (size_t r = 0; r < n; r++)
        *zeros |= s[r] == 0.0f;
    return f_sum(acc);
}

// Turns scores into weights and moves the queries' maxima and sums on. Returns whether some weight is 0.
INLINE bool softmax(float *s, float *max, float *sum, const float *tile_max, struct merge *merge,
                    size_t n_rows, size_t n)
{
    bool zeros = false;
    for (size_t i = 0; i < n; i++) {
        const float tile_sum = exponentials(s + i * HEARTH_ATTEND_ROWS, tile_max[i], n_rows, &zeros);
        if (merge->is_first) {
            max[i] = tile_max[i];
            sum[i] = tile_sum;
            continue;
        }
        const float top = max[i] > tile_max[i] ? max[i] : tile_max[i];
        merge->a[i] = hearth_exp(max[i] - top);
        merge->b[i] = hearth_exp(tile_max[i] - top);
        sum[i] = fmaf(tile_sum, merge->b[i], sum[i] * merge->a[i]);
        max[i] = top;
    }
    return zeros;
}

// ---- values

// 16 columns for `count` queries from query `first` on (a constant after inlining); with `zeros`, weights of
// 0 are skipped.
INLINE void columns(float *out, const float *s, const struct hearth_tile *values, size_t at, size_t first,
                    size_t count, bool zeros, const struct merge *merge, size_t bytes, load_fn load)
{
    const uint8_t *row = (const uint8_t *)values->rows + at * bytes;
    f32x16 acc[4];
    for (size_t i = 0; i < count; i++)
        acc[i] = f_zero();
    s += first * HEARTH_ATTEND_ROWS;
    for (size_t r = 0; r < values->n_rows; r++, row += values->stride) {
        const f32x16 x = load(row);
        ALL for (size_t i = 0; i < count; i++)
        {
            const float weight = s[i * HEARTH_ATTEND_ROWS + r];
            if (!zeros || weight != 0.0f)
                acc[i] = f_fma(f_set1(weight), x, acc[i]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        float *to = out + (first + i) * values->dim + at;
        const f32x16 a = f_set1(merge->a[first + i]), b = f_set1(merge->b[first + i]);
        f_store(to, merge->is_first ? acc[i] : f_fma(acc[i], b, f_mul(f_load(to), a)));
    }
}

INLINE void all_columns(float *out, const float *s, const struct hearth_tile *values, size_t n, bool zeros,
                        const struct merge *merge, size_t bytes, load_fn load)
{
    for (size_t at = 0; at < values->dim; at += LANES) {
        size_t i = 0;
        for (; i + 4 <= n; i += 4)
            columns(out, s, values, at, i, 4, zeros, merge, bytes, load);
        for (; i + 2 <= n; i += 2)
            columns(out, s, values, at, i, 2, zeros, merge, bytes, load);
        for (; i < n; i++)
            columns(out, s, values, at, i, 1, zeros, merge, bytes, load);
    }
}

INLINE void values(float *out, float *max, float *sum, bool is_first, float *s, const float *tile_max,
                   const struct hearth_tile *tile, size_t n, size_t bytes, load_fn load)
{
    struct merge merge = {.is_first = is_first};
    const bool zeros = softmax(s, max, sum, tile_max, &merge, tile->n_rows, n);
    for (size_t r = 0; tile->next && r < tile->n_rows; r++)
        prefetch((const uint8_t *)tile->next + r * tile->stride, tile->stride);
    if (zeros)
        all_columns(out, s, tile, n, true, &merge, bytes, load);
    else
        all_columns(out, s, tile, n, false, &merge, bytes, load);
}

// ---- types

#define KIND(name, bytes, load)                                                                              \
    static void scores_##name(float *s, float *max, const struct hearth_tile *keys, const void *q,           \
                              size_t q_stride, size_t n, float scale)                                        \
    {                                                                                                        \
        scores(s, max, keys, q, q_stride, n, scale, bytes, load);                                            \
    }                                                                                                        \
    static void values_##name(float *out, float *max, float *sum, bool is_first, float *s,                   \
                              const float *tile_max, const struct hearth_tile *tile, size_t n)               \
    {                                                                                                        \
        values(out, max, sum, is_first, s, tile_max, tile, n, bytes, load);                                  \
    }
KIND(f16, 2, f_load_f16)
KIND(f32, 4, f_load_f32)

void hearth_kernels_init_attend_neon(struct hearth_kernels *t)
{
    t->attend_scores[HEARTH_TYPE_F16] = scores_f16;
    t->attend_values[HEARTH_TYPE_F16] = values_f16;
    t->attend_scores[HEARTH_TYPE_F32] = scores_f32;
    t->attend_values[HEARTH_TYPE_F32] = values_f32;
}
