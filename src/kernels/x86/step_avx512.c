// SPDX-License-Identifier: MIT
// STEP products of block formats, AVX-512 VNNI.
//
// A row is walked in groups of 16 units, so that a register holds one value a unit. Per group the weights
// become up to eight registers of unsigned bytes (weight plus an offset), straight from the file's layout:
// nibbles and bytes stay where the format has them, and the activations are put in the same order once per
// call instead. Two byte dot products per register, one for each plane of the activations, then a transposing
// addition gives the 16 exact sums; the offset is taken off with the activations' own sums. Units come out in
// an order of the format's (`order`); only the final sum over lanes needs the canonical one.
#include <immintrin.h>
#include <string.h>

#include "kernels/variants.h"

#define INLINE static inline __attribute__((always_inline, unused))
#define LANES  16
// Tokens prepared at a time, and computed together in registers.
#define MAX_PREPARED 8
#define MAX_TOGETHER 4
// Rows that one set of tokens goes through before the next set has its turn.
#define ROWS 48
// How far ahead of the arithmetic a row's bytes are asked for: left to itself the CPU reads too few lines at
// a time.
#define PREFETCH 2048

// How a format's registers relate to units. Positions are 16-byte pieces and units counted within a group.
struct shape {
    uint8_t registers;      // per group: 8 for units of 32, 4 for units of 16
    uint8_t unit;           // elements
    uint8_t offset;         // added to every weight to make it unsigned
    uint8_t pieces[8][4];   // 16-byte pieces of activations that belong to each register
    uint8_t order[LANES];   // lane -> unit
    uint8_t inverse[LANES]; // unit -> lane
};

// One token's activations of one group, in the format's order.
struct prepared {
    int8_t planes[8][2][64]; // [register][hi, lo]
    float d[LANES];
    int32_t offset[LANES]; // offset * sum of q
    float sum[LANES];      // sum of q
};

// Units 2i and 2i+1 in register i.
static const struct shape natural32 = {
    8,
    32,
    128,
    {{0, 1, 2, 3},
     {4, 5, 6, 7},
     {8, 9, 10, 11},
     {12, 13, 14, 15},
     {16, 17, 18, 19},
     {20, 21, 22, 23},
     {24, 25, 26, 27},
     {28, 29, 30, 31}},
    {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15},
    {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15},
};

// Units 4i to 4i+3 in register i.
#define NATURAL16(offset)                                                                                    \
    {                                                                                                        \
        4, 16, offset, {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}},                       \
            {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15},                                          \
            {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15},                                          \
    }
static const struct shape natural16 = NATURAL16(128);
static const struct shape shape_q6_k = NATURAL16(32);

// Four blocks' low nibbles (their first halves) in register 2i, the high ones in 2i+1; both add to the same
// units.
static const struct shape shape_q4_0 = {
    8,
    32,
    8,
    {{0, 2, 4, 6},
     {1, 3, 5, 7},
     {8, 10, 12, 14},
     {9, 11, 13, 15},
     {16, 18, 20, 22},
     {17, 19, 21, 23},
     {24, 26, 28, 30},
     {25, 27, 29, 31}},
    {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15},
    {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15},
};

// Per 64 bytes of a super-block: low nibbles are units 4i and 4i+2, high ones 4i+1 and 4i+3.
static const struct shape shape_q4_k = {
    8,
    32,
    0,
    {{0, 1, 4, 5},
     {2, 3, 6, 7},
     {8, 9, 12, 13},
     {10, 11, 14, 15},
     {16, 17, 20, 21},
     {18, 19, 22, 23},
     {24, 25, 28, 29},
     {26, 27, 30, 31}},
    {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15},
    {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15},
};

// The weights of one group: what an unpack function fills.
struct weights {
    __m512i u[8];      // unsigned bytes
    __m512 scale, min; // lanes in the format's order
};

// src holds a whole group; `type` is for formats without code of their own.
typedef void (*unpack_fn)(struct weights *w, const uint8_t *src, uint32_t type);

// ---- hot path
// ------------------------------------------------------------------------------------------------

// Sums of adjacent fours: lane 4L+k of the result is the sum of 128-bit part L of t[k].
INLINE __m512i transpose_add(const __m512i *t)
{
    __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(t[0], t[1]), _mm512_unpackhi_epi32(t[0], t[1]));
    __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(t[2], t[3]), _mm512_unpackhi_epi32(t[2], t[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

// Exact sums of q * qx per unit, offset not yet taken off.
INLINE __m512i dot_group(const struct weights *w, const struct prepared *x, const struct shape *s, bool pairs)
{
    __m512i t[8];
    for (int i = 0; i < s->registers; i++) {
        // A pair's second register goes on where the first one stopped.
        const bool second = pairs && (i & 1);
        const int to = pairs ? i / 2 : i;
        const __m512i hi = _mm512_load_si512(x->planes[i][0]);
        t[to] = _mm512_dpbusd_epi32(second ? t[to] : _mm512_setzero_si512(), w->u[i], hi);
    }
    for (int i = 0; i < (pairs ? s->registers / 2 : s->registers); i++)
        t[i] = _mm512_slli_epi32(t[i], 7);
    for (int i = 0; i < s->registers; i++) {
        const int to = pairs ? i / 2 : i;
        t[to] = _mm512_dpbusd_epi32(t[to], w->u[i], _mm512_load_si512(x->planes[i][1]));
    }
    if (pairs || s->unit == 16)
        return transpose_add(t);
    __m512i a = transpose_add(t), b = transpose_add(t + 4);
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

INLINE __m512 add_group(__m512 acc, const struct weights *w, const struct prepared *x, const struct shape *s,
                        bool pairs, bool has_min)
{
    __m512i dot = dot_group(w, x, s, pairs);
    if (s->offset)
        dot = _mm512_sub_epi32(dot, _mm512_load_si512(x->offset));
    const __m512 d = _mm512_load_ps(x->d);
    acc = _mm512_fmadd_ps(_mm512_mul_ps(w->scale, d), _mm512_cvtepi32_ps(dot), acc);
    if (has_min)
        acc = _mm512_fnmadd_ps(_mm512_mul_ps(w->min, d), _mm512_load_ps(x->sum), acc);
    return acc;
}

// The canonical tree, after putting the lanes in canonical order.
INLINE float sum_lanes(__m512 acc, const struct shape *s)
{
    const __m512i lanes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)s->inverse));
    acc = _mm512_permutexvar_ps(lanes, acc);
    __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(acc), _mm512_extractf32x8_ps(acc, 1));
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}

INLINE void prefetch(const uint8_t *p, size_t n)
{
    for (size_t line = 0; line < n; line += 64)
        _mm_prefetch((const char *)p + PREFETCH + line, _MM_HINT_T0);
}

// One row, n tokens (a constant after inlining): full groups from the file, the rest from a padded copy.
INLINE void row_tokens(float *out, size_t out_stride, const uint8_t *row, size_t group_bytes, size_t n_groups,
                       const uint8_t *tail, const struct prepared *x, size_t x_groups, int n, uint32_t type,
                       unpack_fn unpack, const struct shape *s, bool pairs, bool has_min)
{
    __m512 acc[MAX_TOGETHER];
    for (int t = 0; t < n; t++)
        acc[t] = _mm512_setzero_ps();
    for (size_t g = 0; g < n_groups; g++) {
        struct weights w;
        prefetch(row + g * group_bytes, group_bytes);
        unpack(&w, row + g * group_bytes, type);
        for (int t = 0; t < n; t++)
            acc[t] = add_group(acc[t], &w, x + (size_t)t * x_groups + g, s, pairs, has_min);
    }
    if (tail) {
        struct weights w;
        unpack(&w, tail, type);
        for (int t = 0; t < n; t++)
            acc[t] = add_group(acc[t], &w, x + (size_t)t * x_groups + n_groups, s, pairs, has_min);
    }
    for (int t = 0; t < n; t++)
        out[(size_t)t * out_stride] = sum_lanes(acc[t], s);
}

// Activations of one token in the format's order. Zero padding comes with the block.
static void prepare(struct prepared *out, const void *block, size_t k, size_t n_groups, const struct shape *s)
{
    const struct hearth_acts x = hearth_acts_view(block, k);
    const size_t elements = (size_t)s->unit * LANES;
    for (size_t g = 0; g < n_groups; g++, out++) {
        for (int r = 0; r < s->registers; r++)
            for (int p = 0; p < 4; p++) {
                const size_t from = g * elements + (size_t)s->pieces[r][p] * 16;
                memcpy(out->planes[r][0] + p * 16, x.hi + from, 16);
                memcpy(out->planes[r][1] + p * 16, x.lo + from, 16);
            }
        for (size_t lane = 0; lane < LANES; lane++) {
            const size_t u = g * LANES + s->order[lane];
            const int32_t sum = s->unit == 32 ? x.sum[2 * u] + x.sum[2 * u + 1] : x.sum[u];
            out->d[lane] = x.d[u * s->unit / 32];
            out->offset[lane] = sum * s->offset;
            out->sum[lane] = (float)sum;
        }
    }
}

// Rows [0, n_rows) for up to four prepared tokens, whose activations (10 KB each at k = 4096) stay in the
// first cache.
INLINE void rows_tokens(float *out, size_t out_stride, const uint8_t *w, size_t w_stride, size_t n_rows,
                        size_t group_bytes, size_t full, size_t tail_bytes, uint8_t *padded,
                        const struct prepared *x, size_t x_groups, int n, uint32_t type, unpack_fn unpack,
                        const struct shape *s, bool pairs, bool has_min)
{
    for (size_t r = 0; r < n_rows; r++) {
        const uint8_t *row = w + r * w_stride, *tail = NULL;
        if (tail_bytes)
            tail = memcpy(padded, row + full * group_bytes, tail_bytes);
        row_tokens(out + r, out_stride, row, group_bytes, full, tail, x, x_groups, n, type, unpack, s, pairs,
                   has_min);
    }
}

INLINE void step(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k, size_t n_rows,
                 const void *x, size_t x_stride, size_t n_tokens, void *scratch, uint32_t type,
                 unpack_fn unpack, const struct shape *s, bool pairs, bool has_min)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t elements = (size_t)s->unit * LANES;
    const size_t group_bytes = elements / info->block_elems * info->block_bytes;
    const size_t full = k / elements, all = (k + elements - 1) / elements;
    const size_t tail_bytes = (k - full * elements) / info->block_elems * info->block_bytes;
    struct prepared *prepared = scratch;
    _Alignas(64) uint8_t padded[640] = {0};

    for (size_t first = 0; first < n_tokens; first += MAX_PREPARED) {
        const size_t count = n_tokens - first < MAX_PREPARED ? n_tokens - first : MAX_PREPARED;
        for (size_t t = 0; t < count; t++)
            prepare(prepared + t * all, (const uint8_t *)x + (first + t) * x_stride, k, all, s);
        // A few rows at a time, so that they stay in the second cache while the tokens take turns.
        for (size_t r = 0; r < n_rows; r += ROWS) {
            const size_t rows = n_rows - r < ROWS ? n_rows - r : ROWS;
            const uint8_t *from = (const uint8_t *)w + r * w_stride;
            float *to = out + first * out_stride + r;
            size_t t = 0;
            for (; t + 4 <= count; t += 4)
                rows_tokens(to + t * out_stride, out_stride, from, w_stride, rows, group_bytes, full,
                            tail_bytes, padded, prepared + t * all, all, 4, type, unpack, s, pairs, has_min);
            if (t + 2 <= count) {
                rows_tokens(to + t * out_stride, out_stride, from, w_stride, rows, group_bytes, full,
                            tail_bytes, padded, prepared + t * all, all, 2, type, unpack, s, pairs, has_min);
                t += 2;
            }
            if (t < count)
                rows_tokens(to + t * out_stride, out_stride, from, w_stride, rows, group_bytes, full,
                            tail_bytes, padded, prepared + t * all, all, 1, type, unpack, s, pairs, has_min);
        }
    }
}

// ---- formats
// -------------------------------------------------------------------------------------------------

// Four blocks of 18 bytes are 36 words; block L's nibbles are words 9L+1 to 9L+8, its scale is word 9L.
INLINE void unpack_q4_0(struct weights *w, const uint8_t *src, uint32_t type)
{
    (void)type;
    // Words 32 to 35 come from a second load, 4 words further on: there they are 28 to 31, selected as 32 +
    // that.
    const __m512i nibbles = _mm512_set_epi16(63, 62, 61, 60, 31, 30, 29, 28, 26, 25, 24, 23, 22, 21, 20, 19,
                                             17, 16, 15, 14, 13, 12, 11, 10, 8, 7, 6, 5, 4, 3, 2, 1);
    const __m512i scales =
        _mm512_castsi256_si512(_mm256_set_epi16(59, 27, 59, 27, 50, 18, 50, 18, 41, 9, 41, 9, 32, 0, 32, 0));
    const __m512i mask = _mm512_set1_epi8(15);
    __m512i z[4];
    for (int i = 0; i < 4; i++) {
        z[i] = _mm512_loadu_si512(src + 72 * i);
        const __m512i bytes = _mm512_permutex2var_epi16(z[i], nibbles, _mm512_loadu_si512(src + 72 * i + 8));
        w->u[2 * i] = _mm512_and_si512(bytes, mask);
        w->u[2 * i + 1] = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask);
    }
    const __m512i low = _mm512_permutex2var_epi16(z[0], scales, z[1]);
    const __m512i high = _mm512_permutex2var_epi16(z[2], scales, z[3]);
    w->scale = _mm512_cvtph_ps(
        _mm256_mask_blend_epi16(0xcccc, _mm512_castsi512_si256(low), _mm512_castsi512_si256(high)));
}

// Two blocks of 34 bytes are 34 words; the scales are words 0 and 17.
INLINE void unpack_q8_0(struct weights *w, const uint8_t *src, uint32_t type)
{
    (void)type;
    const __m512i sign = _mm512_set1_epi8(INT8_MIN);
    const __m512i scales =
        _mm512_castsi256_si512(_mm256_set_epi16(49, 17, 49, 17, 32, 0, 32, 0, 49, 17, 49, 17, 32, 0, 32, 0));
    __m256i h[4];
    for (int i = 0; i < 4; i++) {
        __m512i z[2];
        for (int b = 0; b < 2; b++) {
            const uint8_t *at = src + 68 * (2 * i + b);
            z[b] = _mm512_loadu_si512(at);
            const __m512i low =
                _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)(at + 2)));
            const __m512i both =
                _mm512_inserti64x4(low, _mm256_loadu_si256((const __m256i *)(const void *)(at + 36)), 1);
            w->u[2 * i + b] = _mm512_xor_si512(both, sign);
        }
        h[i] = _mm512_castsi512_si256(_mm512_permutex2var_epi16(z[0], scales, z[1]));
    }
    // h[i] has units 4i to 4i+3 in every half; lanes 0, 1, 4, 5 take them from h[0], 2, 3, 6, 7 from h[1],
    // and so on.
    const __m256i low = _mm256_mask_blend_epi16(0x00cc, h[0], h[1]);
    const __m256i high = _mm256_mask_blend_epi16(0xcc00, h[2], h[3]);
    w->scale = _mm512_cvtph_ps(_mm256_mask_blend_epi16(0xff00, low, high));
}

INLINE float half_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return _cvtsh_ss(h);
}

INLINE __m512 halves(float low, float high)
{
    return _mm512_insertf32x8(_mm512_set1_ps(low), _mm256_set1_ps(high), 1);
}

INLINE __m512 in_order(__m512 x, const struct shape *s)
{
    return _mm512_permutexvar_ps(
        _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)s->order)), x);
}

// The eight 6-bit scales and minima of a super-block, packed into 12 bytes.
INLINE void scales_k(const uint8_t *src, uint64_t *scale, uint64_t *min)
{
    uint32_t a, b, c;
    memcpy(&a, src, 4);
    memcpy(&b, src + 4, 4);
    memcpy(&c, src + 8, 4);
    *scale = (a & 0x3f3f3f3f) | (uint64_t)((c & 0x0f0f0f0f) | (a >> 2 & 0x30303030)) << 32;
    *min = (b & 0x3f3f3f3f) | (uint64_t)((c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030)) << 32;
}

// Two super-blocks of 144 bytes: d, dmin, 12 bytes of scales, 128 bytes of nibbles.
INLINE void unpack_q4_k(struct weights *w, const uint8_t *src, uint32_t type)
{
    (void)type;
    const __m512i mask = _mm512_set1_epi8(15);
    uint64_t scale[2], min[2];
    for (int b = 0; b < 2; b++) {
        const uint8_t *at = src + 144 * b;
        scales_k(at + 4, &scale[b], &min[b]);
        for (int i = 0; i < 2; i++) {
            const __m512i bytes = _mm512_loadu_si512(at + 16 + 64 * i);
            w->u[4 * b + 2 * i] = _mm512_and_si512(bytes, mask);
            w->u[4 * b + 2 * i + 1] = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask);
        }
    }
    const __m512 d = halves(half_at(src), half_at(src + 144)),
                 dmin = halves(half_at(src + 2), half_at(src + 146));
    const __m512i s = _mm512_cvtepu8_epi32(_mm_set_epi64x((int64_t)scale[1], (int64_t)scale[0]));
    const __m512i m = _mm512_cvtepu8_epi32(_mm_set_epi64x((int64_t)min[1], (int64_t)min[0]));
    w->scale = in_order(_mm512_mul_ps(d, _mm512_cvtepi32_ps(s)), &shape_q4_k);
    w->min = in_order(_mm512_mul_ps(dmin, _mm512_cvtepi32_ps(m)), &shape_q4_k);
}

// A super-block of 210 bytes: 128 of low nibbles, 64 of upper bit pairs, 16 scales, d.
INLINE void unpack_q6_k(struct weights *w, const uint8_t *src, uint32_t type)
{
    (void)type;
    const __m512i nibble = _mm512_set1_epi8(15), pair = _mm512_set1_epi8(0x30);
    const __m512i shift_low = _mm512_inserti64x4(_mm512_set1_epi32(0), _mm256_set1_epi32(2), 1);
    const __m512i shift_high = _mm512_inserti64x4(_mm512_set1_epi32(4), _mm256_set1_epi32(6), 1);
    for (int i = 0; i < 2; i++) {
        const __m512i low = _mm512_loadu_si512(src + 64 * i);
        // Shifted up by four, so that a right shift by 0, 2, 4, 6 leaves the pair in bits 4 and 5 of its
        // byte.
        const __m512i bits =
            _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)(src + 128 + 32 * i)));
        const __m512i high_low = _mm512_slli_epi16(_mm512_srlv_epi32(bits, shift_low), 4);
        const __m512i high_high = _mm512_slli_epi16(_mm512_srlv_epi32(bits, shift_high), 4);
        w->u[2 * i] = _mm512_or_si512(_mm512_and_si512(low, nibble), _mm512_and_si512(high_low, pair));
        w->u[2 * i + 1] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(low, 4), nibble),
                                          _mm512_and_si512(high_high, pair));
    }
    const __m512i s = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(src + 192)));
    w->scale =
        in_order(_mm512_mul_ps(_mm512_set1_ps(half_at(src + 208)), _mm512_cvtepi32_ps(s)), &shape_q6_k);
}

// Any other format, by way of its plain C unpacking.
INLINE void unpack_any(struct weights *w, const uint8_t *src, uint32_t type, const struct shape *s)
{
    _Alignas(64) int8_t q[512];
    float scale[LANES], min[LANES] = {0};
    hearth_type_info(type)->unpack(src, q, scale, min, (size_t)s->unit * LANES);
    for (int i = 0; i < s->registers; i++)
        w->u[i] = _mm512_xor_si512(_mm512_load_si512(q + 64 * i), _mm512_set1_epi8(INT8_MIN));
    w->scale = in_order(_mm512_loadu_ps(scale), s);
    w->min = in_order(_mm512_loadu_ps(min), s);
}

INLINE void unpack_any32(struct weights *w, const uint8_t *src, uint32_t type)
{
    unpack_any(w, src, type, &natural32);
}

INLINE void unpack_any16(struct weights *w, const uint8_t *src, uint32_t type)
{
    unpack_any(w, src, type, &natural16);
}

#define STEP(type, unpack, shape, pairs, has_min)                                                            \
    static void step_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,         \
                            size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch)   \
    {                                                                                                        \
        step(out, out_stride, w, w_stride, k, n_rows, x, x_stride, n_tokens, scratch, HEARTH_TYPE_##type,    \
             unpack, &shape, pairs, has_min);                                                                \
    }

#define FORMATS(X)                                                                                           \
    X(Q4_0, unpack_q4_0, shape_q4_0, true, false)                                                            \
    X(Q8_0, unpack_q8_0, natural32, false, false)                                                            \
    X(Q4_K, unpack_q4_k, shape_q4_k, false, true)                                                            \
    X(Q6_K, unpack_q6_k, shape_q6_k, false, false)                                                           \
    X(Q4_1, unpack_any32, natural32, false, true)                                                            \
    X(Q5_0, unpack_any32, natural32, false, false)                                                           \
    X(Q5_1, unpack_any32, natural32, false, true)                                                            \
    X(Q5_K, unpack_any32, natural32, false, true)                                                            \
    X(IQ4_NL, unpack_any32, natural32, false, false)                                                         \
    X(IQ4_XS, unpack_any32, natural32, false, false)                                                         \
    X(MXFP4, unpack_any32, natural32, false, false)                                                          \
    X(Q2_K, unpack_any16, natural16, false, true)                                                            \
    X(Q3_K, unpack_any16, natural16, false, false)

FORMATS(STEP)

void hearth_kernels_init_step_avx512(struct hearth_kernels *t)
{
#define ENTER(type, unpack, shape, pairs, has_min) t->step[HEARTH_TYPE_##type] = step_##type;
    FORMATS(ENTER)
#undef ENTER
}
