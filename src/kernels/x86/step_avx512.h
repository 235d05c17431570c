// SPDX-License-Identifier: MIT
// STEP products of block formats, AVX-512 VNNI: what rows of a matrix (step_avx512.c) and rows of a list
// (step_rows_avx512.c) have in common.
//
// A row is walked in groups of 16 units, so that a register holds one value a unit. Per group the weights
// become up to eight registers of unsigned bytes (weight plus an offset), straight from the file's layout:
// nibbles and bytes stay where the format has them, and the activations are put in the same order once per
// call instead. Two int8 dot products per register, one for each plane of the activations, then a transposing
// addition gives the 16 exact sums; the offset is taken off with the activations' own sums. Units come out in
// an order of the format's (`order`); only the final sum over lanes needs the canonical one.
#ifndef HEARTH_KERNELS_X86_STEP_AVX512_H
#define HEARTH_KERNELS_X86_STEP_AVX512_H

#include "kernels/kernels.h"
#include "kernels/x86/units_avx512.h"

// Rows that go side by side, at most, and by default: more of them are faster from the caches, but not from
// memory.
#define ROWS_TOGETHER 4
#define SIDE_BY_SIDE  2
// Tokens computed together in registers.
#define MAX_TOGETHER 4
// Tokens prepared at a time.
#define MAX_PREPARED 8

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

// How the last n bytes of a row come into whole registers, where `before` others are in front of them.
struct ending {
    size_t whole;         // bytes that fill registers by themselves; the others are
    size_t more;          // loaded with so many in front of them,
    __mmask64 read, kept; // and alone stay,
    __m512i from;         // moved to the front
};

INLINE struct ending ending_of(size_t n, size_t before)
{
    const __m512i numbers =
        _mm512_set_epi64(0x3f3e3d3c3b3a3938, 0x3736353433323130, 0x2f2e2d2c2b2a2928, 0x2726252423222120,
                         0x1f1e1d1c1b1a1918, 0x1716151413121110, 0x0f0e0d0c0b0a0908, 0x0706050403020100);
    struct ending e = {.whole = n / 64 * 64};
    const unsigned rest = (unsigned)(n - e.whole);
    e.more = rest && before + n >= 64 ? 64 - rest : 0;
    e.kept = _bzhi_u64(~0ull, rest);
    e.read = _bzhi_u64(~0ull, (unsigned)e.more + rest);
    e.from = _mm512_add_epi8(numbers, _mm512_set1_epi8((char)e.more));
    return e;
}

// The end of a row to `to`, and zeros up to whole registers: masked stores are slow. Nothing behind the row is touched,
// even with an empty mask: in a list of rows that is a line of memory that nobody has asked for.
INLINE void copy_end(uint8_t *to, const uint8_t *from, const struct ending *e)
{
    for (size_t i = 0; i < e->whole; i += 64)
        _mm512_storeu_si512(to + i, _mm512_loadu_si512(from + i));
    if (e->kept)
        _mm512_storeu_si512(to + e->whole, _mm512_maskz_permutexvar_epi8(
                                               e->kept, e->from,
                                               _mm512_maskz_loadu_epi8(e->read, from + e->whole - e->more)));
}

// The same up to a group of `bytes`, in whole registers, which are loaded again faster than what memcpy() stores.
INLINE void copy_tail(uint8_t *to, const uint8_t *from, size_t n, size_t bytes, size_t before)
{
    const struct ending end = ending_of(n, before);
    copy_end(to, from, &end);
    for (size_t i = (n + 63) / 64 * 64; i < bytes; i += 64)
        _mm512_store_si512(to + i, _mm512_setzero_si512());
}

// What is behind a row's whole groups, which are `before` bytes, padded to one.
INLINE void unpack_tail(struct weights *w, const uint8_t *from, size_t tail_bytes, size_t group_bytes,
                        size_t before, unpack_fn unpack)
{
    _Alignas(64) uint8_t padded[GROUP_BYTES];
    copy_tail(padded, from, tail_bytes, group_bytes, before);
    unpack(w, padded);
}

// Rows that are walked side by side, so that one token's activations are loaded once for all of them: loads
// are what these products are bound by.
struct strand {
    const uint8_t *row[ROWS_TOGETHER];
    // What to ask for meanwhile, how far it moves from group to group, and what beside the tail.
    const uint8_t *ahead[ROWS_TOGETHER], *ahead_tail[ROWS_TOGETHER];
    size_t ahead_step, group_bytes, n_groups, tail_bytes;
};

// Full groups, from the file: n_rows rows, n tokens, whether anything is asked for ahead (constants after
// inlining).
INLINE void strand_groups(__m512 acc[][ROWS_TOGETHER], const struct strand *l, const struct prepared *x,
                          size_t x_groups, int n_rows, int n, bool asks, unpack_fn unpack,
                          const struct shape *s)
{
    for (int r = 0; r < n_rows; r++)
        for (int t = 0; t < n; t++)
            acc[t][r] = _mm512_setzero_ps();
    for (size_t g = 0; g < l->n_groups; g++)
        for (int r = 0; r < n_rows; r++) {
            struct weights w;
            if (asks)
                prefetch(l->ahead[r] + g * l->ahead_step, l->group_bytes);
            unpack(&w, l->row[r] + g * l->group_bytes);
            for (int t = 0; t < n; t++)
                acc[t][r] = add_group(acc[t][r], &w, x + (size_t)t * x_groups + g, s);
        }
}

// Adds what is behind the whole groups of row number r of a strand to the sums of n tokens.
INLINE void add_tail(__m512 acc[][ROWS_TOGETHER], const struct strand *l, int r, const struct prepared *x,
                     size_t x_groups, int n, unpack_fn unpack, const struct shape *s)
{
    struct weights w;
    const size_t before = l->n_groups * l->group_bytes;
    unpack_tail(&w, l->row[r] + before, l->tail_bytes, l->group_bytes, before, unpack);
    for (int t = 0; t < n; t++)
        acc[t][r] = add_group(acc[t][r], &w, x + (size_t)t * x_groups + l->n_groups, s);
}

// The same as a function that a format has once, for sums in memory: beside every loop over groups it would be a third
// of all code.
#define TAIL_PARAMS                                                                                          \
    __m512 acc[][ROWS_TOGETHER], const struct strand *l, int r, const struct prepared *x, size_t x_groups,   \
        int n
typedef void (*tail_fn)(TAIL_PARAMS);

// Whole groups, and what is behind them from a padded copy: by `tail`, or here if that is NULL (a constant after
// inlining, too).
INLINE void strand_tokens(float *out, size_t out_stride, const struct strand *l, const struct prepared *x,
                          size_t x_groups, int n_rows, int n, bool asks, unpack_fn unpack, tail_fn tail,
                          const struct shape *s)
{
    __m512 acc[MAX_TOGETHER][ROWS_TOGETHER];
    strand_groups(acc, l, x, x_groups, n_rows, n, asks, unpack, s);
    for (int r = 0; r < n_rows && l->tail_bytes && asks; r++)
        prefetch(l->ahead_tail[r], l->tail_bytes);
    if (l->tail_bytes && tail) {
        __m512 in_memory[MAX_TOGETHER][ROWS_TOGETHER]; // acc, whose address nobody has, stays in registers
        for (int t = 0; t < n; t++)
            for (int r = 0; r < n_rows; r++)
                in_memory[t][r] = acc[t][r];
        for (int r = 0; r < n_rows; r++)
            tail(in_memory, l, r, x, x_groups, n);
        for (int t = 0; t < n; t++)
            for (int r = 0; r < n_rows; r++)
                acc[t][r] = in_memory[t][r];
    } else if (l->tail_bytes) {
        for (int r = 0; r < n_rows; r++)
            add_tail(acc, l, r, x, x_groups, n, unpack, s);
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

// Activations of one token's group number g in the format's order. Zero padding comes with the block. Every call of a
// product does this anew, and picked rows are few, so it goes by whole registers.
INLINE void prepare_group(struct prepared *out, const void *block, size_t k, size_t g, const struct shape *s)
{
    const struct hearth_acts x = hearth_acts_view(block, k);
    const size_t elements = (size_t)s->unit * LANES;
    const __m512i order = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)s->order));
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
        sum = _mm512_add_epi32(_mm512_permutex2var_epi32(a, twice, b),
                               _mm512_permutex2var_epi32(a, _mm512_or_si512(twice, _mm512_set1_epi32(1)), b));
    } else {
        d = _mm512_permutexvar_ps(_mm512_srli_epi32(order, 1), _mm512_maskz_loadu_ps(0xff, x.d + g * 8));
        sum = _mm512_permutexvar_epi32(order, _mm512_loadu_si512(x.sum + g * 16));
    }
    _mm512_storeu_ps(out->d, d);
    _mm512_storeu_si512(out->offset, _mm512_mullo_epi32(sum, _mm512_set1_epi32(s->offset)));
    _mm512_storeu_ps(out->sum, _mm512_cvtepi32_ps(sum));
}

// Its first n_groups.
INLINE void prepare(struct prepared *out, const void *block, size_t k, size_t n_groups, const struct shape *s)
{
    for (size_t g = 0; g < n_groups; g++)
        prepare_group(out + g, block, k, g, s);
}

// Scratch bytes for rows of k elements.
static inline size_t step_scratch_bytes(size_t k)
{
    return MAX_PREPARED * (hearth_acts_padded(k) / 256) * sizeof(struct prepared); // groups of short units
}

#endif
