// SPDX-License-Identifier: MIT
// Attention over pages of the cache.
//
// A page has 64 positions: for each key/value head 64 keys, then 64 values, unless these are the beginnings of keys. `places` has for each row of the batch its
// position and where its sequence's pages begin in `pages`. A group has teams of 64 items, of which each takes a page of
// its own at a time: an item has one of its positions while scores are computed, then each 64th element of values.

#define TEAMS        4
#define ATTEND_GROUP (TEAMS * TILE)
#define TILE     64
#define RANGE    16
#define MAX_DIM  576
// Bytes of which any place in the copies of keys and values is a multiple.
#define STORED_UNIT 2
// States that a group has, and floats of one.
#define STATES     (TEAMS + 2)
#define STATE_SIZE (MAX_DIM + 2)

// Formats of keys and values: 0 F32, 1 F16, 2 Q8_0, whose blocks of 32 have a scale and as many bytes.
#define BLOCKS       2
#define BLOCK        32
#define BLOCK_BYTES  34

INLINE size_t row_bytes(int dim, int format)
{
    return format == BLOCKS ? (size_t)(dim / BLOCK) * BLOCK_BYTES : (size_t)dim * (format ? 2 : 4);
}

// hearth_q8_0_encode() of one block.
INLINE void store_block(__global uchar *to, __global uchar *copy, const __global float *x)
{
    float largest = 0.0f;
    for (int i = 0; i < BLOCK; i++)
        largest = fabs(x[i]) > largest ? fabs(x[i]) : largest;
    const float d = divide(largest, 127.0f), inverse = d != 0.0f ? divide(1.0f, d) : 0.0f;
    const ushort h = half_of(d);
    *(__global ushort *)to = h;
    *(__global ushort *)copy = h;
    for (int i = 0; i < BLOCK; i++) {
        // To nearest, ties away from zero; what is not a number becomes -127.
        const float v = x[i] * inverse;
        int q = !(v > -127.0f) ? -127 : v < 127.0f ? (int)v : 127;
        if (v > -127.0f && v < 127.0f)
            q += v - (float)q >= 0.5f ? 1 : v - (float)q <= -0.5f ? -1 : 0;
        to[2 + i] = (uchar)q;
        copy[2 + i] = (uchar)q;
    }
}

// A head's row, by all items of the group.
INLINE void store_row(__global uchar *to, __global uchar *copy, const __global float *x, int dim, int format)
{
    if (format == BLOCKS) {
        for (int i = ITEM; i < dim / BLOCK; i += GROUP)
            store_block(to + i * BLOCK_BYTES, copy + i * BLOCK_BYTES, x + i * BLOCK);
        return;
    }
    for (int i = ITEM; i < dim; i += GROUP) {
        if (format) {
            const ushort h = half_of(x[i]);
            ((__global ushort *)copy)[i] = h;
            ((__global ushort *)to)[i] = h;
        } else {
            const uint bits = as_uint(x[i]);
            ((__global ushort *)copy)[2 * i] = (ushort)bits; // behind blocks, which are not of four bytes
            ((__global ushort *)copy)[2 * i + 1] = (ushort)(bits >> 16);
            ((__global float *)to)[i] = x[i];
        }
    }
}

// Stores a row's keys and values: to its page, and side by side to `copy`, from where the host takes them. With rotates,
// keys are rotated before that, and so are the queries q, whose heads follow those of the keys. Groups: heads, rows.
KERNEL store(__global uchar *pages_at, __global uchar *copy, int copy_at, __global float *k, const __global float *v,
             const __global int *places, const __global int *pages, int n_heads, int dim, int dim_v, int format_k,
             int format_v, __global float *q, int n_heads_q, const __global float *cos_sin, int n_rot, int neox, int rotates)
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
    const size_t row_k = row_bytes(dim, format_k), row_v = row_bytes(dim_v, format_v);
    __global uchar *tile = pages_at + ((size_t)page * (size_t)n_heads + head) * TILE * (row_k + row_v);
    __global uchar *keys = tile + (size_t)slot * row_k;
    __global uchar *values = tile + TILE * row_k + (size_t)slot * row_v;
    __global uchar *keys_copy = copy + (size_t)copy_at * STORED_UNIT + (row * (size_t)n_heads + head) * (row_k + row_v);
    __global uchar *values_copy = keys_copy + row_k;
    const __global float *key = k + (row * (size_t)n_heads + head) * (size_t)dim;
    const __global float *value = v + (row * (size_t)n_heads + head) * (size_t)dim_v;
    store_row(keys, keys_copy, key, dim, format_k);
    store_row(values, values_copy, value, dim_v, format_v);
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
    int n_heads, head, dim, dim_v, format_k, format_v, is_prompt;
    int apart; // elements from a position's value to the next one's: dim_v, or dim where values are the beginnings of keys
    float scale, cap;
    int bends; // scores are less the further away a position is, by the slope
    float slope;
};

// A group's query: as numbers, or, where keys are blocks, as activations of products (kernels/kernels.h).
struct query {
    __local float *plain; // [MAX_DIM]
    __local uint *hi, *lo; // [MAX_DIM / 4]
    __local float *d;      // [MAX_DIM / BLOCK]
};

// A score times the scale; with a cap, that times a sigmoid of it (hearth_soft_cap(), whose factor the scale is).
INLINE float scaled(float score, float scale, float cap)
{
    const float x = score * scale;
    return cap > 0.0f ? fma(2.0f * cap, activated(x, SIGMOID), -cap) : x;
}

// A score, less by the slope of its head for each position between the query's and that one (ALiBi).
INLINE float bent(float score, int bends, float slope, int distance)
{
    return bends ? fma(slope, (float)distance, score) : score;
}

// The first position that one at `pos` attends to: `window` of them, itself with them, or those since the last multiple of
// that; 0: all.
INLINE int oldest_of(int pos, int window, int chunked)
{
    if (window && chunked)
        return pos / window * window;
    return window && pos >= window ? pos - window + 1 : 0;
}

// The lanes' tree.
INLINE float sum_of(float *acc)
{
    UNROLL for (int l = 0; l < LANES / 2; l++)
        acc[l] += acc[l + 8];
    UNROLL for (int l = 0; l < 4; l++)
        acc[l] += acc[l + 4];
    acc[0] += acc[2];
    acc[1] += acc[3];
    return acc[0] + acc[1];
}

// With a key in blocks.
INLINE float dot_blocks(const struct heads *h, const __global uchar *key, struct query q)
{
    float acc[LANES];
    UNROLL for (int l = 0; l < LANES; l++)
        acc[l] = 0.0f;
    for (int first = 0; first * BLOCK < h->dim; first += LANES)
        UNROLL for (int l = 0; l < LANES; l++) {
            const int u = first + l;
            int high = 0, low = 0;
            float by = 0.0f;
            if (u * BLOCK < h->dim) {
                const __global ushort *from = (const __global ushort *)(key + u * BLOCK_BYTES);
                UNROLL for (int i = 0; i < BLOCK / 4; i++) {
                    const uint word = (uint)from[1 + 2 * i] | (uint)from[2 + 2 * i] << 16;
                    high = dot4(word, q.hi[u * BLOCK / 4 + i], high);
                    low = dot4(word, q.lo[u * BLOCK / 4 + i], low);
                }
                by = half_of_bits(from[0]) * q.d[u];
            }
            acc[l] = fma(by, (float)(128 * high + low), acc[l]);
        }
    return sum_of(acc);
}

INLINE float score_of(const struct heads *h, const __global uchar *key, struct query query)
{
    const __local float *q = query.plain;
    float acc[LANES];
    if (h->format_k == BLOCKS)
        return scaled(dot_blocks(h, key, query), h->scale, h->cap);
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
    return scaled(sum_of(acc), h->scale, h->cap);
}

// The same of values in blocks: a step's number is multiplied by the scale, a prompt's by the decoded value.
INLINE float sum_blocks(const struct heads *h, const __global uchar *values, const __local float *p, int n, int element)
{
    const size_t row = row_bytes(h->apart, BLOCKS);
    const __global uchar *from = values + element / BLOCK * BLOCK_BYTES;
    float acc = 0.0f;
    for (int r = 0; r < n; r += 8) {
        uint scale[8];
        int q[8];
        UNROLL for (int i = 0; i < 8; i++) {
            const __global uchar *at = from + (size_t)(r + i < n ? r + i : n - 1) * row;
            scale[i] = *(const __global ushort *)at;
            q[i] = ((const __global char *)at)[2 + element % BLOCK];
        }
        UNROLL for (int i = 0; i < 8; i++) {
            const float by = r + i < n ? p[r + i] : 0.0f, d = half_of_bits(scale[i]);
            if (by != 0.0f)
                acc = h->is_prompt ? fma(by, d * (float)q[i], acc) : fma(by * d, (float)q[i], acc);
        }
    }
    return acc;
}

// Of the values of n positions, each times its number in p.
INLINE float sum_values(const struct heads *h, const __global uchar *values, const __local float *p, int n, int element)
{
    if (h->format_v == BLOCKS)
        return sum_blocks(h, values, p, n, element);
    float acc = 0.0f;
    for (int r = 0; r < n; r += 8) {
        uint bits[8];
        UNROLL for (int i = 0; i < 8; i++) {
            const size_t at = (size_t)(r + i < n ? r + i : n - 1) * (size_t)h->apart + (size_t)element;
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

// A team's share: positions [from, from + n) of a page, which may be none; before: the query's is so many behind the page's
// first. All teams come here at the same time.
INLINE void attend_tile(struct state share, const struct heads *h, struct query q, __local float *scores,
                        __local float *lane, int item, int page, int before, int from, int n)
{
    const int in_keys = h->apart != h->dim_v;
    const size_t row_k = row_bytes(h->dim, h->format_k), row_v = in_keys ? 0 : row_bytes(h->dim_v, h->format_v);
    const __global uchar *tile =
        h->pages_at + ((size_t)page * (size_t)h->n_heads + (size_t)h->head) * TILE * (row_k + row_v);
    const __global uchar *keys = tile + (size_t)from * row_k;
    const __global uchar *values = in_keys ? keys : tile + TILE * row_k + (size_t)from * row_v;
    if (item < n)
        scores[item] = bent(score_of(h, keys + (size_t)item * row_k, q), h->bends, h->slope, from + item - before);
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
    for (int i = item; i < h->dim_v; i += TILE)
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
INLINE struct state attend_ranges(const struct heads *h, struct query q, __local float *scores, __local float *lane,
                                  __local float *states, const __global int *pages, int pos, int oldest, int first,
                                  int end)
{
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
            attend_tile(own, h, q, scores + team * TILE, lane + team * LANES, item, tile < stop ? pages[tile] : 0,
                        pos - start, from, tile < stop ? last - from : 0);
            for (int i = 0; i < TEAMS && round + i < stop; i++) {
                const struct state share = state_of(states, i);
                if (round == begin && i == 0)
                    copy_state(range, share, h->dim_v, ATTEND_GROUP);
                else
                    merge(range, share, h->dim_v, ATTEND_GROUP);
            }
        }
        if (begin >= stop || range.number[1] == 0.0f)
            continue;
        if (all.number[1] == 0.0f)
            copy_state(all, range, h->dim_v, ATTEND_GROUP);
        else
            merge(all, range, h->dim_v, ATTEND_GROUP);
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

#define ATTEND_ARGS                                                                                                    \
    __global float *out, const __global float *queries, const __global uchar *pages_at, const __global int *places,   \
        const __global int *pages, const __global float *sinks, int has_sinks, int n_heads, int n_heads_kv, int dim, \
        int dim_v, int format_k, int format_v, int window, int chunked, float scale, float cap, int n_ranges,        \
        const __global uchar *acts, int padded, int acts_bytes, int is_prompt, const __global float *slopes,          \
        int has_slopes, int apart
#define ATTEND_ARGS_GIVEN                                                                                            \
    out, queries, pages_at, places, pages, sinks, has_sinks, n_heads, n_heads_kv, dim, dim_v, format_k, format_v,    \
        window, chunked, scale, cap, n_ranges, acts, padded, acts_bytes, is_prompt, slopes, has_slopes, apart
#define ATTEND_MEMORY                                                                                                \
    __local float q_plain[MAX_DIM], scores[ATTEND_GROUP], lane[TEAMS * LANES], states[STATES * STATE_SIZE];          \
    struct query q;                                                                                                  \
    q.plain = q_plain;

// The group's query comes to local memory.
INLINE void take_query(struct query q, const __global float *plain, const __global uchar *acts, int padded, int dim,
                       int in_blocks)
{
    if (in_blocks) {
        const struct token t = token_of(acts, padded);
        for (int i = ITEM; i < dim / 4; i += ATTEND_GROUP) {
            q.hi[i] = t.hi[i];
            q.lo[i] = t.lo[i];
        }
        if (ITEM < dim / BLOCK)
            q.d[ITEM] = t.d[ITEM];
    } else {
        for (int i = ITEM; i < dim; i += ATTEND_GROUP)
            q.plain[i] = plain[i];
    }
    SYNC;
}

// With n_ranges 1 a group takes all ranges, and out is final; else it takes its own, for combine():
// [rows][ranges][heads][dim_v + 2], values, then maximum and sum. has_blocks: keys or values are in blocks, which the
// kernel for plain ones need not know.
INLINE void attend_body(struct query q, __local float *scores, __local float *lane, __local float *states, ATTEND_ARGS,
                        const int has_blocks)
{
    const int head = (int)get_group_id(0), r = (int)get_group_id(2);
    const size_t row = get_group_id(1), query = row * (size_t)n_heads + (size_t)head;
    const int pos = places[2 * row], ranges = pos / (TILE * RANGE) + 1;
    struct heads h;
    h.pages_at = pages_at;
    h.n_heads = n_heads_kv;
    h.head = head / (n_heads / n_heads_kv);
    h.dim = dim;
    h.dim_v = dim_v;
    h.apart = apart;
    h.format_k = has_blocks ? format_k : format_k != 0;
    h.format_v = has_blocks ? format_v : format_v != 0;
    h.is_prompt = is_prompt;
    h.scale = scale;
    h.cap = cap;
    h.bends = has_slopes;
    h.slope = has_slopes ? slopes[head] : 0.0f;
    take_query(q, queries + query * (size_t)dim, acts + query * (size_t)acts_bytes, padded, dim, h.format_k == BLOCKS);
    const int first = n_ranges > 1 ? r : 0, end = n_ranges > 1 ? (r < ranges ? r + 1 : r) : ranges;
    const struct state s = attend_ranges(&h, q, scores, lane, states, pages + places[2 * row + 1], pos,
                                         oldest_of(pos, window, chunked), first, end);
    if (n_ranges == 1) {
        normalise(s, out + query * (size_t)dim_v, dim_v, has_sinks, has_sinks ? sinks[head] : 0.0f, ATTEND_GROUP);
        return;
    }
    __global float *share =
        out + ((row * (size_t)n_ranges + (size_t)r) * (size_t)n_heads + (size_t)head) * (size_t)(dim_v + 2);
    for (int i = ITEM; i < dim_v; i += ATTEND_GROUP)
        share[i] = s.out[i];
    if (ITEM < 2)
        share[dim_v + ITEM] = s.number[ITEM];
}

// Groups: query heads, rows, ranges.
KERNEL_OF(ATTEND_GROUP) attend(ATTEND_ARGS)
{
    ATTEND_MEMORY
    q.hi = q.lo = 0;
    q.d = 0;
    attend_body(q, scores, lane, states, ATTEND_ARGS_GIVEN, 0);
}

KERNEL_OF(ATTEND_GROUP) attend_blocks(ATTEND_ARGS)
{
    __local uint q_hi[MAX_DIM / 4], q_lo[MAX_DIM / 4];
    __local float q_d[MAX_DIM / BLOCK];
    ATTEND_MEMORY
    q.hi = q_hi;
    q.lo = q_lo;
    q.d = q_d;
    attend_body(q, scores, lane, states, ATTEND_ARGS_GIVEN, 1);
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

// ---- prompts
//
// A group has up to QUERIES queries of one key/value head: all heads that share it, of rows that follow one another. A page
// comes to local memory once for all of them. While scores are computed an item has one of the page's positions and
// four queries, while values are summed two elements of four queries; the largest score and the sum of a query are those
// of 16 items, a lane each. A head has at most ROWS_DIM elements, a multiple of 16. attend_rows() is for keys and values
// of F16, which lie in local memory side by side as they are; attend_rows_any() for those of any formats: there keys come
// first, as blocks or as numbers, then values in their place, as numbers.

#define QUERIES    16
#define ROWS_DIM   128
// So that items read keys from different banks: of F16, as numbers, as blocks.
#define KEY_WORDS   (ROWS_DIM / 2 + 4)
#define KEY_FLOATS  (ROWS_DIM + 4)
#define ROW_BLOCKS  (ROWS_DIM / BLOCK)
#define BLOCK_WORDS (BLOCK / 4)
#define KEY_BLOCKS  (ROW_BLOCKS * BLOCK_WORDS + ROW_BLOCKS + 1)
#define SCORE_ROWS  (QUERIES + 4)

enum { NOTHING, COPY, MERGE };

// What becomes of a query's sums when more comes to them: of the tile's in the range, or of the range's in all.
struct sums {
    __local float *max, *sum, *a, *b; // [QUERIES]
    __local int *what;
};

#define SUMS(name)                                                                       \
    __local float name##_max[QUERIES], name##_sum[QUERIES], name##_a[QUERIES], name##_b[QUERIES]; \
    __local int name##_what[QUERIES];                                                    \
    struct sums name;                                                                    \
    name.max = name##_max;                                                               \
    name.sum = name##_sum;                                                               \
    name.a = name##_a;                                                                   \
    name.b = name##_b;                                                                   \
    name.what = name##_what;

INLINE void add_sums(struct sums s, int i, float max, float sum)
{
    if (s.sum[i] == 0.0f) {
        s.what[i] = COPY;
        s.max[i] = max;
        s.sum[i] = sum;
        return;
    }
    const float top = s.max[i] > max ? s.max[i] : max;
    s.what[i] = MERGE;
    s.a[i] = exp_of(s.max[i] - top);
    s.b[i] = exp_of(max - top);
    s.sum[i] = fma(sum, s.b[i], s.sum[i] * s.a[i]);
    s.max[i] = top;
}

INLINE float added(struct sums s, int i, float to, float more)
{
    return s.what[i] == COPY ? more : s.what[i] == MERGE ? fma(more, s.b[i], to * s.a[i]) : to;
}

// Of four queries that lie side by side, with the key of an item.
INLINE void score_four(float *score, const __local uint *key, const __local float *q, int dim)
{
    float acc[4][LANES];
    UNROLL for (int c = 0; c < 4; c++)
        UNROLL for (int l = 0; l < LANES; l++)
            acc[c][l] = 0.0f;
    for (int i = 0; i < dim; i += LANES) {
        const uint4 x = *(const __local uint4 *)(key + i / 2), y = *(const __local uint4 *)(key + i / 2 + 4);
        const uint two[LANES / 2] = {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w};
        UNROLL for (int l = 0; l < LANES; l++) {
            const float k = half_of_bits(two[l / 2] >> 16 * (l % 2));
            UNROLL for (int c = 0; c < 4; c++)
                acc[c][l] = fma(k, q[c * ROWS_DIM + i + l], acc[c][l]);
        }
    }
    UNROLL for (int c = 0; c < 4; c++)
        score[c] = sum_of(acc[c]);
}

// The same with a key that is there as numbers.
INLINE void score_four_plain(float *score, const __local float *key, const __local float *q, int dim)
{
    float acc[4][LANES];
    UNROLL for (int c = 0; c < 4; c++)
        UNROLL for (int l = 0; l < LANES; l++)
            acc[c][l] = 0.0f;
    for (int i = 0; i < dim; i += LANES)
        UNROLL for (int l = 0; l < LANES; l++)
            UNROLL for (int c = 0; c < 4; c++)
                acc[c][l] = fma(key[i + l], q[c * ROWS_DIM + i + l], acc[c][l]);
    UNROLL for (int c = 0; c < 4; c++)
        score[c] = sum_of(acc[c]);
}

// Queries as activations, in the place of numbers.
INLINE struct query blocks_in(__local float *q)
{
    struct query b;
    b.plain = q;
    b.hi = (__local uint *)q;
    b.lo = b.hi + QUERIES * ROWS_DIM / 4;
    b.d = (__local float *)(b.lo + QUERIES * ROWS_DIM / 4);
    return b;
}

// The same with a key in blocks: their bytes, then their scales.
INLINE void score_four_blocks(float *score, const __local uint *key, struct query q, int four, int dim)
{
    const __local float *scales = (const __local float *)(key + ROW_BLOCKS * BLOCK_WORDS);
    float acc[4][LANES];
    UNROLL for (int c = 0; c < 4; c++)
        UNROLL for (int l = 0; l < LANES; l++)
            acc[c][l] = 0.0f;
    UNROLL for (int l = 0; l < ROW_BLOCKS; l++) {
        if (l * BLOCK < dim) {
            UNROLL for (int c = 0; c < 4; c++) {
                const __local uint *hi = q.hi + (four + c) * (ROWS_DIM / 4) + l * BLOCK_WORDS;
                const __local uint *lo = q.lo + (four + c) * (ROWS_DIM / 4) + l * BLOCK_WORDS;
                int high = 0, low = 0;
                UNROLL for (int i = 0; i < BLOCK_WORDS; i++) {
                    high = dot4(key[l * BLOCK_WORDS + i], hi[i], high);
                    low = dot4(key[l * BLOCK_WORDS + i], lo[i], low);
                }
                acc[c][l] = fma(scales[l] * q.d[(four + c) * ROW_BLOCKS + l], (float)(128 * high + low), 0.0f);
            }
        }
    }
    UNROLL for (int c = 0; c < 4; c++)
        score[c] = sum_of(acc[c]);
}

// A page's rows of numbers, `stride` floats from one another.
INLINE void load_plain(__local float *to, int stride, const __global uchar *page, int dim, int format)
{
    const __global uint4 *from = (const __global uint4 *)page;
    const int each = format ? 8 : 4;
    for (int i = ITEM; i < TILE * dim / each; i += ATTEND_GROUP) {
        __local float *at = to + i * each / dim * stride + i * each % dim;
        const uint4 x = from[i];
        const uint words[4] = {x.x, x.y, x.z, x.w};
        UNROLL for (int k = 0; k < 4; k++) {
            if (format) {
                at[2 * k] = half_of_bits(words[k]);
                at[2 * k + 1] = half_of_bits(words[k] >> 16);
            } else {
                at[k] = as_float(words[k]);
            }
        }
    }
}

// A page's keys in blocks.
INLINE void load_blocks(__local uint *to, const __global uchar *page, int dim)
{
    const int words = dim / 4;
    for (int i = ITEM; i < TILE * words; i += ATTEND_GROUP) {
        const int row = i / words, word = i % words, block = word / BLOCK_WORDS, at = word % BLOCK_WORDS;
        const __global ushort *from =
            (const __global ushort *)(page + (row * (dim / BLOCK) + block) * BLOCK_BYTES);
        __local uint *key = to + row * KEY_BLOCKS;
        key[word] = (uint)from[1 + 2 * at] | (uint)from[2 + 2 * at] << 16;
        if (at == 0)
            key[ROW_BLOCKS * BLOCK_WORDS + block] = as_uint(half_of_bits(from[0]));
    }
}

// A page's values in blocks, as numbers.
INLINE void decode_blocks(__local float *to, const __global uchar *page, int dim)
{
    for (int i = ITEM; i < TILE * dim / 2; i += ATTEND_GROUP) {
        const __global ushort *from = (const __global ushort *)(page + i / (BLOCK / 2) * BLOCK_BYTES);
        const uint two = from[1 + i % (BLOCK / 2)];
        const float d = half_of_bits(from[0]);
        to[2 * i] = d * (float)(char)(two & 255u);
        to[2 * i + 1] = d * (float)(char)(two >> 8);
    }
}

// What a group has in local memory.
struct rows_memory {
    __local uint *keys, *values;                // the same memory, where formats are any
    __local float *q, *scores, *lane, *inverse; // [QUERIES][ROWS_DIM], [TILE][SCORE_ROWS], [ATTEND_GROUP], [QUERIES]
    __local float *slope; // [QUERIES] of queries' heads, and their positions, where scores are bent
    __local int *at;
    struct sums range, all;
};

#define ROWS_ARGS                                                                                                      \
    __global float *out, const __global float *queries, const __global uchar *pages_at, const __global int *places,   \
        const __global int *pages, const __global float *sinks, int has_sinks, int n_heads, int n_heads_kv, int dim,  \
        int window, int chunked, float scale, float cap, int n_rows, const __global float *slopes, int has_slopes
#define ROWS_ARGS_GIVEN                                                                                                \
    out, queries, pages_at, places, pages, sinks, has_sinks, n_heads, n_heads_kv, dim, window, chunked, scale, cap,    \
        n_rows, slopes, has_slopes
#define ROWS_MEMORY                                                                                                    \
    __local float q_memory[QUERIES * ROWS_DIM], score_memory[TILE * SCORE_ROWS], lane_memory[ATTEND_GROUP],            \
        inverse_memory[QUERIES], slope_memory[QUERIES];                                                                \
    __local int at_memory[QUERIES];                                                                                    \
    SUMS(range)                                                                                                        \
    SUMS(all)                                                                                                          \
    struct rows_memory m;                                                                                              \
    m.q = q_memory;                                                                                                    \
    m.scores = score_memory;                                                                                           \
    m.lane = lane_memory;                                                                                              \
    m.inverse = inverse_memory;                                                                                        \
    m.slope = slope_memory;                                                                                            \
    m.at = at_memory;                                                                                                  \
    m.range = range;                                                                                                   \
    m.all = all;

// any: formats are any, and values may have another length than keys; else both are F16.
INLINE void attend_rows_body(struct rows_memory m, ROWS_ARGS, int dim_v, int format_k, int format_v,
                             const __global uchar *acts, int padded, int acts_bytes, const int any)
{
    __local uint *keys = m.keys, *values = m.values;
    __local float *q = m.q, *scores = m.scores, *lane = m.lane, *inverse = m.inverse;
    const struct sums range = m.range, all = m.all;
    const struct query blocks = blocks_in(q);
    const int in_blocks = any && format_k == BLOCKS;
    const int per = n_heads / n_heads_kv, together = per < QUERIES ? per : QUERIES, rows = QUERIES / together;
    const int parts = (per + together - 1) / together, kv = (int)get_group_id(0) / parts;
    const int before = (int)get_group_id(0) % parts * together, first_head = kv * per + before;
    const int heads = per - before < together ? per - before : together;
    const int first_row = (int)get_group_id(1) * rows;
    const int rows_here = n_rows - first_row < rows ? n_rows - first_row : rows;
    // The query of an item's lane, and its row; those of the item's elements are four that follow one another.
    const int own = ITEM / LANES, l = ITEM % LANES, own_row = own / together;
    const int own_there = own_row < rows_here && own % together < heads;
    const int pos = places[2 * (first_row + (own_there ? own_row : 0))];
    const int oldest = oldest_of(pos, window, chunked);
    const int four = ITEM / TILE * 4, element = ITEM % TILE;
    float range_out[4][2], all_out[4][2];
    UNROLL for (int c = 0; c < 4; c++)
        UNROLL for (int i = 0; i < 2; i++)
            range_out[c][i] = all_out[c][i] = 0.0f;
    for (int i = ITEM; i < QUERIES * (dim / 4) && in_blocks; i += ATTEND_GROUP) {
        const int s = i / (dim / 4), row = s / together, head = s % together, word = i % (dim / 4);
        const int is = row < rows_here && head < heads;
        const size_t query = is ? (size_t)(first_row + row) * (size_t)n_heads + (size_t)(first_head + head) : 0;
        const struct token t = token_of(acts + query * (size_t)acts_bytes, padded);
        blocks.hi[s * (ROWS_DIM / 4) + word] = is ? t.hi[word] : 0u;
        blocks.lo[s * (ROWS_DIM / 4) + word] = is ? t.lo[word] : 0u;
        if (word % BLOCK_WORDS == 0)
            blocks.d[s * ROW_BLOCKS + word / BLOCK_WORDS] = is ? t.d[word / BLOCK_WORDS] : 0.0f;
    }
    for (int i = ITEM; i < QUERIES * dim && !in_blocks; i += ATTEND_GROUP) {
        const int s = i / dim, row = s / together, head = s % together;
        q[s * ROWS_DIM + i % dim] =
            row < rows_here && head < heads
                ? queries[((size_t)(first_row + row) * (size_t)n_heads + (size_t)(first_head + head)) * (size_t)dim +
                          (size_t)(i % dim)]
                : 0.0f;
    }
    if (ITEM < QUERIES)
        range.sum[ITEM] = range.max[ITEM] = all.sum[ITEM] = all.max[ITEM] = 0.0f;
    if (ITEM < QUERIES && has_slopes) {
        const int row = ITEM / together, head = ITEM % together;
        m.slope[ITEM] = slopes[first_head + (head < heads ? head : 0)];
        m.at[ITEM] = places[2 * (first_row + (row < rows_here ? row : 0))];
    }
    // Rows of one sequence have the same pages.
    for (int begin_row = 0, end_row; begin_row < rows_here; begin_row = end_row) {
        const int base = places[2 * (first_row + begin_row) + 1];
        int first_tile = INT_MAX, last_tile = 0;
        for (end_row = begin_row; end_row < rows_here && places[2 * (first_row + end_row) + 1] == base; end_row++) {
            const int at = places[2 * (first_row + end_row)];
            const int from = oldest_of(at, window, chunked) / TILE;
            first_tile = from < first_tile ? from : first_tile;
            last_tile = at / TILE > last_tile ? at / TILE : last_tile;
        }
        const int is_own = own_there && own_row >= begin_row && own_row < end_row;
        for (int tile = first_tile; tile <= last_tile; tile++) {
            const size_t row_k = row_bytes(dim, any ? format_k : 1), row_v = row_bytes(dim_v, any ? format_v : 1);
            const __global uchar *page_keys =
                pages_at + ((size_t)pages[base + tile] * (size_t)n_heads_kv + (size_t)kv) * TILE * (row_k + row_v);
            const __global uchar *page_values = page_keys + TILE * row_k;
            SYNC; // what was there is used
            if (!any) {
                for (int i = ITEM; i < TILE * dim / 8; i += ATTEND_GROUP) {
                    *(__local uint4 *)(keys + i / (dim / 8) * KEY_WORDS + i % (dim / 8) * 4) =
                        ((const __global uint4 *)page_keys)[i];
                    *(__local uint4 *)(values + i * 4) = ((const __global uint4 *)page_values)[i];
                }
            } else if (in_blocks) {
                load_blocks(keys, page_keys, dim);
            } else {
                load_plain((__local float *)keys, KEY_FLOATS, page_keys, dim, format_k);
            }
            SYNC;
            float score[4];
            if (!any)
                score_four(score, keys + element * KEY_WORDS, q + four * ROWS_DIM, dim);
            else if (in_blocks)
                score_four_blocks(score, keys + element * KEY_BLOCKS, blocks, four, dim);
            else
                score_four_plain(score, (const __local float *)keys + element * KEY_FLOATS, q + four * ROWS_DIM, dim);
            UNROLL for (int c = 0; c < 4; c++)
                scores[element * SCORE_ROWS + four + c] =
                    bent(scaled(score[c], scale, cap), has_slopes, m.slope[four + c],
                         tile * TILE + element - m.at[four + c]);
            SYNC;
            if (any && format_v == BLOCKS) // keys are used
                decode_blocks((__local float *)values, page_values, dim_v);
            else if (any)
                load_plain((__local float *)values, dim_v, page_values, dim_v, format_v);
            // Positions [from, end) of the page are the query's; lane l has each 16th of them.
            const int start = tile * TILE, from = oldest > start ? oldest - start : 0;
            const int end = !is_own || tile > pos / TILE || tile < oldest / TILE ? from
                            : pos + 1 - start < TILE                             ? pos + 1 - start
                                                                                 : TILE;
            float largest = -INFINITY;
            for (int i = from + l; i < end; i += LANES)
                largest = scores[i * SCORE_ROWS + own] > largest ? scores[i * SCORE_ROWS + own] : largest;
            lane[ITEM] = largest;
            SYNC;
            float max = -INFINITY, sum = 0.0f;
            UNROLL for (int i = 0; i < LANES; i++)
                max = lane[own * LANES + i] > max ? lane[own * LANES + i] : max;
            // Those that are not count as nothing; a lane has each of its positions, whatever page it begins in.
            for (int i = (from + l) % LANES; i < TILE; i += LANES) {
                __local float *at = scores + i * SCORE_ROWS + own;
                const int counts = i >= from && i < end;
                const float e = counts ? exp_of(*at - max) : 0.0f;
                *at = e;
                sum = counts ? sum + e : sum;
            }
            SYNC;
            lane[ITEM] = sum;
            sum_lanes(lane + own * LANES, l);
            if (l == 0) {
                range.what[own] = all.what[own] = NOTHING;
                if (end > from) {
                    add_sums(range, own, max, lane[own * LANES]);
                    if (tile % RANGE == RANGE - 1 || tile == pos / TILE) {
                        add_sums(all, own, range.max[own], range.sum[own]);
                        range.sum[own] = 0.0f;
                    }
                }
            }
            SYNC;
            if (element >= dim_v / 2)
                continue;
            float acc[4][2];
            UNROLL for (int c = 0; c < 4; c++)
                acc[c][0] = acc[c][1] = 0.0f;
            UNROLL_8 for (int i = 0; i < TILE; i++) {
                const int at = i * (dim_v / 2) + element;
                const uint two = any ? 0u : values[at];
                const float low = any ? ((const __local float *)values)[2 * at] : half_of_bits(two);
                const float high = any ? ((const __local float *)values)[2 * at + 1] : half_of_bits(two >> 16);
                UNROLL for (int c = 0; c < 4; c++) {
                    const float by = scores[i * SCORE_ROWS + four + c];
                    if (by != 0.0f) {
                        acc[c][0] = fma(by, low, acc[c][0]);
                        acc[c][1] = fma(by, high, acc[c][1]);
                    }
                }
            }
            UNROLL for (int c = 0; c < 4; c++)
                UNROLL for (int i = 0; i < 2; i++) {
                    range_out[c][i] = added(range, four + c, range_out[c][i], acc[c][i]);
                    all_out[c][i] = added(all, four + c, all_out[c][i], range_out[c][i]);
                }
        }
    }
    if (ITEM < QUERIES) {
        const float sink = has_sinks && ITEM % together < heads ? sinks[first_head + ITEM % together] : 0.0f;
        const float top = has_sinks && sink > all.max[ITEM] ? sink : all.max[ITEM];
        const float by = has_sinks ? exp_of(all.max[ITEM] - top) : 1.0f;
        inverse[ITEM] = divide(by, has_sinks ? fma(all.sum[ITEM], by, exp_of(sink - top)) : all.sum[ITEM]);
    }
    SYNC;
    UNROLL for (int c = 0; c < 4; c++) {
        const int row = (four + c) / together, head = (four + c) % together;
        if (row < rows_here && head < heads && element < dim_v / 2) {
            __global float *to =
                out + ((size_t)(first_row + row) * (size_t)n_heads + (size_t)(first_head + head)) * (size_t)dim_v;
            to[2 * element] = all_out[c][0] * inverse[four + c];
            to[2 * element + 1] = all_out[c][1] * inverse[four + c];
        }
    }
}

// Groups: key/value heads times the parts of those that share one, rows that go together.
KERNEL_OF(ATTEND_GROUP) attend_rows(ROWS_ARGS)
{
    __local uint keys[TILE * KEY_WORDS] __attribute__((aligned(16)));
    __local uint values[TILE * ROWS_DIM / 2] __attribute__((aligned(16)));
    ROWS_MEMORY
    m.keys = keys;
    m.values = values;
    attend_rows_body(m, ROWS_ARGS_GIVEN, dim, 1, 1, 0, 0, 0, 0);
}

// acts: the queries as activations, where keys are in blocks.
KERNEL_OF(ATTEND_GROUP) attend_rows_any(ROWS_ARGS, int dim_v, int format_k, int format_v, const __global uchar *acts,
                                        int padded, int acts_bytes)
{
    __local uint tile[TILE * KEY_FLOATS] __attribute__((aligned(16)));
    ROWS_MEMORY
    m.keys = m.values = tile;
    attend_rows_body(m, ROWS_ARGS_GIVEN, dim_v, format_k, format_v, acts, padded, acts_bytes, 1);
}
