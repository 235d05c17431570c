// SPDX-License-Identifier: MIT
// PROMPT products of block formats, AVX2.
//
// Sixteen rows of weights are unpacked into a panel in which a lane is a row: four consecutive weights of
// each row side by side, as the byte dot products want them. The panel is then used for all tokens, a few at
// a time in registers. Each output has one accumulator and one fma per unit, in ascending order (kernels.h).
#include "kernels/variants.h"
#include "kernels/x86/lanes16.h"

// Sixteen rows' next four weights each, against the same four activations.
#define MAX_TOGETHER 4

typedef struct {
    __m256i a, b, abs_a, abs_b;
} fours;
INLINE fours load_fours(const uint8_t *p)
{
    const __m256i a = _mm256_load_si256((const __m256i *)(const void *)p);
    const __m256i b = _mm256_load_si256((const __m256i *)(const void *)(p + 32));
    return (fours){a, b, _mm256_abs_epi8(a), _mm256_abs_epi8(b)};
}
// |w| * (x with w's sign) keeps pairs within 16 bits: 2 * 128 * 127 < 32768.
INLINE i32x16 dot_fours(i32x16 acc, fours w, int32_t x)
{
    const __m256i ones = _mm256_set1_epi16(1), v = _mm256_set1_epi32(x);
    acc.a = _mm256_add_epi32(
        acc.a, _mm256_madd_epi16(_mm256_maddubs_epi16(w.abs_a, _mm256_sign_epi8(v, w.a)), ones));
    acc.b = _mm256_add_epi32(
        acc.b, _mm256_madd_epi16(_mm256_maddubs_epi16(w.abs_b, _mm256_sign_epi8(v, w.b)), ones));
    return acc;
}

struct panel {
    uint8_t *q;   // [k/4][16 rows][4] weights
    float *scale; // [units][16 rows]
    float *min;   // same; only of formats with one
};

// ---- hot path
// ------------------------------------------------------------------------------------------------

INLINE int32_t word_at(const int8_t *p)
{
    int32_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

// 128 times what the high plane gave for the unit from element `at` on, plus what the low one gives.
INLINE void add_low_plane(i32x16 *dot, const struct panel *p, const struct hearth_acts *acts, size_t at,
                          size_t unit, int n)
{
    for (int t = 0; t < n; t++)
        dot[t] = i_shl(dot[t], 7);
    for (size_t i = at; i < at + unit; i += 4) {
        const fours w = load_fours(p->q + i * LANES);
        for (int t = 0; t < n; t++)
            dot[t] = dot_fours(dot[t], w, word_at(acts[t].lo + i));
    }
}

INLINE float unit_sum(const struct hearth_acts *x, size_t u, size_t unit, int planes)
{
    const int32_t *sums = planes == 2 ? x->sum : x->bias;
    const int32_t sum = unit == 32 ? sums[2 * u] + sums[2 * u + 1] : sums[u];
    return (float)(planes == 2 ? sum : sum / -128);
}

// n tokens (a constant after inlining) against the panel.
INLINE void tokens_by_panel(float *out, size_t out_stride, const struct panel *p, size_t k, size_t rows,
                            const uint8_t *x, size_t x_stride, int n, size_t unit, bool has_min, int planes)
{
    struct hearth_acts acts[MAX_TOGETHER];
    f32x16 acc[MAX_TOGETHER];
    for (int t = 0; t < n; t++) {
        acts[t] = hearth_acts_view(x + (size_t)t * x_stride, k);
        acc[t] = f_zero();
    }
    for (size_t u = 0; u < k / unit; u++) {
        i32x16 dot[MAX_TOGETHER];
        for (int t = 0; t < n; t++)
            dot[t] = i_zero();
        for (size_t i = u * unit; i < (u + 1) * unit; i += 4) {
            const fours w = load_fours(p->q + i * LANES);
            for (int t = 0; t < n; t++)
                dot[t] = dot_fours(dot[t], w, word_at(acts[t].hi + i));
        }
        if (planes == 2)
            add_low_plane(dot, p, acts, u * unit, unit, n);
        const f32x16 scale = f_load(p->scale + u * LANES);
        const f32x16 min = has_min ? f_load(p->min + u * LANES) : f_zero();
        for (int t = 0; t < n; t++) {
            const f32x16 d = f_set1((planes == 2 ? 1.0f : 128.0f) * acts[t].d[u * unit / 32]);
            acc[t] = f_fma(f_mul(scale, d), i_to_f(dot[t]), acc[t]);
            if (has_min)
                acc[t] = f_fma(f_neg(f_mul(min, d)), f_set1(unit_sum(&acts[t], u, unit, planes)), acc[t]);
        }
    }
    for (int t = 0; t < n; t++) {
        if (rows == LANES)
            f_store(out + (size_t)t * out_stride, acc[t]);
        else
            f_store_part(out + (size_t)t * out_stride, acc[t], rows);
    }
}

// Unpacks `rows` rows into the panel; missing ones become zeros.
static void fill_panel(const struct panel *p, const uint8_t *w, size_t w_stride, size_t k, size_t rows,
                       uint32_t type)
{
    enum { CHUNK = 256 };
    const struct hearth_type_info *info = hearth_type_info(type);
    for (size_t row = 0; row < LANES; row++)
        for (size_t at = 0; at < k; at += CHUNK) {
            _Alignas(64) int8_t q[CHUNK] = {0};
            float scale[CHUNK / 16] = {0}, min[CHUNK / 16] = {0};
            const size_t n = k - at < CHUNK ? k - at : CHUNK;
            if (row < rows)
                info->unpack(w + row * w_stride + at / info->block_elems * info->block_bytes, q, scale, min,
                             n);
            for (size_t i = 0; i < n; i += 4)
                memcpy(p->q + (at + i) * LANES + row * 4, q + i, 4);
            const size_t unit = at / info->unit_elems;
            for (size_t u = 0; u < n / info->unit_elems; u++) {
                p->scale[(unit + u) * LANES + row] = scale[u];
                if (info->has_min)
                    p->min[(unit + u) * LANES + row] = min[u];
            }
        }
}

INLINE void prompt(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k, size_t n_rows,
                   const void *x, size_t x_stride, size_t n_tokens, void *scratch, uint32_t type, size_t unit,
                   bool has_min)
{
    const int planes = hearth_prompt_planes(type);
    struct panel p = {.q = scratch};
    p.scale = (float *)(void *)(p.q + k * LANES);
    p.min = p.scale + k / unit * LANES;
    for (size_t r = 0; r < n_rows; r += LANES) {
        const size_t rows = n_rows - r < LANES ? n_rows - r : LANES;
        fill_panel(&p, (const uint8_t *)w + r * w_stride, w_stride, k, rows, type);
        const uint8_t *from = x;
        float *to = out + r;
        size_t t = 0;
        for (; t + MAX_TOGETHER <= n_tokens; t += MAX_TOGETHER)
            tokens_by_panel(to + t * out_stride, out_stride, &p, k, rows, from + t * x_stride, x_stride,
                            MAX_TOGETHER, unit, has_min, planes);
        for (; t < n_tokens; t++)
            tokens_by_panel(to + t * out_stride, out_stride, &p, k, rows, from + t * x_stride, x_stride, 1,
                            unit, has_min, planes);
    }
}

#define PROMPT(type, unit, has_min)                                                                          \
    static void prompt_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,       \
                              size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch) \
    {                                                                                                        \
        prompt(out, out_stride, w, w_stride, k, n_rows, x, x_stride, n_tokens, scratch, HEARTH_TYPE_##type,  \
               unit, has_min);                                                                               \
    }

#define FORMATS(X)                                                                                           \
    X(Q4_0, 32, false)                                                                                       \
    X(Q4_1, 32, true)                                                                                        \
    X(Q5_0, 32, false)                                                                                       \
    X(Q5_1, 32, true)                                                                                        \
    X(Q8_0, 32, false)                                                                                       \
    X(Q2_K, 16, true)                                                                                        \
    X(Q3_K, 16, false)                                                                                       \
    X(Q4_K, 32, true)                                                                                        \
    X(Q5_K, 32, true)                                                                                        \
    X(Q6_K, 16, false)                                                                                       \
    X(IQ4_NL, 32, false)                                                                                     \
    X(IQ4_XS, 32, false)                                                                                     \
    X(MXFP4, 32, false)

FORMATS(PROMPT)

void hearth_kernels_init_prompt_avx2(struct hearth_kernels *t)
{
#define ENTER(type, unit, has_min) t->prompt[HEARTH_TYPE_##type] = prompt_##type;
    FORMATS(ENTER)
#undef ENTER
}
