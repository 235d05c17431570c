// SPDX-License-Identifier: MIT
// STEP products of block formats with several tokens, AVX-512 VNNI.
//
// Lanes are tokens: sixteen of them, or eight with two rows of weights each, or four with four rows (`fold`).
// Rows are unpacked to bytes, a group of 16 units at a time, with the words (four weights) of as many rows
// as are folded side by side. Such words are broadcast to all lanes, where both planes of the activations lie
// packed, so that one load serves two int8 dot products. All 16 lanes of an output's sum wait in memory, in
// the L1 cache.
#include "kernels/x86/units_avx512.h"
#include "kernels/x86/variants_x86.h"

// Rows unpacked together: eight registers' worth, or sixteen.
#define ROWS(fold) ((fold) == 4 ? (size_t)32 : (size_t)16)
// Tokens that share the unpacked rows.
#define MAX_TOKENS 32
// Bytes from one set of folded rows' weights to the next one's: not all in the same sets of the cache.
#define Q_STRIDE(fold) ((fold) * (size_t)512 + 64)

// Bytes of one unit's packed activations: `fold` words of each token in a register of one plane, then of the
// other, and so on; then d of 16 lanes, then the sum of q, negated: times the offset (int32), or for formats
// with a minimum as it is (float).
#define PACKED(unit, fold) (((unit) / 2 / (fold) + 2) * (size_t)64)

struct many_scratch {
    uint8_t q[16 * 512 + 16 * 512 + 16 * 64]; // a group's weights, in the format's order
    float scale[32 * LANES];                  // the same of scales
    float min[32 * LANES];                    // only of formats with one
    // Accumulators of up to 32 tokens and 16 rows or of up to 24 and 16 or of 12 and 32.
    float acc[LANES * MAX_TOKENS * 16];
    _Alignas(64) uint8_t packed[];
};

// Tokens of a register.
#define TOKENS(fold) (16 / (size_t)(fold))

// The fewest registers without much waste.
static size_t fold_for(size_t n)
{
    if (n <= 4 || (n > 8 && n <= 12))
        return 4;
    return n <= 8 || (n > 16 && n <= 24) ? 2 : 1;
}

size_t hearth_step_many_scratch_avx512(size_t k)
{
    // Units of 16 elements take most: of 32 tokens without folding, or of 24 folded in two, or of 12 in four.
    return sizeof(struct many_scratch) + 2 * (hearth_acts_padded(k) / 16) * PACKED(16, 1);
}

// ---- hot path

// `fold` words from p on, repeated in all lanes.
INLINE __m512i words_at(const void *p, size_t fold)
{
    if (fold == 4)
        return _mm512_broadcast_i32x4(_mm_loadu_si128(p));
    if (fold == 2) {
        int64_t two;
        memcpy(&two, p, sizeof two);
        return _mm512_set1_epi64(two);
    }
    int32_t one;
    memcpy(&one, p, sizeof one);
    return _mm512_set1_epi32(one);
}

INLINE __m512 floats_at(const float *p, size_t fold)
{
    return _mm512_castsi512_ps(words_at(p, fold));
}

// The same with r = 0, 1, ...; compilers leave arrays of so many registers in memory.
#define EIGHT(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

// Word i of the activations' registers from x on, each token's in all of its lanes.
INLINE __m512i tokens_at(const uint8_t *x, size_t i, size_t fold)
{
    const __m512i all = _mm512_load_si512(x + i / fold * 128);
    if (fold == 4)
        return i % 4 == 0   ? _mm512_shuffle_epi32(all, 0x00)
               : i % 4 == 1 ? _mm512_shuffle_epi32(all, 0x55)
               : i % 4 == 2 ? _mm512_shuffle_epi32(all, 0xaa)
                            : _mm512_shuffle_epi32(all, 0xff);
    if (fold == 2)
        return i % 2 == 0 ? _mm512_unpacklo_epi32(all, all) : _mm512_unpackhi_epi32(all, all);
    return all;
}

// Where word i of 16 bytes is after folding (interleave()).
#define FOLDED(i) (fold == 4 ? 64 * (i) : fold == 2 ? (i) / 2 * 64 + (i) % 2 * 8 : 4 * (i))
// Where word i of a unit's weights is; the second half of a pair is in the next register.
#define WORD(i) ((i) < 4 ? FOLDED(i) : (pairs ? 64 * fold : 16) + FOLDED((i)-4))

// One unit of eight sets of rows. `before` has no lanes where sums begin.
INLINE void add_unit(float *acc, __mmask16 before, const uint8_t *q, const float *scale, const float *min,
                     const uint8_t *x, size_t unit, bool pairs, bool has_min, size_t fold)
{
#define START(r) __m512i h##r = _mm512_setzero_si512(), l##r = has_min ? h##r : sum;
#define DOT(r)                                                                                               \
    w = words_at(q + (r)*Q_STRIDE(fold) + WORD(i), fold);                                                    \
    h##r = _mm512_dpbusd_epi32(h##r, w, high);                                                               \
    l##r = _mm512_dpbusd_epi32(l##r, w, low);
#define FINISH(r)                                                                                            \
    {                                                                                                        \
        const __m512i dot = _mm512_add_epi32(_mm512_slli_epi32(h##r, 7), l##r);                              \
        __m512 a = _mm512_fmadd_ps(_mm512_mul_ps(floats_at(scale + (r)*fold * LANES, fold), d),              \
                                   _mm512_cvtepi32_ps(dot), _mm512_maskz_load_ps(before, acc + (r)*16));     \
        if (has_min)                                                                                         \
            a = _mm512_fmadd_ps(_mm512_mul_ps(floats_at(min + (r)*fold * LANES, fold), d),                   \
                                _mm512_castsi512_ps(sum), a);                                                \
        _mm512_store_ps(acc + (r)*16, a);                                                                    \
    }
    const uint8_t *after = x + unit / 4 / fold * 128;
    const __m512i sum = _mm512_load_si512(after + 64);
    EIGHT(START)
    UNROLL for (size_t i = 0; i < unit / 4; i++)
    {
        const __m512i high = tokens_at(x, i, fold), low = tokens_at(x + 64, i, fold);
        __m512i w;
        EIGHT(DOT)
    }
    const __m512 d = _mm512_load_ps((const float *)(const void *)after);
    EIGHT(FINISH)
#undef START
#undef DOT
#undef FINISH
}

// What does not change during a call.
struct call {
    struct many_scratch *w;
    uint16_t start[LANES]; // unit -> where its weights are in a set of rows, bytes
    uint16_t scale[LANES]; // unit -> where its scales are, floats
};

// What is prefetched while a group is computed, a share with each of its units: the bytes `near` by, which
// are unpacked next, and those `far` ahead.
struct ahead {
    const uint8_t *near, *far;
    size_t near_stride, near_bytes, far_bytes; // of a unit's share
};

INLINE void prefetch_share(const struct ahead *a, size_t u, size_t fold)
{
    for (size_t i = u * ROWS(fold) / LANES; i < (u + 1) * ROWS(fold) / LANES; i++)
        for (size_t line = 0; line < a->near_bytes; line += 64)
            _mm_prefetch((const char *)a->near + i * a->near_stride + line, _MM_HINT_T0);
    for (size_t line = 0; line < a->far_bytes; line += 64)
        _mm_prefetch((const char *)a->far + u * a->far_bytes + line, _MM_HINT_T1);
}

// The group's units [0, n_units) for one register of tokens; `first` of a row, which begins all sums.
INLINE void add_units(const struct call *c, float *acc, bool first, const uint8_t *x, size_t n_units,
                      const struct ahead *ahead, size_t unit, bool pairs, bool has_min, size_t fold)
{
    const struct many_scratch *w = c->w;
    const __mmask16 before = first ? 0 : 0xffff;
    for (size_t u = 0; u < n_units; u++, x += PACKED(unit, fold)) {
        prefetch_share(ahead, u, fold);
        for (size_t set = 0; set < ROWS(fold) / fold; set += 8, acc += 8 * 16)
            add_unit(acc, before, w->q + c->start[u] + set * Q_STRIDE(fold),
                     w->scale + c->scale[u] + set * fold * LANES, w->min + c->scale[u] + set * fold * LANES,
                     x, unit, pairs, has_min, fold);
    }
}

// The canonical tree over lanes; registers of a lane are `stride` floats after those of the one before.
INLINE __m512 tree(const float *acc, size_t stride)
{
    __m512 l[LANES];
    for (size_t lane = 0; lane < LANES; lane++)
        l[lane] = _mm512_load_ps(acc + lane * stride);
    for (size_t width = LANES / 2; width; width /= 2)
        for (size_t k = 0; k < width; k++)
            l[k] = _mm512_add_ps(l[k], l[k + width]);
    return l[0];
}

static void finish(float *out, size_t out_stride, size_t rows, const float *acc, size_t n, size_t fold)
{
    float sums[32][16]; // [row / fold][token][fold]
    for (size_t i = 0; i * fold < rows; i++)
        _mm512_storeu_ps(sums[i], tree(acc + i * 16, ROWS(fold) / fold * 16));
    for (size_t t = 0; t < n; t++)
        for (size_t r = 0; r < rows; r++)
            out[t * out_stride + r] = sums[r / fold][t * fold + r % fold];
}

// ---- packing activations

// d and the sum of q of units u to u + 15.
INLINE __m512i lanes_of_d(const float *d, size_t u, size_t unit)
{
    if (unit == 32)
        return _mm512_loadu_si512(d + u);
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_epi32(twice,
                                    _mm512_castps_si512(_mm512_castps256_ps512(_mm256_loadu_ps(d + u / 2))));
}
INLINE __m512i lanes_of_sum(const int32_t *sum, size_t u, size_t unit)
{
    if (unit == 16)
        return _mm512_loadu_si512(sum + u);
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    const __m512i a = _mm512_loadu_si512(sum + 2 * u), b = _mm512_loadu_si512(sum + 2 * u + 16);
    return _mm512_add_epi32(_mm512_permutex2var_epi32(a, even, b), _mm512_permutex2var_epi32(a, odd, b));
}

// 16 bytes of one plane of each token, from `at` on.
INLINE void pack_words(uint8_t *to, const uint8_t *const *plane, size_t at, size_t fold)
{
    __m512i z[2];
    for (size_t i = 0; i < 4 / fold; i++) { // tokens i, i + 4 / fold, ...
        const size_t step = 4 / fold;
        z[i] = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)(plane[i] + at)));
#define INSERT(l)                                                                                            \
    z[i] = _mm512_inserti32x4(                                                                               \
        z[i], _mm_loadu_si128((const __m128i *)(const void *)(plane[i + (l)*step] + at)), l);
        INSERT(1)
        INSERT(2)
        INSERT(3)
#undef INSERT
    }
    if (fold == 4) {
        _mm512_store_si512(to, z[0]);
        return;
    }
    _mm512_store_si512(to, _mm512_unpacklo_epi32(z[0], z[1]));
    _mm512_store_si512(to + 128, _mm512_unpackhi_epi32(z[0], z[1]));
}

// One register's tokens, all of the units of k; those that are missing repeat the last one. Acts blocks are
// padded to whole groups of units.
static void pack(uint8_t *to, const uint8_t *x, size_t stride, size_t k, size_t count, size_t fold,
                 const struct shape *s)
{
    const size_t unit = s->unit, words = unit / 4, n_units = k / unit;
    struct hearth_acts acts[16];
    const uint8_t *plane[2][16];
    for (size_t t = 0; t < TOKENS(fold); t++) {
        acts[t] = hearth_acts_view(x + (t < count ? t : count - 1) * stride, k);
        plane[0][t] = (const uint8_t *)acts[t].hi;
        plane[1][t] = (const uint8_t *)acts[t].lo;
    }
    __m512i z[16];
#define EACH_LANE(value)                                                                                     \
    for (size_t i = 0; i < 16; i++) {                                                                        \
        const size_t t = i / fold;                                                                           \
        z[i] = (value);                                                                                      \
    }                                                                                                        \
    i_transpose(z)
    for (size_t at = 0; fold == 1 && at < k; at += 64)
        for (size_t p = 0; p < 2; p++) {
            EACH_LANE(_mm512_loadu_si512(plane[p][t] + at));
            for (size_t i = 0; i < 16 && at + 4 * i < k; i++) {
                const size_t word = at / 4 + i;
                _mm512_store_si512(to + word / words * PACKED(unit, 1) + word % words * 128 + 64 * p, z[i]);
            }
        }
    for (size_t at = 0; fold > 1 && at < k; at += 16)
        for (size_t p = 0; p < 2; p++) {
            uint8_t *there = to + at / unit * PACKED(unit, fold) + at % unit / 4 / fold * 128 + 64 * p;
            if (fold == 4)
                pack_words(there, plane[p], at, 4);
            else
                pack_words(there, plane[p], at, 2);
        }
    const __m512i offset = _mm512_set1_epi32(s->offset);
    for (size_t u = 0; u < n_units; u += 16) {
        uint8_t *after = to + u * PACKED(unit, fold) + words / fold * 128;
        const size_t n = n_units - u < 16 ? n_units - u : 16;
        EACH_LANE(lanes_of_d(acts[t].d, u, unit));
        for (size_t i = 0; i < n; i++)
            _mm512_store_si512(after + i * PACKED(unit, fold), z[i]);
        EACH_LANE(lanes_of_sum(acts[t].sum, u, unit));
        for (size_t i = 0; i < n; i++) {
            const __m512i less = _mm512_sub_epi32(_mm512_setzero_si512(), z[i]);
            _mm512_store_si512(after + i * PACKED(unit, fold) + 64,
                               s->has_min ? _mm512_castps_si512(_mm512_cvtepi32_ps(less))
                                          : _mm512_mullo_epi32(less, offset));
        }
    }
#undef EACH_LANE
}

// ---- unpacking rows

// `fold` rows' registers, word by word side by side (FOLDED).
INLINE void interleave(void *to, const __m512i *z, size_t fold)
{
    __m512i *at = to;
    if (fold == 1) {
        _mm512_store_si512(at, z[0]);
        return;
    }
    if (fold == 2) {
        _mm512_store_si512(at, _mm512_unpacklo_epi32(z[0], z[1]));
        _mm512_store_si512(at + 1, _mm512_unpackhi_epi32(z[0], z[1]));
        return;
    }
    __m512i four[4] = {z[0], z[1], z[2], z[3]};
    i_transpose_quarters(four);
    for (int i = 0; i < 4; i++)
        _mm512_store_si512(at + i, four[i]);
}

// One group of `rows` rows; those that are missing repeat the last one.
INLINE void unpack_rows(struct many_scratch *to, const uint8_t *src, size_t stride, size_t rows, size_t bytes,
                        size_t group_bytes, unpack_fn unpack, const struct shape *s, size_t fold)
{
    for (size_t set = 0; set < ROWS(fold) / fold; set++) {
        struct weights w[4];
        for (size_t f = 0; f < fold; f++) {
            const size_t r = set * fold + f;
            const uint8_t *from = src + (r < rows ? r : rows - 1) * stride;
            uint8_t padded[GROUP_BYTES];
            if (bytes < group_bytes) {
                memset(padded, 0, sizeof padded);
                from = memcpy(padded, from, bytes);
            }
            unpack(&w[f], from);
        }
        __m512i z[4];
        for (size_t i = 0; i < s->registers; i++) {
            for (size_t f = 0; f < fold; f++)
                z[f] = w[f].u[i];
            interleave(to->q + set * Q_STRIDE(fold) + i * fold * 64, z, fold);
        }
        for (size_t f = 0; f < fold; f++)
            z[f] = _mm512_castps_si512(w[f].scale);
        interleave(to->scale + set * fold * LANES, z, fold);
        for (size_t f = 0; s->has_min && f < fold; f++)
            z[f] = _mm512_castps_si512(w[f].min);
        if (s->has_min)
            interleave(to->min + set * fold * LANES, z, fold);
    }
}

// ---- one call

typedef void (*units_fn)(const struct call *c, float *acc, bool first, const uint8_t *x, size_t n_units,
                         const struct ahead *ahead);
#define UNITS(name, unit, pairs, has_min, fold)                                                              \
    static void name##_##fold(const struct call *c, float *acc, bool first, const uint8_t *x,                \
                              size_t n_units, const struct ahead *ahead)                                     \
    {                                                                                                        \
        add_units(c, acc, first, x, n_units, ahead, unit, pairs, has_min, fold);                             \
    }
#define ALL_FOLDS(name, unit, pairs, has_min)                                                                \
    UNITS(name, unit, pairs, has_min, 1)                                                                     \
    UNITS(name, unit, pairs, has_min, 2)                                                                     \
    UNITS(name, unit, pairs, has_min, 4)
ALL_FOLDS(pairs, 32, true, false)
ALL_FOLDS(pairs_min, 32, true, true)
ALL_FOLDS(whole, 32, false, false)
ALL_FOLDS(whole_min, 32, false, true)
ALL_FOLDS(short, 16, false, false)
ALL_FOLDS(short_min, 16, false, true)

static units_fn units_of(const struct shape *s, size_t fold)
{
#define FOLDS(name)                                                                                          \
    {                                                                                                        \
        name##_1, name##_2, name##_4                                                                         \
    }
    static const units_fn all[3][2][3] = {
        {FOLDS(pairs), FOLDS(pairs_min)}, {FOLDS(whole), FOLDS(whole_min)}, {FOLDS(short), FOLDS(short_min)}};
#undef FOLDS
    return all[s->unit == 16 ? 2 : !s->pairs][s->has_min][fold / 2];
}

static struct call call_of(const struct shape *s, size_t fold, struct many_scratch *w)
{
    struct call c = {.w = w};
    const size_t pieces = s->unit / 16;
    for (size_t r = 0; r < s->registers; r++)
        for (size_t p = 0; p < 4; p++)
            if (s->pieces[r][p] % pieces == 0)
                c.start[s->pieces[r][p] / pieces] = (uint16_t)(r * 64 * fold + p * 16);
    for (size_t u = 0; u < LANES; u++)
        c.scale[u] = (uint16_t)(s->inverse[u] / 4 * 4 + (size_t)FOLDED(s->inverse[u] % 4) / 4);
    return c;
}

// Tokens [0, n), n <= MAX_TOKENS.
INLINE void many(float *out, size_t out_stride, const uint8_t *w, size_t w_stride, size_t k, size_t n_rows,
                 const uint8_t *x, size_t x_stride, size_t n, struct many_scratch *scratch, uint32_t type,
                 unpack_fn unpack, const struct shape *s, size_t fold)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t elements = (size_t)s->unit * LANES, n_units = k / s->unit, tokens = TOKENS(fold);
    const size_t group_bytes = elements / info->block_elems * info->block_bytes;
    const size_t row_bytes = k / info->block_elems * info->block_bytes;
    const size_t part_floats = LANES * ROWS(fold) / fold * 16;
    const struct call c = call_of(s, fold, scratch);
    const units_fn add = units_of(s, fold);
    for (size_t t = 0; t < n; t += tokens)
        pack(scratch->packed + t / tokens * n_units * PACKED(s->unit, fold), x + t * x_stride, x_stride, k,
             n - t < tokens ? n - t : tokens, fold, s);
    for (size_t r = 0; r < n_rows; r += ROWS(fold)) {
        const size_t rows = n_rows - r < ROWS(fold) ? n_rows - r : ROWS(fold);
        const uint8_t *from = w + r * w_stride, *next = from + ROWS(fold) * w_stride;
        for (size_t g = 0; g * group_bytes < row_bytes; g++) {
            const size_t first = g * LANES, count = n_units - first < LANES ? n_units - first : LANES;
            const bool last = (g + 1) * group_bytes >= row_bytes;
            struct ahead ahead = {.near = last ? next : from + (g + 1) * group_bytes,
                                  .far = next + g * ROWS(fold) * group_bytes,
                                  .near_stride = w_stride,
                                  .near_bytes = group_bytes,
                                  .far_bytes = group_bytes * ROWS(fold) / LANES};
            unpack_rows(scratch, from + g * group_bytes, w_stride, rows, row_bytes - g * group_bytes,
                        group_bytes, unpack, s, fold);
            for (size_t t = 0; t < n; t += tokens) {
                add(&c, scratch->acc + t / tokens * part_floats, !g,
                    scratch->packed + (t / tokens * n_units + first) * PACKED(s->unit, fold), count, &ahead);
                ahead.near_bytes = ahead.far_bytes = 0;
            }
        }
        for (size_t t = 0; t < n; t += tokens)
            finish(out + t * out_stride + r, out_stride, rows, scratch->acc + t / tokens * part_floats,
                   n - t < tokens ? n - t : tokens, fold);
    }
}

#define MANY(type, unpack, shape)                                                                            \
    static void many_##type(float *out, size_t out_stride, const uint8_t *w, size_t w_stride, size_t k,      \
                            size_t n_rows, const uint8_t *x, size_t x_stride, size_t n, void *scratch)       \
    {                                                                                                        \
        const size_t fold = fold_for(n);                                                                     \
        if (fold == 4)                                                                                       \
            many(out, out_stride, w, w_stride, k, n_rows, x, x_stride, n, scratch, HEARTH_TYPE_##type,       \
                 unpack, &shape, 4);                                                                         \
        else if (fold == 2)                                                                                  \
            many(out, out_stride, w, w_stride, k, n_rows, x, x_stride, n, scratch, HEARTH_TYPE_##type,       \
                 unpack, &shape, 2);                                                                         \
        else                                                                                                 \
            many(out, out_stride, w, w_stride, k, n_rows, x, x_stride, n, scratch, HEARTH_TYPE_##type,       \
                 unpack, &shape, 1);                                                                         \
    }
HEARTH_UNITS_AVX512(MANY)

void hearth_step_many_avx512(uint32_t type, float *out, size_t out_stride, const void *w, size_t w_stride,
                             size_t k, size_t n_rows, const void *x, size_t x_stride, size_t n_tokens,
                             void *scratch)
{
    static const some_fn formats[HEARTH_TYPE_END] = {
#define ENTER(type, unpack, shape) [HEARTH_TYPE_##type] = many_##type,
        HEARTH_UNITS_AVX512(ENTER)
#undef ENTER
    };
    some_at_a_time(formats[type], MAX_TOKENS, out, out_stride, w, w_stride, k, n_rows, x, x_stride, n_tokens,
                   scratch);
}
