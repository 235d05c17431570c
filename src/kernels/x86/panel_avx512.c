// SPDX-License-Identifier: MIT
// Products of block formats with many tokens, AVX-512 VNNI: all of the PROMPT class, and of the STEP class
// what is too much for step_avx512.c.
//
// 32 rows of weights, 512 elements deep, are spread over a panel in which a lane is a row: four consecutive
// weights of each row side by side, as the byte dot product wants them. The panel stays in the first cache
// while all tokens go past it, twelve at a time in registers. Each output has one accumulator (PROMPT) or 16
// (STEP) and takes one fma a unit, in ascending order (kernels.h); between panels accumulators wait in
// memory, as f32, which changes nothing.
#include "kernels/variants.h"
#include "kernels/x86/lanes16.h"
#include "kernels/x86/units_avx512.h"

#define ROWS     32  // of a panel: two registers of lanes
#define DEPTH    512 // elements of a panel
#define TOGETHER 12  // tokens in registers
// Tokens that share a filled panel in the STEP class, whose accumulators all wait in memory.
#define STEP_TOKENS 48
// The same in the PROMPT class, so that 512 elements of each stay in the second cache (290 KB).
#define PROMPT_TOKENS 264
// Added to weights to make them unsigned; formats with a minimum are so already.
#define BIAS 128

struct panel {
    uint8_t q[DEPTH / 4][ROWS][4];
    float scale[DEPTH / 16][ROWS];
    float min[DEPTH / 16][ROWS]; // only of formats with one
};

struct panel_scratch {
    struct panel panel;
    float acc[LANES][STEP_TOKENS][ROWS]; // STEP only
};

// A stretch of the tokens' activations: elements from `at` on.
struct stretch {
    const uint8_t *x; // acts blocks
    size_t stride, kp, at;
};

// ---- hot path

INLINE int32_t i32_at(const uint8_t *p)
{
    int32_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

INLINE float f32_at(const uint8_t *p)
{
    float f;
    memcpy(&f, p, sizeof f);
    return f;
}

// Addresses of twelve tokens in five registers: three tokens' pointers, the stride and three times the
// stride.
struct twelve {
    const uint8_t *p[3];
    size_t stride, stride3;
};

INLINE struct twelve twelve_at(const uint8_t *p, size_t stride)
{
    return (struct twelve){{p, p + 4 * stride, p + 8 * stride}, stride, 3 * stride};
}

INLINE const uint8_t *token_at(const struct twelve *x, int t)
{
    const uint8_t *p = x->p[t / 4];
    return t % 4 == 0 ? p : t % 4 == 1 ? p + x->stride : t % 4 == 2 ? p + 2 * x->stride : p + x->stride3;
}

// Sum of the activations of one unit, in all lanes.
INLINE __m512i unit_sum(const uint8_t *sum, size_t unit)
{
    const __m512i low = _mm512_set1_epi32(i32_at(sum));
    return unit == 16 ? low : _mm512_add_epi32(low, _mm512_set1_epi32(i32_at(sum + 4)));
}

INLINE __m512 add_unit(float *acc, __m512i dot, __m512 scale, __m512 d)
{
    return _mm512_fmadd_ps(_mm512_mul_ps(scale, d), _mm512_cvtepi32_ps(dot), _mm512_load_ps(acc));
}

// Twelve times the same with t = 0 to 11; compilers leave arrays of so many registers in memory.
#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

// n tokens (a constant after inlining) against the panel's units [0, n_units). Accumulators of lane l, token
// t are at acc + l * acc_lane + t * ROWS.
INLINE void tokens_by_panel(float *acc, size_t acc_lane, const struct panel *p, size_t n_units,
                            const struct stretch *s, size_t n, size_t unit, bool has_min, bool step)
{
    struct twelve x = twelve_at(s->x + s->at, s->stride);
    const size_t d_from = 2 * s->kp - s->at + s->at / 32 * sizeof(float);
    const size_t sum_from = 2 * s->kp - s->at + s->kp / 32 * sizeof(float) + s->at / 16 * sizeof(int32_t);
    for (size_t u = 0; u < n_units; u++) {
        const uint8_t *q = p->q[u * unit / 4][0];
        __m512i v;
        // As 128 * hi is taken of the sum so far, it may start with what the bias will have added too much.
#define START(t)                                                                                             \
    __m512i a##t = _mm512_setzero_si512(), b##t = a##t;                                                      \
    if (n > t && !has_min)                                                                                   \
        a##t = b##t = _mm512_sub_epi32(a##t, unit_sum(token_at(&sums, t), unit));
#define SHIFT(t)                                                                                             \
    a##t = _mm512_slli_epi32(a##t, 7);                                                                       \
    b##t = _mm512_slli_epi32(b##t, 7);
#define DOT(t)                                                                                               \
    if (n > t) {                                                                                             \
        v = _mm512_set1_epi32(i32_at(token_at(&from, t) + i));                                               \
        a##t = _mm512_dpbusd_epi32(a##t, w0, v);                                                             \
        b##t = _mm512_dpbusd_epi32(b##t, w1, v);                                                             \
    }
#define ALL_DOTS                                                                                             \
    _Pragma("GCC unroll 8") for (size_t i = 0; i < unit; i += 4)                                             \
    {                                                                                                        \
        const __m512i w0 = _mm512_load_si512(q + 32 * i), w1 = _mm512_load_si512(q + 32 * i + 64);           \
        TWELVE(DOT)                                                                                          \
    }
#define FINISH(t)                                                                                            \
    if (n > t) {                                                                                             \
        const __m512 d = _mm512_set1_ps(f32_at(token_at(&ds, t)));                                           \
        __m512 low = add_unit(to + t * ROWS, a##t, scale0, d);                                               \
        __m512 high = add_unit(to + t * ROWS + 16, b##t, scale1, d);                                         \
        if (has_min) {                                                                                       \
            const __m512 sum = _mm512_cvtepi32_ps(unit_sum(token_at(&sums, t), unit));                       \
            low = _mm512_fnmadd_ps(_mm512_mul_ps(_mm512_load_ps(p->min[u]), d), sum, low);                   \
            high = _mm512_fnmadd_ps(_mm512_mul_ps(_mm512_load_ps(p->min[u] + 16), d), sum, high);            \
        }                                                                                                    \
        _mm512_store_ps(to + t * ROWS, low);                                                                 \
        _mm512_store_ps(to + t * ROWS + 16, high);                                                           \
    }
        struct twelve from = x, sums = x, ds = x;
        for (int g = 0; g < 3; g++) {
            from.p[g] += u * unit;
            sums.p[g] += sum_from + u * unit / 4;
            ds.p[g] += d_from + u * unit / 32 * sizeof(float);
        }
        TWELVE(START)
        ALL_DOTS
        TWELVE(SHIFT)
        for (int g = 0; g < 3; g++)
            from.p[g] += s->kp;
        ALL_DOTS
        const __m512 scale0 = _mm512_load_ps(p->scale[u]), scale1 = _mm512_load_ps(p->scale[u] + 16);
        float *to = acc + (step ? u % LANES * acc_lane : 0);
        TWELVE(FINISH)
#undef START
#undef SHIFT
#undef DOT
#undef ALL_DOTS
#undef FINISH
    }
}

// One token group of the PROMPT class: its accumulators wait in `out` while other panels are in turn.
INLINE void prompt_tokens(float *out, size_t out_stride, size_t rows, bool first, const struct panel *p,
                          size_t n_units, const struct stretch *s, size_t n, size_t unit, bool has_min)
{
    _Alignas(64) float acc[TOGETHER][ROWS];
    const __mmask16 low = rows >= 16 ? 0xffff : (__mmask16)((1u << rows) - 1);
    const __mmask16 high = rows >= 16 ? (__mmask16)((1u << (rows - 16)) - 1) : 0;
    for (size_t t = 0; t < n; t++) {
        _mm512_store_ps(acc[t], _mm512_maskz_loadu_ps(first ? 0 : low, out + t * out_stride));
        _mm512_store_ps(acc[t] + 16, _mm512_maskz_loadu_ps(first ? 0 : high, out + t * out_stride + 16));
    }
    tokens_by_panel(acc[0], 0, p, n_units, s, n, unit, has_min, false);
    for (size_t t = 0; t < n; t++) {
        _mm512_mask_storeu_ps(out + t * out_stride, low, _mm512_load_ps(acc[t]));
        _mm512_mask_storeu_ps(out + t * out_stride + 16, high, _mm512_load_ps(acc[t] + 16));
    }
}

// The canonical tree for n tokens, 32 rows at a time.
static void sum_lanes(float *out, size_t out_stride, size_t rows, float acc[LANES][STEP_TOKENS][ROWS],
                      size_t n)
{
    rows = rows < ROWS ? rows : ROWS;
    for (size_t t = 0; t < n; t++)
        for (size_t h = 0; 16 * h < rows; h++) {
            __m512 l[LANES];
            for (size_t i = 0; i < LANES; i++)
                l[i] = _mm512_load_ps(acc[i][t] + 16 * h);
            for (size_t width = LANES / 2; width; width /= 2)
                for (size_t i = 0; i < width; i++)
                    l[i] = _mm512_add_ps(l[i], l[i + width]);
            const size_t rest = rows - 16 * h;
            _mm512_mask_storeu_ps(out + t * out_stride + 16 * h,
                                  rest >= 16 ? 0xffff : (__mmask16)((1u << rest) - 1), l[0]);
        }
}

// All tokens against a filled panel.
INLINE void all_tokens(float *out, size_t out_stride, size_t rows, bool first, struct panel_scratch *w,
                       size_t n_units, struct stretch s, size_t n_tokens, size_t unit, bool has_min,
                       bool step)
{
    size_t t = 0;
#define GROUPS_OF(n)                                                                                         \
    for (; t + (n) <= n_tokens; t += (n), s.x += (n)*s.stride) {                                             \
        if (step)                                                                                            \
            tokens_by_panel(w->acc[0][t], STEP_TOKENS *ROWS, &w->panel, n_units, &s, n, unit, has_min,       \
                            true);                                                                           \
        else                                                                                                 \
            prompt_tokens(out + t * out_stride, out_stride, rows, first, &w->panel, n_units, &s, n, unit,    \
                          has_min);                                                                          \
    }
    GROUPS_OF(12)
    GROUPS_OF(8)
    GROUPS_OF(4)
    GROUPS_OF(2)
    GROUPS_OF(1)
#undef GROUPS_OF
}

// ---- filling panels

// Sixteen rows' scales (or minima) of 16 units: a row of `to` each unit.
INLINE void spread_floats(float (*to)[ROWS], __m512i z[16], const struct shape *s)
{
    i_transpose(z);
    for (int lane = 0; lane < LANES; lane++)
        _mm512_store_ps(to[s->order[lane]], _mm512_castsi512_ps(z[lane]));
}

// Half a panel's group of 16 units, from the 16 rows taken apart in w.
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
                              size_t n_units, struct stretch s, size_t n_tokens);

#define ALL_TOKENS(name, unit, has_min, step)                                                                \
    static void name(float *out, size_t out_stride, size_t rows, bool first, struct panel_scratch *w,        \
                     size_t n_units, struct stretch s, size_t n_tokens)                                      \
    {                                                                                                        \
        all_tokens(out, out_stride, rows, first, w, n_units, s, n_tokens, unit, has_min, step);              \
    }
ALL_TOKENS(prompt_32, 32, false, false)
ALL_TOKENS(prompt_32_min, 32, true, false)
ALL_TOKENS(prompt_16, 16, false, false)
ALL_TOKENS(prompt_16_min, 16, true, false)
ALL_TOKENS(step_32, 32, false, true)
ALL_TOKENS(step_32_min, 32, true, true)
ALL_TOKENS(step_16, 16, false, true)
ALL_TOKENS(step_16_min, 16, true, true)

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
};

// Rows from `r` on, elements from `at` on, tokens [first, first + count).
static void products(const struct call *c, size_t r, size_t at, size_t first, size_t count, bool step)
{
    static const all_tokens_fn functions[2][2][2] = {{{prompt_32, prompt_32_min}, {prompt_16, prompt_16_min}},
                                                     {{step_32, step_32_min}, {step_16, step_16_min}}};
    const struct hearth_type_info *info = c->info;
    const struct shape *shape = c->format->shape;
    const size_t rows = c->n_rows - r < ROWS ? c->n_rows - r : ROWS,
                 n = c->k - at < DEPTH ? c->k - at : DEPTH;
    const size_t group_bytes = (size_t)shape->unit * LANES / info->block_elems * info->block_bytes;
    c->format->fill(&c->scratch->panel, c->w + r * c->w_stride + at / info->block_elems * info->block_bytes,
                    c->w_stride, rows, n / info->block_elems * info->block_bytes, group_bytes);
    const struct stretch x = {c->x + first * c->x_stride, c->x_stride, hearth_acts_padded(c->k), at};
    functions[step][shape->unit == 16][shape->has_min](c->out + first * c->out_stride + r, c->out_stride,
                                                       rows, at == 0, c->scratch, n / shape->unit, x, count);
}

// All rows against one stretch of the activations, which so stays in the second cache, before the next.
static void prompt(const struct call *c)
{
    for (size_t first = 0; first < c->n_tokens; first += PROMPT_TOKENS) {
        const size_t count = c->n_tokens - first < PROMPT_TOKENS ? c->n_tokens - first : PROMPT_TOKENS;
        for (size_t at = 0; at < c->k; at += DEPTH)
            for (size_t r = 0; r < c->n_rows; r += ROWS)
                products(c, r, at, first, count, false);
    }
}

static void step(const struct call *c)
{
    for (size_t first = 0; first < c->n_tokens; first += STEP_TOKENS) {
        const size_t count = c->n_tokens - first < STEP_TOKENS ? c->n_tokens - first : STEP_TOKENS;
        for (size_t r = 0; r < c->n_rows; r += ROWS) {
            for (size_t lane = 0; lane < LANES; lane++)
                memset(c->scratch->acc[lane], 0, count * sizeof c->scratch->acc[lane][0]);
            for (size_t at = 0; at < c->k; at += DEPTH)
                products(c, r, at, first, count, true);
            sum_lanes(c->out + first * c->out_stride + r, c->out_stride, c->n_rows - r, c->scratch->acc,
                      count);
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
        prompt(&(struct call){hearth_type_info(HEARTH_TYPE_##type), &formats[HEARTH_TYPE_##type], out, w, x, \
                              out_stride, w_stride, x_stride, k, n_rows, n_tokens, scratch});                \
    }
HEARTH_UNITS_AVX512(FORMAT)

static const struct format formats[HEARTH_TYPE_END] = {
#define ENTER(type, unpack, shape) [HEARTH_TYPE_##type] = {&shape, fill_##type},
    HEARTH_UNITS_AVX512(ENTER)
#undef ENTER
};

void hearth_step_panel_avx512(uint32_t type, float *out, size_t out_stride, const void *w, size_t w_stride,
                              size_t k, size_t n_rows, const void *x, size_t x_stride, size_t n_tokens,
                              void *scratch)
{
    step(&(struct call){hearth_type_info(type), &formats[type], out, w, x, out_stride, w_stride, x_stride, k,
                        n_rows, n_tokens, scratch});
}

void hearth_kernels_init_panel_avx512(struct hearth_kernels *t)
{
#define ENTER(type, unpack, shape) t->prompt[HEARTH_TYPE_##type] = prompt_##type;
    HEARTH_UNITS_AVX512(ENTER)
#undef ENTER
}
