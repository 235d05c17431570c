// SPDX-License-Identifier: MIT
// Weighted sums of rows, over the 16 lanes of instruction_set.h; included by PROCESSOR/axpy_LEVEL.c after its
// lanes16.h and after it has defined, for block formats:
//
//   struct unpacked, 16 units of a row: int8_t q[512] in slots of 16, float scale[16], min[16]
//   a `format` type that describes a block format, and of its values
//   format_unit(f), format_has_min(f)    elements of a unit
//   slot_piece(f, i), slot_lane(f, i)    which 16 elements slot i holds, and where their scale is
//   unpack_fn                            unpacks whole blocks, in a way of its own
//   unpack_units(to, src, p, unpack, f)  by means of it fills a struct unpacked, with scales multiplied by p
//   GROUP_BYTES                          of 16 units, at most
//   BLOCK_FORMATS(X)                     X(type, unpack_fn, shape) for each format; &shape is its `format`
#include "kernels/variants.h"

// Rows that are added together.
#define TOGETHER 4
// How many bytes of rows are asked for before they are added, if a batch has no more.
#define AHEAD_BYTES 5000

// ---- axpy: out += p[i] * rows[i]

// Rows with p != 0, TOGETHER at a time, and those that come after them.
struct batch {
    const uint8_t *rows[TOGETHER];
    float p[TOGETHER];
    int n;
};

INLINE size_t next_batch(struct batch *b, const void *const *rows, const float *p, size_t at, size_t n)
{
    for (b->n = 0; at < n && b->n < TOGETHER; at++)
        if (p[at] != 0.0f) {
            b->rows[b->n] = rows[at];
            b->p[b->n++] = p[at];
        }
    return at;
}

// Walks a list of rows in batches: `now` is to be added, `later` to be fetched meanwhile. Short rows are fetched
// several batches before their turn: one batch of them takes less time than memory does.
struct walk {
    struct batch now, later;
    const void *const *rows;
    const float *p;
    size_t n, at, far; // rows, and those that `now` and `later` have reached
};

INLINE bool walk_on(struct walk *w)
{
    w->at = next_batch(&w->now, w->rows, w->p, w->at, w->n);
    w->far = next_batch(&w->later, w->rows, w->p, w->far, w->n);
    return w->now.n > 0;
}

INLINE struct walk begin_walk(const void *const *rows, const float *p, size_t n, size_t row_bytes)
{
    struct walk w = {.rows = rows, .p = p, .n = n};
    for (size_t bytes = 0; bytes < AHEAD_BYTES && w.far < n; bytes += TOGETHER * row_bytes) {
        w.far = next_batch(&w.later, rows, p, w.far, n);
        for (int r = 0; r < w.later.n; r++)
            prefetch_end(w.later.rows[r], row_bytes);
    }
    return w;
}

// One group of up to 16 units of n rows (a constant after inlining). src[i] are whole groups.
INLINE void axpy_group(float *out, size_t elements, const uint8_t *const *src, const float *p, int n,
                       unpack_fn unpack, format f)
{
    struct unpacked t[TOGETHER];
    for (int r = 0; r < n; r++)
        unpack_units(&t[r], src[r], p[r], unpack, f);
    for (size_t i = 0; i < format_unit(f); i++) {
        const size_t at = slot_piece(f, i) * LANES, lane = slot_lane(f, i);
        if (at >= elements)
            continue;
        f32x16 acc = f_load(out + at);
        for (int r = 0; r < n; r++) {
            acc = f_fma(f_set1(t[r].scale[lane]), i_to_f(i_load_i8(t[r].q + i * LANES)), acc);
            if (format_has_min(f))
                acc = f_fma(f_set1(-p[r]), f_set1(t[r].min[lane]), acc);
        }
        f_store(out + at, acc);
    }
}

INLINE void axpy_batch(float *out, const struct batch *b, const struct batch *later, size_t n,
                       size_t group_bytes, size_t row_bytes, unpack_fn unpack, format f, int rows)
{
    const size_t elements = format_unit(f) * LANES;
    size_t at = 0, byte = 0;
    for (; at + elements <= n; at += elements, byte += group_bytes) {
        const uint8_t *src[TOGETHER];
        for (int r = 0; r < rows; r++)
            src[r] = b->rows[r] + byte;
        for (int r = 0; r < later->n; r++)
            prefetch(later->rows[r] + byte, group_bytes);
        axpy_group(out + at, elements, src, b->p, rows, unpack, f);
    }
    for (int r = 0; r < later->n; r++)
        prefetch_end(later->rows[r] + byte, row_bytes - byte);
    if (at < n) {
        uint8_t padded[TOGETHER][GROUP_BYTES] = {{0}};
        const uint8_t *src[TOGETHER];
        for (int r = 0; r < rows; r++)
            src[r] = memcpy(padded[r], b->rows[r] + byte, row_bytes - byte);
        axpy_group(out + at, n - at, src, b->p, rows, unpack, f);
    }
}

INLINE void axpy_rows(float *out, const void *const *rows, size_t n_rows, size_t n, const float *p,
                      uint32_t type, unpack_fn unpack, format f)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t group_bytes = format_unit(f) * LANES / info->block_elems * info->block_bytes;
    const size_t row_bytes = n / info->block_elems * info->block_bytes;
    for (struct walk w = begin_walk(rows, p, n_rows, row_bytes); walk_on(&w);) {
        if (w.now.n == TOGETHER) {
            axpy_batch(out, &w.now, &w.later, n, group_bytes, row_bytes, unpack, f, TOGETHER);
            continue;
        }
        for (int r = 0; r < w.now.n; r++) {
            const struct batch one = {{w.now.rows[r]}, {w.now.p[r]}, 1}, none = {.n = 0};
            axpy_batch(out, &one, &none, n, group_bytes, row_bytes, unpack, f, 1);
        }
    }
}

// ---- prompts
//
// A panel of rows becomes f32; each token then adds those of them whose p is not 0, a strip of columns in
// registers at a time. Between panels an output's accumulator waits in `out`.

#define PANEL_ROWS 128
#define STRIP      (F_REGISTERS / 2) // registers of 16 columns

static size_t scratch_bytes(size_t n_rows)
{
    (void)n_rows;
    return PANEL_ROWS * HEARTH_COLUMNS * sizeof(float);
}

// strip registers (a constant after inlining) of columns; list: the panel's rows that count, with their p.
INLINE void add_strip(float *out, const float *panel, const uint8_t *list, const float *p, size_t count,
                      size_t strip)
{
    f32x16 acc[STRIP];
    for (size_t i = 0; i < strip; i++)
        acc[i] = f_load(out + i * LANES);
    for (size_t k = 0; k < count; k++) {
        const float *row = panel + (size_t)list[k] * HEARTH_COLUMNS;
        const f32x16 by = f_set1(p[k]);
        for (size_t i = 0; i < strip; i++)
            acc[i] = f_fma(by, f_load(row + i * LANES), acc[i]);
    }
    for (size_t i = 0; i < strip; i++)
        f_store(out + i * LANES, acc[i]);
}

// One token, `rows` rows of the panel, n columns.
INLINE void add_panel(float *out, const float *panel, size_t rows, size_t n, const float *p)
{
    uint8_t list[PANEL_ROWS];
    float used[PANEL_ROWS];
    size_t count = 0;
    for (size_t r = 0; r < rows; r++) {
        list[count] = (uint8_t)r;
        used[count] = p[r];
        count += p[r] != 0.0f;
    }
    size_t at = 0;
    for (; at + STRIP * LANES <= n; at += STRIP * LANES)
        add_strip(out + at, panel + at, list, used, count, STRIP);
    for (; at + LANES <= n; at += LANES)
        add_strip(out + at, panel + at, list, used, count, 1);
    if (at < n) { // columns of the panel behind n are zeros
        float part[LANES] = {0};
        memcpy(part, out + at, (n - at) * sizeof *part);
        add_strip(part, panel + at, list, used, count, 1);
        memcpy(out + at, part, (n - at) * sizeof *part);
    }
}

// A stretch of n <= HEARTH_COLUMNS elements of a row in a block format, as f32.
INLINE void decode_blocks(float *to, const uint8_t *src, size_t n, uint32_t type, unpack_fn unpack, format f)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t elements = format_unit(f) * LANES;
    uint8_t padded[GROUP_BYTES] = {0};
    if (n < elements)
        src = memcpy(padded, src, n / info->block_elems * info->block_bytes);
    struct unpacked t;
    unpack_units(&t, src, 1.0f, unpack, f);
    for (size_t i = 0; i < format_unit(f); i++) {
        const size_t at = slot_piece(f, i) * LANES, lane = slot_lane(f, i);
        if (at >= HEARTH_COLUMNS)
            continue;
        f32x16 v = f_mul(f_set1(t.scale[lane]), i_to_f(i_load_i8(t.q + i * LANES)));
        if (format_has_min(f))
            v = f_sub(v, f_set1(t.min[lane]));
        f_store(to + at, v);
    }
}

// What a panel's rows are made with: blocks, or plain numbers.
typedef void (*decode_fn)(float *to, const uint8_t *row, size_t first, size_t n);

INLINE void prompt_t(float *out, size_t out_stride, const void *w, size_t w_stride, size_t first, size_t n,
                     size_t n_rows, const float *p, size_t p_stride, size_t n_tokens, float *panel,
                     decode_fn decode)
{
    for (size_t at = 0; at < n; at += HEARTH_COLUMNS) {
        const size_t columns = n - at < HEARTH_COLUMNS ? n - at : HEARTH_COLUMNS;
        for (size_t r = 0; r < n_rows; r += PANEL_ROWS) {
            const size_t rows = n_rows - r < PANEL_ROWS ? n_rows - r : PANEL_ROWS;
            for (size_t i = 0; i < rows; i++)
                decode(panel + i * HEARTH_COLUMNS, (const uint8_t *)w + (r + i) * w_stride, first + at,
                       columns);
            for (size_t t = 0; t < n_tokens; t++)
                add_panel(out + t * out_stride + at, panel, rows, columns, p + t * p_stride + r);
        }
    }
}

// ---- plain numbers

INLINE void axpy_plain_batch(float *out, const struct batch *b, const struct batch *later, size_t n,
                             size_t width, load_fn load, int rows)
{
    for (size_t i = 0; i < n; i += LANES) {
        const size_t some = n - i < LANES ? n - i : LANES;
        f32x16 acc = some < LANES ? f_load_part(out + i, some) : f_load(out + i);
        for (int r = 0; r < later->n; r++)
            prefetch_line(later->rows[r] + i * width);
        for (int r = 0; r < rows; r++)
            acc = f_fma(f_set1(b->p[r]), f_load_some(b->rows[r] + i * width, some, width, load), acc);
        if (some < LANES)
            f_store_part(out + i, acc, some);
        else
            f_store(out + i, acc);
    }
}

INLINE void axpy_plain(float *out, const void *const *rows, size_t n_rows, size_t n, const float *p,
                       size_t width, load_fn load)
{
    for (struct walk w = begin_walk(rows, p, n_rows, n * width); walk_on(&w);) {
        if (w.now.n == TOGETHER) {
            axpy_plain_batch(out, &w.now, &w.later, n, width, load, TOGETHER);
            continue;
        }
        for (int r = 0; r < w.now.n; r++) {
            const struct batch one = {{w.now.rows[r]}, {w.now.p[r]}, 1}, none = {.n = 0};
            axpy_plain_batch(out, &one, &none, n, width, load, 1);
        }
    }
}

#define PLAIN(TYPE, width, load)                                                                             \
    static void axpy_rows_##TYPE(float *out, const void *const *rows, size_t n_rows, size_t n,               \
                                 const float *p)                                                             \
    {                                                                                                        \
        axpy_plain(out, rows, n_rows, n, p, width, load);                                                    \
    }                                                                                                        \
    INLINE void decode_##TYPE(float *to, const uint8_t *row, size_t first, size_t n)                         \
    {                                                                                                        \
        for (size_t i = 0; i < n; i += LANES)                                                                \
            f_store(to + i, f_load_some(row + (first + i) * (width), n - i, width, load));                   \
    }                                                                                                        \
    static void prompt_t_##TYPE(float *out, size_t out_stride, const void *w, size_t w_stride, size_t first, \
                                size_t n, size_t n_rows, const float *p, size_t p_stride, size_t n_tokens,   \
                                void *scratch)                                                               \
    {                                                                                                        \
        prompt_t(out, out_stride, w, w_stride, first, n, n_rows, p, p_stride, n_tokens, scratch,             \
                 decode_##TYPE);                                                                             \
    }
PLAIN(F32, 4, f_load_f32)
PLAIN(F16, 2, f_load_f16)
PLAIN(BF16, 2, f_load_bf16)

// ---- block formats

#define BLOCKS(TYPE, unpack, shape)                                                                          \
    static void axpy_rows_##TYPE(float *out, const void *const *rows, size_t n_rows, size_t n,               \
                                 const float *p)                                                             \
    {                                                                                                        \
        axpy_rows(out, rows, n_rows, n, p, HEARTH_TYPE_##TYPE, unpack, &shape);                              \
    }                                                                                                        \
    INLINE void decode_##TYPE(float *to, const uint8_t *row, size_t first, size_t n)                         \
    {                                                                                                        \
        const struct hearth_type_info *info = hearth_type_info(HEARTH_TYPE_##TYPE);                          \
        decode_blocks(to, row + first / info->block_elems * info->block_bytes, n, HEARTH_TYPE_##TYPE,        \
                      unpack, &shape);                                                                       \
    }                                                                                                        \
    static void prompt_t_##TYPE(float *out, size_t out_stride, const void *w, size_t w_stride, size_t first, \
                                size_t n, size_t n_rows, const float *p, size_t p_stride, size_t n_tokens,   \
                                void *scratch)                                                               \
    {                                                                                                        \
        prompt_t(out, out_stride, w, w_stride, first, n, n_rows, p, p_stride, n_tokens, scratch,             \
                 decode_##TYPE);                                                                             \
    }
BLOCK_FORMATS(BLOCKS)

// ---- rows of a matrix

// out += sum of p[r] * row r, a stretch of up to 64 outputs in registers at a time.
#define AXPY_PLAIN(TYPE, width, load)                                                                        \
    static void axpy_##TYPE(float *out, const void *w, size_t w_stride, size_t n, size_t n_rows,             \
                            const float *p)                                                                  \
    {                                                                                                        \
        const uint8_t *base = w;                                                                             \
        size_t at = 0;                                                                                       \
        for (; at + 4 * LANES <= n; at += 4 * LANES) {                                                       \
            f32x16 acc[4];                                                                                   \
            for (size_t k = 0; k < 4; k++)                                                                   \
                acc[k] = f_load(out + at + k * LANES);                                                       \
            for (size_t r = 0; r < n_rows; r++) {                                                            \
                if (p[r] == 0.0f)                                                                            \
                    continue;                                                                                \
                const f32x16 by = f_set1(p[r]);                                                              \
                for (size_t k = 0; k < 4; k++)                                                               \
                    acc[k] = f_fma(by, load(base + r * w_stride + (at + k * LANES) * (width)), acc[k]);      \
            }                                                                                                \
            for (size_t k = 0; k < 4; k++)                                                                   \
                f_store(out + at + k * LANES, acc[k]);                                                       \
        }                                                                                                    \
        for (; at < n; at += LANES) {                                                                        \
            const size_t rest = n - at < LANES ? n - at : LANES;                                             \
            f32x16 acc = f_load_part(out + at, rest);                                                        \
            for (size_t r = 0; r < n_rows; r++) {                                                            \
                if (p[r] == 0.0f)                                                                            \
                    continue;                                                                                \
                uint8_t part[LANES * 4] = {0};                                                               \
                memcpy(part, base + r * w_stride + at * (width), rest * (width));                            \
                acc = f_fma(f_set1(p[r]), load(part), acc);                                                  \
            }                                                                                                \
            f_store_part(out + at, acc, rest);                                                               \
        }                                                                                                    \
    }

AXPY_PLAIN(F32, 4, f_load_f32)
AXPY_PLAIN(F16, 2, f_load_f16)
AXPY_PLAIN(BF16, 2, f_load_bf16)

// Q8_0: 34 bytes for 32 elements, a half-precision scale first.
static void axpy_Q8_0(float *out, const void *w, size_t w_stride, size_t n, size_t n_rows, const float *p)
{
    for (size_t at = 0; at < n; at += 32) {
        f32x16 acc[2] = {f_load(out + at), f_load(out + at + LANES)};
        for (size_t r = 0; r < n_rows; r++) {
            if (p[r] == 0.0f)
                continue;
            const uint8_t *block = (const uint8_t *)w + r * w_stride + at / 32 * 34;
            const f32x16 by = f_set1(p[r] * half_at(block));
            const int8_t *q = (const int8_t *)block + 2;
            acc[0] = f_fma(by, i_to_f(i_load_i8(q)), acc[0]);
            acc[1] = f_fma(by, i_to_f(i_load_i8(q + LANES)), acc[1]);
        }
        f_store(out + at, acc[0]);
        f_store(out + at + LANES, acc[1]);
    }
}

static void init_axpy(struct hearth_kernels *t)
{
    hearth_kernels_raise_scratch(t, scratch_bytes);
#define ENTER(TYPE)                                                                                          \
    t->axpy_rows[HEARTH_TYPE_##TYPE] = axpy_rows_##TYPE;                                                     \
    t->prompt_t[HEARTH_TYPE_##TYPE] = prompt_t_##TYPE;
#define ENTER_BLOCKS(TYPE, unpack, shape) ENTER(TYPE)
#define ENTER_MATRIX(TYPE)                t->axpy[HEARTH_TYPE_##TYPE] = axpy_##TYPE;
    HEARTH_PLAIN_TYPES(ENTER)
    BLOCK_FORMATS(ENTER_BLOCKS)
    HEARTH_PLAIN_TYPES(ENTER_MATRIX)
    ENTER_MATRIX(Q8_0)
#undef ENTER_MATRIX
#undef ENTER_BLOCKS
#undef ENTER
}
