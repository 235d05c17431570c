// SPDX-License-Identifier: MIT
// Products of block formats with AMX tiles: prompts, and steps of several tokens.
//
// One tile product is one unit of up to 16 tokens and 16 rows of weights: A has a token's activations in each
// row, straight from the acts blocks; B has four consecutive weights of each of the 16 rows side by side,
// from a panel in the first cache; C gets the exact sums. Then the vector units convert each and add it with
// one fma, a register a token, lanes being rows of weights. A C tile is stored while the tiles of the units
// behind it are computed, and added four units after its product was asked for, so that nobody waits.
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

#define COLUMNS 16 // rows of weights of a B tile
// A panel is 32 rows 512 elements deep for prompts, 16 rows 1024 elements deep for steps, which keep a lane's
// accumulators in registers as long as the panel is deep.
#define PANEL_BYTES   16384
#define PROMPT_HALVES 2 // B tiles side by side
#define PROMPT_DEPTH  (PANEL_BYTES / COLUMNS / PROMPT_HALVES)
#define STEP_DEPTH    (PANEL_BYTES / COLUMNS)
#define PANEL_UNITS   (PANEL_BYTES / COLUMNS / 16) // B tiles of a panel, at most
// Tokens that share a filled panel: their activations, as deep as the panel, stay in the second cache.
#define PROMPT_TOKENS 512
#define STEP_TOKENS   64
#define STEP_FROM     8 // fewer tokens are faster without tiles
// Units between asking for a product and adding it.
#define BEHIND 4
// Bytes between rows taken apart: not all in the same sets of the cache.
#define APART (512 + 64)

struct panel {
    int8_t q[PANEL_BYTES];              // [half][unit][unit_elems / 4][COLUMNS][4]
    float scale[PANEL_UNITS * COLUMNS]; // [half][unit][COLUMNS]
    float min[PANEL_UNITS * COLUMNS];   // only of formats with one
};

struct tiles_scratch {
    struct panel panel;
    int32_t ring[BEHIND][2][TILE_ROWS * COLUMNS]; // stored C tiles: of the high plane, of the low one
    uint8_t apart[COLUMNS][APART];                // a group of 16 units of 16 rows
    float acc[STEP_TOKENS * LANES * COLUMNS];     // of steps: [tile][lane][TILE_ROWS][COLUMNS]
    _Alignas(64) float side[];                    // d, then sums: [tile][unit][token]
};

// d and sums of `tokens` tokens with `units` units.
#define SIDE_BYTES(tokens, units) (2 * sizeof(float) * (tokens) * (units))

size_t NAMED(hearth_tiles_scratch)(size_t k)
{
    const size_t prompt = SIDE_BYTES(PROMPT_TOKENS, PROMPT_DEPTH / 16);
    const size_t step = SIDE_BYTES(STEP_TOKENS, hearth_acts_padded(k) / 16);
    return sizeof(struct tiles_scratch) + (prompt > step ? prompt : step);
}

// ---- hot path

// Where a unit's parts are, from where the panel or the tile of tokens begins.
struct place {
    uint16_t q;     // its B tile, bytes
    uint16_t scale; // its scales and minima, floats
    uint16_t x;     // its activations, bytes
    uint16_t side;  // its d and sums, floats
};

// All tiles of tokens against a filled panel. Places come in segments that share accumulators.
struct sweep {
    struct tiles_scratch *w;
    const struct place *places;
    size_t n_places, segment; // in all, of a segment
    const int8_t *x;          // the first token's high plane, where the panel begins
    size_t x_stride, low;     // bytes to the next token, to the low plane
    const float *d, *sum;
    size_t side_tile;                         // floats from a tile's d to the next one's
    float *acc;                               // of the first segment: [token][COLUMNS]
    size_t acc_stride, acc_segment, acc_tile; // floats from a token's, segment's, tile's to the next one's
    __mmask16 last;                           // rows of weights of the last segment
    bool first;                               // accumulators begin at zero
    size_t n_tiles, tokens;                   // of a tile
    // The last tile begins so many tokens early that it is whole. Of prompts it leaves these alone, steps
    // give them the same once more.
    size_t early, skip;
    const uint8_t *ahead; // rows to ask for meanwhile
    size_t ahead_stride, ahead_rows, ahead_bytes;
};

// The same with t = 0, 1, ...; compilers leave arrays of so many registers in memory.
#define SIXTEEN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

// Tiles: 0 to 3 are sums (of two planes: 0 and 1 of the high one, 2 and 3 of the low one), 4 and 5
// activations, 6 and 7 weights. `rows` is a constant, s->tokens rounded up.
INLINE void sweep(const struct sweep *s, size_t rows, bool has_min, size_t planes)
{
    const struct place *places = s->places;
    const size_t n_places = s->n_places, n_tiles = s->n_tiles, stride = s->x_stride, low = s->low;
    const size_t n = n_places * n_tiles, acc_stride = s->acc_stride;
    const bool whole = s->tokens == rows;
    const struct panel *panel = &s->w->panel;
    int32_t(*ring)[2][TILE_ROWS * COLUMNS] = s->w->ring;

    const int8_t *x = s->x; // of the products asked for
    size_t x_place = 0, x_tile = 0;

    const float *d = s->d, *sum = s->sum; // of the products added
    float *acc_tile = s->acc, *acc = acc_tile;
    size_t place = 0, in_segment = 0, tile = 0;
    size_t from = 0; // first token of the tile that is its own
    __mmask16 live = n_places == s->segment ? s->last : 0xffff;

    const size_t lines = (s->ahead_bytes + 63) / 64 * s->ahead_rows;
    const size_t share = (lines * s->segment + n - 1) / n;
    const uint8_t *ahead = s->ahead;
    size_t ahead_left = s->ahead_rows, ahead_at = 0;

#define DECLARE(t) __m512 a##t = _mm512_setzero_ps();
    SIXTEEN(DECLARE)
#undef DECLARE

#define ASK(high, low_, b)                                                                                   \
    {                                                                                                        \
        const struct place at = places[x_place];                                                             \
        tile_load(b, panel->q + at.q, TILE_BYTES);                                                           \
        if (planes == 2) {                                                                                   \
            tile_load(4, x + at.x, stride);                                                                  \
            tile_zero(high);                                                                                 \
            tile_dot(high, 4, b);                                                                            \
            tile_load(5, x + low + at.x, stride);                                                            \
            tile_zero(low_);                                                                                 \
            tile_dot(low_, 5, b);                                                                            \
        }                                                                                                    \
    }
#define ASK_HIGH(c, a, b)                                                                                    \
    {                                                                                                        \
        const struct place at = places[x_place];                                                             \
        tile_load(b, panel->q + at.q, TILE_BYTES);                                                           \
        tile_load(a, x + at.x, stride);                                                                      \
        tile_zero(c);                                                                                        \
        tile_dot(c, a, b);                                                                                   \
    }
#define NEXT_ASKED()                                                                                         \
    if (++x_place == n_places) {                                                                             \
        x_place = 0;                                                                                         \
        x_tile++;                                                                                            \
        if (x_tile < n_tiles)                                                                                \
            x = s->x + (x_tile * s->tokens - (x_tile + 1 == n_tiles ? s->early : 0)) * stride;               \
    }
#define ZERO(t) a##t = _mm512_setzero_ps();
#define LOAD(t)                                                                                              \
    if (rows > t)                                                                                            \
        a##t = _mm512_maskz_loadu_ps(live, acc + t * acc_stride);
#define STORE(t)                                                                                             \
    if (rows > t)                                                                                            \
        _mm512_mask_storeu_ps(acc + t * acc_stride, live, a##t);
#define OWN(t) if (rows > t && t >= from && t < s->tokens)
#define LOAD_OWN(t)                                                                                          \
    OWN(t)                                                                                                   \
    LOAD(t)
#define STORE_OWN(t)                                                                                         \
    OWN(t)                                                                                                   \
    STORE(t)
#define ADD(t)                                                                                               \
    if (rows > t) {                                                                                          \
        const __m512 dt = _mm512_set1_ps(d_at[t]);                                                           \
        __m512i dot = _mm512_load_si512(dots[0] + t * COLUMNS);                                              \
        if (planes == 2)                                                                                     \
            dot = _mm512_add_epi32(_mm512_slli_epi32(dot, 7), _mm512_load_si512(dots[1] + t * COLUMNS));     \
        a##t = _mm512_fmadd_ps(_mm512_mul_ps(scale, dt), _mm512_cvtepi32_ps(dot), a##t);                     \
        if (has_min)                                                                                         \
            a##t = _mm512_fmadd_ps(_mm512_mul_ps(min, dt), _mm512_set1_ps(sum_at[t]), a##t);                 \
    }
#define ADD_ALL(j)                                                                                           \
    {                                                                                                        \
        const struct place at = places[place];                                                               \
        const int32_t(*dots)[TILE_ROWS * COLUMNS] = (const int32_t(*)[TILE_ROWS * COLUMNS]) ring[j];         \
        const float *d_at = d + at.side, *sum_at = sum + at.side;                                            \
        const __m512 scale = _mm512_load_ps(panel->scale + at.scale);                                        \
        const __m512 min = has_min ? _mm512_load_ps(panel->min + at.scale) : scale;                          \
        (void)sum_at;                                                                                        \
        (void)min;                                                                                           \
        if (in_segment == 0) {                                                                               \
            if (s->first) {                                                                                  \
                SIXTEEN(ZERO)                                                                                \
            } else if (whole && !from) {                                                                     \
                SIXTEEN(LOAD)                                                                                \
            } else {                                                                                         \
                SIXTEEN(LOAD_OWN)                                                                            \
            }                                                                                                \
        }                                                                                                    \
        SIXTEEN(ADD)                                                                                         \
        place++;                                                                                             \
        if (++in_segment == s->segment) {                                                                    \
            if (whole && !from) {                                                                            \
                SIXTEEN(STORE)                                                                               \
            } else {                                                                                         \
                SIXTEEN(STORE_OWN)                                                                           \
            }                                                                                                \
            in_segment = 0;                                                                                  \
            acc += s->acc_segment;                                                                           \
            for (size_t line = 0; line < share && ahead_left; line++) {                                      \
                _mm_prefetch((const char *)ahead + ahead_at, _MM_HINT_T1);                                   \
                ahead_at += 64;                                                                              \
                if (ahead_at >= s->ahead_bytes) {                                                            \
                    ahead_at = 0;                                                                            \
                    ahead += s->ahead_stride;                                                                \
                    ahead_left--;                                                                            \
                }                                                                                            \
            }                                                                                                \
            if (place == n_places) {                                                                         \
                const bool last = ++tile + 1 == n_tiles;                                                     \
                place = 0;                                                                                   \
                from = last ? s->skip : 0;                                                                   \
                d += s->side_tile;                                                                           \
                sum += s->side_tile;                                                                         \
                acc_tile += s->acc_tile - (last ? s->skip * acc_stride : 0);                                 \
                acc = acc_tile;                                                                              \
            }                                                                                                \
            live = n_places - place == s->segment ? s->last : 0xffff;                                        \
        }                                                                                                    \
    }
// Unit i + j: asks for its product with one pair of tiles for sums, stores another's, adds a third's.
#define STAGE(j, high, low_, a, b, late, late_high, late_low)                                                \
    if (i + j < n) {                                                                                         \
        if (planes == 2)                                                                                     \
            ASK(high, low_, b)                                                                               \
        else                                                                                                 \
            ASK_HIGH(j, a, b)                                                                                \
        NEXT_ASKED()                                                                                         \
    }                                                                                                        \
    if (planes == 2) {                                                                                       \
        if (i + j >= 1 && i + j - 1 < n) {                                                                   \
            tile_store(late_high, ring[(j + 3) % 4][0], TILE_BYTES);                                         \
            tile_store(late_low, ring[(j + 3) % 4][1], TILE_BYTES);                                          \
        }                                                                                                    \
    } else if (i + j >= 2 && i + j - 2 < n) {                                                                \
        tile_store(late, ring[(j + 2) % 4][0], TILE_BYTES);                                                  \
    }                                                                                                        \
    if (i + j >= BEHIND && i + j - BEHIND < n)                                                               \
    ADD_ALL(j)

    for (size_t i = 0; i < n + BEHIND; i += 4) {
        STAGE(0, 0, 2, 4, 6, 2, 1, 3)
        STAGE(1, 1, 3, 5, 7, 3, 0, 2)
        STAGE(2, 0, 2, 4, 6, 0, 1, 3)
        STAGE(3, 1, 3, 5, 7, 1, 0, 2)
    }
#undef ASK
#undef ASK_HIGH
#undef NEXT_ASKED
#undef ZERO
#undef LOAD
#undef STORE
#undef OWN
#undef LOAD_OWN
#undef STORE_OWN
#undef ADD
#undef ADD_ALL
#undef STAGE
}

// ---- filling panels

// 16 bytes of each of 16 rows, four of each row side by side.
INLINE void columns(__m512i to[4], const uint8_t *from, size_t stride)
{
    __m512i z[4]; // z[i]: rows i, 4 + i, 8 + i, 12 + i
    for (size_t i = 0; i < 4; i++) {
        const uint8_t *row = from + i * stride;
        z[i] = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)row));
        for (size_t q = 1; q < 4; q++)
            z[i] = _mm512_mask_broadcast_i32x4(
                z[i], (__mmask16)(0xf << 4 * q),
                _mm_loadu_si128((const __m128i *)(const void *)(row + 4 * q * stride)));
    }
    const __m512i low01 = _mm512_unpacklo_epi32(z[0], z[1]), high01 = _mm512_unpackhi_epi32(z[0], z[1]);
    const __m512i low23 = _mm512_unpacklo_epi32(z[2], z[3]), high23 = _mm512_unpackhi_epi32(z[2], z[3]);
    to[0] = _mm512_unpacklo_epi64(low01, low23);
    to[1] = _mm512_unpackhi_epi64(low01, low23);
    to[2] = _mm512_unpacklo_epi64(high01, high23);
    to[3] = _mm512_unpackhi_epi64(high01, high23);
}

// Formats whose bytes can be put side by side before they are taken apart, which nibbles make half the work.
enum straight_kind {
    TAKEN_APART, // none of these
    BYTES,       // signed bytes, 16 of a piece
    NIBBLES,     // of the units' first halves, and of their second ones
    NIBBLES_K    // of a unit, and of the next one
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

#define PIECE_BYTES (16 * COLUMNS) // of a B tile

// A group of 16 whole rows.
INLINE void fill_straight(int8_t *q, const uint8_t *src, size_t stride, const struct straight *f, int offset)
{
    const __m512i mask = _mm512_set1_epi8(15), values = iq4_values(), less = _mm512_set1_epi8((char)offset);
    for (size_t i = 0; i < (f->kind == BYTES ? 32 : 16); i++) {
        __m512i z[4];
        columns(z, src + i / f->pieces * f->bytes + f->first + i % f->pieces * 16, stride);
        // Two pieces of a unit follow each other.
        const size_t first = f->kind == NIBBLES_K ? i / 2 * 4 + i % 2 : f->kind == NIBBLES ? 2 * i : i;
        const size_t second = first + (f->kind == NIBBLES_K ? 2 : 1);
        for (size_t j = 0; j < 4; j++) {
            if (f->kind == BYTES) {
                _mm512_store_si512(q + first * PIECE_BYTES + 64 * j, z[j]);
                continue;
            }
            __m512i low = _mm512_and_si512(z[j], mask);
            __m512i high = _mm512_and_si512(_mm512_srli_epi16(z[j], 4), mask);
            if (f->iq4) {
                low = _mm512_shuffle_epi8(values, low);
                high = _mm512_shuffle_epi8(values, high);
            }
            _mm512_store_si512(q + first * PIECE_BYTES + 64 * j, _mm512_sub_epi8(low, less));
            _mm512_store_si512(q + second * PIECE_BYTES + 64 * j, _mm512_sub_epi8(high, less));
        }
    }
}

// Sixteen rows' scales (or minima) of 16 units: a row of `to` each unit.
INLINE void spread_floats(float *to, __m512i z[16], const struct shape *s)
{
    i_transpose(z);
    for (int lane = 0; lane < LANES; lane++)
        _mm512_store_si512(to + s->order[lane] * COLUMNS, z[lane]);
}

// A group of 16 units of one row: its scales and minima, and its bytes where they are wanted.
INLINE void take_apart(uint8_t *to, __m512i *scale, __m512i *min, const uint8_t *src, unpack_fn unpack,
                       const struct shape *s)
{
    const __m512i offset = _mm512_set1_epi8((char)s->offset);
    struct weights w;
    unpack(&w, src);
    for (size_t r = 0; to && r < s->registers; r++)
        _mm512_store_si512(to + 64 * r, s->has_min ? w.u[r] : _mm512_sub_epi8(w.u[r], offset));
    *scale = _mm512_castps_si512(w.scale);
    if (s->has_min)
        *min = _mm512_castps_si512(w.min);
}

// Fills one half of the panel from `bytes` bytes of each of `rows` rows, in whole groups of 16 units: what is
// missing at a row's end is zeros, rows that are missing repeat the last one.
INLINE void fill(struct tiles_scratch *to, size_t half, const uint8_t *src, size_t stride, size_t rows,
                 size_t bytes, size_t group_bytes, unpack_fn unpack, const struct shape *s,
                 const struct straight *straight)
{
    const size_t half_units = PANEL_BYTES / COLUMNS / PROMPT_HALVES / s->unit;
    float *scale = to->panel.scale + half * half_units * COLUMNS;
    float *min = to->panel.min + half * half_units * COLUMNS;
    int8_t *q = to->panel.q + half * (PANEL_BYTES / PROMPT_HALVES);
    for (size_t at = 0; at < bytes; at += group_bytes) {
        __m512i scales[16], minima[16];
        if (straight->kind != TAKEN_APART && rows == COLUMNS && bytes - at >= group_bytes) {
            for (size_t i = 0; i < COLUMNS; i++)
                take_apart(NULL, &scales[i], &minima[i], src + i * stride + at, unpack, s);
            fill_straight(q, src + at, stride, straight, s->offset);
        } else {
            for (size_t i = 0; i < COLUMNS; i++) {
                const uint8_t *from = src + (i < rows ? i : rows - 1) * stride + at;
                uint8_t padded[GROUP_BYTES];
                if (bytes - at < group_bytes) {
                    memset(padded, 0, sizeof padded);
                    from = memcpy(padded, from, bytes - at);
                }
                take_apart(to->apart[i], &scales[i], &minima[i], from, unpack, s);
            }
            for (size_t r = 0; r < s->registers; r++)
                for (size_t p = 0; p < 4; p++) {
                    __m512i z[4];
                    columns(z, to->apart[0] + 64 * r + 16 * p, APART);
                    for (size_t j = 0; j < 4; j++)
                        _mm512_store_si512(q + s->pieces[r][p] * (size_t)PIECE_BYTES + 64 * j, z[j]);
                }
        }
        spread_floats(scale, scales, s);
        if (s->has_min)
            spread_floats(min, minima, s);
        q += (size_t)s->unit * LANES * COLUMNS;
        scale += LANES * COLUMNS;
        min += LANES * COLUMNS;
    }
}

// ---- d and sums of activations

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

// How tokens are cut into tiles: evenly, the last one whole.
struct cut {
    size_t tiles, tokens, early;
};

static struct cut cut_tokens(size_t n)
{
    struct cut c = {.tiles = (n + TILE_ROWS - 1) / TILE_ROWS};
    c.tokens = (n + c.tiles - 1) / c.tiles;
    c.early = c.tiles * c.tokens - n;
    return c;
}

static size_t first_of(const struct cut *c, size_t tile)
{
    return tile * c->tokens - (tile + 1 == c->tiles ? c->early : 0);
}

// Units [first, first + n) of all tiles of tokens from x on; n is rounded up to 16.
static void gather_side(float *d, float *sum, const uint8_t *x, size_t x_stride, size_t k,
                        const struct cut *c, size_t first, size_t n, size_t unit, bool has_min, size_t planes)
{
    n = (n + LANES - 1) / LANES * LANES;
    for (size_t tile = 0; tile < c->tiles; tile++)
        for (size_t u = 0; u < n; u += LANES, d += LANES * TILE_ROWS, sum += LANES * TILE_ROWS) {
            __m512i z[16], y[16];
            for (size_t t = 0; t < TILE_ROWS; t++) {
                z[t] = y[t] = _mm512_setzero_si512();
                if (t >= c->tokens)
                    continue;
                const struct hearth_acts acts = hearth_acts_view(x + (first_of(c, tile) + t) * x_stride, k);
                z[t] = lanes_of_d(&acts, first + u, unit, planes);
                if (has_min)
                    y[t] = lanes_of_sum(&acts, first + u, unit, planes);
            }
            i_transpose(z);
            for (size_t i = 0; i < LANES; i++)
                _mm512_store_si512(d + i * TILE_ROWS, z[i]);
            if (!has_min)
                continue;
            i_transpose(y);
            for (size_t i = 0; i < LANES; i++)
                _mm512_store_si512(sum + i * TILE_ROWS, y[i]);
        }
}

// ---- one call

typedef void (*fill_fn)(struct tiles_scratch *to, size_t half, const uint8_t *src, size_t stride, size_t rows,
                        size_t bytes, size_t group_bytes);
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
    size_t planes;
};

#define SWEEP(name, has_min, planes)                                                                         \
    static void sweep_8_##name(const struct sweep *s)                                                        \
    {                                                                                                        \
        sweep(s, 8, has_min, planes);                                                                        \
    }                                                                                                        \
    static void sweep_12_##name(const struct sweep *s)                                                       \
    {                                                                                                        \
        sweep(s, 12, has_min, planes);                                                                       \
    }                                                                                                        \
    static void sweep_16_##name(const struct sweep *s)                                                       \
    {                                                                                                        \
        sweep(s, 16, has_min, planes);                                                                       \
    }
SWEEP(1, false, 1)
SWEEP(1_min, true, 1)
SWEEP(2, false, 2)
SWEEP(2_min, true, 2)

static sweep_fn sweep_of(size_t tokens, bool has_min, size_t planes)
{
#define SIZES(name)                                                                                          \
    {                                                                                                        \
        sweep_8_##name, sweep_12_##name, sweep_16_##name                                                     \
    }
    static const sweep_fn all[2][2][3] = {{SIZES(1), SIZES(1_min)}, {SIZES(2), SIZES(2_min)}};
#undef SIZES
    return all[planes - 1][has_min][tokens <= 8 ? 0 : tokens <= 12 ? 1 : 2];
}

static void configure(size_t unit, size_t tokens)
{
    struct tile_shapes s = {.palette = 1};
    for (size_t t = 0; t < N_TILES; t++) {
        const bool weights = t >= 6, activations = t == 4 || t == 5;
        s.rows[t] = (uint8_t)(weights ? unit / 4 : tokens);
        s.row_bytes[t] = (uint16_t)(activations ? unit : TILE_BYTES);
    }
    tiles_configure(&s);
}

static struct place place_of(size_t half, size_t u, size_t unit)
{
    const size_t in_panel = half * (PANEL_BYTES / COLUMNS / PROMPT_HALVES / unit) + u;
    return (struct place){(uint16_t)(in_panel * unit * COLUMNS), (uint16_t)(in_panel * COLUMNS),
                          (uint16_t)(u * unit), (uint16_t)(u * TILE_ROWS)};
}

// Bytes of n elements of a row; n is a whole number of blocks.
static size_t bytes_of(uint32_t type, size_t n)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    return n / info->block_elems * info->block_bytes;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

// ---- prompts

// All rows against one stretch of the activations, which so stays in the second cache, before the next.
static void prompt_stretch(const struct call *c, const struct cut *cut, size_t first, size_t at)
{
    const struct format *f = &formats[c->type];
    const size_t unit = f->shape->unit, depth = least(PROMPT_DEPTH, c->k - at), units = depth / unit;
    const size_t side_tile = (units + LANES - 1) / LANES * LANES * TILE_ROWS;
    const uint8_t *x = c->x + first * c->x_stride, *w = c->w + bytes_of(c->type, at);
    struct tiles_scratch *scratch = c->scratch;
    float *d = scratch->side, *sum = d + cut->tiles * side_tile;
    struct place places[PANEL_UNITS];
    for (size_t half = 0; half < PROMPT_HALVES; half++)
        for (size_t u = 0; u < units; u++)
            places[half * units + u] = place_of(half, u, unit);
    gather_side(d, sum, x, c->x_stride, c->k, cut, at / unit, units, unit, f->shape->has_min, c->planes);
    for (size_t r = 0; r < c->n_rows; r += PROMPT_HALVES * COLUMNS) {
        const size_t rows = least(PROMPT_HALVES * COLUMNS, c->n_rows - r), bytes = bytes_of(c->type, depth);
        const size_t halves = (rows + COLUMNS - 1) / COLUMNS, left = c->n_rows - r - rows;
        for (size_t half = 0; half < halves; half++)
            f->fill(scratch, half, w + (r + half * COLUMNS) * c->w_stride, c->w_stride,
                    least(COLUMNS, rows - half * COLUMNS), bytes, bytes_of(c->type, unit * LANES));
        const struct sweep s = {
            .w = scratch,
            .places = places,
            .n_places = halves * units,
            .segment = units,
            .x = hearth_acts_view(x, c->k).hi + at,
            .x_stride = c->x_stride,
            .low = hearth_acts_padded(c->k),
            .d = d,
            .sum = sum,
            .side_tile = side_tile,
            .acc = c->out + first * c->out_stride + r,
            .acc_stride = c->out_stride,
            .acc_segment = COLUMNS,
            .acc_tile = cut->tokens * c->out_stride,
            .last = (__mmask16)_bzhi_u32(0xffff, (unsigned)(rows - (halves - 1) * COLUMNS)),
            .first = at == 0,
            .n_tiles = cut->tiles,
            .tokens = cut->tokens,
            .early = cut->early,
            .skip = cut->early,
            .ahead = left ? w + (r + rows) * c->w_stride : NULL,
            .ahead_stride = c->w_stride,
            .ahead_rows = least(PROMPT_HALVES * COLUMNS, left),
            .ahead_bytes = bytes,
        };
        tiles_see_memory();
        sweep_of(cut->tokens, f->shape->has_min, c->planes)(&s);
    }
}

static void prompt(const struct call *c)
{
    for (size_t first = 0; first < c->n_tokens; first += PROMPT_TOKENS) {
        const struct cut cut = cut_tokens(least(PROMPT_TOKENS, c->n_tokens - first));
        configure(formats[c->type].shape->unit, cut.tokens);
        for (size_t at = 0; at < c->k; at += PROMPT_DEPTH)
            prompt_stretch(c, &cut, first, at);
    }
    tiles_release();
}

// ---- steps

// The canonical tree over lanes, of one token.
INLINE __m512 tree(const float *acc)
{
    __m512 l[LANES];
    for (size_t lane = 0; lane < LANES; lane++)
        l[lane] = _mm512_load_ps(acc + lane * TILE_ROWS * COLUMNS);
    for (size_t width = LANES / 2; width; width /= 2)
        for (size_t i = 0; i < width; i++)
            l[i] = _mm512_add_ps(l[i], l[i + width]);
    return l[0];
}

// Rows [r, r + COLUMNS), or what there is of them, of all tiles of tokens.
static void step_rows(const struct call *c, const struct cut *cut, const float *d, const float *sum, size_t r)
{
    const struct format *f = &formats[c->type];
    const size_t unit = f->shape->unit, rows = least(COLUMNS, c->n_rows - r);
    const size_t group = unit * LANES,
                 all = (c->k + group - 1) / group * LANES; // units, the padding included
    struct tiles_scratch *scratch = c->scratch;
    float *acc = scratch->acc;
    for (size_t at = 0; at < c->k; at += STEP_DEPTH) {
        const size_t depth = least(STEP_DEPTH, c->k - at), groups = (depth + group - 1) / group;
        const size_t bytes = bytes_of(c->type, depth), next = at + depth;
        const uint8_t *w = c->w + r * c->w_stride + bytes_of(c->type, at);
        struct place places[PANEL_UNITS];
        for (size_t lane = 0; lane < LANES; lane++)
            for (size_t g = 0; g < groups; g++)
                places[lane * groups + g] = place_of(0, g * LANES + lane, unit);
        f->fill(scratch, 0, w, c->w_stride, rows, bytes, bytes_of(c->type, group));
        const size_t left = next < c->k ? rows : least(COLUMNS, c->n_rows - r - rows);
        const struct sweep s = {
            .w = scratch,
            .places = places,
            .n_places = groups * LANES,
            .segment = groups,
            .x = hearth_acts_view(c->x, c->k).hi + at,
            .x_stride = c->x_stride,
            .low = hearth_acts_padded(c->k),
            .d = d + at / unit * TILE_ROWS,
            .sum = sum + at / unit * TILE_ROWS,
            .side_tile = all * TILE_ROWS,
            .acc = acc,
            .acc_stride = COLUMNS,
            .acc_segment = TILE_ROWS * COLUMNS,
            .acc_tile = LANES * TILE_ROWS * COLUMNS,
            .last = 0xffff,
            .first = at == 0,
            .n_tiles = cut->tiles,
            .tokens = cut->tokens,
            .early = cut->early,
            .ahead = !left         ? NULL
                     : next < c->k ? w + bytes
                                   : c->w + (r + rows) * c->w_stride,
            .ahead_stride = c->w_stride,
            .ahead_rows = left,
            .ahead_bytes = bytes_of(c->type, least(STEP_DEPTH, next < c->k ? c->k - next : c->k)),
        };
        tiles_see_memory();
        sweep_of(cut->tokens, f->shape->has_min, c->planes)(&s);
    }
    const __mmask16 live = (__mmask16)_bzhi_u32(0xffff, (unsigned)rows);
    for (size_t tile = 0; tile < cut->tiles; tile++)
        for (size_t t = 0; t < cut->tokens; t++)
            _mm512_mask_storeu_ps(c->out + (first_of(cut, tile) + t) * c->out_stride + r, live,
                                  tree(acc + (tile * LANES * TILE_ROWS + t) * COLUMNS));
}

static void step(const struct call *all)
{
    const struct shape *shape = formats[all->type].shape;
    const size_t group = (size_t)shape->unit * LANES, units = (all->k + group - 1) / group * LANES;
    for (size_t first = 0; first < all->n_tokens; first += STEP_TOKENS) {
        struct call c = *all;
        c.n_tokens = least(STEP_TOKENS, all->n_tokens - first);
        c.x += first * c.x_stride;
        c.out += first * c.out_stride;
        const struct cut cut = cut_tokens(c.n_tokens);
        float *d = c.scratch->side, *sum = d + cut.tiles * units * TILE_ROWS;
        configure(shape->unit, cut.tokens);
        gather_side(d, sum, c.x, c.x_stride, c.k, &cut, 0, units, shape->unit, shape->has_min, 2);
        for (size_t r = 0; r < c.n_rows; r += COLUMNS)
            step_rows(&c, &cut, d, sum, r);
    }
    tiles_release();
}

// ---- formats

#define FORMAT(type, unpack, shape)                                                                          \
    static void fill_##type(struct tiles_scratch *to, size_t half, const uint8_t *src, size_t stride,        \
                            size_t rows, size_t bytes, size_t group_bytes)                                   \
    {                                                                                                        \
        fill(to, half, src, stride, rows, bytes, group_bytes, unpack, &shape,                                \
             &straight_formats[HEARTH_TYPE_##type]);                                                         \
    }                                                                                                        \
    static void prompt_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,       \
                              size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch) \
    {                                                                                                        \
        prompt(&(struct call){HEARTH_TYPE_##type, out, w, x, out_stride, w_stride, x_stride, k, n_rows,      \
                              n_tokens, scratch, (size_t)hearth_prompt_planes(HEARTH_TYPE_##type)});         \
    }                                                                                                        \
    static void step_##type(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,         \
                            size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch)   \
    {                                                                                                        \
        if (n_tokens < STEP_FROM)                                                                            \
            hearth_step_avx512(HEARTH_TYPE_##type, out, out_stride, w, w_stride, k, n_rows, x, x_stride,     \
                               n_tokens, scratch);                                                           \
        else                                                                                                 \
            step(&(struct call){HEARTH_TYPE_##type, out, w, x, out_stride, w_stride, x_stride, k, n_rows,    \
                                n_tokens, scratch, 2});                                                      \
    }
HEARTH_UNITS_AVX512(FORMAT)

static const struct format formats[HEARTH_TYPE_END] = {
#define ENTER(type, unpack, shape) [HEARTH_TYPE_##type] = {&shape, fill_##type},
    HEARTH_UNITS_AVX512(ENTER)
#undef ENTER
};

void NAMED(hearth_kernels_init_tiles)(struct hearth_kernels *t)
{
#define ENTER(type, unpack, shape)                                                                           \
    t->prompt[HEARTH_TYPE_##type] = prompt_##type;                                                           \
    t->step[HEARTH_TYPE_##type] = step_##type;
    HEARTH_UNITS_AVX512(ENTER)
#undef ENTER
    hearth_kernels_raise_scratch(t, NAMED(hearth_tiles_scratch));
}
