// SPDX-License-Identifier: MIT
// STEP products of block formats, AVX-512 VNNI.
//
// A row is walked in groups of 16 units, so that a register holds one value a unit. Per group the weights
// become up to eight registers of unsigned bytes (weight plus an offset), straight from the file's layout:
// nibbles and bytes stay where the format has them, and the activations are put in the same order once per
// call instead. Two int8 dot products per register, one for each plane of the activations, then a transposing
// addition gives the 16 exact sums; the offset is taken off with the activations' own sums. Units come out in
// an order of the format's (`order`); only the final sum over lanes needs the canonical one.
#include "kernels/x86/units_avx512.h"
#include "kernels/x86/variants_x86.h"

// Rows that go side by side, at most, and by default: more of them are faster from the caches, but not from
// memory.
#define ROWS_TOGETHER 4
#define SIDE_BY_SIDE  2
// Tokens computed together in registers.
#define MAX_TOGETHER 4
// Tokens prepared at a time.
#define MAX_PREPARED 8
// Rows that one set of tokens goes through before the next set has its turn: of a matrix, of a list.
#define MATRIX_ROWS 48
#define LIST_ROWS   16
// How many bytes ahead of the arithmetic a matrix and a list are prefetched: left to itself the CPU reads too
// few lines at a time.
#define MATRIX_AHEAD 4096
#define LIST_AHEAD   8192
// Rows of fewer whole groups than this are short: more of them hide how long a row's own sum takes.
#define SHORT 4
// Tokens and length of a row from which on lanes are better used for tokens (step_many_avx512.c).
#define MANY_FROM 3
#define MANY_LONG 1024

// One token's activations of one group, in the format's order.
struct prepared {
    int8_t planes[8][2][64]; // [register][hi, lo]
    float d[LANES];
    int32_t offset[LANES]; // offset * sum of q
    float sum[LANES];      // sum of q
};

// ---- hot path

// Sums of adjacent fours: lane 4L+k of the result is the sum of 128-bit part L of t[k].
INLINE __m512i transpose_add(const __m512i *t)
{
    __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(t[0], t[1]), _mm512_unpackhi_epi32(t[0], t[1]));
    __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(t[2], t[3]), _mm512_unpackhi_epi32(t[2], t[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

// Exact sums of q * qx per unit, offset not yet taken off.
INLINE __m512i dot_group(const struct weights *w, const struct prepared *x, const struct shape *s)
{
    __m512i t[8];
    for (int i = 0; i < s->registers; i++) {
        // A pair's second register goes on where the first one stopped.
        const bool second = s->pairs && (i & 1);
        const int to = s->pairs ? i / 2 : i;
        const __m512i hi = _mm512_load_si512(x->planes[i][0]);
        t[to] = _mm512_dpbusd_epi32(second ? t[to] : _mm512_setzero_si512(), w->u[i], hi);
    }
    for (int i = 0; i < (s->pairs ? s->registers / 2 : s->registers); i++)
        t[i] = _mm512_slli_epi32(t[i], 7);
    for (int i = 0; i < s->registers; i++) {
        const int to = s->pairs ? i / 2 : i;
        t[to] = _mm512_dpbusd_epi32(t[to], w->u[i], _mm512_load_si512(x->planes[i][1]));
    }
    if (s->pairs || s->unit == 16)
        return transpose_add(t);
    __m512i a = transpose_add(t), b = transpose_add(t + 4);
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

INLINE __m512 add_group(__m512 acc, const struct weights *w, const struct prepared *x, const struct shape *s)
{
    __m512i dot = dot_group(w, x, s);
    if (s->offset)
        dot = _mm512_sub_epi32(dot, _mm512_load_si512(x->offset));
    const __m512 d = _mm512_load_ps(x->d);
    acc = _mm512_fmadd_ps(_mm512_mul_ps(w->scale, d), _mm512_cvtepi32_ps(dot), acc);
    if (s->has_min)
        acc = _mm512_fnmadd_ps(_mm512_mul_ps(w->min, d), _mm512_load_ps(x->sum), acc);
    return acc;
}

INLINE __m512 canonical_order(__m512 acc, const struct shape *s)
{
    const __m512i lanes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)s->inverse));
    return _mm512_permutexvar_ps(lanes, acc);
}

// The canonical tree of n_rows rows, after putting the lanes in canonical order.
INLINE void sum_lanes(float *out, const __m512 *acc, int n_rows, const struct shape *s)
{
    if (n_rows == 4)
        f_sum4(out, canonical_order(acc[0], s), canonical_order(acc[1], s), canonical_order(acc[2], s),
               canonical_order(acc[3], s));
    else
        for (int r = 0; r < n_rows; r++)
            out[r] = f_sum(canonical_order(acc[r], s));
}

// The first n bytes of a group of `bytes`, and zeros behind them. In whole registers, which are loaded again
// faster than what memcpy() stores.
INLINE void copy_tail(uint8_t *to, const uint8_t *from, size_t n, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) {
        const unsigned left = n > i + 64 ? 64 : n > i ? (unsigned)(n - i) : 0;
        _mm512_store_si512(to + i, _mm512_maskz_loadu_epi8(_bzhi_u64(~0ull, left), from + i));
    }
}

// Rows that are walked side by side, so that one token's activations are loaded once for all of them: loads
// are what these products are bound by.
struct strand {
    const uint8_t *row[ROWS_TOGETHER];
    // What to ask for meanwhile, how far it moves from group to group, and what beside the tail.
    const uint8_t *ahead[ROWS_TOGETHER], *ahead_tail[ROWS_TOGETHER];
    size_t ahead_step, group_bytes, n_groups, tail_bytes;
};

// n_rows rows, n tokens (constants after inlining): full groups from the file, the rest from a padded copy.
INLINE void strand_tokens(float *out, size_t out_stride, const struct strand *l, const struct prepared *x,
                          size_t x_groups, int n_rows, int n, unpack_fn unpack, const struct shape *s)
{
    __m512 acc[MAX_TOGETHER][ROWS_TOGETHER];
    for (int r = 0; r < n_rows; r++)
        for (int t = 0; t < n; t++)
            acc[t][r] = _mm512_setzero_ps();
    for (size_t g = 0; g < l->n_groups; g++)
        for (int r = 0; r < n_rows; r++) {
            struct weights w;
            prefetch(l->ahead[r] + g * l->ahead_step, l->group_bytes);
            unpack(&w, l->row[r] + g * l->group_bytes);
            for (int t = 0; t < n; t++)
                acc[t][r] = add_group(acc[t][r], &w, x + (size_t)t * x_groups + g, s);
        }
    for (int r = 0; r < n_rows && l->tail_bytes; r++) {
        _Alignas(64) uint8_t padded[GROUP_BYTES];
        struct weights w;
        prefetch(l->ahead_tail[r], l->tail_bytes);
        copy_tail(padded, l->row[r] + l->n_groups * l->group_bytes, l->tail_bytes, l->group_bytes);
        unpack(&w, padded);
        for (int t = 0; t < n; t++)
            acc[t][r] = add_group(acc[t][r], &w, x + (size_t)t * x_groups + l->n_groups, s);
    }
    for (int t = 0; t < n; t++)
        sum_lanes(out + (size_t)t * out_stride, acc[t], n_rows, s);
}

// Four pieces of 16 bytes.
INLINE __m512i four_pieces(const int8_t *from, const uint8_t *piece)
{
    __m512i all =
        _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)(from + piece[0] * 16)));
    all = _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)(const void *)(from + piece[1] * 16)), 1);
    all = _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)(const void *)(from + piece[2] * 16)), 2);
    return _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)(const void *)(from + piece[3] * 16)), 3);
}

// Activations of one token in the format's order. Zero padding comes with the block. Every call of a product
// does this anew, and picked rows are few, so it goes by whole registers.
INLINE void prepare(struct prepared *out, const void *block, size_t k, size_t n_groups, const struct shape *s)
{
    const struct hearth_acts x = hearth_acts_view(block, k);
    const size_t elements = (size_t)s->unit * LANES;
    const __m512i order = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)s->order));
    for (size_t g = 0; g < n_groups; g++, out++) {
        for (int r = 0; r < s->registers; r++) {
            _mm512_store_si512(out->planes[r][0], four_pieces(x.hi + g * elements, s->pieces[r]));
            _mm512_store_si512(out->planes[r][1], four_pieces(x.lo + g * elements, s->pieces[r]));
        }
        __m512 d;
        __m512i sum;
        if (s->unit == 32) {
            const __m512i twice = _mm512_slli_epi32(order, 1);
            const __m512i a = _mm512_loadu_si512(x.sum + g * 32), b = _mm512_loadu_si512(x.sum + g * 32 + 16);
            d = _mm512_permutexvar_ps(order, _mm512_loadu_ps(x.d + g * 16));
            sum = _mm512_add_epi32(
                _mm512_permutex2var_epi32(a, twice, b),
                _mm512_permutex2var_epi32(a, _mm512_or_si512(twice, _mm512_set1_epi32(1)), b));
        } else {
            d = _mm512_permutexvar_ps(_mm512_srli_epi32(order, 1), _mm512_maskz_loadu_ps(0xff, x.d + g * 8));
            sum = _mm512_permutexvar_epi32(order, _mm512_loadu_si512(x.sum + g * 16));
        }
        _mm512_storeu_ps(out->d, d);
        _mm512_storeu_si512(out->offset, _mm512_mullo_epi32(sum, _mm512_set1_epi32(s->offset)));
        _mm512_storeu_ps(out->sum, _mm512_cvtepi32_ps(sum));
    }
}

// ---- rows of a matrix

// `rows` rows from w on (a constant after inlining), while what comes MATRIX_AHEAD after all of them is asked
// for: the last row's start is needed as early as the first one's.
INLINE void rows_tokens(float *out, size_t out_stride, const uint8_t *w, size_t w_stride, size_t group_bytes,
                        size_t full, size_t tail_bytes, const struct prepared *x, size_t x_groups, int rows,
                        int n, unpack_fn unpack, const struct shape *s)
{
    struct strand l = {.ahead_step = (size_t)rows * group_bytes,
                       .group_bytes = group_bytes,
                       .n_groups = full,
                       .tail_bytes = tail_bytes};
    const uint8_t *ahead = w + (size_t)(rows - 1) * w_stride + MATRIX_AHEAD;
    for (int r = 0; r < rows; r++) {
        l.row[r] = w + (size_t)r * w_stride;
        l.ahead[r] = ahead + (size_t)r * group_bytes;
        l.ahead_tail[r] = ahead + full * l.ahead_step + (size_t)r * tail_bytes;
    }
    strand_tokens(out, out_stride, &l, x, x_groups, rows, n, unpack, s);
}

// Rows [0, n_rows) for n prepared tokens (a constant after inlining), whose activations (10 KB each at k =
// 4096) stay in the L1 cache.
INLINE void some_tokens(float *out, size_t out_stride, const uint8_t *w, size_t w_stride, size_t n_rows,
                        size_t group_bytes, size_t full, size_t tail_bytes, const struct prepared *x,
                        size_t x_groups, int n, unpack_fn unpack, const struct shape *s)
{
    const int together = n < 4 ? SIDE_BY_SIDE : 1;
    size_t r = 0;
    for (; n == 1 && full < SHORT && r + ROWS_TOGETHER <= n_rows; r += ROWS_TOGETHER)
        rows_tokens(out + r, out_stride, w + r * w_stride, w_stride, group_bytes, full, tail_bytes, x,
                    x_groups, ROWS_TOGETHER, n, unpack, s);
    for (; r + (size_t)together <= n_rows; r += (size_t)together)
        rows_tokens(out + r, out_stride, w + r * w_stride, w_stride, group_bytes, full, tail_bytes, x,
                    x_groups, together, n, unpack, s);
    for (; r < n_rows; r++)
        rows_tokens(out + r, out_stride, w + r * w_stride, w_stride, group_bytes, full, tail_bytes, x,
                    x_groups, 1, n, unpack, s);
}

INLINE void step(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k, size_t n_rows,
                 const void *x, size_t x_stride, size_t n_tokens, void *scratch, uint32_t type,
                 unpack_fn unpack, const struct shape *s)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t elements = (size_t)s->unit * LANES;
    const size_t group_bytes = elements / info->block_elems * info->block_bytes;
    const size_t full = k / elements, all = (k + elements - 1) / elements;
    const size_t tail_bytes = (k - full * elements) / info->block_elems * info->block_bytes;
    struct prepared *prepared = scratch;

    for (size_t first = 0; first < n_tokens; first += MAX_PREPARED) {
        const size_t count = n_tokens - first < MAX_PREPARED ? n_tokens - first : MAX_PREPARED;
        for (size_t t = 0; t < count; t++)
            prepare(prepared + t * all, (const uint8_t *)x + (first + t) * x_stride, k, all, s);
        // A few rows at a time, so that they stay in the L2 cache while the tokens take turns.
        for (size_t r = 0; r < n_rows; r += MATRIX_ROWS) {
            const size_t rows = n_rows - r < MATRIX_ROWS ? n_rows - r : MATRIX_ROWS;
            const uint8_t *from = (const uint8_t *)w + r * w_stride;
            float *to = out + first * out_stride + r;
            size_t t = 0;
            for (; t + 4 <= count; t += 4)
                some_tokens(to + t * out_stride, out_stride, from, w_stride, rows, group_bytes, full,
                            tail_bytes, prepared + t * all, all, 4, unpack, s);
            if (t + 2 <= count) {
                some_tokens(to + t * out_stride, out_stride, from, w_stride, rows, group_bytes, full,
                            tail_bytes, prepared + t * all, all, 2, unpack, s);
                t += 2;
            }
            if (t < count)
                some_tokens(to + t * out_stride, out_stride, from, w_stride, rows, group_bytes, full,
                            tail_bytes, prepared + t * all, all, 1, unpack, s);
        }
    }
}

// ---- rows of a list
//
// The same arithmetic on rows that lie anywhere. While one row is multiplied, those a few places later in the
// list are fetched.

struct list {
    const void *const *rows;
    size_t n, ahead; // rows, and how many places later to fetch
    size_t group_bytes, full, tail_bytes;
};

// `rows` rows from place `at` on (a constant after inlining).
INLINE void list_rows(float *out, size_t out_stride, const struct list *l, size_t at,
                      const struct prepared *x, size_t x_groups, int rows, int n, unpack_fn unpack,
                      const struct shape *s)
{
    struct strand strand = {.ahead_step = l->group_bytes,
                            .group_bytes = l->group_bytes,
                            .n_groups = l->full,
                            .tail_bytes = l->tail_bytes};
    for (int r = 0; r < rows; r++) {
        const size_t place = at + (size_t)r, later = place + l->ahead;
        strand.row[r] = l->rows[place];
        strand.ahead[r] = l->rows[later < l->n ? later : l->n - 1];
        strand.ahead_tail[r] = strand.ahead[r] + l->full * l->group_bytes;
    }
    strand_tokens(out + at, out_stride, &strand, x, x_groups, rows, n, unpack, s);
}

INLINE void list_tokens(float *out, size_t out_stride, const struct list *l, size_t first, size_t count,
                        const struct prepared *x, size_t x_groups, int n, unpack_fn unpack,
                        const struct shape *s)
{
    const int together = n == 1 ? SIDE_BY_SIDE : 1;
    size_t r = first;
    for (; r + (size_t)together <= first + count; r += (size_t)together)
        list_rows(out, out_stride, l, r, x, x_groups, together, n, unpack, s);
    for (; r < first + count; r++)
        list_rows(out, out_stride, l, r, x, x_groups, 1, n, unpack, s);
}

static size_t places_ahead(size_t row_bytes)
{
    const size_t places = LIST_AHEAD / (row_bytes + 1) + 1;
    return places > 16 ? 16 : places;
}

INLINE void dot_rows(float *out, const void *const *rows, size_t n_rows, size_t k, const void *x,
                     size_t x_stride, size_t n_tokens, void *scratch, uint32_t type, unpack_fn unpack,
                     const struct shape *s)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t elements = (size_t)s->unit * LANES, all = (k + elements - 1) / elements;
    const size_t row_bytes = k / info->block_elems * info->block_bytes;
    struct list l = {.rows = rows, .n = n_rows, .ahead = places_ahead(row_bytes)};
    l.group_bytes = elements / info->block_elems * info->block_bytes;
    l.full = k / elements;
    l.tail_bytes = row_bytes - l.full * l.group_bytes;
    struct prepared *prepared = scratch;

    for (size_t r = 0; r < l.ahead && r < n_rows; r++)
        prefetch(rows[r], row_bytes);
    for (size_t first = 0; first < n_tokens; first += MAX_PREPARED) {
        const size_t count = n_tokens - first < MAX_PREPARED ? n_tokens - first : MAX_PREPARED;
        for (size_t t = 0; t < count; t++)
            prepare(prepared + t * all, (const uint8_t *)x + (first + t) * x_stride, k, all, s);
        for (size_t r = 0; r < n_rows; r += LIST_ROWS) {
            const size_t some = n_rows - r < LIST_ROWS ? n_rows - r : LIST_ROWS;
            float *to = out + first * n_rows;
            size_t t = 0;
            for (; t + 4 <= count; t += 4)
                list_tokens(to + t * n_rows, n_rows, &l, r, some, prepared + t * all, all, 4, unpack, s);
            for (; t < count; t++)
                list_tokens(to + t * n_rows, n_rows, &l, r, some, prepared + t * all, all, 1, unpack, s);
        }
    }
}

// ---- formats

static size_t scratch_bytes(size_t k)
{
    return MAX_PREPARED * (hearth_acts_padded(k) / 256) * sizeof(struct prepared); // groups of short units
}

#define STEP(type, unpack, shape)                                                                            \
    static void step_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,         \
                            size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch)   \
    {                                                                                                        \
        if (n_tokens >= MANY_FROM && k >= MANY_LONG)                                                         \
            hearth_step_many_avx512(HEARTH_TYPE_##type, out, out_stride, w, w_stride, k, n_rows, x,          \
                                    x_stride, n_tokens, scratch);                                            \
        else                                                                                                 \
            step(out, out_stride, w, w_stride, k, n_rows, x, x_stride, n_tokens, scratch,                    \
                 HEARTH_TYPE_##type, unpack, &shape);                                                        \
    }                                                                                                        \
    static void dot_rows_##type(float *out, const void *const *rows, size_t n_rows, size_t k, const void *x, \
                                size_t x_stride, size_t n_tokens, void *scratch)                             \
    {                                                                                                        \
        dot_rows(out, rows, n_rows, k, x, x_stride, n_tokens, scratch, HEARTH_TYPE_##type, unpack, &shape);  \
    }

HEARTH_UNITS_AVX512(STEP)

void hearth_kernels_init_step_avx512(struct hearth_kernels *t)
{
#define ENTER(type, unpack, shape)                                                                           \
    t->step[HEARTH_TYPE_##type] = step_##type;                                                               \
    t->dot_rows[HEARTH_TYPE_##type] = dot_rows_##type;
    HEARTH_UNITS_AVX512(ENTER)
#undef ENTER
    hearth_kernels_raise_scratch(t, scratch_bytes);
    hearth_kernels_raise_scratch(t, hearth_step_many_scratch_avx512);
}
