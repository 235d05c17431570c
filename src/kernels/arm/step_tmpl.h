// SPDX-License-Identifier: MIT
// STEP products of block formats on 64-bit ARM; included by step_LEVEL.c after it has defined
//
//   dot_quarter(dot, w, n_rows, hi, lo, s)   dot[r]: the exact sums of w[r] * (128 * hi + lo) of four units
//
// A row is walked in groups of 16 units, a quarter of a group at a time, whose four sums become the four
// lanes of a register. Weights keep the offset that makes them unsigned; the activations' sums take it off
// again.
#include "kernels/arm/units_neon.h"
#include "kernels/arm/variants_arm.h"

// Tokens that share a row's unpacked weights, and rows that share a token's activations.
#define TOKENS 4
#define ROWS   2
// How many bytes ahead of the arithmetic a matrix is prefetched.
#define PREFETCH 4096
// How many rows ahead a list of rows is prefetched.
#define AHEAD 3

// ---- hot path

INLINE float32x4_t add_quarter(float32x4_t acc, const struct weights *w, int32x4_t dot,
                               const struct factors *f, const struct shape *s)
{
    if (s->offset)
        dot = vmlsq_n_s32(dot, f->sum, s->offset);
    acc = vfmaq_f32(acc, vmulq_f32(w->scale, f->d), vcvtq_f32_s32(dot));
    if (s->has_min)
        acc = vfmsq_f32(acc, vmulq_f32(w->min, f->d), vcvtq_f32_s32(f->sum));
    return acc;
}

// What does not change during a call.
struct call {
    size_t k, full, group_bytes; // whole groups of a row
    size_t tail_bytes, tail;     // behind them, and quarters of a group that these take
    size_t x_stride;
    uint8_t (*padded)[GROUP_BYTES]; // [ROWS] where rows' tails are put, zeros behind them
};

// A quarter of group number g of each row.
INLINE void add_units(float32x4_t acc[][TOKENS], const uint8_t *const *src, size_t n_rows, size_t g,
                      size_t quarter, const struct hearth_acts *acts, size_t n_tokens, unpack_fn unpack,
                      const struct shape *s)
{
    const size_t u = g * LANES + quarter * QUARTER, at = u * s->unit;
    struct weights w[ROWS];
    ALL for (size_t r = 0; r < n_rows; r++) unpack(&w[r], src[r], quarter);
    ALL for (size_t t = 0; t < n_tokens; t++)
    {
        int32x4_t dot[ROWS];
        const struct factors f = factors_at(&acts[t], u, s);
        dot_quarter(dot, w, n_rows, acts[t].hi + at, acts[t].lo + at, s);
        ALL for (size_t r = 0; r < n_rows; r++) acc[r][t] = add_quarter(acc[r][t], &w[r], dot[r], &f, s);
    }
}

// Quarters [0, quarters) of group number g, which is what is behind a row's whole ones. A format has this once, for sums
// in memory: within the loops over groups it would take registers from these.
#define TAIL_PARAMS                                                                                          \
    float32x4_t acc[4][ROWS][TOKENS], const uint8_t *const *src, size_t n_rows, size_t g, size_t quarters,   \
        const struct hearth_acts *acts, size_t n_tokens
typedef void (*tail_fn)(TAIL_PARAMS);

INLINE void add_tail(TAIL_PARAMS, unpack_fn unpack, const struct shape *s)
{
    for (size_t i = 0; i < quarters; i++)
        if (n_rows == ROWS)
            add_units(acc[i], src, ROWS, g, i, acts, 1, unpack, s);
        else if (n_tokens == TOKENS)
            add_units(acc[i], src, 1, g, i, acts, TOKENS, unpack, s);
        else
            add_units(acc[i], src, 1, g, i, acts, 1, unpack, s);
}

// n_rows rows against n_tokens tokens (constants after inlining), one of which is 1; `ahead` is prefetched meanwhile. What
// a tail lacks to a quarter of a group adds zeros, which change no sum.
INLINE void rows_tokens(float *out, size_t out_stride, const uint8_t *const *row, const uint8_t *const *ahead,
                        size_t n_rows, const struct call *c, const uint8_t *x, size_t n_tokens,
                        unpack_fn unpack, tail_fn tail, const struct shape *s)
{
    struct hearth_acts acts[TOKENS];
    float32x4_t acc[4][ROWS][TOKENS]; // four lanes of each sum
    const uint8_t *src[ROWS];
    for (size_t t = 0; t < n_tokens; t++)
        acts[t] = hearth_acts_view(x + t * c->x_stride, c->k);
    for (size_t i = 0; i < 4; i++)
        for (size_t r = 0; r < n_rows; r++)
            for (size_t t = 0; t < n_tokens; t++)
                acc[i][r][t] = vdupq_n_f32(0);
    for (size_t g = 0; g < c->full; g++) {
        for (size_t r = 0; r < n_rows; r++) {
            src[r] = row[r] + g * c->group_bytes;
            prefetch(ahead[r] + g * c->group_bytes, c->group_bytes);
        }
        ALL for (size_t i = 0; i < 4; i++) add_units(acc[i], src, n_rows, g, i, acts, n_tokens, unpack, s);
    }
    if (c->tail_bytes) {
        const size_t byte = c->full * c->group_bytes;
        for (size_t r = 0; r < n_rows; r++) {
            prefetch(ahead[r] + byte, c->tail_bytes);
            copy_few(c->padded[r], row[r] + byte, c->tail_bytes);
            src[r] = c->padded[r];
        }
        float32x4_t in_memory[4][ROWS][TOKENS]; // acc, whose address nobody has, stays in registers
        for (size_t i = 0; i < 4; i++)
            for (size_t r = 0; r < n_rows; r++)
                for (size_t t = 0; t < n_tokens; t++)
                    in_memory[i][r][t] = acc[i][r][t];
        tail(in_memory, src, n_rows, c->full, c->tail, acts, n_tokens);
        for (size_t i = 0; i < 4; i++)
            for (size_t r = 0; r < n_rows; r++)
                for (size_t t = 0; t < n_tokens; t++)
                    acc[i][r][t] = in_memory[i][r][t];
    }
    for (size_t r = 0; r < n_rows; r++)
        for (size_t t = 0; t < n_tokens; t++)
            out[t * out_stride + r] =
                f_sum((f32x16){{acc[0][r][t], acc[1][r][t], acc[2][r][t], acc[3][r][t]}});
}

// Rows of a matrix, or those of the list when it is not NULL.
INLINE void step(float *out, size_t out_stride, const void *w, size_t w_stride, const void *const *rows,
                 size_t k, size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, uint32_t type,
                 unpack_fn unpack, tail_fn tail_of, const struct shape *s)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t elements = (size_t)s->unit * LANES, of_quarter = (size_t)s->unit * QUARTER;
    const size_t tail = k % elements;
    uint8_t padded[ROWS][GROUP_BYTES] = {{0}};
    const struct call c = {.k = k,
                           .full = k / elements,
                           .group_bytes = elements / info->block_elems * info->block_bytes,
                           .tail_bytes = tail / info->block_elems * info->block_bytes,
                           .tail = (tail + of_quarter - 1) / of_quarter,
                           .x_stride = x_stride,
                           .padded = padded};
    for (size_t r = 0; rows && r < AHEAD && r < n_rows; r++)
        prefetch(rows[r], k / info->block_elems * info->block_bytes);
    for (size_t r = 0; r < n_rows;) {
        const size_t count = n_rows - r < ROWS ? n_rows - r : ROWS;
        const uint8_t *row[ROWS], *ahead[ROWS];
        for (size_t i = 0; i < count; i++) {
            row[i] = rows ? rows[r + i] : (const uint8_t *)w + (r + i) * w_stride;
            ahead[i] = !rows ? row[i] + PREFETCH : r + i + AHEAD < n_rows ? rows[r + i + AHEAD] : row[i];
        }
        size_t t = 0;
        for (; t + TOKENS <= n_tokens; t += TOKENS)
            for (size_t i = 0; i < count; i++)
                rows_tokens(out + t * out_stride + r + i, out_stride, row + i, ahead + i, 1, &c,
                            (const uint8_t *)x + t * x_stride, TOKENS, unpack, tail_of, s);
        for (; t < n_tokens; t++) {
            if (count == ROWS)
                rows_tokens(out + t * out_stride + r, out_stride, row, ahead, ROWS, &c,
                            (const uint8_t *)x + t * x_stride, 1, unpack, tail_of, s);
            else
                rows_tokens(out + t * out_stride + r, out_stride, row, ahead, 1, &c,
                            (const uint8_t *)x + t * x_stride, 1, unpack, tail_of, s);
        }
        r += count;
    }
}

// ---- formats

#define STEP(type, unpack, shape)                                                                            \
    __attribute__((noinline)) static void tail_##type(TAIL_PARAMS)                                           \
    {                                                                                                        \
        add_tail(acc, src, n_rows, g, quarters, acts, n_tokens, unpack, &shape);                             \
    }                                                                                                        \
    static void any_rows_##type(float *out, size_t out_stride, const void *w, size_t w_stride,               \
                                const void *const *rows, size_t k, size_t n_rows, const void *x,             \
                                size_t x_stride, size_t n_tokens)                                            \
    {                                                                                                        \
        step(out, out_stride, w, w_stride, rows, k, n_rows, x, x_stride, n_tokens, HEARTH_TYPE_##type,       \
             unpack, tail_##type, &shape);                                                                   \
    }                                                                                                        \
    static void step_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,         \
                            size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch)   \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        any_rows_##type(out, out_stride, w, w_stride, NULL, k, n_rows, x, x_stride, n_tokens);               \
    }                                                                                                        \
    static void dot_rows_##type(float *out, const void *const *rows, size_t n_rows, size_t k, const void *x, \
                                size_t x_stride, size_t n_tokens, void *scratch)                             \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        any_rows_##type(out, n_rows, NULL, 0, rows, k, n_rows, x, x_stride, n_tokens);                       \
    }

HEARTH_UNITS_NEON(STEP)

static void init_step(struct hearth_kernels *t)
{
#define ENTER(type, unpack, shape)                                                                           \
    t->step[HEARTH_TYPE_##type] = step_##type;                                                               \
    t->dot_rows[HEARTH_TYPE_##type] = dot_rows_##type;
    HEARTH_UNITS_NEON(ENTER)
#undef ENTER
}
