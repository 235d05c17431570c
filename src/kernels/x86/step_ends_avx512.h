// SPDX-License-Identifier: MIT
// STEP products of one token with rows whose last group is half empty, or more so: the ends of several rows make up
// one group. Short rows, of small models and of predictors, are little else than ends.
#ifndef HEARTH_KERNELS_X86_STEP_ENDS_AVX512_H
#define HEARTH_KERNELS_X86_STEP_ENDS_AVX512_H

#include "kernels/x86/step_avx512.h"

// Rows whose sums are kept until their ends have been added.
#define ENDS_ROWS LANES

struct ends {
    const struct prepared *x; // the end of the activations, for each row once
    size_t bytes;             // of a row's end
    int units;                // of a row's end
    int together;             // rows
    struct ending end;
};

// How many rows' ends of so many elements go into a group; 1: only one does, or there is no end.
INLINE int ends_together(size_t elements, const struct shape *s)
{
    const size_t units = elements / s->unit;
    return s->unit == 32 && units > 0 ? (int)(LANES / units) : 1;
}

// The activations of a row's end, behind its `full` groups of so many bytes, to `out`.
INLINE void prepare_ends(struct ends *e, struct prepared *out, const void *block, size_t k, size_t full,
                         size_t group_bytes, const struct shape *s)
{
    enum { GROUP = 32 * LANES };
    struct { // a block of GROUP activations
        _Alignas(64) int8_t hi[GROUP];
        int8_t lo[GROUP];
        float d[GROUP / 32];
        int32_t sum[GROUP / 16], bias[GROUP / 16];
    } copy = {0};
    const struct hearth_acts x = hearth_acts_view(block, k);
    const size_t first = full * GROUP, n = k - first;
    for (size_t at = 0; at < (size_t)e->together * n; at += n) {
        memcpy(copy.hi + at, x.hi + first, n);
        memcpy(copy.lo + at, x.lo + first, n);
        memcpy(copy.d + at / 32, x.d + first / 32, n / 32 * sizeof *x.d);
        memcpy(copy.sum + at / 16, x.sum + first / 16, n / 16 * sizeof *x.sum);
    }
    prepare(out, &copy, GROUP, 1, s);
    e->x = out;
    e->units = (int)(n / 32);
    e->end = ending_of(e->bytes, full * group_bytes);
}

// Ends of ENDS_ROWS rows at most, in their groups.
struct ends_groups {
    _Alignas(64) uint8_t bytes[ENDS_ROWS / 2][GROUP_BYTES + 64];
};

// That of row number r, behind `before` bytes of whole groups. Rows come one after the other, and what was just stored
// in pieces is slow to load: so all of them come before the first one is multiplied.
INLINE void take_end(struct ends_groups *out, const uint8_t *row, size_t before, int r, const struct ends *e)
{
    copy_end(out->bytes[r / e->together] + (size_t)(r % e->together) * e->bytes, row + before, &e->end);
}

// Adds a group with the ends of n rows to their sums. These come with their lanes in the format's order, and go in
// the canonical one.
INLINE void add_ends(__m512 *acc, const uint8_t *group, int n, const struct ends *e, unpack_fn unpack,
                     const struct shape *s)
{
    const __mmask16 units = (__mmask16)((1u << e->units) - 1);
    const __m512 d = _mm512_load_ps(e->x->d), sum = canonical_order(_mm512_load_ps(e->x->sum), s);
    struct weights w;
    unpack(&w, group);
    __m512i dot = dot_group(&w, e->x, s);
    if (s->offset)
        dot = _mm512_sub_epi32(dot, _mm512_load_si512(e->x->offset));
    const __m512 value = canonical_order(_mm512_cvtepi32_ps(dot), s),
                 scale = canonical_order(_mm512_mul_ps(w.scale, d), s);
    const __m512 min = s->has_min ? canonical_order(_mm512_mul_ps(w.min, d), s) : d;
    __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int r = 0; r < n; r++) {
        __m512 a = canonical_order(acc[r], s);
        a = _mm512_mask3_fmadd_ps(_mm512_permutexvar_ps(lanes, scale), _mm512_permutexvar_ps(lanes, value), a,
                                  units);
        if (s->has_min)
            a = _mm512_mask3_fnmadd_ps(_mm512_permutexvar_ps(lanes, min), sum, a, units);
        acc[r] = a;
        lanes = _mm512_add_epi32(lanes, _mm512_set1_epi32(e->units));
    }
}

// The canonical tree of n rows whose lanes are in canonical order.
INLINE void sum_canonical(float *out, const __m512 *acc, int n)
{
    int r = 0;
    for (; r + 4 <= n; r += 4)
        f_sum4(out + r, acc[r], acc[r + 1], acc[r + 2], acc[r + 3]);
    for (; r < n; r++)
        out[r] = f_sum(acc[r]);
}

// How rows [at, at + rows) of a matrix or a list are walked (rows a constant after inlining).
typedef struct strand (*strand_fn)(const void *source, size_t at, int rows);
// Which output the row walked at this place has.
typedef size_t (*row_fn)(const void *source, size_t place);

// Whole groups of rows [at, at + rows), which are numbers r and up of those whose ends go together, and their ends.
INLINE void strand_with_ends(__m512 *acc, struct ends_groups *groups, int r, const void *source, size_t at,
                             int rows, strand_fn strand_of, const struct prepared *x, const struct ends *e,
                             unpack_fn unpack, const struct shape *s)
{
    const struct strand l = strand_of(source, at, rows);
    strand_groups((__m512(*)[ROWS_TOGETHER])(acc + r), &l, x, l.n_groups, rows, 1, true, unpack, s);
    for (int i = 0; i < rows; i++) {
        prefetch(l.ahead_tail[i], e->bytes);
        take_end(groups, l.row[i], l.n_groups * l.group_bytes, r + i, e);
    }
}

// Rows [0, n_rows) of a matrix or a list for one prepared token, whose ends go together.
INLINE void rows_with_ends(float *out, size_t n_rows, const void *source, strand_fn strand_of, row_fn row_of,
                           const struct prepared *x, const struct ends *e, unpack_fn unpack,
                           const struct shape *s)
{
    const size_t most = ENDS_ROWS / (size_t)e->together * (size_t)e->together;
    struct ends_groups groups;
    memset(&groups, 0, sizeof groups); // rows may be too few to fill the last one
    for (size_t first = 0; first < n_rows; first += most) {
        const int n = n_rows - first < most ? (int)(n_rows - first) : (int)most;
        __m512 acc[ENDS_ROWS];
        int r = 0;
        for (; r + ROWS_TOGETHER <= n; r += ROWS_TOGETHER)
            strand_with_ends(acc, &groups, r, source, first + (size_t)r, ROWS_TOGETHER, strand_of, x, e,
                             unpack, s);
        for (; r < n; r++)
            strand_with_ends(acc, &groups, r, source, first + (size_t)r, 1, strand_of, x, e, unpack, s);
        for (r = 0; r < n; r += e->together)
            add_ends(acc + r, groups.bytes[r / e->together], n - r < e->together ? n - r : e->together, e,
                     unpack, s);
        float sums[ENDS_ROWS];
        sum_canonical(sums, acc, n);
        for (r = 0; r < n; r++)
            out[row_of(source, first + (size_t)r)] = sums[r];
    }
}

#endif
