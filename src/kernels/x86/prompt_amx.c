// SPDX-License-Identifier: MIT
// PROMPT products of block formats with AMX tiles.
//
// A tile product is one unit of up to 12 tokens and 16 rows of weights: A has a token's activations in each
// row, B two consecutive weights of each of the 16 rows side by side, C gets the sums. All are BF16, which
// holds the small integers of both sides exactly, and so are their sums in f32 (SUMS_EXACT): what comes out
// is idot as a float already. Then the vector units scale each and add it with one fma, a register a token,
// lanes being rows of weights.
//
// Int8 products would take half the room but give integers, and the conversion costs as much as the rest:
// while tiles are in use only one of the two ports of this CPU multiplies and converts vectors of 512 bits
// (docs/speed.md). The sums of a product are added two units later, so that nobody waits for them.
//
// Compiled a second time, with a model of the tiles, for tests (tiles_amx.h).
#include "kernels/x86/lanes16.h"
#include "kernels/x86/tiles_amx.h"
#include "kernels/x86/units_avx512.h"
#include "kernels/x86/variants_x86.h"

#if defined(HEARTH_TILES_MODEL)
#define NAMED(name) name##_model
#else
#define NAMED(name) name##_amx
#endif

#define COLUMNS    16 // rows of weights of a B tile
#define HALVES     2  // B tiles side by side, of a panel
#define MAX_TOKENS 12 // of a tile: more sums of two halves do not fit in the registers
#define UNITS      8  // of a panel that are swept together: they stay in the L1 cache
// Tokens that share what is made of the weights.
#define PROMPT_TOKENS 512
#define TWO_PLANES    264 // the same where a token takes twice the room
// What a call keeps in the L2 cache: sums of 512 rows of so many tokens, a group's activations.
#define ACC_FLOATS   (512 * 516)
#define PACKED_BYTES (43 * LANES * (sizeof(struct side) + MAX_TOKENS * TILE_BYTES))
// Bytes between unpacked rows: not all in the same sets of the cache.
#define APART (512 + 64)

// Where the sums of the two planes of activations meet.
enum planes {
    ONE_PLANE,   // there is one, or an element's two are a pair
    IN_TILES,    // in one C tile
    IN_REGISTERS // after it: together they may exceed 2^24
};
// Sums that no unit of 32 exceeds if its weights are at most 31 (in magnitude), with both planes.
#define SUMS_EXACT (32 * 31 * HEARTH_ACTS_QMAX)
_Static_assert(SUMS_EXACT <= 1 << 24, "f32 holds these integers");

// One unit of a panel's weights. They are times WEIGHT_SCALE, and activations times its inverse, which saves
// shifts.
struct unit {
    uint16_t q[HALVES][TILE_ROWS][2 * COLUMNS]; // [element / 2][row of weights][2]; each twice in units of 16
    float scale[HALVES][COLUMNS];
    float min[HALVES][COLUMNS]; // only of formats with one
};
#define WEIGHT_SCALE 0x1p-16f

// One unit of a tile of tokens: this, then a plane of activations, [token][32], or two.
struct side {
    float d[TILE_ROWS], sum[TILE_ROWS];
};

typedef float sums[HALVES][MAX_TOKENS * COLUMNS]; // stored C tiles

struct tiles_scratch {
    struct unit panel[LANES];      // a group of units
    sums ring[2][2];               // [unit % 2][plane]
    uint8_t apart[COLUMNS][APART]; // a group of 16 rows
    float acc[ACC_FLOATS];         // [panel][tile][token][HALVES][COLUMNS]
    _Alignas(64) uint8_t packed[PACKED_BYTES];
};

static size_t scratch_bytes(size_t k)
{
    (void)k; // panels are as deep as ever
    return sizeof(struct tiles_scratch);
}

// Registers stay registers only if loops over them are gone.
#if SANITIZED
#define UNROLL16
#else
#define UNROLL16 _Pragma("GCC unroll 16")
#endif

// ---- hot path

// Rows to ask for, a few at a time.
struct ahead {
    const uint8_t *row;
    size_t stride, rows, bytes, at;
};

// All tiles of tokens against UNITS units of a panel.
struct sweep {
    const struct unit *units;
    sums (*ring)[2];
    const uint8_t *x;               // what the first tile has of the first unit
    size_t x_unit, x_tile, n_tiles; // bytes to the next unit's, to the next tile's
    float *acc;                     // [tile][token][HALVES][COLUMNS]
    bool first;                     // accumulators begin at zero
    struct ahead *ahead;
    size_t ahead_lines; // with each tile
};

INLINE void look_ahead(struct ahead *a, size_t lines)
{
    for (; lines && a->rows; lines--) {
        _mm_prefetch((const char *)a->row + a->at, _MM_HINT_T1);
        a->at += 64;
        if (a->at < a->bytes)
            continue;
        a->at = 0;
        a->row += a->stride;
        a->rows--;
    }
}

// Tiles: 0 and 1, 2 and 3 are sums of both halves, 4 and 5 activations, 6 and 7 weights. Their numbers are
// parts of instructions.
#define BEGIN_SUMS(c0, c1, a, x)                                                                             \
    {                                                                                                        \
        tile_load(a, x, TILE_BYTES);                                                                         \
        tile_zero(c0);                                                                                       \
        tile_dot(c0, a, 6);                                                                                  \
        tile_zero(c1);                                                                                       \
        tile_dot(c1, a, 7);                                                                                  \
    }
#define GO_ON_WITH_SUMS(c0, c1, a, x)                                                                        \
    {                                                                                                        \
        tile_load(a, x, TILE_BYTES);                                                                         \
        tile_dot(c0, a, 6);                                                                                  \
        tile_dot(c1, a, 7);                                                                                  \
    }
#define STORE_SUMS(c0, c1, to)                                                                               \
    {                                                                                                        \
        tile_store(c0, (to)[0], TILE_BYTES);                                                                 \
        tile_store(c1, (to)[1], TILE_BYTES);                                                                 \
    }

// The next product to ask for.
struct cursor {
    const uint8_t *x;
    size_t unit, left;
};

INLINE void advance(struct cursor *c, const struct sweep *s)
{
    c->left--;
    c->x += s->x_unit;
    if (++c->unit == UNITS) {
        c->unit = 0;
        c->x += s->x_tile - UNITS * s->x_unit;
    }
}

INLINE void load_weights(const struct unit *u)
{
    tile_load(6, u->q[0], TILE_BYTES);
    tile_load(7, u->q[1], TILE_BYTES);
}

// Asks for the sums of a unit; those of the high plane alone where planes meet in registers.
INLINE void ask(struct cursor *c, const struct sweep *s, bool odd, size_t tokens, enum planes planes)
{
    const uint8_t *high = c->x + sizeof(struct side), *low = high + tokens * TILE_BYTES;
    load_weights(s->units + c->unit);
    if (odd && planes != IN_REGISTERS) {
        BEGIN_SUMS(2, 3, 4, high)
        if (planes == IN_TILES)
            GO_ON_WITH_SUMS(2, 3, 5, low)
    } else {
        BEGIN_SUMS(0, 1, 4, high)
        if (planes == IN_TILES)
            GO_ON_WITH_SUMS(0, 1, 5, low)
    }
}

// One unit's sums times their scales to the accumulators.
INLINE void add(__m512 acc[MAX_TOKENS][HALVES], const struct unit *w, const struct side *x, sums dots[2],
                size_t tokens, bool has_min, enum planes planes)
{
    UNROLL16 for (size_t t = 0; t < tokens; t++)
    {
        const __m512 d = _mm512_set1_ps(x->d[t]);
        UNROLL16 for (size_t h = 0; h < HALVES; h++)
        {
            __m512 dot = _mm512_load_ps(dots[0][h] + t * COLUMNS);
            if (planes == IN_REGISTERS)
                dot = _mm512_add_ps(dot, _mm512_load_ps(dots[1][h] + t * COLUMNS));
            acc[t][h] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_load_ps(w->scale[h]), d), dot, acc[t][h]);
            if (has_min)
                acc[t][h] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_load_ps(w->min[h]), d),
                                            _mm512_set1_ps(x->sum[t]), acc[t][h]);
        }
    }
}

INLINE void load_acc(__m512 acc[MAX_TOKENS][HALVES], const float *from, bool first, size_t tokens)
{
    UNROLL16 for (size_t t = 0; t < tokens; t++) UNROLL16 for (size_t h = 0; h < HALVES; h++) acc[t][h] =
        _mm512_maskz_load_ps(first ? 0 : 0xffff, from + (t * HALVES + h) * COLUMNS);
}

INLINE void store_acc(float *to, __m512 acc[MAX_TOKENS][HALVES], size_t tokens)
{
    UNROLL16 for (size_t t = 0; t < tokens; t++) UNROLL16 for (size_t h = 0; h < HALVES; h++)
        _mm512_store_ps(to + (t * HALVES + h) * COLUMNS, acc[t][h]);
}

// Adds unit u of a tile, having asked for the one two behind it and stored the one behind it.
INLINE void stage(__m512 acc[MAX_TOKENS][HALVES], struct cursor *c, const struct sweep *s, const uint8_t *x,
                  size_t u, bool odd, size_t tokens, bool has_min, enum planes planes)
{
    const bool more = c->left;
    const uint8_t *low = c->x + sizeof(struct side) + tokens * TILE_BYTES;
    if (more)
        ask(c, s, odd, tokens, planes);
    if (planes == IN_REGISTERS || !odd)
        STORE_SUMS(2, 3, s->ring[!odd][planes == IN_REGISTERS])
    else
        STORE_SUMS(0, 1, s->ring[0][0])
    add(acc, s->units + u, (const struct side *)(const void *)x, s->ring[odd], tokens, has_min, planes);
    if (planes == IN_REGISTERS && more) {
        BEGIN_SUMS(2, 3, 5, low)
        STORE_SUMS(0, 1, s->ring[odd][0])
    }
    if (more)
        advance(c, s);
}

// The first two products.
INLINE struct cursor begin(const struct sweep *s, size_t tokens, enum planes planes)
{
    struct cursor c = {s->x, 0, s->n_tiles * UNITS};
    for (int odd = 0; odd < 2; odd++) {
        const uint8_t *low = c.x + sizeof(struct side) + tokens * TILE_BYTES;
        ask(&c, s, odd, tokens, planes);
        if (planes == IN_REGISTERS) {
            STORE_SUMS(0, 1, s->ring[odd][0])
            if (odd)
                STORE_SUMS(2, 3, s->ring[0][1])
            BEGIN_SUMS(2, 3, 5, low)
        } else if (!odd) {
            STORE_SUMS(0, 1, s->ring[0][0])
        }
        advance(&c, s);
    }
    return c;
}

// Everything but the first parameter is a constant.
INLINE void sweep(const struct sweep *call, size_t tokens, bool has_min, enum planes planes)
{
    const struct sweep own = *call, *s = &own; // which stays in registers, as no store can change it
    struct cursor c = begin(s, tokens, planes);
    const uint8_t *x = s->x;
    float *tile = s->acc;
    __m512 acc[MAX_TOKENS][HALVES];
    for (size_t t = 0; t < s->n_tiles; t++, tile += tokens * HALVES * COLUMNS, x += s->x_tile) {
        load_acc(acc, tile, s->first, tokens);
        for (size_t u = 0; u < UNITS; u += 2) {
            stage(acc, &c, s, x + u * s->x_unit, u, false, tokens, has_min, planes);
            stage(acc, &c, s, x + (u + 1) * s->x_unit, u + 1, true, tokens, has_min, planes);
        }
        store_acc(tile, acc, tokens);
        look_ahead(s->ahead, s->ahead_lines);
    }
}

// ---- weights as BF16

// 16 bytes of each of 16 rows, four of each row side by side.
INLINE void columns(__m512i to[4], const uint8_t *from, size_t stride)
{
    for (size_t i = 0; i < 4; i++) { // rows i, 4 + i, 8 + i, 12 + i
        const uint8_t *row = from + i * stride;
        to[i] = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)row));
        for (size_t q = 1; q < 4; q++)
            to[i] = _mm512_mask_broadcast_i32x4(
                to[i], (__mmask16)(0xf << 4 * q),
                _mm_loadu_si128((const __m128i *)(const void *)(row + 4 * q * stride)));
    }
    i_transpose_quarters(to);
}

// Dwords of four bytes (or of eight nibbles), a row of weights each, become rows of a B tile: pairs of
// weights. A pair is looked up by the bits from two places of the dword on, of which five count.
INLINE __m512i look_up(__m512i z, __m512i table, unsigned first, unsigned second)
{
    const uint64_t low = first | second << 16, places = low | (low + 0x200020) << 32;
    return _mm512_permutexvar_epi16(_mm512_multishift_epi64_epi8(_mm512_set1_epi64((int64_t)places), z),
                                    table);
}

// The floats' upper halves are all there is to them.
INLINE __m512i pairs_of(__m512 first, __m512 second)
{
    return _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(first), 16), _mm512_castps_si512(second));
}

// Byte i of the dwords, signed.
INLINE __m512 float_of_byte(__m512i z, unsigned i)
{
    const __m512i top =
        _mm512_and_si512(_mm512_slli_epi32(z, 24 - 8 * i), _mm512_set1_epi32((int32_t)0xff000000));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(top), _mm512_set1_ps(WEIGHT_SCALE * 0x1p-24f));
}

// How a format's bytes become weights.
enum coding {
    SIGNED_BYTES, // as they are
    TABLE         // 32 of them are listed
};

// Four consecutive bytes of each row: two rows of a B tile, or in units of 16 four of them, each weight
// twice.
INLINE void put_bytes(uint16_t (*rows)[2 * COLUMNS], __m512i z, __m512i table, enum coding coding,
                      size_t unit)
{
    for (unsigned i = 0; i < (unsigned)(64 / unit); i++) {
        const unsigned a = unit == 32 ? 2 * i : i, b = unit == 32 ? a + 1 : a;
        _mm512_store_si512(rows[i], coding == TABLE ? look_up(z, table, 8 * a, 8 * b)
                                                    : pairs_of(float_of_byte(z, a), float_of_byte(z, b)));
    }
}

// Weights 0 - offset to 31 - offset.
INLINE __m512i table_of(__m512i low, __m512i high)
{
    const __m512 scale = _mm512_set1_ps(WEIGHT_SCALE);
    const __m512i a = _mm512_castps_si512(_mm512_mul_ps(_mm512_cvtepi32_ps(low), scale));
    const __m512i b = _mm512_castps_si512(_mm512_mul_ps(_mm512_cvtepi32_ps(high), scale));
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(_mm512_srli_epi32(a, 16))),
                              _mm512_cvtepi32_epi16(_mm512_srli_epi32(b, 16)), 1);
}
INLINE __m512i table_of_bytes(const struct shape *s)
{
    const __m512i i = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i low = _mm512_sub_epi32(i, _mm512_set1_epi32(s->offset));
    return table_of(low, _mm512_add_epi32(low, _mm512_set1_epi32(16)));
}
// Nibbles bring a bit of their neighbour with them.
INLINE __m512i table_of_nibbles(const struct shape *s, bool iq4)
{
    const __m512i i = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i raw = iq4 ? _mm512_cvtepu8_epi32(_mm512_castsi512_si128(iq4_values())) : i;
    const __m512i w = _mm512_sub_epi32(raw, _mm512_set1_epi32(s->offset));
    return table_of(w, w);
}

// ---- filling panels

// Formats whose bytes can be put side by side before they are unpacked.
enum straight_kind {
    UNPACKED, // none of these
    BYTES,    // signed bytes, 16 of a piece
    NIBBLES,  // of the units' first halves, and of their second ones
    NIBBLES_K // of a unit, and of the next one
};

static const struct straight {
    enum straight_kind kind;
    bool iq4;
    uint8_t pieces, first; // 16-byte pieces of a block, and the bytes before them
    uint16_t bytes;        // of a block
} straight_formats[HEARTH_TYPE_END] = {
    [HEARTH_TYPE_Q4_0] = {NIBBLES, false, 1, 2, 18},     [HEARTH_TYPE_Q4_1] = {NIBBLES, false, 1, 4, 20},
    [HEARTH_TYPE_IQ4_NL] = {NIBBLES, true, 1, 2, 18},    [HEARTH_TYPE_IQ4_XS] = {NIBBLES, true, 8, 8, 136},
    [HEARTH_TYPE_Q4_K] = {NIBBLES_K, false, 8, 16, 144}, [HEARTH_TYPE_Q8_0] = {BYTES, false, 2, 2, 34},
};

// A group of 16 whole rows.
INLINE void fill_straight(struct unit *units, size_t half, const uint8_t *src, size_t stride,
                          const struct straight *f, const struct shape *s)
{
    const __m512i table = table_of_nibbles(s, f->iq4);
    for (size_t i = 0; i < (f->kind == BYTES ? 32 : 16); i++) {
        __m512i z[4];
        columns(z, src + i / f->pieces * f->bytes + f->first + i % f->pieces * 16, stride);
        // Where low nibbles (or bytes) go and where high ones: a unit's second half follows 8 rows later.
        const size_t u = f->kind == NIBBLES ? i : i / 2, row = f->kind == NIBBLES ? 0 : i % 2 * 8;
        uint16_t(*low)[2 * COLUMNS] = units[f->kind == NIBBLES_K ? u * 2 : u].q[half] + row;
        uint16_t(*high)[2 * COLUMNS] = f->kind == NIBBLES_K ? units[u * 2 + 1].q[half] + row : low + 8;
        for (size_t j = 0; j < 4; j++, low += 2, high += 2) {
            if (f->kind == BYTES) {
                put_bytes(low, z[j], table, SIGNED_BYTES, 32);
                continue;
            }
            _mm512_store_si512(low[0], look_up(z[j], table, 0, 8));
            _mm512_store_si512(low[1], look_up(z[j], table, 16, 24));
            _mm512_store_si512(high[0], look_up(z[j], table, 4, 12));
            _mm512_store_si512(high[1], look_up(z[j], table, 20, 28));
        }
    }
}

// An unpacked group.
INLINE void fill_apart(struct unit *units, size_t half, const uint8_t *apart, enum coding coding,
                       const struct shape *s)
{
    const __m512i table = table_of_bytes(s);
    for (size_t r = 0; r < s->registers; r++)
        for (size_t p = 0; p < 4; p++) {
            const size_t piece = s->pieces[r][p], u = piece * 16 / s->unit, row = piece * 16 % s->unit / 2;
            __m512i z[4];
            columns(z, apart + 64 * r + 16 * p, APART);
            for (size_t j = 0; j < 4; j++)
                put_bytes(units[u].q[half] + row + j * (64 / s->unit), z[j], table, coding, s->unit);
        }
}

// Sixteen rows' scales (or minima) of 16 units; those from `n` on get -0, whose products leave any sum as it
// is.
INLINE void spread_floats(float *to, __m512i z[16], size_t n, const struct shape *s)
{
    i_transpose(z);
    for (int lane = 0; lane < LANES; lane++)
        _mm512_store_si512(to + s->order[lane] * (sizeof(struct unit) / sizeof(float)),
                           s->order[lane] < n ? z[lane] : _mm512_set1_epi32(INT32_MIN));
}

// A group of 16 units of one row: its scales and minima, and its bytes where they are wanted.
INLINE void unpack_row(uint8_t *to, __m512i *scale, __m512i *min, const uint8_t *src, unpack_fn unpack,
                       enum coding coding, const struct shape *s)
{
    const __m512i offset = _mm512_set1_epi8((char)s->offset);
    struct weights w;
    unpack(&w, src);
    for (size_t r = 0; to && r < s->registers; r++)
        _mm512_store_si512(to + 64 * r, coding == SIGNED_BYTES ? _mm512_sub_epi8(w.u[r], offset) : w.u[r]);
    *scale = _mm512_castps_si512(w.scale);
    if (s->has_min)
        *min = _mm512_castps_si512(w.min);
}

// What fill functions are told: `bytes` bytes of each of `rows` rows, a group of 16 units or its beginning.
struct rows {
    const uint8_t *src;
    size_t stride, rows, bytes, group_bytes;
    size_t n_units; // those behind are none, the ones in it that lack bytes are zeros
};

// Fills one half of the panel. Rows that are missing repeat the last one.
INLINE void fill(struct tiles_scratch *to, size_t half, const struct rows *from, unpack_fn unpack,
                 enum coding coding, const struct shape *s, const struct straight *straight)
{
    __m512i scales[16], minima[16];
    if (straight->kind != UNPACKED && from->rows == COLUMNS && from->bytes == from->group_bytes) {
        for (size_t i = 0; i < COLUMNS; i++)
            unpack_row(NULL, &scales[i], &minima[i], from->src + i * from->stride, unpack, coding, s);
        fill_straight(to->panel, half, from->src, from->stride, straight, s);
    } else {
        for (size_t i = 0; i < COLUMNS; i++) {
            const uint8_t *row = from->src + (i < from->rows ? i : from->rows - 1) * from->stride;
            uint8_t padded[GROUP_BYTES];
            if (from->bytes < from->group_bytes) {
                memset(padded, 0, sizeof padded);
                row = memcpy(padded, row, from->bytes);
            }
            unpack_row(to->apart[i], &scales[i], &minima[i], row, unpack, coding, s);
        }
        fill_apart(to->panel, half, to->apart[0], coding, s);
    }
    spread_floats(to->panel->scale[half], scales, from->n_units, s);
    if (s->has_min)
        spread_floats(to->panel->min[half], minima, from->n_units, s);
}

// ---- activations as BF16

// d of units u to u + 15, and their sums of q.
INLINE __m512i lanes_of_d(const struct hearth_acts *x, size_t u, size_t unit, size_t planes)
{
    __m512 d;
    if (unit == 32) {
        d = _mm512_loadu_ps(x->d + u);
    } else {
        const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
        d = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(x->d + u / 2)));
    }
    return _mm512_castps_si512(planes == 2 ? d : _mm512_mul_ps(_mm512_set1_ps(128.0f), d));
}

// The sum of q, or of the high plane alone, negated, as floats.
INLINE __m512i lanes_of_sum(const struct hearth_acts *x, size_t u, size_t unit, size_t planes)
{
    const int32_t *from = planes == 2 ? x->sum : x->bias; // the latter is -128 times the sum
    __m512i sum;
    if (unit == 16) {
        sum = _mm512_loadu_si512(from + u);
    } else {
        const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
        const __m512i a = _mm512_loadu_si512(from + 2 * u), b = _mm512_loadu_si512(from + 2 * u + 16);
        sum = _mm512_add_epi32(_mm512_permutex2var_epi32(a, even, b), _mm512_permutex2var_epi32(a, odd, b));
    }
    sum = planes == 2 ? _mm512_sub_epi32(_mm512_setzero_si512(), sum) : _mm512_srai_epi32(sum, 7);
    return _mm512_castps_si512(_mm512_cvtepi32_ps(sum));
}

// A token's 32 activations of a unit.
INLINE __m512i row_of_32(const int8_t *x, bool times_128)
{
    const __m512i w = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)x));
    const __m512i first = _mm512_slli_epi32(w, 16),
                  second = _mm512_and_si512(w, _mm512_set1_epi32((int32_t)0xffff0000));
    return times_128 ? pairs_of(_mm512_cvtepi32_ps(_mm512_slli_epi32(first, 7)),
                                _mm512_cvtepi32_ps(_mm512_slli_epi32(second, 7)))
                     : pairs_of(_mm512_cvtepi32_ps(first), _mm512_cvtepi32_ps(second));
}

// The same of 16: pairs of both planes, or of the high one and nothing.
INLINE __m512i row_of_16(const int8_t *high, const int8_t *low, bool both)
{
    const __m512i h = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)high));
    const __m512i l = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)low));
    return pairs_of(_mm512_cvtepi32_ps(both ? _mm512_slli_epi32(h, 23) : _mm512_slli_epi32(h, 16)),
                    both ? _mm512_cvtepi32_ps(_mm512_slli_epi32(l, 16)) : _mm512_setzero_ps());
}

// How tokens are cut into tiles, and what a tile takes.
struct cut {
    size_t tiles, tokens, x_unit;
};

// One tile's group of units, from unit `first` on; `count` of its tokens there are.
INLINE void pack_tile(uint8_t *to, const struct hearth_acts *acts, size_t count, const struct cut *c,
                      size_t first, size_t unit, bool has_min, size_t planes)
{
    __m512i d[16], sum[16];
    for (size_t t = 0; t < TILE_ROWS; t++) {
        d[t] = t < count ? lanes_of_d(&acts[t], first, unit, planes) : _mm512_setzero_si512();
        sum[t] = t < count && has_min ? lanes_of_sum(&acts[t], first, unit, planes) : _mm512_setzero_si512();
    }
    i_transpose(d);
    i_transpose(sum);
    for (size_t u = 0; u < LANES; u++, to += c->x_unit) {
        struct side *side = (struct side *)(void *)to;
        uint8_t *rows = to + sizeof *side;
        _mm512_store_si512(side->d, d[u]);
        _mm512_store_si512(side->sum, sum[u]);
        for (size_t t = 0; t < c->tokens; t++, rows += TILE_BYTES) {
            const size_t from = (first + u) * unit, second = c->tokens * TILE_BYTES;
            const bool is_one = t < count;
            if (unit == 16) {
                _mm512_store_si512(rows, is_one ? row_of_16(acts[t].hi + from, acts[t].lo + from, planes == 2)
                                                : _mm512_setzero_si512());
                continue;
            }
            _mm512_store_si512(rows,
                               is_one ? row_of_32(acts[t].hi + from, planes == 2) : _mm512_setzero_si512());
            if (planes == 2)
                _mm512_store_si512(rows + second,
                                   is_one ? row_of_32(acts[t].lo + from, false) : _mm512_setzero_si512());
        }
    }
}

// ---- one call

typedef void (*fill_fn)(struct tiles_scratch *to, size_t half, const struct rows *from);
typedef void (*sweep_fn)(const struct sweep *s);

static const struct format {
    const struct shape *shape;
    fill_fn fill;
} formats[HEARTH_TYPE_END];

// What a call is about.
struct call {
    uint32_t type;
    float *out;
    const uint8_t *w, *x;
    size_t out_stride, w_stride, x_stride, k, n_rows, n_tokens;
    struct tiles_scratch *scratch;
};

#define SWEEPS(X)                                                                                            \
    X(one, false, ONE_PLANE)                                                                                 \
    X(one_min, true, ONE_PLANE)                                                                              \
    X(two, false, IN_TILES) X(two_min, true, IN_TILES) X(apart, false, IN_REGISTERS)
#define SWEEP(name, has_min, planes)                                                                         \
    static void sweep_8_##name(const struct sweep *s)                                                        \
    {                                                                                                        \
        sweep(s, 8, has_min, planes);                                                                        \
    }                                                                                                        \
    static void sweep_12_##name(const struct sweep *s)                                                       \
    {                                                                                                        \
        sweep(s, 12, has_min, planes);                                                                       \
    }
SWEEPS(SWEEP)

static sweep_fn sweep_of(size_t tokens, bool has_min, enum planes planes)
{
#define ENTER(name, min, planes) [planes][min] = {sweep_8_##name, sweep_12_##name},
    static const sweep_fn all[3][2][2] = {SWEEPS(ENTER)};
#undef ENTER
    return all[planes][has_min][tokens == 12];
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t planes_of(const struct call *c)
{
    return (size_t)hearth_prompt_planes(c->type);
}

static enum planes meeting_place(const struct call *c)
{
    const struct shape *s = formats[c->type].shape;
    if (s->unit == 16 || planes_of(c) == 1)
        return ONE_PLANE;
    return s->offset == 128 ? IN_REGISTERS : IN_TILES; // 128: weights of eight bits
}

// Tiles of eight or of twelve tokens, whichever make less work.
static struct cut cut_tokens(const struct call *c)
{
    const size_t eights = (c->n_tokens + 7) / 8, twelves = (c->n_tokens + 11) / 12;
    struct cut cut = {eights, 8, 0};
    if (twelves * 13 <= eights * 9)
        cut = (struct cut){twelves, 12, 0};
    cut.x_unit = sizeof(struct side) + cut.tokens * TILE_BYTES * (meeting_place(c) == ONE_PLANE ? 1 : 2);
    return cut;
}

static void configure(size_t tokens)
{
    struct tile_shapes s = {.palette = 1};
    for (size_t t = 0; t < N_TILES; t++) {
        s.rows[t] = (uint8_t)(t < 6 ? tokens : TILE_ROWS);
        s.row_bytes[t] = TILE_BYTES;
    }
    tiles_configure(&s);
}

// Asks for what pack_tile() will read of a token.
INLINE void fetch_acts(const struct hearth_acts *acts, size_t first, const struct shape *s, size_t planes)
{
    for (size_t i = 0; i < LANES * (size_t)s->unit; i += 64) {
        _mm_prefetch((const char *)acts->hi + first * s->unit + i, _MM_HINT_T0);
        if (planes == 2)
            _mm_prefetch((const char *)acts->lo + first * s->unit + i, _MM_HINT_T0);
    }
    _mm_prefetch((const char *)(acts->d + first * s->unit / 32), _MM_HINT_T0);
    const int32_t *sum = planes == 2 ? acts->sum : acts->bias;
    for (size_t i = 0; s->has_min && i < LANES * (size_t)s->unit / 16; i += 16)
        _mm_prefetch((const char *)(sum + first * s->unit / 16 + i), _MM_HINT_T0);
}

// All tokens' units [first, first + LANES).
static void pack(const struct call *c, const struct cut *cut, size_t first)
{
    const struct shape *s = formats[c->type].shape;
    for (size_t tile = 0; tile < cut->tiles; tile++) {
        struct hearth_acts acts[MAX_TOKENS];
        const size_t token = tile * cut->tokens;
        const size_t count = c->n_tokens > token ? least(cut->tokens, c->n_tokens - token) : 0;
        for (size_t t = 0; t < count; t++) {
            acts[t] = hearth_acts_view(c->x + (token + t) * c->x_stride, c->k);
            if (token + t + cut->tokens < c->n_tokens) {
                const struct hearth_acts next =
                    hearth_acts_view(c->x + (token + t + cut->tokens) * c->x_stride, c->k);
                fetch_acts(&next, first, s, planes_of(c));
            }
        }
        pack_tile(c->scratch->packed + tile * LANES * cut->x_unit, acts, count, cut, first, s->unit,
                  s->has_min, planes_of(c));
    }
}

// Floats of a panel's accumulators.
static size_t acc_floats(const struct cut *cut)
{
    return cut->tiles * cut->tokens * HALVES * COLUMNS;
}

// One group of units, from element `at` on, of all rows.
static void add_group(const struct call *c, const struct cut *cut, size_t at)
{
    const struct hearth_type_info *info = hearth_type_info(c->type);
    const struct format *f = &formats[c->type];
    const size_t group = (size_t)f->shape->unit * LANES, panel_rows = HALVES * COLUMNS;
    const size_t left = least(group, c->k - at), bytes = left / info->block_elems * info->block_bytes;
    const uint8_t *w = c->w + at / info->block_elems * info->block_bytes;
    float *acc = c->scratch->acc;
    for (size_t r = 0; r < c->n_rows; r += panel_rows, acc += acc_floats(cut)) {
        for (size_t half = 0; half < HALVES; half++) {
            const size_t first = least(r + half * COLUMNS, c->n_rows - 1);
            f->fill(c->scratch, half,
                    &(struct rows){w + first * c->w_stride, c->w_stride, least(COLUMNS, c->n_rows - first),
                                   bytes, group / info->block_elems * info->block_bytes,
                                   left / f->shape->unit});
        }
        const size_t behind = r + panel_rows < c->n_rows ? r + panel_rows : 0; // of the next group then
        const size_t skip = behind ? 0 : bytes, ahead_rows = least(panel_rows, c->n_rows - behind);
        struct ahead ahead = {w + behind * c->w_stride + skip, c->w_stride,
                              behind || at + group < c->k ? ahead_rows : 0, bytes, 0};
        tiles_see_memory();
        for (size_t u = 0; u < LANES && u * f->shape->unit < left; u += UNITS)
            sweep_of(cut->tokens, f->shape->has_min, meeting_place(c))(&(struct sweep){
                .units = c->scratch->panel + u,
                .ring = c->scratch->ring,
                .x = c->scratch->packed + u * cut->x_unit,
                .x_unit = cut->x_unit,
                .x_tile = LANES * cut->x_unit,
                .n_tiles = cut->tiles,
                .acc = acc,
                .first = at == 0 && u == 0,
                .ahead = &ahead,
                .ahead_lines = (bytes + 63) / 64 * panel_rows * UNITS / LANES / cut->tiles + 1,
            });
    }
}

static void write_out(const struct call *c, const struct cut *cut)
{
    const float *acc = c->scratch->acc;
    for (size_t r = 0; r < c->n_rows; r += HALVES * COLUMNS, acc += acc_floats(cut))
        for (size_t t = 0; t < c->n_tokens; t++)
            for (size_t half = 0; half < HALVES && r + half * COLUMNS < c->n_rows; half++) {
                const size_t row = r + half * COLUMNS, n = least(COLUMNS, c->n_rows - row);
                _mm512_mask_storeu_ps(c->out + t * c->out_stride + row,
                                      (__mmask16)_bzhi_u32(0xffff, (unsigned)n),
                                      _mm512_load_ps(acc + (t * HALVES + half) * COLUMNS));
            }
}

// As many rows and tokens as the scratch has room for.
static void block(const struct call *c, const struct cut *cut)
{
    const size_t group = (size_t)formats[c->type].shape->unit * LANES;
    for (size_t at = 0; at < c->k; at += group) {
        pack(c, cut, at / formats[c->type].shape->unit);
        add_group(c, cut, at);
    }
    write_out(c, cut);
}

static void product(const struct call *all)
{
    const size_t most = meeting_place(all) == ONE_PLANE ? PROMPT_TOKENS : TWO_PLANES;
    for (size_t t = 0; t < all->n_tokens; t += most) {
        struct call c = *all;
        c.n_tokens = least(most, all->n_tokens - t);
        c.x = all->x + t * c.x_stride;
        const struct cut cut = cut_tokens(&c);
        const size_t rows = ACC_FLOATS / acc_floats(&cut) * HALVES * COLUMNS;
        configure(cut.tokens);
        for (size_t r = 0; r < all->n_rows; r += rows) {
            c.n_rows = least(rows, all->n_rows - r);
            c.w = all->w + r * c.w_stride;
            c.out = all->out + t * c.out_stride + r;
            block(&c, &cut);
        }
    }
    tiles_release();
}

// ---- formats

// Weights of up to five bits are looked up. Wider ones, those of IQ4's list and of IQ2's and IQ3_XXS's grids,
// once unpacked, are signed bytes.
#define CODING(shape) ((shape).offset >= 32 ? SIGNED_BYTES : TABLE)

#define FORMAT(type, unpack, shape)                                                                          \
    static void fill_##type(struct tiles_scratch *to, size_t half, const struct rows *from)                  \
    {                                                                                                        \
        fill(to, half, from, unpack, CODING(shape), &shape, &straight_formats[HEARTH_TYPE_##type]);          \
    }                                                                                                        \
    static void prompt_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,       \
                              size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch) \
    {                                                                                                        \
        product(&(struct call){HEARTH_TYPE_##type, out, w, x, out_stride, w_stride, x_stride, k, n_rows,     \
                               n_tokens, scratch});                                                          \
    }
HEARTH_UNITS_AVX512(FORMAT)

static const struct format formats[HEARTH_TYPE_END] = {
#define ENTER(type, unpack, shape) [HEARTH_TYPE_##type] = {&shape, fill_##type},
    HEARTH_UNITS_AVX512(ENTER)
#undef ENTER
};

void NAMED(hearth_kernels_init_tiles)(struct hearth_kernels *t)
{
#define ENTER(type, unpack, shape) t->prompt[HEARTH_TYPE_##type] = prompt_##type;
    HEARTH_UNITS_AVX512(ENTER)
#undef ENTER
    hearth_kernels_raise_scratch(t, scratch_bytes);
}

#if !defined(HEARTH_TILES_MODEL)

// Filling panels of weights and packing activations have to be made up for: docs/speed-log.md has the
// measurements.
static bool tiles_pay(size_t k, size_t n_rows, size_t n_tokens)
{
    return n_tokens >= 128 && n_rows >= 256 && k >= 2048;
}

#define CHOICE(type, unpack, shape)                                                                          \
    static void choose_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,       \
                              size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch) \
    {                                                                                                        \
        if (tiles_pay(k, n_rows, n_tokens))                                                                  \
            prompt_##type(out, out_stride, w, w_stride, k, n_rows, x, x_stride, n_tokens, scratch);          \
        else                                                                                                 \
            hearth_prompt_avx512(HEARTH_TYPE_##type, out, out_stride, w, w_stride, k, n_rows, x, x_stride,   \
                                 n_tokens, scratch);                                                         \
    }
HEARTH_UNITS_AVX512(CHOICE)

void hearth_kernels_init_prompt_amx(struct hearth_kernels *t)
{
    hearth_kernels_init_tiles_amx(t);
#define ENTER(type, unpack, shape) t->prompt[HEARTH_TYPE_##type] = choose_##type;
    HEARTH_UNITS_AVX512(ENTER)
#undef ENTER
}

#endif
