// SPDX-License-Identifier: MIT
// STEP products of one token with rows whose last group is half empty, or more so: the ends of several rows make up
// one group. Short rows, of small models and of predictors, are little else than ends. What several tokens do with such
// a group is in step_few_avx512.c.
#ifndef HEARTH_KERNELS_X86_STEP_ENDS_AVX512_H
#define HEARTH_KERNELS_X86_STEP_ENDS_AVX512_H

#include "kernels/x86/step_avx512.h"

// Rows whose sums are kept until their ends have been added.
#define ENDS_ROWS LANES
// Bytes of a group of ends, and room for what copy_end() stores behind the last one.
#define ENDS_GROUP (GROUP_BYTES + 64)

struct ends {
    const struct prepared *x; // the end of the activations, for each row once
    size_t bytes;             // of a row's end
    int units;                // of a row's end
    int together;             // rows
    uint16_t slot[ENDS_ROWS]; // where each row's end has its place in ends_groups
    struct ending end;
};

// How many rows' ends of so many elements go into a group; 1: only one does, or there is no end.
INLINE int ends_together(size_t elements, const struct shape *s)
{
    const size_t units = elements / s->unit;
    return units > 0 ? (int)(LANES / units) : 1;
}

// 32 of them, which share d.
INLINE void copy_piece(int8_t *to, const int8_t *from)
{
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_loadu_si256((const __m256i *)(const void *)from));
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
    } copy;
    const struct hearth_acts x = hearth_acts_view(block, k);
    const size_t pieces = (size_t)s->unit * LANES / 32, first = full * pieces, n = k / 32 - first;
    // By pieces: what memcpy() becomes takes longer to begin than the few bytes of one.
    for (size_t u = 0, from = first; u < pieces; u++, from = from + 1 < first + n ? from + 1 : first) {
        const bool taken = u < (size_t)e->together * n;
        copy_piece(copy.hi + 32 * u, x.hi + 32 * from);
        copy_piece(copy.lo + 32 * u, x.lo + 32 * from);
        copy.d[u] = taken ? x.d[from] : 0.0f;
        copy.sum[2 * u] = x.sum[2 * from];
        copy.sum[2 * u + 1] = x.sum[2 * from + 1];
    }
    prepare(out, &copy, GROUP, 1, s);
    e->x = out;
    e->units = (int)(n * 32 / s->unit);
    e->end = ending_of(e->bytes, full * group_bytes);
    for (int r = 0; r < ENDS_ROWS; r++)
        e->slot[r] = (uint16_t)(r / e->together * ENDS_GROUP + r % e->together * (int)e->bytes);
}

// Ends of ENDS_ROWS rows at most, in their groups.
struct ends_groups {
    _Alignas(64) uint8_t bytes[ENDS_ROWS][ENDS_GROUP];
};

// That of row number r, behind `before` bytes of whole groups. Rows come one after the other, and what was just stored
// in pieces is slow to load: so all of them come before the first one is multiplied.
INLINE void take_end(struct ends_groups *out, const uint8_t *row, size_t before, int r, const struct ends *e)
{
    copy_end(out->bytes[0] + e->slot[r], row + before, &e->end);
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
    const size_t at_once = n_rows < most ? n_rows : most;
    struct ends_groups groups;
    // Rows may be too few to fill the last one.
    memset(&groups, 0, (at_once + (size_t)e->together - 1) / (size_t)e->together * sizeof *groups.bytes);
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
        for (r = 0; r + 4 <= n; r += 4) {
            float sums[4];
            f_sum4(sums, acc[r], acc[r + 1], acc[r + 2], acc[r + 3]);
            for (int i = 0; i < 4; i++)
                out[row_of(source, first + (size_t)(r + i))] = sums[i];
        }
        for (; r < n; r++)
            out[row_of(source, first + (size_t)r)] = f_sum(acc[r]);
    }
}

#endif
