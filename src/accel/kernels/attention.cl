// SPDX-License-Identifier: MIT
// Attention over pages of the cache.
//
// A page has 64 positions: for each key/value head 64 keys, then 64 values. `places` has for each row of the batch its
// position and where its sequence's pages begin in `pages`. A group has teams of 64 items, of which each takes a page of
// its own at a time: an item has one of its positions while scores are computed, then each 64th element of values.

#define TEAMS        4
#define ATTEND_GROUP (TEAMS * TILE)
#define TILE     64
#define RANGE    16
#define MAX_DIM  512
// States that a group has, and floats of one.
#define STATES     (TEAMS + 2)
#define STATE_SIZE (MAX_DIM + 2)

// Stores a row's keys and values: to its page, and side by side to `copy`, from where the host takes them. With rotates,
// keys are rotated before that, and so are the queries q, whose heads follow those of the keys. Groups: heads, rows.
KERNEL store(__global uchar *pages_at, __global uchar *copy, __global float *k, const __global float *v,
             const __global int *places, const __global int *pages, int n_heads, int dim, int format_k, int format_v,
             __global float *q, int n_heads_q, const __global float *cos_sin, int n_rot, int neox, int rotates)
{
    const size_t row = get_group_id(1), head = get_group_id(0);
    const int is_query = head >= (size_t)n_heads;
    if (rotates) {
        __global float *x = is_query ? q + (row * (size_t)n_heads_q + head - (size_t)n_heads) * (size_t)dim
                                     : k + (row * (size_t)n_heads + head) * (size_t)dim;
        for (int i = ITEM; i < n_rot / 2; i += GROUP)
            rotate_pair(x, cos_sin + row * (size_t)n_rot, i, n_rot, neox);
    }
    SYNC_GLOBAL;
    if (is_query)
        return;
    const int pos = places[2 * row], page = pages[places[2 * row + 1] + pos / TILE], slot = pos % TILE;
    const size_t row_k = (size_t)dim * (format_k ? 2 : 4), row_v = (size_t)dim * (format_v ? 2 : 4);
    __global uchar *tile = pages_at + ((size_t)page * (size_t)n_heads + head) * TILE * (row_k + row_v);
    __global uchar *keys = tile + (size_t)slot * row_k;
    __global uchar *values = tile + TILE * row_k + (size_t)slot * row_v;
    __global uchar *keys_copy = copy + (row * (size_t)n_heads + head) * (row_k + row_v);
    __global uchar *values_copy = keys_copy + row_k;
    const size_t at = (row * (size_t)n_heads + head) * (size_t)dim;
    for (int i = ITEM; i < dim; i += GROUP) {
        if (format_k) {
            const ushort h = half_of(k[at + (size_t)i]);
            ((__global ushort *)keys_copy)[i] = h;
            ((__global ushort *)keys)[i] = h;
        } else {
            ((__global float *)keys_copy)[i] = k[at + (size_t)i];
            ((__global float *)keys)[i] = k[at + (size_t)i];
        }
        if (format_v) {
            const ushort h = half_of(v[at + (size_t)i]);
            ((__global ushort *)values_copy)[i] = h;
            ((__global ushort *)values)[i] = h;
        } else {
            ((__global float *)values_copy)[i] = v[at + (size_t)i];
            ((__global float *)values)[i] = v[at + (size_t)i];
        }
    }
}

// What attention keeps of what it has seen: values that are not divided yet, the largest score and the sum. All items of
// the group work on it together.
struct state {
    __local float *out, *number; // [MAX_DIM], [2]
};

INLINE void copy_state(struct state to, struct state from, int dim, int items)
{
    SYNC;
    for (int i = ITEM; i < dim; i += items)
        to.out[i] = from.out[i];
    if (ITEM < 2)
        to.number[ITEM] = from.number[ITEM];
    SYNC;
}

// Adds `more` to what there is: the larger maximum wins, both are scaled to it.
INLINE void merge(struct state to, struct state more, int dim, int items)
{
    SYNC;
    const float top = to.number[0] > more.number[0] ? to.number[0] : more.number[0];
    const float a = exp_of(to.number[0] - top), b = exp_of(more.number[0] - top);
    const float sum = fma(more.number[1], b, to.number[1] * a);
    for (int i = ITEM; i < dim; i += items)
        to.out[i] = fma(more.out[i], b, to.out[i] * a);
    SYNC;
    if (ITEM == 0) {
        to.number[0] = top;
        to.number[1] = sum;
    }
    SYNC;
}

struct heads {
    const __global uchar *pages_at;
    int n_heads, head, dim, format_k, format_v;
    float scale;
};

INLINE float score_of(const struct heads *h, const __global uchar *key, const __local float *q)
{
    float acc[LANES];
    UNROLL for (int l = 0; l < LANES; l++)
        acc[l] = 0.0f;
    if (h->format_k && h->dim % LANES == 0) {
        const __global uint4 *from = (const __global uint4 *)key;
        for (int i = 0; i < h->dim; i += LANES) {
            const uint4 a = from[i / 8], b = from[i / 8 + 1];
            const uint two[LANES / 2] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
            UNROLL for (int l = 0; l < LANES; l++)
                acc[l] = fma(half_of_bits(two[l / 2] >> 16 * (l % 2)), q[i + l], acc[l]);
        }
    } else {
        for (int i = 0; i < h->dim; i += LANES)
            UNROLL for (int l = 0; l < LANES; l++)
                acc[l] = i + l < h->dim ? fma(plain_at(key, h->format_k, (size_t)(i + l)), q[i + l], acc[l])
                                        : acc[l] + 0.0f;
    }
    UNROLL for (int l = 0; l < LANES / 2; l++)
        acc[l] += acc[l + 8];
    UNROLL for (int l = 0; l < 4; l++)
        acc[l] += acc[l + 4];
    acc[0] += acc[2];
    acc[1] += acc[3];
    return (acc[0] + acc[1]) * h->scale;
}

// Of the values of n positions, each times its number in p.
INLINE float sum_values(const struct heads *h, const __global uchar *values, const __local float *p, int n, int element)
{
    float acc = 0.0f;
    for (int r = 0; r < n; r += 8) {
        uint bits[8];
        UNROLL for (int i = 0; i < 8; i++) {
            const size_t at = (size_t)(r + i < n ? r + i : n - 1) * (size_t)h->dim + (size_t)element;
            bits[i] = h->format_v ? ((const __global ushort *)values)[at] : ((const __global uint *)values)[at];
        }
        UNROLL for (int i = 0; i < 8; i++) {
            const float v = h->format_v ? half_of_bits(bits[i]) : as_float(bits[i]);
            if (r + i < n && p[r + i] != 0.0f)
                acc = fma(p[r + i], v, acc);
        }
    }
    return acc;
}

// A team's share: positions [from, from + n) of a page, which may be none. All teams come here at the same time.
INLINE void attend_tile(struct state share, const struct heads *h, const __local float *q, __local float *scores,
                        __local float *lane, int item, int page, int from, int n)
{
    const size_t row_k = (size_t)h->dim * (h->format_k ? 2 : 4), row_v = (size_t)h->dim * (h->format_v ? 2 : 4);
    const __global uchar *tile =
        h->pages_at + ((size_t)page * (size_t)h->n_heads + (size_t)h->head) * TILE * (row_k + row_v);
    const __global uchar *keys = tile + (size_t)from * row_k;
    const __global uchar *values = tile + TILE * row_k + (size_t)from * row_v;
    if (item < n)
        scores[item] = score_of(h, keys + (size_t)item * row_k, q);
    SYNC;
    if (item < LANES) {
        float largest = -INFINITY;
        for (int i = item; i < n; i += LANES)
            largest = scores[i] > largest ? scores[i] : largest;
        lane[item] = largest;
    }
    SYNC;
    float max = -INFINITY;
    UNROLL for (int l = 0; l < LANES; l++)
        max = lane[l] > max ? lane[l] : max;
    SYNC;
    if (item < n)
        scores[item] = exp_of(scores[item] - max);
    SYNC;
    if (item < LANES) {
        float acc = 0.0f;
        for (int i = item; i < n; i += LANES)
            acc += scores[i];
        lane[item] = acc;
    }
    sum_lanes(lane, item);
    if (item == 0) {
        share.number[0] = max;
        share.number[1] = lane[0];
    }
    for (int i = item; i < h->dim; i += TILE)
        share.out[i] = sum_values(h, values, scores, n, i);
    SYNC;
}

INLINE struct state state_of(__local float *memory, int number)
{
    struct state s;
    s.out = memory + number * STATE_SIZE;
    s.number = s.out + MAX_DIM;
    return s;
}

// Ranges [first, end) of a row's positions; leaves sum 0 where there are none. states: room for STATES of them, of which
// the teams' come first, then that of a range and that of all, which is what comes out.
INLINE struct state attend_ranges(const struct heads *h, const __local float *q, __local float *scores, __local float *lane,
                                  __local float *states, const __global int *pages, int pos, int window, int first,
                                  int end)
{
    const int oldest = window && pos >= window ? pos - window + 1 : 0;
    const int first_tile = oldest / TILE, last_tile = pos / TILE, team = ITEM / TILE, item = ITEM % TILE;
    const struct state own = state_of(states, team), range = state_of(states, TEAMS), all = state_of(states, TEAMS + 1);
    if (ITEM < 2)
        all.number[ITEM] = 0.0f;
    SYNC;
    for (int r = first; r < end; r++) {
        const int begin = r * RANGE > first_tile ? r * RANGE : first_tile;
        const int stop = (r + 1) * RANGE < last_tile + 1 ? (r + 1) * RANGE : last_tile + 1;
        for (int round = begin; round < stop; round += TEAMS) {
            const int tile = round + team, start = tile * TILE, from = oldest > start ? oldest - start : 0;
            const int last = pos + 1 - start < TILE ? pos + 1 - start : TILE;
            attend_tile(own, h, q, scores + team * TILE, lane + team * LANES, item, tile < stop ? pages[tile] : 0, from,
                        tile < stop ? last - from : 0);
            for (int i = 0; i < TEAMS && round + i < stop; i++) {
                const struct state share = state_of(states, i);
                if (round == begin && i == 0)
                    copy_state(range, share, h->dim, ATTEND_GROUP);
                else
                    merge(range, share, h->dim, ATTEND_GROUP);
            }
        }
        if (begin >= stop || range.number[1] == 0.0f)
            continue;
        if (all.number[1] == 0.0f)
            copy_state(all, range, h->dim, ATTEND_GROUP);
        else
            merge(all, range, h->dim, ATTEND_GROUP);
    }
    return all;
}

// Divides by the sum, in which a sink takes part.
INLINE void normalise(struct state s, __global float *out, int dim, int has_sink, float sink, int items)
{
    const float max = s.number[0], sum = s.number[1], top = has_sink && sink > max ? sink : max;
    float inverse;
    if (has_sink) {
        const float by = exp_of(max - top);
        inverse = divide(by, fma(sum, by, exp_of(sink - top)));
    } else {
        inverse = divide(1.0f, sum);
    }
    for (int i = ITEM; i < dim; i += items)
        out[i] = s.out[i] * inverse;
}

// Groups: query heads, rows, ranges. With n_ranges 1 a group takes all ranges, and out is final; else it takes its
// own, for combine(): [rows][ranges][heads][dim + 2], values, then maximum and sum.
KERNEL_OF(ATTEND_GROUP) attend(__global float *out, const __global float *queries, const __global uchar *pages_at,
                               const __global int *places, const __global int *pages, const __global float *sinks,
                               int has_sinks, int n_heads, int n_heads_kv, int dim, int format_k, int format_v, int window,
                               float scale, int n_ranges)
{
    __local float q[MAX_DIM], scores[ATTEND_GROUP], lane[TEAMS * LANES], states[STATES * STATE_SIZE];
    const int head = (int)get_group_id(0), r = (int)get_group_id(2);
    const size_t row = get_group_id(1);
    const int pos = places[2 * row], ranges = pos / (TILE * RANGE) + 1;
    struct heads h;
    h.pages_at = pages_at;
    h.n_heads = n_heads_kv;
    h.head = head / (n_heads / n_heads_kv);
    h.dim = dim;
    h.format_k = format_k;
    h.format_v = format_v;
    h.scale = scale;
    for (int i = ITEM; i < dim; i += ATTEND_GROUP)
        q[i] = queries[(row * (size_t)n_heads + (size_t)head) * (size_t)dim + (size_t)i];
    SYNC;
    const int first = n_ranges > 1 ? r : 0, end = n_ranges > 1 ? (r < ranges ? r + 1 : r) : ranges;
    const struct state s =
        attend_ranges(&h, q, scores, lane, states, pages + places[2 * row + 1], pos, window, first, end);
    if (n_ranges == 1) {
        normalise(s, out + (row * (size_t)n_heads + (size_t)head) * (size_t)dim, dim, has_sinks,
                  has_sinks ? sinks[head] : 0.0f, ATTEND_GROUP);
        return;
    }
    __global float *share =
        out + ((row * (size_t)n_ranges + (size_t)r) * (size_t)n_heads + (size_t)head) * (size_t)(dim + 2);
    for (int i = ITEM; i < dim; i += ATTEND_GROUP)
        share[i] = s.out[i];
    if (ITEM < 2)
        share[dim + ITEM] = s.number[ITEM];
}

// Adds up the ranges of each row and head. Groups: heads, rows.
KERNEL combine(__global float *out, const __global float *shares, const __global float *sinks, int has_sinks, int n_heads,
               int dim, int n_ranges)
{
    __local float states[2 * STATE_SIZE];
    const struct state all = state_of(states, 0), range = state_of(states, 1);
    const int head = (int)get_group_id(0);
    const size_t row = get_group_id(1);
    if (ITEM < 2)
        all.number[ITEM] = 0.0f;
    for (int r = 0; r < n_ranges; r++) {
        const __global float *share =
            shares + ((row * (size_t)n_ranges + (size_t)r) * (size_t)n_heads + (size_t)head) * (size_t)(dim + 2);
        SYNC;
        for (int i = ITEM; i < dim; i += GROUP)
            range.out[i] = share[i];
        if (ITEM < 2)
            range.number[ITEM] = share[dim + ITEM];
        SYNC;
        if (range.number[1] == 0.0f)
            continue;
        if (all.number[1] == 0.0f)
            copy_state(all, range, dim, GROUP);
        else
            merge(all, range, dim, GROUP);
    }
    SYNC;
    normalise(all, out + (row * (size_t)n_heads + (size_t)head) * (size_t)dim, dim, has_sinks,
              has_sinks ? sinks[head] : 0.0f, GROUP);
}
