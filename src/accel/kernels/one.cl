// SPDX-License-Identifier: MIT
// Products of block formats with one token, as most steps have it. What a group has of the token lies in local memory
// for thousands of elements, so that its items wait for one another once in these, and each one's next units are on their
// way while it computes: what a device's memory gives in a step is a matter of how much was asked of it by then.

#define ONE_GROUP 256
#define ONE_ROWS  (ONE_GROUP / LANES)
// Elements of the token in local memory, and what they are in units.
#define ONE_ELEMENTS    8192
#define ONE_UNITS(unit) (ONE_ELEMENTS / (unit))
// Units of a lane that are loaded together.
#define ONE_AHEAD(bits, unit) (UNIT_WORDS(bits, unit) == 2 ? 4 : 2)

// That is one piece, so that all of it is at numbers known beforehand from one address: [2][unit / 16][ONE_UNITS] of the
// token's planes, halves of units of 32 apart, so that lanes read side by side; then scales; then sums.
#define ONE_SCALES(c)    ((__local float *)((c) + 2 * ONE_ELEMENTS / 16))
#define ONE_SUMS(c, unit) ((__local int *)(ONE_SCALES(c) + ONE_UNITS(unit)))
#define ONE_MEMORY(unit)                                                       \
    __local uint4 whole[2 * ONE_ELEMENTS / 16 + 2 * ONE_UNITS(unit) / 4];      \
    __local float lane[ONE_GROUP];

// Units of the token from u0 on, as many as there is room for.
INLINE void take_whole(__local uint4 *c, struct token x, int u0, int n_units, const int unit)
{
    const int size = ONE_UNITS(unit), halves = unit / 16, end = n_units - u0 < size ? n_units - u0 : size;
    const __global uint4 *hi = (const __global uint4 *)x.hi + u0 * halves, *lo = (const __global uint4 *)x.lo + u0 * halves;
    for (int i = ITEM; i < end * halves; i += ONE_GROUP) {
        const int to = i % halves * size + i / halves;
        c[to] = hi[i];
        c[ONE_ELEMENTS / 16 + to] = lo[i];
    }
    for (int i = ITEM; i < end; i += ONE_GROUP) {
        const int u = u0 + i;
        ONE_SCALES(c)[i] = x.d[u * unit / 32];
        ONE_SUMS(c, unit)[i] = unit == 32 ? x.sum[2 * u] + x.sum[2 * u + 1] : x.sum[u];
    }
}

// The part of the unit that is number `at` there.
INLINE void part_of_whole(struct part *x, const __local uint4 *c, int at, const int unit)
{
    UNROLL for (int h = 0; h < unit / 16; h++) {
        put_four(x->hi + 4 * h, c[h * ONE_UNITS(unit) + at]);
        put_four(x->lo + 4 * h, c[ONE_ELEMENTS / 16 + h * ONE_UNITS(unit) + at]);
    }
    x->d = ((const __local float *)(c + 2 * ONE_ELEMENTS / 16))[at];
    x->sum = ((const __local int *)(c + 2 * ONE_ELEMENTS / 16))[ONE_UNITS(unit) + at];
}

// A row's units, and what an item has of them.
struct row {
    const __global uint *q;
    const __global uchar *scales, *minima;
    int n_units, has_min;
};
struct units {
    uint w[4][8];
    uint scale[4], low[4]; // bits
};

// Those from u0 on. Behind the row's end it is the last one again: a load that depends on nothing waits for nothing.
INLINE void load_next(struct units *x, struct row r, int u0, const int bits, const int unit, const int is_half)
{
    UNROLL for (int j = 0; j < ONE_AHEAD(bits, unit); j++) {
        const int behind = u0 + j * LANES + ITEM % LANES, u = behind < r.n_units ? behind : r.n_units - 1;
        load_words(x->w[j], r.q + u * UNIT_WORDS(bits, unit), UNIT_WORDS(bits, unit));
        x->scale[j] = scale_bits(r.scales, is_half, (size_t)u);
        x->low[j] = r.has_min ? scale_bits(r.minima, is_half, (size_t)u) : 0;
    }
}

// A lane's sum with the units that were loaded, the first of which is number u.
INLINE float add_units(float acc, const struct units *x, const __local uint4 *c, struct row r, int u, int base,
                       const int bits, const int unit, const int is_half)
{
    const int at = (int)((uint)u % ONE_UNITS(unit));
    UNROLL for (int j = 0; j < ONE_AHEAD(bits, unit); j++) {
        struct part part;
        part_of_whole(&part, c, at + j * LANES, unit);
        const float sum = add_unit(acc, x->w[j], bits, unit, scale_of_bits(x->scale[j], is_half),
                                   scale_of_bits(x->low[j], is_half), r.has_min, base, &part, 2);
        acc = u + j * LANES < r.n_units ? sum : acc;
    }
    return acc;
}

// An item's lane of a row; 0 where that is not wanted.
INLINE float one_lane(__local uint4 *c, struct token x, struct row r, int wanted, int base, const int bits, const int unit,
                      const int is_half)
{
    const int block = LANES * ONE_AHEAD(bits, unit);
    float acc = 0.0f;
    struct units next;
    if (wanted)
        load_next(&next, r, 0, bits, unit, is_half);
    for (int first = 0; first < r.n_units; first += ONE_UNITS(unit)) {
        const int end = r.n_units - first < ONE_UNITS(unit) ? r.n_units : first + ONE_UNITS(unit);
        SYNC;
        take_whole(c, x, first, r.n_units, unit);
        SYNC;
        for (int u = first; wanted && u < end; u += block) {
            const struct units now = next;
            load_next(&next, r, u + block, bits, unit, is_half);
            acc = add_units(acc, &now, c, r, u + ITEM % LANES, base, bits, unit, is_half);
        }
    }
    // The padding of lanes that have fewer units.
    return r.n_units % LANES && ITEM % LANES >= r.n_units % LANES ? acc + 0.0f : acc;
}

// ONE: 16 rows a group, of which an item has one lane. Groups: rows, tokens or tiles.
INLINE void one_body(__local uint4 *c, __local float *lane, PRODUCT_ARGS, const int bits, const int unit, const int is_half)
{
    CHOOSE_MATRIX(ONE_ROWS)
    const int number = group * ONE_ROWS + ITEM / LANES;
    const struct tile tile = tile_of((int)get_group_id(1), 1, n_tokens, tiles, has_tiles);
    const size_t begin = (tile.matrix * (size_t)n_rows + (size_t)number) * (size_t)n_units;
    struct row r;
    r.q = q + begin * UNIT_WORDS(bits, unit);
    r.scales = scales + begin * (is_half ? 2 : 4);
    r.minima = minima + begin * (is_half ? 2 : 4);
    r.n_units = n_units;
    r.has_min = has_min;
    for (int t = tile.first; t < tile.first + tile.n; t++) {
        const size_t at = (size_t)t * (size_t)n_rows + (size_t)number;
        const int wanted = number < n_rows && (!has_mask || mask[at]);
        lane[ITEM] = one_lane(c, token_of(acts + (size_t)t * (size_t)acts_bytes, padded), r, wanted, base, bits, unit, is_half);
        sum_lanes(lane + ITEM - ITEM % LANES, ITEM % LANES);
        if (ITEM % LANES == 0 && number < n_rows)
            out[at] = adds ? out[at] + lane[ITEM] : lane[ITEM];
    }
    (void)planes;
}
