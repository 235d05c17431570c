// SPDX-License-Identifier: MIT
// STEP and PROMPT products of plain numbers (F32, F16, BF16), over the 16 lanes of instruction_set.h;
// included by PROCESSOR/plain_LEVEL.c after its lanes16.h.
#include "kernels/variants.h"

INLINE const float *token_of(const void *x, size_t x_stride, size_t t)
{
    return (const float *)(const void *)((const uint8_t *)x + t * x_stride);
}

INLINE vec v_load_f32(const void *p)
{
    return v_load(p);
}

typedef vec (*v_load_fn)(const void *p);

// ---- STEP class
//
// Lanes are elements. Four rows and up to four tokens at a time share their loads and hide the latency of the
// fma chains; what is left of a row is padded with zeros.

#if F_REGISTERS >= 32
#define STEP_TOKENS 4
#else
#define STEP_TOKENS 1
#endif

// `rows` is 1 to 4 and `tokens` 1 to STEP_TOKENS, constants after inlining.
INLINE void step_block(float *out, size_t out_stride, const uint8_t *w, size_t w_stride, size_t k,
                       size_t rows, const void *x, size_t x_stride, size_t tokens, size_t width, load_fn load)
{
    f32x16 acc[STEP_TOKENS][4];
    for (size_t t = 0; t < tokens; t++)
        acc[t][0] = acc[t][1] = acc[t][2] = acc[t][3] = f_zero();
    size_t i = 0;
    for (; i + LANES <= k; i += LANES) {
        f32x16 at[STEP_TOKENS];
        for (size_t t = 0; t < tokens; t++)
            at[t] = f_load(token_of(x, x_stride, t) + i);
        for (size_t r = 0; r < rows; r++) {
            const f32x16 v = load(w + r * w_stride + i * width);
            for (size_t t = 0; t < tokens; t++)
                acc[t][r] = f_fma(v, at[t], acc[t][r]);
        }
    }
    if (i < k) {
        f32x16 at[STEP_TOKENS];
        for (size_t t = 0; t < tokens; t++)
            at[t] = f_load_part(token_of(x, x_stride, t) + i, k - i);
        for (size_t r = 0; r < rows; r++) {
            uint8_t part[LANES * 4] = {0};
            memcpy(part, w + r * w_stride + i * width, (k - i) * width);
            const f32x16 v = load(part);
            for (size_t t = 0; t < tokens; t++)
                acc[t][r] = f_fma(v, at[t], acc[t][r]);
        }
    }
    for (size_t t = 0; t < tokens; t++) {
        if (rows == 4)
            f_sum4(out + t * out_stride, acc[t][0], acc[t][1], acc[t][2], acc[t][3]);
        else
            for (size_t r = 0; r < rows; r++)
                out[t * out_stride + r] = f_sum(acc[t][r]);
    }
}

INLINE void step_rows(float *out, size_t out_stride, const uint8_t *w, size_t w_stride, size_t k, size_t rows,
                      const uint8_t *x, size_t x_stride, size_t n_tokens, size_t width, load_fn load)
{
    size_t t = 0;
#define TOKENS(n)                                                                                            \
    for (; n <= STEP_TOKENS && t + n <= n_tokens; t += n)                                                    \
        step_block(out + t * out_stride, out_stride, w, w_stride, k, rows, x + t * x_stride, x_stride, n,    \
                   width, load);
    TOKENS(4)
    TOKENS(2)
    TOKENS(1)
#undef TOKENS
}

INLINE void step(float *out, size_t out_stride, const uint8_t *w, size_t w_stride, size_t k, size_t n_rows,
                 const uint8_t *x, size_t x_stride, size_t n_tokens, size_t width, load_fn load)
{
    size_t r = 0;
    for (; r + 4 <= n_rows; r += 4)
        step_rows(out + r, out_stride, w + r * w_stride, w_stride, k, 4, x, x_stride, n_tokens, width, load);
    for (; r < n_rows; r++)
        step_rows(out + r, out_stride, w + r * w_stride, w_stride, k, 1, x, x_stride, n_tokens, width, load);
}

// ---- STEP class, picked rows

#define PICKED 4 // rows side by side

// n rows (a constant after inlining) against one token.
INLINE void dot_block(float *out, const void *const *rows, int n, size_t k, const float *x, size_t width,
                      const uint8_t *const *ahead, load_fn load)
{
    f32x16 acc[PICKED];
    for (int r = 0; r < n; r++)
        acc[r] = f_zero();
    for (size_t i = 0; i < k; i += LANES) {
        const size_t some = k - i < LANES ? k - i : LANES;
        const f32x16 v = some < LANES ? f_load_part(x + i, some) : f_load(x + i);
        for (int r = 0; r < n; r++) {
            prefetch_line(ahead[r] + i * width);
            acc[r] = f_fma(f_load_some((const uint8_t *)rows[r] + i * width, some, width, load), v, acc[r]);
        }
    }
    for (int r = 0; r < n; r++)
        out[r] = f_sum(acc[r]);
}

INLINE void dot_rows(float *out, const void *const *rows, size_t n_rows, size_t k, const uint8_t *x,
                     size_t x_stride, size_t n_tokens, size_t width, load_fn load)
{
    for (size_t r = 0; r < n_rows;) {
        const size_t n = r + PICKED <= n_rows ? PICKED : 1;
        const uint8_t *ahead[PICKED];
        for (size_t i = 0; i < n; i++)
            ahead[i] = rows[r + n + i < n_rows ? r + n + i : n_rows - 1];
        for (size_t t = 0; t < n_tokens; t++) {
            const float *token = (const float *)(const void *)(x + t * x_stride);
            if (n == PICKED)
                dot_block(out + t * n_rows + r, rows + r, PICKED, k, token, width, ahead, load);
            else
                dot_block(out + t * n_rows + r, rows + r, 1, k, token, width, ahead, load);
        }
        r += n;
    }
}

// ---- PROMPT class
//
// A panel of rows is transposed so that a lane is a row, and stays in the L1 cache while all tokens go
// past it. Between panels an output's accumulator waits in `out`.

#define ROWS  (2 * VEC) // of a panel
#define DEPTH 256       // elements of a panel
// Tokens whose stretch of DEPTH elements stays in the L2 cache.
#define PROMPT_TOKENS 264
#if V_REGISTERS >= 32
#define TOGETHER 12
#else
#define TOGETHER 6
#endif
// The same with t = 0 to 11; compilers leave arrays of so many registers in memory.
#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

// n tokens (a constant after inlining) against `depth` elements of the panel.
INLINE void prompt_tokens(float *out, size_t out_stride, size_t rows, bool first, const float *panel,
                          size_t depth, const uint8_t *x, size_t x_stride, size_t n)
{
    float acc[TOGETHER][ROWS] = {{0}};
    if (!first)
        for (size_t t = 0; t < n; t++)
            memcpy(acc[t], out + t * out_stride, rows * sizeof acc[t][0]);
#define START(t) vec a##t = v_load(acc[t % TOGETHER]), b##t = v_load(acc[t % TOGETHER] + VEC);
    TWELVE(START)
#undef START
    for (size_t i = 0; i < depth; i++) {
        const vec w0 = v_load(panel + i * ROWS), w1 = v_load(panel + i * ROWS + VEC);
#define ADD(t)                                                                                               \
    if (n > t) {                                                                                             \
        const vec v = v_set1(token_of(x, x_stride, t)[i]);                                                   \
        a##t = v_fma(w0, v, a##t);                                                                           \
        b##t = v_fma(w1, v, b##t);                                                                           \
    }
        TWELVE(ADD)
#undef ADD
    }
#define FINISH(t)                                                                                            \
    if (n > t) {                                                                                             \
        v_store(acc[t % TOGETHER], a##t);                                                                    \
        v_store(acc[t % TOGETHER] + VEC, b##t);                                                              \
    }
    TWELVE(FINISH)
#undef FINISH
    for (size_t t = 0; t < n; t++)
        memcpy(out + t * out_stride, acc[t], rows * sizeof acc[t][0]);
}

// The rows that are missing repeat the last one.
INLINE void fill_panel(float *panel, const uint8_t *w, size_t w_stride, size_t rows, size_t depth,
                       size_t width, v_load_fn load)
{
    for (size_t half = 0; half < 2; half++)
        for (size_t i = 0; i < depth; i += VEC) {
            const size_t rest = depth - i < VEC ? depth - i : VEC;
            vec z[VEC];
            for (size_t k = 0; k < VEC; k++) {
                const size_t row = half * VEC + k < rows ? half * VEC + k : rows - 1;
                const uint8_t *from = w + row * w_stride + i * width;
                uint8_t part[VEC * 4] = {0};
                if (rest < VEC)
                    from = memcpy(part, from, rest * width);
                z[k] = load(from);
            }
            v_transpose(z);
            for (size_t k = 0; k < VEC; k++)
                v_store(panel + (i + k) * ROWS + half * VEC, z[k]);
        }
}

INLINE void prompt_rows(float *out, size_t out_stride, size_t rows, bool first, const float *panel,
                        size_t depth, const uint8_t *x, size_t x_stride, size_t n_tokens)
{
    size_t t = 0;
#define TOKENS(n)                                                                                            \
    for (; n <= TOGETHER && t + n <= n_tokens; t += n)                                                       \
        prompt_tokens(out + t * out_stride, out_stride, rows, first, panel, depth, x + t * x_stride,         \
                      x_stride, n);
    TOKENS(12)
    TOKENS(6)
    TOKENS(4)
    TOKENS(2)
    TOKENS(1)
#undef TOKENS
}

INLINE void prompt(float *out, size_t out_stride, const uint8_t *w, size_t w_stride, size_t k, size_t n_rows,
                   const uint8_t *x, size_t x_stride, size_t n_tokens, float *panel, size_t width,
                   v_load_fn load)
{
    for (size_t first = 0; first < n_tokens; first += PROMPT_TOKENS)
        for (size_t at = 0; at < k; at += DEPTH)
            for (size_t r = 0; r < n_rows; r += ROWS) {
                const size_t count = n_tokens - first < PROMPT_TOKENS ? n_tokens - first : PROMPT_TOKENS;
                const size_t depth = k - at < DEPTH ? k - at : DEPTH,
                             rows = n_rows - r < ROWS ? n_rows - r : ROWS;
                fill_panel(panel, w + r * w_stride + at * width, w_stride, rows, depth, width, load);
                prompt_rows(out + first * out_stride + r, out_stride, rows, at == 0, panel, depth,
                            x + first * x_stride + at * sizeof(float), x_stride, count);
            }
}

// ---- types

static size_t scratch_bytes(size_t k)
{
    (void)k;
    return DEPTH * ROWS * sizeof(float);
}

#define PLAIN(type, width, load, v_load)                                                                     \
    static void step_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,         \
                            size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch)   \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        step(out, out_stride, w, w_stride, k, n_rows, x, x_stride, n_tokens, width, load);                   \
    }                                                                                                        \
    static void dot_rows_##type(float *out, const void *const *rows, size_t n_rows, size_t k, const void *x, \
                                size_t x_stride, size_t n_tokens, void *scratch)                             \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        dot_rows(out, rows, n_rows, k, x, x_stride, n_tokens, width, load);                                  \
    }                                                                                                        \
    static void prompt_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,       \
                              size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch) \
    {                                                                                                        \
        prompt(out, out_stride, w, w_stride, k, n_rows, x, x_stride, n_tokens, scratch, width, v_load);      \
    }
PLAIN(F32, 4, f_load_f32, v_load_f32)
PLAIN(F16, 2, f_load_f16, v_load_f16)
PLAIN(BF16, 2, f_load_bf16, v_load_bf16)

static void init_plain(struct hearth_kernels *t)
{
    HEARTH_ENTER_PLAIN(t)
    hearth_kernels_raise_scratch(t, scratch_bytes);
}
