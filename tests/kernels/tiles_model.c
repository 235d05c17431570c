// SPDX-License-Identifier: MIT
// AMX tiles in plain C (tiles_model.h).
#include "tiles_model.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/x86/tiles_amx.h"

static _Thread_local struct {
    int configured;
    struct tile_shapes shapes;
    uint8_t data[N_TILES][TILE_ROWS][TILE_BYTES];
} state;

static atomic_ullong products;

__attribute__((format(printf, 1, 2), noreturn)) static void raise_exception(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("tile model: ", stdout);
    vprintf(fmt, args);
    va_end(args);
    puts("");
    fflush(stdout);
    abort();
}

// The general-protection faults of LDTILECFG with palette 1. (Palette 0 is a release, which kernels ask for
// by its own instruction.)
void tiles_configure(const struct tile_shapes *shapes)
{
    if (shapes->palette != 1)
        raise_exception("palette %d", shapes->palette);
    if (shapes->start_row)
        raise_exception("a start row");
    for (size_t i = 0; i < sizeof shapes->reserved; i++)
        if (shapes->reserved[i])
            raise_exception("a reserved byte is %d", shapes->reserved[i]);
    for (int t = 0; t < 16; t++) {
        const int rows = shapes->rows[t], bytes = shapes->row_bytes[t];
        if (rows > TILE_ROWS || bytes > TILE_BYTES || !rows != !bytes || (t >= N_TILES && rows))
            raise_exception("tile %d has %d rows of %d bytes", t, rows, bytes);
    }
    memset(&state, 0, sizeof state);
    state.shapes = *shapes;
    state.configured = 1;
}

void tiles_release(void)
{
    memset(&state, 0, sizeof state);
}

// The invalid-opcode faults that all instructions on a tile share.
static void check_tile(int t, const char *what)
{
    if (t < 0 || t >= N_TILES)
        raise_exception("%s: no tile %d", what, t);
    if (!state.configured)
        raise_exception("%s: no configuration", what);
    if (!state.shapes.rows[t])
        raise_exception("%s: tile %d is not configured", what, t);
}

void tile_zero(int t)
{
    check_tile(t, "TILEZERO");
    memset(state.data[t], 0, sizeof state.data[t]);
}

void tile_load(int t, const void *from, size_t stride)
{
    check_tile(t, "TILELOADD");
    memset(state.data[t], 0, sizeof state.data[t]);
    for (size_t r = 0; r < state.shapes.rows[t]; r++)
        memcpy(state.data[t][r], (const uint8_t *)from + r * stride, state.shapes.row_bytes[t]);
}

void tile_store(int t, void *to, size_t stride)
{
    check_tile(t, "TILESTORED");
    for (size_t r = 0; r < state.shapes.rows[t]; r++)
        memcpy((uint8_t *)to + r * stride, state.data[t][r], state.shapes.row_bytes[t]);
}

// A BF16 number, or an f32 one; the instruction takes what is not normal for zero.
static float flushed(float x)
{
    return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}
static float bf16_at(const uint8_t *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof half);
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return flushed(x);
}

static void check_product(int c, int a, int b)
{
    check_tile(c, "TDPBF16PS");
    check_tile(a, "TDPBF16PS");
    check_tile(b, "TDPBF16PS");
    const struct tile_shapes *s = &state.shapes;
    if (c == a || c == b || a == b)
        raise_exception("TDPBF16PS: tiles %d, %d, %d are not three", c, a, b);
    if (s->row_bytes[c] % 4 || s->row_bytes[a] % 4 || s->row_bytes[b] % 4)
        raise_exception("TDPBF16PS: rows that are no whole number of double words");
    if (s->rows[c] != s->rows[a] || s->row_bytes[a] / 4 != s->rows[b] || s->row_bytes[c] != s->row_bytes[b])
        raise_exception("TDPBF16PS: %d x %d, %d x %d, %d x %d do not fit each other", s->rows[c],
                        s->row_bytes[c], s->rows[a], s->row_bytes[a], s->rows[b], s->row_bytes[b]);
}

enum { COLUMNS = TILE_BYTES / 4 };

// Elements with even numbers are added up from zero, those with odd ones likewise, then both to c. All columns of a
// row at once, in a form of which compilers make vector instructions.
__attribute__((always_inline)) static inline void dot(int c, int a, int b, size_t n_pairs)
{
    const struct tile_shapes *s = &state.shapes;
    float even[TILE_ROWS][COLUMNS], odd[TILE_ROWS][COLUMNS];
    for (size_t k = 0; k < n_pairs; k++)
        for (size_t n = 0; n < COLUMNS; n++) {
            even[k][n] = bf16_at(state.data[b][k] + 4 * n);
            odd[k][n] = bf16_at(state.data[b][k] + 4 * n + 2);
        }
    for (size_t m = 0; m < s->rows[c]; m++) {
        float sum[COLUMNS] = {0}, other[COLUMNS] = {0}, row[COLUMNS];
        for (size_t k = 0; k < n_pairs; k++) {
            const float x = bf16_at(state.data[a][m] + 4 * k), y = bf16_at(state.data[a][m] + 4 * k + 2);
            for (size_t n = 0; n < COLUMNS; n++)
                sum[n] = flushed(__builtin_fmaf(x, even[k][n], sum[n]));
            for (size_t n = 0; n < COLUMNS; n++)
                other[n] = flushed(__builtin_fmaf(y, odd[k][n], other[n]));
        }
        memcpy(row, state.data[c][m], sizeof row);
        for (size_t n = 0; n < COLUMNS; n++)
            row[n] = n < s->row_bytes[b] / 4u ? flushed(flushed(row[n]) + flushed(sum[n] + other[n])) : 0;
        memcpy(state.data[c][m], row, sizeof row);
    }
}

// With instructions that nearly all processors have, fmaf() is one of them, and else a function.
__attribute__((target("avx2,fma"))) static void dot_fma(int c, int a, int b, size_t n_pairs)
{
    dot(c, a, b, n_pairs);
}

static void dot_plain(int c, int a, int b, size_t n_pairs)
{
    dot(c, a, b, n_pairs);
}

void tile_dot(int c, int a, int b)
{
    check_product(c, a, b);
    const bool fma = __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
    (fma ? dot_fma : dot_plain)(c, a, b, state.shapes.row_bytes[a] / 4u);
    for (size_t m = state.shapes.rows[c]; m < TILE_ROWS; m++)
        memset(state.data[c][m], 0, TILE_BYTES);
    atomic_fetch_add(&products, 1);
}

uint64_t tiles_model_products(void)
{
    return atomic_load(&products);
}

int tiles_model_configured(void)
{
    return state.configured;
}

const uint8_t *tiles_model_row(int t, int row)
{
    return state.data[t][row];
}
