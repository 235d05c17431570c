// SPDX-License-Identifier: MIT
// PROMPT products of many tokens by a device's integer matrix units: the numbers of products.cl's prompt kernels, which
// stand here for devices that have no such units.
//
// A group has 128 rows and 64 tokens; each of its 8 warps has 32 rows and 32 tokens. STAGE units of these lie in local
// memory while the next ones are on their way.

#define MATRIX_GROUP  256
#define MATRIX_ROWS   128
#define MATRIX_TOKENS 64
#define STAGE         4

#if defined(HEARTH_PTX) && HEARTH_PTX >= 80
// Words between rows, and between tokens, of local memory: four more than there are, so that all that a warp reads at
// once lies in different banks.
#define ROW_STRIDE(bits, unit) (STAGE * UNIT_WORDS(bits, unit) + 4)
#define TOKEN_STRIDE(unit)     (STAGE * (unit) / 4 + 4)

struct stage {
    __local uint *w, *hi, *lo;
    __local float *scale, *low, *d; // [STAGE][rows or tokens]
    __local int *sum;
};

#define MATRIX_MEMORY(bits, unit)                                                                                     \
    __local uint w[MATRIX_ROWS * ROW_STRIDE(bits, unit)] __attribute__((aligned(16)));                                \
    __local uint hi[MATRIX_TOKENS * TOKEN_STRIDE(unit)] __attribute__((aligned(16)));                                 \
    __local uint lo[MATRIX_TOKENS * TOKEN_STRIDE(unit)] __attribute__((aligned(16)));                                 \
    __local float scale[STAGE * MATRIX_ROWS], low[STAGE * MATRIX_ROWS], d[STAGE * MATRIX_TOKENS];                     \
    __local int sum[STAGE * MATRIX_TOKENS];                                                                           \
    struct stage stage;                                                                                               \
    stage.w = w;                                                                                                      \
    stage.hi = hi;                                                                                                    \
    stage.lo = lo;                                                                                                    \
    stage.scale = scale;                                                                                              \
    stage.low = low;                                                                                                  \
    stage.d = d;                                                                                                      \
    stage.sum = sum;

// What an item brings of a stage.
#define SCALES (STAGE * MATRIX_ROWS / MATRIX_GROUP)

struct load {
    uint4 w[4], hi[2], lo[2];
    uint scale[SCALES], low[SCALES]; // bits
    float d;
    int sum, sum_of_half; // of units of 32: of each half
};

// Of values of four words that lie in local memory side by side with `stride`, where an item has some: which.
INLINE int place_of(int number, int each, int stride)
{
    return number / each * stride + number % each * 4;
}

// All weights of a form are integers with a sign: those of 4 bits have their base.
INLINE uint with_sign(uint nibbles, int base)
{
    return ((nibbles | 0x80808080) + (uint)base * 0x01010101) ^ 0x80808080;
}

// dots += a times b: 16 rows of a unit, 8 tokens; all items of a warp have parts of them. Units of 32 and of 16 elements.
#ifndef MULTIPLY_32
#define MULTIPLY_32(d, a, b)                                                                                             \
    __asm__("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"      \
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                                             \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define MULTIPLY_16(d, a, b)                                                                                             \
    __asm__("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"               \
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                                             \
            : "r"(a[0]), "r"(a[1]), "r"(b[0]))
#endif

INLINE void multiply(int *dots, const uint *a, const uint *b, const int unit)
{
    if (unit == 32)
        MULTIPLY_32(dots, a, b);
    else
        MULTIPLY_16(dots, a, b);
}

// Groups: rows, tokens.
INLINE void matrix_body(struct stage s, PRODUCT_ARGS, const int bits, const int unit, const int is_half)
{
    const int words = UNIT_WORDS(bits, unit), row_stride = ROW_STRIDE(bits, unit), token_stride = TOKEN_STRIDE(unit);
    // Values of four words, of a row, of a token, and what an item brings of them.
    const int row_each = STAGE * words / 4, token_each = STAGE * unit / 16;
    const int row_values = row_each * MATRIX_ROWS / MATRIX_GROUP;
    const int token_values = token_each * MATRIX_TOKENS / MATRIX_GROUP;
    const struct tile tile = tile_of((int)get_group_id(1), MATRIX_TOKENS, n_tokens, tiles, has_tiles);
    CHOOSE_MATRIX(MATRIX_ROWS)
    if (!tile.n)
        return;
    const int first_row = group * MATRIX_ROWS, first_token = tile.first;
    const int last_row = n_rows - 1 - first_row, last_token = tile.n - 1;
    // That of all matrices' rows which is this one's first.
    const size_t begin = tile.matrix * (size_t)n_rows + (size_t)first_row;
    const int lane = ITEM % 32, g = lane / 4, t = lane % 4;
    const int warp_row = ITEM / 32 % 4 * 32, warp_token = ITEM / 128 * 32;
    // Rows and tokens that there are not are the last ones once more.
    const int row_place = ITEM % MATRIX_ROWS, row_unit = ITEM / MATRIX_ROWS * SCALES;
    const size_t own_row = begin + (size_t)(row_place < last_row ? row_place : last_row);
    const int own_token = ITEM % MATRIX_TOKENS, token_unit = ITEM / MATRIX_TOKENS;
    const struct token own =
        token_of(acts + (size_t)(first_token + (own_token < last_token ? own_token : last_token)) * (size_t)acts_bytes,
                 padded);
    float acc[2][4][4];
    UNROLL for (int m = 0; m < 2; m++)
        UNROLL for (int b = 0; b < 4; b++)
            UNROLL for (int i = 0; i < 4; i++)
                acc[m][b][i] = 0.0f;
    struct load next;
    for (int u0 = -STAGE; u0 < n_units; u0 += STAGE) {
        const int ahead = u0 + STAGE;
        if (u0 >= 0) {
            SYNC; // the stage before is used
            UNROLL for (int r = 0; r < row_values; r++)
                *(__local uint4 *)(s.w + place_of(ITEM + r * MATRIX_GROUP, row_each, row_stride)) = next.w[r];
            UNROLL for (int r = 0; r < token_values; r++) {
                const int to = place_of(ITEM + r * MATRIX_GROUP, token_each, token_stride);
                *(__local uint4 *)(s.hi + to) = next.hi[r];
                if (planes == 2)
                    *(__local uint4 *)(s.lo + to) = next.lo[r];
            }
            UNROLL for (int j = 0; j < SCALES; j++) {
                s.scale[(row_unit + j) * MATRIX_ROWS + row_place] = scale_of_bits(next.scale[j], is_half);
                s.low[(row_unit + j) * MATRIX_ROWS + row_place] = scale_of_bits(next.low[j], is_half);
            }
            const int sum = next.sum + next.sum_of_half;
            s.d[token_unit * MATRIX_TOKENS + own_token] = planes == 2 ? next.d : 128.0f * next.d;
            s.sum[token_unit * MATRIX_TOKENS + own_token] = planes == 2 ? sum : sum / -128;
            SYNC;
        }
        if (ahead < n_units) {
            UNROLL for (int r = 0; r < row_values; r++) {
                const int number = ITEM + r * MATRIX_GROUP, row = number / row_each;
                const int word = ahead * words + number % row_each * 4;
                const size_t from = (begin + (size_t)(row < last_row ? row : last_row)) * (size_t)n_units;
                next.w[r] = word < n_units * words
                                ? *(const __global uint4 *)(q + from * (size_t)words + (size_t)word)
                                : (uint4)(0);
            }
            UNROLL for (int r = 0; r < token_values; r++) {
                const int number = ITEM + r * MATRIX_GROUP, token = number / token_each;
                const struct token x = token_of(
                    acts + (size_t)(first_token + (token < last_token ? token : last_token)) * (size_t)acts_bytes,
                    padded);
                const int word = ahead * unit / 4 + number % token_each * 4;
                next.hi[r] = *(const __global uint4 *)(x.hi + word);
                if (planes == 2)
                    next.lo[r] = *(const __global uint4 *)(x.lo + word);
            }
            UNROLL for (int j = 0; j < SCALES; j++) {
                const int u = ahead + row_unit + j < n_units ? ahead + row_unit + j : n_units - 1;
                const size_t at = own_row * (size_t)n_units + (size_t)u;
                next.scale[j] = scale_bits(scales, is_half, at);
                next.low[j] = has_min ? scale_bits(minima, is_half, at) : 0;
            }
            const int u = ahead + token_unit < n_units ? ahead + token_unit : n_units - 1;
            const __global int *sums = planes == 2 ? own.sum : own.bias;
            next.d = own.d[u * unit / 32];
            next.sum = sums[u * unit / 16];
            next.sum_of_half = unit == 32 ? sums[2 * u + 1] : 0;
        }
        if (u0 < 0)
            continue;
        for (int j = 0; j < STAGE && u0 + j < n_units; j++) {
            uint a[2][4];
            UNROLL for (int m = 0; m < 2; m++) {
                // Of rows g and g + 8 of these 16: elements 4t, and of units of 32 16 + 4t.
                const __local uint *upper = s.w + (warp_row + 16 * m + g) * row_stride + j * words;
                const __local uint *lower = upper + 8 * row_stride;
                if (bits == 8) {
                    a[m][0] = upper[t];
                    a[m][1] = lower[t];
                    if (unit == 32) {
                        a[m][2] = upper[4 + t];
                        a[m][3] = lower[4 + t];
                    }
                } else if (unit == 32) {
                    const uint up = upper[t], down = lower[t];
                    a[m][0] = with_sign(up & 0x0f0f0f0f, base);
                    a[m][1] = with_sign(down & 0x0f0f0f0f, base);
                    a[m][2] = with_sign(up >> 4 & 0x0f0f0f0f, base);
                    a[m][3] = with_sign(down >> 4 & 0x0f0f0f0f, base);
                } else {
                    const uint up = upper[t & 1], down = lower[t & 1];
                    a[m][0] = with_sign((t < 2 ? up : up >> 4) & 0x0f0f0f0f, base);
                    a[m][1] = with_sign((t < 2 ? down : down >> 4) & 0x0f0f0f0f, base);
                }
            }
            const __local float *scale = s.scale + j * MATRIX_ROWS + warp_row + g, *d = s.d + j * MATRIX_TOKENS + warp_token + 2 * t;
            const __local float *low = s.low + j * MATRIX_ROWS + warp_row + g;
            const __local int *sum = s.sum + j * MATRIX_TOKENS + warp_token + 2 * t;
            const float scale_of[2][2] = {{scale[0], scale[8]}, {scale[16], scale[24]}};
            UNROLL for (int b = 0; b < 4; b++) {
                if (warp_token + 8 * b > last_token)
                    continue;
                const int at = (warp_token + 8 * b + g) * token_stride + j * unit / 4 + t;
                const uint x[2] = {s.hi[at], unit == 32 ? s.hi[at + 4] : 0};
                const float d_of[2] = {d[8 * b], d[8 * b + 1]};
                int dots[2][4];
                UNROLL for (int m = 0; m < 2; m++) {
                    UNROLL for (int i = 0; i < 4; i++)
                        dots[m][i] = 0;
                    multiply(dots[m], a[m], x, unit);
                }
                if (planes == 2) {
                    const uint y[2] = {s.lo[at], unit == 32 ? s.lo[at + 4] : 0};
                    UNROLL for (int m = 0; m < 2; m++) {
                        UNROLL for (int i = 0; i < 4; i++)
                            dots[m][i] *= 128;
                        multiply(dots[m], a[m], y, unit);
                    }
                }
                // Number i of these is row g, or g + 8 from the third on, and token 2t, or the next one.
                UNROLL for (int m = 0; m < 2; m++)
                    UNROLL for (int i = 0; i < 4; i++)
                        acc[m][b][i] = fma(scale_of[m][i / 2] * d_of[i % 2], (float)dots[m][i], acc[m][b][i]);
                if (has_min)
                    UNROLL for (int m = 0; m < 2; m++)
                        UNROLL for (int i = 0; i < 4; i++)
                            acc[m][b][i] = fma(-(low[16 * m + 8 * (i / 2)] * d_of[i % 2]), (float)sum[8 * b + i % 2],
                                               acc[m][b][i]);
            }
        }
    }
    UNROLL for (int m = 0; m < 2; m++) {
        // What is there is asked for at once. Places that there are not are the last ones once more.
        float old[4][4];
        UNROLL for (int b = 0; b < 4; b++)
            UNROLL for (int i = 0; i < 4; i++) {
                const int row = warp_row + 16 * m + 8 * (i / 2) + g, token = warp_token + 8 * b + 2 * t + i % 2;
                const size_t at = (size_t)(first_token + (token < last_token ? token : last_token)) * (size_t)n_rows +
                                  (size_t)(first_row + (row < last_row ? row : last_row));
                old[b][i] = adds ? out[at] : 0.0f;
            }
        UNROLL for (int b = 0; b < 4; b++)
            UNROLL for (int i = 0; i < 4; i++) {
                const int row = warp_row + 16 * m + 8 * (i / 2) + g, token = warp_token + 8 * b + 2 * t + i % 2;
                if (row <= last_row && token <= last_token)
                    out[(size_t)(first_token + token) * (size_t)n_rows + (size_t)(first_row + row)] =
                        adds ? old[b][i] + acc[m][b][i] : acc[m][b][i];
            }
    }
    (void)mask;
    (void)has_mask;
}
#else
#define MATRIX_MEMORY(bits, unit) const int stage = 0;

// Groups: rows, tokens.
INLINE void matrix_body(int stage, PRODUCT_ARGS, const int bits, const int unit, const int is_half)
{
    CHOOSE_MATRIX(MATRIX_ROWS)
    const struct tile tile = tile_of((int)get_group_id(1), MATRIX_TOKENS, n_tokens, tiles, has_tiles);
    const int row = ITEM < MATRIX_ROWS ? group * MATRIX_ROWS + ITEM : n_rows;
    PROMPT_TILE(row, tile)
    (void)mask;
    (void)has_mask;
    (void)stage;
}
#endif

#define MATRIX_FORM(name, bits, unit, is_half)                   \
    KERNEL_OF(MATRIX_GROUP) matrix_##name(PRODUCT_ARGS)          \
    {                                                            \
        MATRIX_MEMORY(bits, unit)                                \
        matrix_body(stage, PRODUCT_VALUES, bits, unit, is_half); \
    }
MATRIX_FORM(4_32h, 4, 32, 1)
MATRIX_FORM(8_32h, 8, 32, 1)
MATRIX_FORM(4_32, 4, 32, 0)
MATRIX_FORM(8_32, 8, 32, 0)
MATRIX_FORM(4_16, 4, 16, 0)
MATRIX_FORM(8_16, 8, 16, 0)
