// SPDX-License-Identifier: MIT
// STEP products of block formats, AVX-512 VNNI, by rows of a matrix (step_avx512.h says how).
#include <stdatomic.h>

#include "base/cpu.h"
#include "kernels/x86/step_ends_avx512.h"
#include "kernels/x86/variants_x86.h"

// Rows whose sums are kept while they are walked in bands of columns.
#define MATRIX_ROWS 48
// How many bytes ahead of the arithmetic a matrix is prefetched: left to itself the CPU reads too few lines
// at a time.
#define MATRIX_AHEAD 4096
// Rows of fewer whole groups than this are short: more of them hide how long a row's own sum takes.
#define SHORT 4
// Whole groups of a row that a single token goes through before the next row has its turn, where rows are
// longer than that: their activations stay in the L1 cache, which two threads of a core may have to share.
#define BAND 8
// Tokens from which on transposing weights is worth it (step_few_avx512.c).
#define FEW_FROM 3

// How one token takes rows, or two in the last way:
// - beside: two of them side by side.
// - in turn: one after the other, and nothing is asked for ahead. Zen 4 reads one stream faster than two, and
//   loads of activations are not what limits it; what is asked for keeps its own prefetcher, which is faster, from
//   running ahead.
// - apart: four together, one from each part of the matrix, so that four streams come from memory, each in pages
//   of its own. Intel's prefetchers run a few lines ahead in each of them. What is asked for beside them is nearer.
static atomic_int row_walk;
#define APART_AHEAD 2048

// Tokens from which on lanes are better used for tokens (step_many_avx512.c), in rows of k elements. A row must have a
// whole group of units: the first group begins all 16 lanes. On AMD's CPUs, where transposed weights were not measured,
// lanes for tokens give four tokens of long rows nearly what memory gives one.
static size_t many_from(size_t k)
{
    if (k < 512)
        return SIZE_MAX;
    const bool intel = atomic_load_explicit(&row_walk, memory_order_relaxed) == HEARTH_WALK_APART;
    return k >= 1024 && !intel ? 3 : 7;
}

// `rows` rows from w on: what comes MATRIX_AHEAD after all of them is asked for, since the last row's start is
// needed as early as the first one's.
INLINE void lay_strand(struct strand *l, const uint8_t *w, size_t w_stride, size_t group_bytes, size_t full,
                       size_t tail_bytes, int rows)
{
    const uint8_t *ahead = w + (size_t)(rows - 1) * w_stride + MATRIX_AHEAD;
    l->ahead_step = (size_t)rows * group_bytes;
    l->group_bytes = group_bytes;
    l->n_groups = full;
    l->tail_bytes = tail_bytes;
    for (int r = 0; r < rows; r++) {
        l->row[r] = w + (size_t)r * w_stride;
        l->ahead[r] = ahead + (size_t)r * group_bytes;
        l->ahead_tail[r] = ahead + full * l->ahead_step + (size_t)r * tail_bytes;
    }
}

// So many rows (a constant after inlining).
INLINE void rows_tokens(float *out, size_t out_stride, const uint8_t *w, size_t w_stride, size_t group_bytes,
                        size_t full, size_t tail_bytes, const struct prepared *x, size_t x_groups, int rows,
                        int n, bool asks, unpack_fn unpack, tail_fn tail, const struct shape *s)
{
    struct strand l;
    lay_strand(&l, w, w_stride, group_bytes, full, tail_bytes, rows);
    strand_tokens(out, out_stride, &l, x, x_groups, rows, n, asks, unpack, tail, s);
}

// Rows of a matrix from w on; rows in a part when they are walked apart, else 0.
struct matrix {
    const uint8_t *w;
    size_t w_stride, group_bytes, full, tail_bytes, part;
};

INLINE size_t matrix_row(const void *matrix, size_t place)
{
    const struct matrix *m = matrix;
    return place < m->part * ROWS_TOGETHER ? place % ROWS_TOGETHER * m->part + place / ROWS_TOGETHER : place;
}

INLINE struct strand matrix_strand(const void *matrix, size_t at, int rows)
{
    const struct matrix *m = matrix;
    struct strand l;
    if (!m->part) {
        lay_strand(&l, m->w + at * m->w_stride, m->w_stride, m->group_bytes, m->full, m->tail_bytes, rows);
        return l;
    }
    l.ahead_step = l.group_bytes = m->group_bytes;
    l.n_groups = m->full;
    l.tail_bytes = m->tail_bytes;
    for (int r = 0; r < rows; r++) {
        l.row[r] = m->w + matrix_row(m, at + (size_t)r) * m->w_stride;
        l.ahead[r] = l.row[r] + APART_AHEAD;
        l.ahead_tail[r] = l.ahead[r] + m->full * m->group_bytes;
    }
    return l;
}

// Rows of each part of n_rows: an odd number, for parts that are whole pages apart come slower.
static size_t part_of(size_t n_rows)
{
    const size_t rows = n_rows / ROWS_TOGETHER;
    return rows > 1 ? (rows - 1) | 1 : rows;
}

// Rows walked apart, for n prepared tokens (a constant after inlining).
INLINE void parted_rows(float *out, size_t out_stride, size_t n_rows, const struct matrix *m,
                        const struct prepared *x, size_t x_groups, int n, unpack_fn unpack, tail_fn tail,
                        const struct shape *s)
{
    size_t place = 0;
    for (; place + ROWS_TOGETHER <= n_rows; place += ROWS_TOGETHER) {
        const struct strand l = matrix_strand(m, place, ROWS_TOGETHER);
        float sums[MAX_TOGETHER][ROWS_TOGETHER];
        strand_tokens(sums[0], ROWS_TOGETHER, &l, x, x_groups, ROWS_TOGETHER, n, true, unpack,
                      n == 1 ? NULL : tail, s);
        for (int t = 0; t < n; t++)
            for (size_t r = 0; r < ROWS_TOGETHER; r++)
                out[(size_t)t * out_stride + matrix_row(m, place + r)] = sums[t][r];
    }
    for (; place < n_rows; place++) {
        const struct strand l = matrix_strand(m, place, 1);
        strand_tokens(out + place, out_stride, &l, x, x_groups, 1, n, true, unpack, tail, s);
    }
}

// Rows [0, n_rows), some of them together, for n prepared tokens (constants after inlining), whose
// activations (10 KB each at k = 4096) stay in the L1 cache.
INLINE void some_tokens(float *out, size_t out_stride, const uint8_t *w, size_t w_stride, size_t n_rows,
                        size_t group_bytes, size_t full, size_t tail_bytes, const struct prepared *x,
                        size_t x_groups, int together, int n, bool asks, unpack_fn unpack, tail_fn tail,
                        const struct shape *s)
{
    size_t r = 0;
    for (; n == 1 && asks && full < SHORT && r + ROWS_TOGETHER <= n_rows; r += ROWS_TOGETHER)
        rows_tokens(out + r, out_stride, w + r * w_stride, w_stride, group_bytes, full, tail_bytes, x,
                    x_groups, ROWS_TOGETHER, n, true, unpack, NULL, s);
    for (; r + (size_t)together <= n_rows; r += (size_t)together)
        rows_tokens(out + r, out_stride, w + r * w_stride, w_stride, group_bytes, full, tail_bytes, x,
                    x_groups, together, n, asks, unpack, tail, s);
    for (; together > 1 && r < n_rows; r++)
        rows_tokens(out + r, out_stride, w + r * w_stride, w_stride, group_bytes, full, tail_bytes, x,
                    x_groups, 1, n, asks, unpack, tail, s);
}

// At most MATRIX_ROWS long rows for one prepared token, in bands of columns. Each lane adds in the same order
// as without bands. What is asked for meanwhile is the same band some rows later, into the L2 cache: the way
// to L1 is what activations come by.
INLINE void banded_rows(float *out, const uint8_t *w, size_t w_stride, size_t n_rows, size_t group_bytes,
                        size_t full, size_t tail_bytes, const struct prepared *x, unpack_fn unpack,
                        const struct shape *s)
{
    __m512 acc[MATRIX_ROWS];
    const size_t later = (MATRIX_AHEAD / (BAND * group_bytes) + 1) * w_stride;
    for (size_t r = 0; r < n_rows; r++)
        acc[r] = _mm512_setzero_ps();
    for (size_t begin = 0; begin < full; begin += BAND) {
        const size_t end = full - begin < BAND ? full : begin + BAND;
        for (size_t r = 0; r < n_rows; r++) {
            const uint8_t *row = w + r * w_stride;
            __m512 sum = acc[r];
            for (size_t g = begin; g < end; g++) {
                struct weights weights;
                prefetch_l2(row + later + g * group_bytes, group_bytes);
                unpack(&weights, row + g * group_bytes);
                sum = add_group(sum, &weights, x + g, s);
            }
            acc[r] = sum;
        }
    }
    for (size_t r = 0; r < n_rows; r++) {
        if (tail_bytes) {
            struct weights weights;
            const size_t before = full * group_bytes;
            unpack_tail(&weights, w + r * w_stride + before, tail_bytes, group_bytes, before, unpack);
            acc[r] = add_group(acc[r], &weights, x + full, s);
        }
        sum_lanes(out + r, &acc[r], 1, s);
    }
}

// How many short rows' ends go into one group, or 1.
INLINE int short_ends(size_t k, const struct shape *s)
{
    const size_t elements = (size_t)s->unit * LANES;
    return k / elements < SHORT ? ends_together(k % elements, s) : 1;
}

// One token, or two.
INLINE void step(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k, size_t n_rows,
                 const void *x, size_t x_stride, size_t n_tokens, void *scratch, uint32_t type,
                 unpack_fn unpack, tail_fn tail, const struct shape *s)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t elements = (size_t)s->unit * LANES;
    const size_t group_bytes = elements / info->block_elems * info->block_bytes;
    const size_t full = k / elements, all = (k + elements - 1) / elements;
    const size_t tail_bytes = (k - full * elements) / info->block_elems * info->block_bytes;
    struct prepared *prepared = scratch;
    struct ends ends = {.bytes = tail_bytes, .together = n_tokens == 1 ? short_ends(k, s) : 1};
    const int walk = atomic_load_explicit(&row_walk, memory_order_relaxed);
    const bool in_turn = walk == HEARTH_WALK_IN_TURN;
    const size_t part = walk == HEARTH_WALK_APART ? part_of(n_rows) : 0;
    const size_t most_rows = part ? n_rows : MATRIX_ROWS;

    for (size_t i = 0; part && i < ROWS_TOGETHER; i++) // on its way while activations are prepared
        prefetch((const uint8_t *)w + i * part * w_stride, APART_AHEAD);
    for (size_t t = 0; t < n_tokens; t++)
        prepare(prepared + t * all, (const uint8_t *)x + t * x_stride, k, all, s);
    if (ends.together > 1)
        prepare_ends(&ends, prepared + all, x, k, full, group_bytes, s);
    for (size_t r = 0; r < n_rows; r += most_rows) {
        const size_t rows = n_rows - r < most_rows ? n_rows - r : most_rows;
        const uint8_t *from = (const uint8_t *)w + r * w_stride;
        float *to = out + r;
        const struct matrix matrix = {from, w_stride, group_bytes, full, tail_bytes, part};
        if (n_tokens == 2 && part)
            parted_rows(to, out_stride, rows, &matrix, prepared, all, 2, unpack, tail, s);
        else if (n_tokens == 2)
            some_tokens(to, out_stride, from, w_stride, rows, group_bytes, full, tail_bytes, prepared, all,
                        SIDE_BY_SIDE, 2, true, unpack, tail, s);
        else if (ends.together > 1)
            rows_with_ends(to, rows, &matrix, matrix_strand, matrix_row, prepared, &ends, unpack, s);
        else if (part)
            parted_rows(to, out_stride, rows, &matrix, prepared, all, 1, unpack, tail, s);
        else if (in_turn && full > 2 * BAND)
            banded_rows(to, from, w_stride, rows, group_bytes, full, tail_bytes, prepared, unpack, s);
        else if (in_turn && full >= SHORT)
            some_tokens(to, out_stride, from, w_stride, rows, group_bytes, full, tail_bytes, prepared, all, 1,
                        1, false, unpack, tail, s);
        else
            some_tokens(to, out_stride, from, w_stride, rows, group_bytes, full, tail_bytes, prepared, all,
                        SIDE_BY_SIDE, 1, true, unpack, tail, s);
    }
}

// ---- formats

#define STEP(type, unpack, shape)                                                                            \
    __attribute__((noinline)) static void tail_##type(TAIL_PARAMS)                                           \
    {                                                                                                        \
        add_tail(acc, l, r, x, x_groups, n, unpack, &shape);                                                 \
    }                                                                                                        \
    static void step_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,         \
                            size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch)   \
    {                                                                                                        \
        if (n_tokens >= many_from(k))                                                                        \
            hearth_step_many_avx512(HEARTH_TYPE_##type, out, out_stride, w, w_stride, k, n_rows, x,          \
                                    x_stride, n_tokens, scratch);                                            \
        else if (n_tokens >= FEW_FROM || (n_tokens == 2 && short_ends(k, &shape) > 1))                       \
            hearth_step_few_avx512(HEARTH_TYPE_##type, out, out_stride, w, w_stride, k, n_rows, x, x_stride, \
                                   n_tokens, scratch);                                                       \
        else                                                                                                 \
            step(out, out_stride, w, w_stride, k, n_rows, x, x_stride, n_tokens, scratch,                    \
                 HEARTH_TYPE_##type, unpack, tail_##type, &shape);                                           \
    }

HEARTH_UNITS_AVX512(STEP)

void hearth_kernels_walk_avx512(enum hearth_row_walk walk)
{
    atomic_store(&row_walk, (int)walk);
}

void hearth_kernels_init_step_avx512(struct hearth_kernels *t)
{
#define ENTER(type, unpack, shape) t->step[HEARTH_TYPE_##type] = step_##type;
    HEARTH_UNITS_AVX512(ENTER)
#undef ENTER
    hearth_kernels_walk_avx512(hearth_cpu_halves_512()      ? HEARTH_WALK_IN_TURN
                               : hearth_cpu_reads_streams() ? HEARTH_WALK_APART
                                                            : HEARTH_WALK_BESIDE);
    hearth_kernels_raise_scratch(t, step_scratch_bytes);
    hearth_kernels_raise_scratch(t, hearth_step_many_scratch_avx512);
    hearth_kernels_raise_scratch(t, hearth_step_few_scratch_avx512);
}
