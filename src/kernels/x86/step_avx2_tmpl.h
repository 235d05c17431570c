// SPDX-License-Identifier: MIT
// STEP products of block formats in registers of 256 bits; included by step_LEVEL.c after it has defined
//
//   offset_of(s)        what the level's bytes of weights have too much, which the activations' sums take off again
//   dot_half(w, x, s)   the exact sums of eight units, offset not yet taken off
//
// A row is walked in groups of 16 units, half a group at a time: up to eight registers of bytes, straight
// from the file's layout, against activations that are put in the same order once per call. A transposing addition
// (transpose_add() in units_avx2.h) gives eight units' sums, in an order of the format's.
#include "kernels/x86/units_avx2.h"
#include "kernels/x86/variants_x86.h"

// Tokens computed together.
#define TOGETHER 4
// How many bytes ahead of the arithmetic a matrix is prefetched.
#define PREFETCH 4096
// How many rows ahead a list of rows is prefetched.
#define AHEAD 3

// One token's activations of half a group in the format's order: both planes for every register, then per
// lane d, offset times the sum of q (int32), the sum of q (float).
#define PREPARED(registers) ((registers) * (size_t)64 + 96)

// ---- hot path

INLINE __m256 add_half(__m256 acc, const struct weights *w, const uint8_t *x, const struct shape *s)
{
    const uint8_t *after = x + (size_t)s->registers * 64;
    const __m256 d = _mm256_loadu_ps((const float *)(const void *)after);
    __m256i dot = dot_half(w, x, s);
    if (offset_of(s))
        dot = _mm256_sub_epi32(dot, load32(after + 32));
    acc = _mm256_fmadd_ps(_mm256_mul_ps(w->scale, d), _mm256_cvtepi32_ps(dot), acc);
    if (s->has_min)
        acc = _mm256_fnmadd_ps(_mm256_mul_ps(w->min, d),
                               _mm256_loadu_ps((const float *)(const void *)(after + 64)), acc);
    return acc;
}

INLINE __m256 canonical_order(__m256 acc, const struct shape *s)
{
    const __m128i lanes = _mm_loadl_epi64((const __m128i *)(const void *)s->inverse);
    return _mm256_permutevar8x32_ps(acc, _mm256_cvtepu8_epi32(lanes));
}

INLINE float sum_lanes(const __m256 acc[2], const struct shape *s)
{
    const __m256 s8 = _mm256_add_ps(canonical_order(acc[0], s), canonical_order(acc[1], s));
    const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}

// What does not change during a call.
struct call {
    size_t full, group_bytes; // whole groups of a row
    size_t tail_bytes;        // behind them,
    bool long_tail;           // and whether it has units of a second half
    size_t token_bytes;       // from one prepared token to the next
    uint8_t *padded;          // [GROUP_BYTES] where a row's tail is put, zeros behind it
};

// Half of a group (0 or 1, a constant after inlining) against n tokens.
INLINE void add_units(__m256 acc[][2], const uint8_t *group, size_t half, const struct call *c,
                      const uint8_t *x, size_t n, unpack_fn unpack, const struct shape *s)
{
    struct weights w;
    unpack(&w, group, half);
    x += half * PREPARED(s->registers);
    for (size_t t = 0; t < n; t++)
        acc[t][half] = add_half(acc[t][half], &w, x + t * c->token_bytes, s);
}

// One row against n tokens (a constant after inlining); `ahead` is prefetched meanwhile. What a tail lacks to a half
// of a group would add zeros, which change no sum.
INLINE void row_tokens(float *out, size_t out_stride, const uint8_t *row, const uint8_t *ahead,
                       const struct call *c, const uint8_t *x, size_t n, unpack_fn unpack,
                       const struct shape *s)
{
    __m256 acc[TOGETHER][2];
    for (size_t t = 0; t < n; t++)
        acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    for (size_t g = 0; g < c->full; g++) {
        prefetch(ahead, c->group_bytes);
        add_units(acc, row, 0, c, x, n, unpack, s);
        add_units(acc, row, 1, c, x, n, unpack, s);
        row += c->group_bytes;
        ahead += c->group_bytes;
        x += 2 * PREPARED(s->registers);
    }
    if (c->tail_bytes) {
        prefetch(ahead, c->tail_bytes);
        copy_few(c->padded, row, c->tail_bytes);
        add_units(acc, c->padded, 0, c, x, n, unpack, s);
        if (c->long_tail)
            add_units(acc, c->padded, 1, c, x, n, unpack, s);
    }
    for (size_t t = 0; t < n; t++)
        out[t * out_stride] = sum_lanes(acc[t], s);
}

// Activations of one token in the format's order, zero padding included.
INLINE void prepare(uint8_t *to, const void *block, size_t k, size_t n_halves, const struct shape *s)
{
    const struct hearth_acts x = hearth_acts_view(block, k);
    const __m256i order = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)s->order));
    for (size_t h = 0; h < n_halves; h++) {
        const size_t at = h * HALF * s->unit;
        for (size_t r = 0; r < s->registers; r++, to += 64) {
            const size_t a = at + s->pieces[r][0] * (size_t)16, b = at + s->pieces[r][1] * (size_t)16;
            _mm256_storeu_si256((__m256i *)(void *)to, load_both(x.hi + a, x.hi + b));
            _mm256_storeu_si256((__m256i *)(void *)(to + 32), load_both(x.lo + a, x.lo + b));
        }
        __m256 d;
        __m256i sum;
        if (s->unit == 32) {
            const __m256i pairs = _mm256_hadd_epi32(load32(x.sum + at / 16), load32(x.sum + at / 16 + 8));
            sum = _mm256_permute4x64_epi64(pairs, 0xd8);
            d = _mm256_permutevar8x32_ps(_mm256_loadu_ps(x.d + at / 32), order);
        } else {
            sum = load32(x.sum + at / 16);
            d = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(x.d + at / 32)),
                                         _mm256_srli_epi32(order, 1));
        }
        sum = _mm256_permutevar8x32_epi32(sum, order);
        _mm256_storeu_ps((float *)(void *)to, d);
        _mm256_storeu_si256((__m256i *)(void *)(to + 32),
                            _mm256_mullo_epi32(sum, _mm256_set1_epi32(offset_of(s))));
        _mm256_storeu_ps((float *)(void *)(to + 64), _mm256_cvtepi32_ps(sum));
        to += 96;
    }
}

// Rows of a matrix, or those of the list when it is not NULL.
INLINE void step(float *out, size_t out_stride, const void *w, size_t w_stride, const void *const *rows,
                 size_t k, size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, uint8_t *prepared,
                 uint32_t type, unpack_fn unpack, const struct shape *s)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t elements = (size_t)s->unit * LANES, groups = (k + elements - 1) / elements;
    const size_t tail = k % elements;
    uint8_t padded[GROUP_BYTES] = {0};
    const struct call c = {.full = k / elements,
                           .group_bytes = elements / info->block_elems * info->block_bytes,
                           .tail_bytes = tail / info->block_elems * info->block_bytes,
                           .long_tail = tail > (size_t)s->unit * HALF,
                           .token_bytes = groups * 2 * PREPARED(s->registers),
                           .padded = padded};
    for (size_t r = 0; rows && r < AHEAD && r < n_rows; r++)
        prefetch(rows[r], k / info->block_elems * info->block_bytes);
    for (size_t first = 0; first < n_tokens; first += TOGETHER) {
        const size_t count = n_tokens - first < TOGETHER ? n_tokens - first : TOGETHER;
        for (size_t t = 0; t < count; t++)
            prepare(prepared + t * c.token_bytes, (const uint8_t *)x + (first + t) * x_stride, k, 2 * groups,
                    s);
        for (size_t r = 0; r < n_rows; r++) {
            const uint8_t *row = rows ? rows[r] : (const uint8_t *)w + r * w_stride;
            const uint8_t *ahead = !rows ? row + PREFETCH : r + AHEAD < n_rows ? rows[r + AHEAD] : row;
            float *to = out + first * out_stride + r;
            if (count == TOGETHER)
                row_tokens(to, out_stride, row, ahead, &c, prepared, TOGETHER, unpack, s);
            else
                for (size_t t = 0; t < count; t++)
                    row_tokens(to + t * out_stride, out_stride, row, ahead, &c, prepared + t * c.token_bytes,
                               1, unpack, s);
        }
    }
}

// ---- formats

#define STEP(type, unpack, shape)                                                                            \
    static void any_rows_##type(float *out, size_t out_stride, const void *w, size_t w_stride,               \
                                const void *const *rows, size_t k, size_t n_rows, const void *x,             \
                                size_t x_stride, size_t n_tokens, void *scratch)                             \
    {                                                                                                        \
        step(out, out_stride, w, w_stride, rows, k, n_rows, x, x_stride, n_tokens, scratch,                  \
             HEARTH_TYPE_##type, unpack, &shape);                                                            \
    }                                                                                                        \
    static void step_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,         \
                            size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch)   \
    {                                                                                                        \
        any_rows_##type(out, out_stride, w, w_stride, NULL, k, n_rows, x, x_stride, n_tokens, scratch);      \
    }                                                                                                        \
    static void dot_rows_##type(float *out, const void *const *rows, size_t n_rows, size_t k, const void *x, \
                                size_t x_stride, size_t n_tokens, void *scratch)                             \
    {                                                                                                        \
        any_rows_##type(out, n_rows, NULL, 0, rows, k, n_rows, x, x_stride, n_tokens, scratch);              \
    }

HEARTH_UNITS_AVX2(STEP)

static size_t scratch_bytes(size_t k)
{
    // Units of 16 elements take most: half a group of them is 128 elements.
    return TOGETHER * (hearth_acts_padded(k) / 128) * PREPARED(4);
}

static void init_step(struct hearth_kernels *t)
{
#define ENTER(type, unpack, shape)                                                                           \
    t->step[HEARTH_TYPE_##type] = step_##type;                                                               \
    t->dot_rows[HEARTH_TYPE_##type] = dot_rows_##type;
    HEARTH_UNITS_AVX2(ENTER)
#undef ENTER
    hearth_kernels_raise_scratch(t, scratch_bytes);
}
