// SPDX-License-Identifier: MIT
// PROMPT products of block formats, AVX-512 VNNI.
//
// 32 rows of weights, some way deep, are spread over a panel in which a lane is a row: four consecutive
// weights of each row side by side, as the int8 dot product wants them. Twelve tokens' activations are packed
// so that what one unit needs of them lies side by side, too. All packed tokens go past a panel, six at a
// time in registers, while it stays in the L1 cache. Each output has one accumulator and takes one fma a
// unit, in ascending order (kernels.h); between panels accumulators wait in memory, as f32, which changes
// nothing.
#include "kernels/x86/units_avx512.h"
#include "kernels/x86/variants_x86.h"

#define ROWS     32  // of a panel: two registers of lanes
#define DEPTH    512 // elements of a panel
#define TOGETHER 12  // tokens packed side by side
// Tokens that share a filled panel, so that their packed activations stay in the L2 cache (338 KB at most).
#define PROMPT_TOKENS 264
// Added to weights to make them unsigned; formats with a minimum are so already.
#define BIAS 128

// Bytes of twelve tokens' packed activations of one unit: planes of words [unit/4][12], then 12 scales, then
// 12 times what the bias adds too much, negated (int32), or the sum of activations, negated (float).
#define PACKED_WORD          (TOGETHER * 4)
#define PACKED(unit, planes) (((unit) / 4 * (planes) + 2) * (size_t)PACKED_WORD)

// With every count of tokens, too, this file would take sanitizers minutes to compile: they get loops for all
// six tokens, of which some may be zeros.
#if SANITIZED
#define AT_MOST(n) false
#else
#define AT_MOST(n) (count <= (n))
#endif

struct panel {
    uint8_t q[DEPTH / 4][ROWS][4];
    float scale[DEPTH / 16][ROWS];
    float min[DEPTH / 16][ROWS]; // only of formats with one
};

struct panel_scratch {
    struct panel panel;
    _Alignas(64) uint8_t packed[]; // DEPTH elements of PROMPT_TOKENS tokens
};

static size_t scratch_bytes(size_t k)
{
    (void)k;
    return sizeof(struct panel_scratch) + PROMPT_TOKENS / TOGETHER * (DEPTH / 16) * PACKED(16, 2);
}

// ---- hot path

INLINE float f32_at(const uint8_t *p)
{
    float f;
    memcpy(&f, p, sizeof f);
    return f;
}

// The first n lanes, or all.
INLINE __mmask16 lanes_below(size_t n)
{
    return (__mmask16)_bzhi_u32(0xffff, n < 16 ? (unsigned)n : 16);
}

INLINE __m512 add_unit(__m512 acc, __m512i dot, __m512 scale, __m512 d)
{
    return _mm512_fmadd_ps(_mm512_mul_ps(scale, d), _mm512_cvtepi32_ps(dot), acc);
}

// The same with t = 0, 1, ...; compilers leave arrays of so many registers in memory.
#define SIX(X) X(0) X(1) X(2) X(3) X(4) X(5)

// n of six packed tokens (a constant after inlining), whose accumulators stay in registers, too. They
// wait in `out` while other panels are in turn; of the n only `count` are real.
INLINE void prompt_tokens(float *out, size_t out_stride, size_t rows, bool first, const struct panel *p,
                          size_t n_units, const uint8_t *x, size_t count, size_t n, size_t unit, bool has_min,
                          size_t planes)
{
    const size_t d_at = unit / 4 * planes * PACKED_WORD, sum_at = d_at + PACKED_WORD;
    const __mmask16 low = lanes_below(rows), high = rows > 16 ? lanes_below(rows - 16) : 0;
#define START(t)                                                                                             \
    __m512i a##t = _mm512_setzero_si512(), b##t = a##t;                                                      \
    if (n > t && !has_min)                                                                                   \
        a##t = b##t = _mm512_set1_epi32((int32_t)word32_at(x + sum_at + 4 * t));
#define SHIFT(t)                                                                                             \
    a##t = _mm512_slli_epi32(a##t, 7);                                                                       \
    b##t = _mm512_slli_epi32(b##t, 7);
#define DOT(t)                                                                                               \
    if (n > t) {                                                                                             \
        v = _mm512_set1_epi32((int32_t)word32_at(from + 12 * i + 4 * t));                                    \
        a##t = _mm512_dpbusd_epi32(a##t, w0, v);                                                             \
        b##t = _mm512_dpbusd_epi32(b##t, w1, v);                                                             \
    }
#define ALL_DOTS(TOKENS)                                                                                     \
    UNROLL for (size_t i = 0; i < unit; i += 4)                                                              \
    {                                                                                                        \
        const __m512i w0 = _mm512_load_si512(q + 32 * i), w1 = _mm512_load_si512(q + 32 * i + 64);           \
        TOKENS(DOT)                                                                                          \
    }
#define LOAD(t)                                                                                              \
    const bool used##t = !first && count > t;                                                                \
    __m512 low##t = _mm512_maskz_loadu_ps(used##t ? low : 0, out + (used##t ? t * out_stride : 0)),          \
           high##t = _mm512_maskz_loadu_ps(used##t ? high : 0, out + (used##t ? t * out_stride : 0) + 16);
#define FINISH(t)                                                                                            \
    if (n > t) {                                                                                             \
        const __m512 d = _mm512_set1_ps(f32_at(x + d_at + 4 * t));                                           \
        low##t = add_unit(low##t, a##t, scale0, d);                                                          \
        high##t = add_unit(high##t, b##t, scale1, d);                                                        \
        if (has_min) {                                                                                       \
            const __m512 sum = _mm512_set1_ps(f32_at(x + sum_at + 4 * t));                                   \
            low##t = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_load_ps(p->min[u]), d), sum, low##t);              \
            high##t = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_load_ps(p->min[u] + 16), d), sum, high##t);       \
        }                                                                                                    \
    }
#define STORE(t)                                                                                             \
    if (count > t) {                                                                                         \
        _mm512_mask_storeu_ps(out + t * out_stride, low, low##t);                                            \
        _mm512_mask_storeu_ps(out + t * out_stride + 16, high, high##t);                                     \
    }
    SIX(LOAD)
    for (size_t u = 0; u < n_units; u++, x += PACKED(unit, planes)) {
        const uint8_t *q = p->q[u * unit / 4][0], *from = x;
        __m512i v;
        SIX(START)
        ALL_DOTS(SIX)
        if (planes == 2) {
            SIX(SHIFT)
            from += unit / 4 * PACKED_WORD;
            ALL_DOTS(SIX)
        }
        const __m512 scale0 = _mm512_load_ps(p->scale[u]), scale1 = _mm512_load_ps(p->scale[u] + 16);
        SIX(FINISH)
    }
    SIX(STORE)
#undef LOAD
#undef START
#undef SHIFT
#undef DOT
#undef ALL_DOTS
#undef FINISH
#undef STORE
}

// All tokens against a filled panel; `packed` has them in twelves.
INLINE void all_tokens(float *out, size_t out_stride, size_t rows, bool first, struct panel_scratch *w,
                       size_t n_units, const uint8_t *packed, size_t n_tokens, size_t unit, bool has_min,
                       size_t planes)
{
    for (size_t t = 0; t < n_tokens; t += TOGETHER, packed += n_units * PACKED(unit, planes)) {
        const size_t count = n_tokens - t < TOGETHER ? n_tokens - t : TOGETHER;
#define PROMPT_OF(n, from, count)                                                                            \
    prompt_tokens(out + (t + (from)) * out_stride, out_stride, rows, first, &w->panel, n_units,              \
                  packed + 4 * (from), count, n, unit, has_min, planes)
        if (AT_MOST(3))
            PROMPT_OF(3, 0, count);
        else {
            PROMPT_OF(6, 0, count < 6 ? count : 6);
            if (count > 6)
                PROMPT_OF(6, 6, count - 6);
        }
#undef PROMPT_OF
    }
}

// ---- packing activations

// Words of sixteen bytes each of up to twelve tokens, side by side: [16][12].
INLINE void pack_words(uint8_t *to, const int8_t *const *from, size_t at, size_t bytes)
{
    __m512i z[16];
    const __mmask16 words = (__mmask16)((1u << bytes / 4) - 1);
    for (int t = 0; t < TOGETHER; t++)
        z[t] = from[t] ? _mm512_maskz_loadu_epi32(words, from[t] + at) : _mm512_setzero_si512();
    for (int t = TOGETHER; t < 16; t++)
        z[t] = _mm512_setzero_si512();
    i_transpose(z);
    for (size_t i = 0; i < bytes / 4; i++)
        _mm512_mask_storeu_epi32(to + i * PACKED_WORD, 0xfff, z[i]);
}

// Up to twelve tokens' elements [at, at + n), unit by unit.
INLINE void pack(uint8_t *to, const uint8_t *x, size_t stride, size_t k, size_t at, size_t n, size_t count,
                 size_t unit, bool has_min, size_t planes)
{
    const int8_t *plane[2][TOGETHER] = {0};
    struct hearth_acts acts[TOGETHER];
    for (size_t t = 0; t < count; t++) {
        acts[t] = hearth_acts_view(x + t * stride, k);
        plane[0][t] = acts[t].hi;
        plane[1][t] = acts[t].lo;
    }
    const size_t words = unit / 4 * PACKED_WORD;
    for (size_t u = at / unit; u < (at + n) / unit; u++, to += PACKED(unit, planes)) {
        for (size_t i = 0; i < planes; i++)
            pack_words(to + i * words, plane[i], u * unit, unit);
        float d[TOGETHER] = {0}, sum[TOGETHER] = {0};
        int32_t start[TOGETHER] = {0};
        for (size_t t = 0; t < count; t++) {
            const int32_t *sums = planes == 2 ? acts[t].sum : acts[t].bias;
            const int32_t all = unit == 32 ? sums[2 * u] + sums[2 * u + 1] : sums[u];
            d[t] = (planes == 2 ? 1.0f : 128.0f) * acts[t].d[u * unit / 32];
            start[t] = planes == 2 ? -all : all;
            sum[t] = (float)(planes == 2 ? -all : all / 128);
        }
        uint8_t *after = to + planes * words;
        memcpy(after, d, sizeof d);
        if (has_min)
            memcpy(after + sizeof d, sum, sizeof sum);
        else
            memcpy(after + sizeof d, start, sizeof start);
    }
}

// ---- filling panels

// Sixteen rows' scales (or minima) of 16 units: a row of `to` each unit.
INLINE void spread_floats(float (*to)[ROWS], __m512i z[16], const struct shape *s)
{
    i_transpose(z);
    for (int lane = 0; lane < LANES; lane++)
        _mm512_store_ps(to[s->order[lane]], _mm512_castsi512_ps(z[lane]));
}

// Half a panel's group of 16 units, from the 16 unpacked rows in w.
INLINE void spread_group(struct panel *p, size_t group, size_t half, const struct weights w[16],
                         const struct shape *s)
{
    const __m512i lift = _mm512_set1_epi8(s->has_min ? 0 : (char)(BIAS - s->offset));
    __m512i z[16];
    for (int r = 0; r < s->registers; r++) {
        for (int i = 0; i < 16; i++)
            z[i] = s->has_min || s->offset == BIAS ? w[i].u[r] : _mm512_add_epi8(w[i].u[r], lift);
        i_transpose(z);
        for (int i = 0; i < 16; i++) {
            const size_t fours = group * s->unit * 4 + s->pieces[r][i / 4] * (size_t)4 + (size_t)i % 4;
            _mm512_store_si512(p->q[fours][16 * half], z[i]);
        }
    }
    for (int i = 0; i < 16; i++)
        z[i] = _mm512_castps_si512(w[i].scale);
    spread_floats((float(*)[ROWS])(p->scale[group * LANES] + 16 * half), z, s);
    if (!s->has_min)
        return;
    for (int i = 0; i < 16; i++)
        z[i] = _mm512_castps_si512(w[i].min);
    spread_floats((float(*)[ROWS])(p->min[group * LANES] + 16 * half), z, s);
}

// Fills the panel from `bytes` bytes of each of `rows` rows. The rows that are missing repeat the last one.
INLINE void fill(struct panel *p, const uint8_t *src, size_t stride, size_t rows, size_t bytes,
                 size_t group_bytes, unpack_fn unpack, const struct shape *s)
{
    for (size_t group = 0; group * group_bytes < bytes; group++)
        for (size_t half = 0; 16 * half < rows; half++) {
            struct weights w[16];
            for (size_t i = 0; i < 16; i++) {
                const size_t row = 16 * half + i < rows ? 16 * half + i : rows - 1;
                const uint8_t *from = src + row * stride + group * group_bytes;
                const size_t left = bytes - group * group_bytes;
                if (left >= group_bytes) {
                    unpack(&w[i], from);
                    continue;
                }
                uint8_t padded[GROUP_BYTES] = {0};
                memcpy(padded, from, left);
                unpack(&w[i], padded);
            }
            spread_group(p, group, half, w, s);
        }
}

// ---- one call

typedef void (*all_tokens_fn)(float *out, size_t out_stride, size_t rows, bool first, struct panel_scratch *w,
                              size_t n_units, const uint8_t *packed, size_t n_tokens);
typedef void (*pack_fn)(uint8_t *to, const uint8_t *x, size_t stride, size_t k, size_t at, size_t n,
                        size_t count);

// What depends on the shape of units and the class alone.
struct loops {
    all_tokens_fn all_tokens;
    pack_fn pack;
};

#define LOOPS(name, unit, has_min, planes)                                                                   \
    static void tokens_##name(float *out, size_t out_stride, size_t rows, bool first,                        \
                              struct panel_scratch *w, size_t n_units, const uint8_t *packed,                \
                              size_t n_tokens)                                                               \
    {                                                                                                        \
        all_tokens(out, out_stride, rows, first, w, n_units, packed, n_tokens, unit, has_min, planes);       \
    }                                                                                                        \
    static void pack_##name(uint8_t *to, const uint8_t *x, size_t stride, size_t k, size_t at, size_t n,     \
                            size_t count)                                                                    \
    {                                                                                                        \
        pack(to, x, stride, k, at, n, count, unit, has_min, planes);                                         \
    }
#define ALL_UNITS(name, planes)                                                                              \
    LOOPS(name##_32, 32, false, planes)                                                                      \
    LOOPS(name##_32_min, 32, true, planes)                                                                   \
    LOOPS(name##_16, 16, false, planes)                                                                      \
    LOOPS(name##_16_min, 16, true, planes)
ALL_UNITS(prompt_1, 1)
ALL_UNITS(prompt_2, 2)

typedef void (*fill_fn)(struct panel *p, const uint8_t *src, size_t stride, size_t rows, size_t bytes,
                        size_t group_bytes);

static const struct format {
    const struct shape *shape;
    fill_fn fill;
} formats[HEARTH_TYPE_END];

// What a call is about.
struct call {
    const struct hearth_type_info *info;
    const struct format *format;
    float *out;
    const uint8_t *w, *x;
    size_t out_stride, w_stride, x_stride, k, n_rows, n_tokens;
    struct panel_scratch *scratch;
    size_t planes;
};

static const struct loops *loops_of(const struct call *c)
{
#define EACH(name)                                                                                           \
    {                                                                                                        \
        {{tokens_##name##_32, pack_##name##_32}, {tokens_##name##_32_min, pack_##name##_32_min}},            \
            {{tokens_##name##_16, pack_##name##_16}, {tokens_##name##_16_min, pack_##name##_16_min}},        \
    }
    static const struct loops all[2][2][2] = {EACH(prompt_1), EACH(prompt_2)};
#undef EACH
    const struct shape *shape = c->format->shape;
    return &all[c->planes - 1][shape->unit == 16][shape->has_min];
}

// Elements of the panels that start at `at`.
static size_t depth_at(const struct call *c, size_t at)
{
    return c->k - at < DEPTH ? c->k - at : DEPTH;
}

static void pack_all(const struct call *c, uint8_t *packed, size_t at, size_t first, size_t count)
{
    const struct loops *loops = loops_of(c);
    const size_t unit = c->format->shape->unit, planes = c->planes, n = depth_at(c, at);
    for (size_t t = 0; t < count; t += TOGETHER, packed += n / unit * PACKED(unit, planes))
        loops->pack(packed, c->x + (first + t) * c->x_stride, c->x_stride, c->k, at, n,
                    count - t < TOGETHER ? count - t : TOGETHER);
}

// Rows from `r` on, elements from `at` on, packed tokens [first, first + count).
static void products(const struct call *c, const uint8_t *packed, size_t r, size_t at, size_t first,
                     size_t count)
{
    const struct hearth_type_info *info = c->info;
    const struct shape *shape = c->format->shape;
    const size_t rows = c->n_rows - r < ROWS ? c->n_rows - r : ROWS, n = depth_at(c, at);
    const size_t group_bytes = (size_t)shape->unit * LANES / info->block_elems * info->block_bytes;
    c->format->fill(&c->scratch->panel, c->w + r * c->w_stride + at / info->block_elems * info->block_bytes,
                    c->w_stride, rows, n / info->block_elems * info->block_bytes, group_bytes);
    loops_of(c)->all_tokens(c->out + first * c->out_stride + r, c->out_stride, rows, at == 0, c->scratch,
                            n / shape->unit, packed, count);
}

// All rows against one stretch of the activations before the next, so that it stays in the L2 cache.
static void prompt(const struct call *c)
{
    uint8_t *packed = c->scratch->packed;
    for (size_t first = 0; first < c->n_tokens; first += PROMPT_TOKENS) {
        const size_t count = c->n_tokens - first < PROMPT_TOKENS ? c->n_tokens - first : PROMPT_TOKENS;
        for (size_t at = 0; at < c->k; at += DEPTH) {
            pack_all(c, packed, at, first, count);
            for (size_t r = 0; r < c->n_rows; r += ROWS)
                products(c, packed, r, at, first, count);
        }
    }
}

// ---- formats

#define FORMAT(type, unpack, shape)                                                                          \
    static void fill_##type(struct panel *p, const uint8_t *src, size_t stride, size_t rows, size_t bytes,   \
                            size_t group_bytes)                                                              \
    {                                                                                                        \
        fill(p, src, stride, rows, bytes, group_bytes, unpack, &shape);                                      \
    }                                                                                                        \
    static void prompt_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,       \
                              size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch) \
    {                                                                                                        \
        hearth_prompt_avx512(HEARTH_TYPE_##type, out, out_stride, w, w_stride, k, n_rows, x, x_stride,       \
                             n_tokens, scratch);                                                             \
    }
HEARTH_UNITS_AVX512(FORMAT)

static const struct format formats[HEARTH_TYPE_END] = {
#define ENTER(type, unpack, shape) [HEARTH_TYPE_##type] = {&shape, fill_##type},
    HEARTH_UNITS_AVX512(ENTER)
#undef ENTER
};

void hearth_prompt_avx512(uint32_t type, float *out, size_t out_stride, const void *w, size_t w_stride,
                          size_t k, size_t n_rows, const void *x, size_t x_stride, size_t n_tokens,
                          void *scratch)
{
    prompt(&(struct call){hearth_type_info(type), &formats[type], out, w, x, out_stride, w_stride, x_stride,
                          k, n_rows, n_tokens, scratch, (size_t)hearth_prompt_planes(type)});
}

void hearth_kernels_init_prompt_avx512(struct hearth_kernels *t)
{
#define ENTER(type, unpack, shape) t->prompt[HEARTH_TYPE_##type] = prompt_##type;
    HEARTH_UNITS_AVX512(ENTER)
#undef ENTER
    hearth_kernels_raise_scratch(t, scratch_bytes);
}
