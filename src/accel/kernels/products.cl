// SPDX-License-Identifier: MIT
// Products of matrices with tokens, of block formats and of plain numbers.

// ---- products of block formats
//
// Words of a unit: 8 bits an element, or 4 bits, element i of the lower half below element i of the upper one, and
// `base` less than the integer. Scales and minima are halfs or floats.

#define STEP_TOKENS   4
#define PROMPT_TOKENS 8

// A scale's bits, which are a number once they are used: what is converted at once is waited for at once.
INLINE uint scale_bits(const __global uchar *p, int is_half, size_t i)
{
    return is_half ? ((const __global ushort *)p)[i] : ((const __global uint *)p)[i];
}

INLINE float scale_of_bits(uint bits, int is_half)
{
    return is_half ? half_of_bits(bits) : as_float(bits);
}

INLINE float scale_at(const __global uchar *p, int is_half, size_t i)
{
    return scale_of_bits(scale_bits(p, is_half, i), is_half);
}

#define UNIT_WORDS(bits, unit) ((bits) * (unit) / 32)

struct token {
    const __global uint *hi, *lo;
    const __global float *d;
    const __global int *sum, *bias;
};

INLINE struct token token_of(const __global uchar *acts, int padded)
{
    struct token t;
    t.hi = (const __global uint *)acts;
    t.lo = t.hi + padded / 4;
    t.d = (const __global float *)(t.lo + padded / 4);
    t.sum = (const __global int *)(t.d + padded / 32);
    t.bias = t.sum + padded / 16;
    return t;
}

INLINE void put_four(uint *w, uint4 four)
{
    w[0] = four.x;
    w[1] = four.y;
    w[2] = four.z;
    w[3] = four.w;
}

// `words` words, 2, 4 or 8, which lie at a multiple of that.
INLINE void load_words(uint *w, const __global uint *from, const int words)
{
    if (words == 2) {
        const uint2 two = *(const __global uint2 *)from;
        w[0] = two.x;
        w[1] = two.y;
        return;
    }
    UNROLL for (int i = 0; i < words / 4; i++)
        put_four(w + 4 * i, ((const __global uint4 *)from)[i]);
}

// What a token has of a unit.
struct part {
    uint hi[8], lo[8];
    float d;
    int sum;
};

INLINE void load_token(struct part *x, struct token t, int u, const int unit, int planes)
{
    const __global int *sums = planes == 2 ? t.sum : t.bias;
    load_words(x->hi, t.hi + u * unit / 4, unit / 4);
    if (planes == 2)
        load_words(x->lo, t.lo + u * unit / 4, unit / 4);
    x->d = planes == 2 ? t.d[u * unit / 32] : 128.0f * t.d[u * unit / 32];
    if (unit == 32) {
        const int2 two = ((const __global int2 *)sums)[u];
        x->sum = two.x + two.y;
    } else {
        x->sum = sums[u];
    }
    if (planes == 1)
        x->sum /= -128;
}

// `sum` and the product of a unit's integers with a plane of the token's.
INLINE int dot_plane(int sum, const uint *w, const int bits, const int unit, const uint *x)
{
    if (bits == 8) {
        UNROLL for (int i = 0; i < unit / 4; i++)
            sum = dot4(w[i], x[i], sum);
    } else {
        UNROLL for (int i = 0; i < unit / 8; i++) {
            sum = dot4(w[i] & 0x0f0f0f0f, x[i], sum);
            sum = dot4(w[i] >> 4 & 0x0f0f0f0f, x[unit / 8 + i], sum);
        }
    }
    return sum;
}

// The two fmas of a unit, whose words are w.
INLINE float add_unit(float acc, const uint *w, const int bits, const int unit, float scale, float minimum, int has_min,
                      int base, const struct part *x, int planes)
{
    int dot = dot_plane(0, w, bits, unit, x->hi);
    if (planes == 2)
        dot = dot_plane(128 * dot, w, bits, unit, x->lo);
    dot += base * x->sum;
    acc = fma(scale * x->d, (float)dot, acc);
    return has_min ? fma(-(minimum * x->d), (float)x->sum, acc) : acc;
}

// Up to three matrices of one form, whose groups follow one another: what the last two have not, has no rows. adds: the
// products are added to what is in out.
#define MATRIX_ARGS(x)                                                                                            \
    __global float *out##x, const __global uint *q##x, const __global uchar *scales##x, const __global uchar *minima##x, \
        int n_rows##x
#define PRODUCT_ARGS                                                                                              \
    MATRIX_ARGS(), MATRIX_ARGS(_b), MATRIX_ARGS(_c), const __global uchar *acts, int padded, int acts_bytes, int n_units, \
        int n_tokens, int has_min, int base, int planes, const __global uchar *mask, int has_mask,                \
        const __global int *tiles, int has_tiles, int adds

#define TAKE_MATRIX(x)      \
    {                       \
        out = out##x;       \
        q = q##x;           \
        scales = scales##x; \
        minima = minima##x; \
        n_rows = n_rows##x; \
    }
// The matrix of a group that has `each` rows of one becomes that without a letter, and `group` its place among its groups.
#define CHOOSE_MATRIX(each)                                          \
    int group = (int)get_group_id(0);                                \
    if (group >= (n_rows + (each)-1) / (each)) {                     \
        group -= (n_rows + (each)-1) / (each);                       \
        if (group < (n_rows_b + (each)-1) / (each)) {                \
            TAKE_MATRIX(_b)                                          \
        } else {                                                     \
            group -= (n_rows_b + (each)-1) / (each);                 \
            TAKE_MATRIX(_c)                                          \
        }                                                            \
    }

// The tokens of a group, and the matrix that they go through, of several side by side. Without tiles, which have three
// numbers each, there is one, and `most` tokens belong together.
struct tile {
    int first, n;
    size_t matrix;
};

INLINE struct tile tile_of(int number, int most, int n_tokens, const __global int *tiles, int has_tiles)
{
    struct tile t;
    t.first = has_tiles ? tiles[3 * number] : number * most;
    t.n = has_tiles ? tiles[3 * number + 1] : n_tokens - t.first < most ? n_tokens - t.first : most;
    t.matrix = has_tiles ? (size_t)tiles[3 * number + 2] : 0;
    return t;
}

// STEP: 16 rows a group, of which an item has one lane of two. Tokens' parts of STEP_CHUNK units lie in local memory, the
// halves of units of 32 apart, so that lanes read side by side. Groups: rows, tokens. Rows that none of the tokens has in
// the mask are left out.
#define STEP_GROUP 128
#define STEP_EACH  2
#define STEP_SLOTS (STEP_GROUP / LANES) // rows that lie between an item's two
// Units of a lane that are loaded before the first of them is used, and of all lanes.
#define STEP_AHEAD(bits, unit) (UNIT_WORDS(bits, unit) == 8 ? 2 : 4)
#define STEP_CHUNK(bits, unit) (LANES * STEP_AHEAD(bits, unit))

struct chunk {
    __local uint4 *hi, *lo; // [STEP_TOKENS][unit / 16][STEP_CHUNK]
    __local float *d;       // [STEP_TOKENS][STEP_CHUNK]
    __local int *sum;
};

#define STEP_MEMORY(bits, unit)                                                              \
    __local uint4 chunk_hi[STEP_TOKENS * (unit) / 16 * STEP_CHUNK(bits, unit)];              \
    __local uint4 chunk_lo[STEP_TOKENS * (unit) / 16 * STEP_CHUNK(bits, unit)];              \
    __local float chunk_d[STEP_TOKENS * STEP_CHUNK(bits, unit)];                             \
    __local int chunk_sum[STEP_TOKENS * STEP_CHUNK(bits, unit)];                             \
    __local float lane[STEP_EACH * STEP_TOKENS * STEP_GROUP];                                \
    struct chunk chunk;                                                                      \
    chunk.hi = chunk_hi;                                                                     \
    chunk.lo = chunk_lo;                                                                     \
    chunk.d = chunk_d;                                                                       \
    chunk.sum = chunk_sum;

// Units [u0, u0 + STEP_CHUNK) of a token.
INLINE void take_chunk(struct chunk c, struct token x, int t, int u0, int n_units, const int bits, const int unit)
{
    const int size = STEP_CHUNK(bits, unit), halves = unit / 16, end = n_units - u0 < size ? n_units - u0 : size;
    const __global uint4 *hi = (const __global uint4 *)x.hi + u0 * halves, *lo = (const __global uint4 *)x.lo + u0 * halves;
    for (int i = ITEM; i < end * halves; i += STEP_GROUP) {
        const int to = (t * halves + i % halves) * size + i / halves;
        c.hi[to] = hi[i];
        c.lo[to] = lo[i];
    }
    for (int i = ITEM; i < end; i += STEP_GROUP) {
        const int u = u0 + i;
        c.d[t * size + i] = x.d[u * unit / 32];
        c.sum[t * size + i] = unit == 32 ? x.sum[2 * u] + x.sum[2 * u + 1] : x.sum[u];
    }
}

INLINE void load_part(struct part *x, struct chunk c, int t, int u, const int bits, const int unit)
{
    const int size = STEP_CHUNK(bits, unit);
    UNROLL for (int h = 0; h < unit / 16; h++) {
        put_four(x->hi + 4 * h, c.hi[(t * (unit / 16) + h) * size + u]);
        put_four(x->lo + 4 * h, c.lo[(t * (unit / 16) + h) * size + u]);
    }
    x->d = c.d[t * size + u];
    x->sum = c.sum[t * size + u];
}

// What an item has of its rows' next units.
struct ahead {
    uint w[STEP_EACH][4][8];
    uint scale[STEP_EACH][4], low[STEP_EACH][4]; // bits
};

INLINE void load_ahead(struct ahead *x, const size_t *begin, const int *wanted, int u0, int n_units,
                       const __global uint *q, const __global uchar *scales, const __global uchar *minima, int has_min,
                       const int bits, const int unit, const int is_half)
{
    const int words = UNIT_WORDS(bits, unit);
    UNROLL for (int e = 0; e < STEP_EACH; e++)
        UNROLL for (int j = 0; j < STEP_AHEAD(bits, unit); j++) {
            const int u = u0 + j * LANES + ITEM % LANES;
            if (u >= n_units || !wanted[e])
                continue;
            const size_t at = begin[e] + (size_t)u;
            load_words(x->w[e][j], q + at * (size_t)words, words);
            x->scale[e][j] = scale_bits(scales, is_half, at);
            x->low[e][j] = has_min ? scale_bits(minima, is_half, at) : 0;
        }
}

INLINE void step_body(struct chunk c, __local float *lane, PRODUCT_ARGS, const int bits, const int unit,
                      const int is_half)
{
    CHOOSE_MATRIX(STEP_SLOTS * STEP_EACH)
    const int l = ITEM % LANES, first_row = group * (STEP_SLOTS * STEP_EACH) + ITEM / LANES;
    const struct tile tile = tile_of((int)get_group_id(1), STEP_TOKENS, n_tokens, tiles, has_tiles);
    const int first = tile.first, n = tile.n;
    n_units = n ? n_units : 0; // an empty one: nothing is loaded
    size_t begin[STEP_EACH];
    int wanted[STEP_EACH];
    UNROLL for (int e = 0; e < STEP_EACH; e++) {
        const int row = first_row + e * STEP_SLOTS;
        begin[e] = (tile.matrix * (size_t)n_rows + (size_t)row) * (size_t)n_units;
        wanted[e] = row < n_rows && !has_mask;
        for (int t = 0; t < n; t++) {
            lane[(e * n + t) * STEP_GROUP + ITEM] = 0.0f;
            if (has_mask && row < n_rows)
                wanted[e] |= mask[(size_t)(first + t) * (size_t)n_rows + (size_t)row];
        }
    }
    for (int u0 = 0; u0 < n_units; u0 += STEP_CHUNK(bits, unit)) {
        struct ahead w;
#ifdef HEARTH_PTX // on their way while tokens come
        load_ahead(&w, begin, wanted, u0, n_units, q, scales, minima, has_min, bits, unit, is_half);
#endif
        SYNC;
        for (int t = 0; t < n; t++)
            take_chunk(c, token_of(acts + (size_t)(first + t) * (size_t)acts_bytes, padded), t, u0, n_units, bits, unit);
        SYNC;
#ifndef HEARTH_PTX
        load_ahead(&w, begin, wanted, u0, n_units, q, scales, minima, has_min, bits, unit, is_half);
#endif
        // What an item has of the sums lies in local memory, so that a loop over tokens needs no array of them.
        for (int t = 0; t < n; t++) {
            float acc[STEP_EACH];
            UNROLL for (int e = 0; e < STEP_EACH; e++)
                acc[e] = lane[(e * n + t) * STEP_GROUP + ITEM];
            UNROLL for (int j = 0; j < STEP_AHEAD(bits, unit); j++) {
                if (u0 + j * LANES + l >= n_units)
                    continue;
                struct part x;
                load_part(&x, c, t, j * LANES + l, bits, unit);
                UNROLL for (int e = 0; e < STEP_EACH; e++)
                    if (wanted[e])
                        acc[e] = add_unit(acc[e], w.w[e][j], bits, unit, scale_of_bits(w.scale[e][j], is_half),
                                          scale_of_bits(w.low[e][j], is_half), has_min, base, &x, 2);
            }
            UNROLL for (int e = 0; e < STEP_EACH; e++)
                lane[(e * n + t) * STEP_GROUP + ITEM] = acc[e];
        }
    }
    // The padding of lanes that have fewer units.
    if (n_units % LANES && l >= n_units % LANES)
        for (int i = 0; i < STEP_EACH * n; i++)
            lane[i * STEP_GROUP + ITEM] += 0.0f;
    for (int width = LANES / 2; width; width /= 2) {
        SYNC;
        if (l < width)
            for (int i = 0; i < STEP_EACH * n; i++)
                lane[i * STEP_GROUP + ITEM] += lane[i * STEP_GROUP + ITEM + width];
    }
    SYNC;
    for (int i = l; i < STEP_EACH * n; i += LANES) {
        const int row = first_row + i / n * STEP_SLOTS;
        const float sum = lane[i * STEP_GROUP + ITEM - l];
        __global float *to = out + (size_t)(first + i % n) * (size_t)n_rows + (size_t)row;
        if (row < n_rows)
            *to = adds ? *to + sum : sum;
    }
    (void)planes;
}

// PROMPT: an item has a row, for n tokens, PROMPT_TOKENS at most.
INLINE void prompt_item(int row, size_t matrix, int first, int n, MATRIX_ARGS(), const __global uchar *acts, int padded,
                        int acts_bytes, int n_units, int has_min, int base, int planes, int adds, const int bits,
                        const int unit, const int is_half)
{
    const int words = UNIT_WORDS(bits, unit);
    float acc[PROMPT_TOKENS];
    UNROLL for (int t = 0; t < PROMPT_TOKENS; t++)
        acc[t] = 0.0f;
    for (int u = 0; u < n_units; u++) {
        const size_t at = (matrix * (size_t)n_rows + (size_t)row) * (size_t)n_units + (size_t)u;
        uint w[8];
        load_words(w, q + at * (size_t)words, words);
        const float scale = scale_at(scales, is_half, at), low = has_min ? scale_at(minima, is_half, at) : 0.0f;
        UNROLL for (int t = 0; t < PROMPT_TOKENS; t++) {
            if (t >= n)
                continue;
            struct part x;
            load_token(&x, token_of(acts + (size_t)(first + t) * (size_t)acts_bytes, padded), u, unit, planes);
            acc[t] = add_unit(acc[t], w, bits, unit, scale, low, has_min, base, &x, planes);
        }
    }
    UNROLL for (int t = 0; t < PROMPT_TOKENS; t++)
        if (t < n) {
            __global float *to = out + (size_t)(first + t) * (size_t)n_rows + (size_t)row;
            *to = adds ? *to + acc[t] : acc[t];
        }
}

#define PRODUCT_VALUES                                                                                             \
    out, q, scales, minima, n_rows, out_b, q_b, scales_b, minima_b, n_rows_b, out_c, q_c, scales_c, minima_c, n_rows_c, \
        acts, padded, acts_bytes, n_units, n_tokens, has_min, base, planes, mask, has_mask, tiles, has_tiles, adds

// A row's tokens of a tile.
#define PROMPT_TILE(row, tile)                                                                                   \
    for (int t = 0; (row) < n_rows && t < (tile).n; t += PROMPT_TOKENS)                                          \
        prompt_item(row, (tile).matrix, (tile).first + t, (tile).n - t < PROMPT_TOKENS ? (tile).n - t : PROMPT_TOKENS, \
                    out, q, scales, minima, n_rows, acts, padded, acts_bytes, n_units, has_min, base, planes, adds, \
                    bits, unit, is_half);

// Groups: rows, tokens.
INLINE void prompt_body(PRODUCT_ARGS, const int bits, const int unit, const int is_half)
{
    CHOOSE_MATRIX(GROUP)
    const struct tile tile = tile_of((int)get_group_id(1), PROMPT_TOKENS, n_tokens, tiles, has_tiles);
    PROMPT_TILE(group * GROUP + ITEM, tile)
    (void)mask;
    (void)has_mask;
}
