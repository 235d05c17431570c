// SPDX-License-Identifier: MIT
// Rows of a batch: norms, sums, rotations, activations, and their quantised form.

// ---- quantised activations
//
// An item has 4 numbers, eight that follow one another a unit of 32.

#define FEW 4

INLINE void load_few(float *v, const __global float *row, int k, int at)
{
    if (at + FEW <= k && k % FEW == 0) {
        const float4 four = *(const __global float4 *)(row + at);
        v[0] = four.x;
        v[1] = four.y;
        v[2] = four.z;
        v[3] = four.w;
    } else {
        UNROLL for (int i = 0; i < FEW; i++)
            v[i] = at + i < k ? row[at + i] : 0.0f;
    }
}

// What a group needs to quantise: a number of each item.
struct room {
    __local float *largest;
    __local int *sum, *high;
};

#define ROOM(items)                                               \
    __local float room_largest[items];                            \
    __local int room_sum[items], room_high[items];                \
    struct room room;                                             \
    room.largest = room_largest;                                  \
    room.sum = room_sum;                                          \
    room.high = room_high;

// Four numbers at `at` of a row's acts block. All items of the group come here.
INLINE void quantize_few(__global uchar *acts, const float *v, int at, int padded, struct room room)
{
    __global float *d = (__global float *)(acts + 2 * (size_t)padded);
    __global int *sum = (__global int *)(d + padded / 32);
    __global int *bias = sum + padded / 16;
    float amax = 0.0f;
    UNROLL for (int i = 0; i < FEW; i++) {
        const float size = fabs(v[i]);
        amax = (as_uint(size) & 0x7f800000) == 0x7f800000 ? INFINITY : size > amax ? size : amax;
    }
    SYNC;
    room.largest[ITEM] = amax;
    SYNC;
    amax = 0.0f;
    UNROLL for (int i = 0; i < 32 / FEW; i++) {
        const float other = room.largest[ITEM / (32 / FEW) * (32 / FEW) + i];
        amax = other > amax ? other : amax;
    }
    const int finite = amax < INFINITY;
    const float inverse = amax > 0.0f ? divide(16256.0f, amax) : 0.0f;
    const int zero = !finite || !(inverse <= 3.0e38f);
    int total = 0, high_total = 0;
    uint high_word = 0, low_word = 0;
    UNROLL for (int i = 0; i < FEW; i++) {
        const int q = zero ? 0 : (int)rint(v[i] * inverse), high = (q + 64) >> 7;
        high_word |= (uint)(high & 255) << 8 * i;
        low_word |= (uint)(q - 128 * high & 255) << 8 * i;
        total += q;
        high_total += high;
    }
    room.sum[ITEM] = total;
    room.high[ITEM] = high_total;
    SYNC;
    if (at >= padded)
        return;
    *(__global uint *)(acts + at) = high_word;
    *(__global uint *)(acts + padded + at) = low_word;
    if (at % 16 == 0) {
        sum[at / 16] = room.sum[ITEM] + room.sum[ITEM + 1] + room.sum[ITEM + 2] + room.sum[ITEM + 3];
        bias[at / 16] =
            -128 * (room.high[ITEM] + room.high[ITEM + 1] + room.high[ITEM + 2] + room.high[ITEM + 3]);
    }
    if (at % 32 == 0)
        d[at / 32] = !finite ? as_float(0x7fc00000) : zero ? 0.0f : divide(amax, 16256.0f);
}

// Groups: rows, GROUP times four numbers.
KERNEL quantize(__global uchar *acts, const __global float *x, int k, int padded, int acts_bytes)
{
    ROOM(GROUP)
    const int at = ((int)get_group_id(1) * GROUP + ITEM) * FEW;
    float v[FEW];
    load_few(v, x + get_group_id(0) * (size_t)k, k, at);
    quantize_few(acts + get_group_id(0) * (size_t)acts_bytes, v, at, padded, room);
}

// ---- norms

#define ROW_GROUP 256
// Numbers of a row that lie in local memory at once.
#define ROW_PART 8192

// What a lane has of the sum of a row's numbers, less `mean`, or of their squares. All items of the group come here; the
// last ROW_PART numbers of the row are in `part` afterwards, less `mean`.
INLINE float lane_of_row(const __global float *x, int n, float mean, int squares, __local float *part)
{
    float acc = 0.0f;
    for (int at = 0; at < n; at += ROW_PART) {
        const int here = n - at < ROW_PART ? n - at : ROW_PART;
        SYNC;
        UNROLL_8 for (int i = ITEM; i < here; i += ROW_GROUP)
            part[i] = x[at + i] - mean;
        SYNC;
        const int end = ITEM < LANES ? here : 0;
        if (squares) {
            UNROLL_16 for (int i = ITEM; i < end; i += LANES)
                acc = fma(part[i], part[i], acc);
        } else {
            UNROLL_16 for (int i = ITEM; i < end; i += LANES)
                acc += part[i];
        }
    }
    return acc;
}

// out = norm(x), a group a row: RMS norm, or with is_layer a layer norm, whose b may be missing. Weights are n_weights rows,
// which follow one another again and again. out may be x. With has_acts the rows are quantised, too.
KERNEL_OF(ROW_GROUP) norm(__global float *out, const __global float *x, const __global float *weights, int n_weights,
                          const __global float *b, int n, float eps, int is_layer, int has_bias, __global uchar *acts,
                          int padded, int acts_bytes, int has_acts)
{
    __local float part[ROW_PART], lane[LANES];
    ROOM(ROW_GROUP)
    const __global float *from = x + (size_t)get_group_id(0) * (size_t)n;
    __global float *to = out + (size_t)get_group_id(0) * (size_t)n;
    const __global float *w = weights + get_group_id(0) % (size_t)n_weights * (size_t)n;
    float mean = 0.0f;
    if (is_layer) {
        const float acc = lane_of_row(from, n, 0.0f, 0, part);
        if (ITEM < LANES)
            lane[ITEM] = acc;
        sum_lanes(lane, ITEM);
        mean = divide(lane[0], (float)n);
    }
    const float squares = lane_of_row(from, n, mean, 1, part);
    if (ITEM < LANES)
        lane[ITEM] = squares;
    sum_lanes(lane, ITEM);
    const float scale = divide(1.0f, sqrt(divide(lane[0], (float)n) + eps));
    const int is_kept = n <= ROW_PART; // in part, less its mean
    for (int first = ITEM; first < n; first += 8 * ROW_GROUP) {
        // All that is read comes before all that is written: out may be x.
        float v[8], by[8], bias[8];
        UNROLL for (int j = 0; j < 8; j++) {
            const int i = first + j * ROW_GROUP < n ? first + j * ROW_GROUP : first;
            v[j] = is_kept ? part[i] : from[i] - mean;
            by[j] = w[i];
            bias[j] = has_bias ? b[i] : 0.0f;
        }
        UNROLL for (int j = 0; j < 8; j++) {
            const int i = first + j * ROW_GROUP;
            if (i >= n)
                continue;
            const float y = is_layer ? fma(v[j] * scale, by[j], bias[j]) : v[j] * scale * by[j];
            to[i] = y;
            if (is_kept)
                part[i] = y;
        }
    }
    if (!has_acts)
        return;
    SYNC_GLOBAL;
    for (int first = 0; first < padded; first += ROW_GROUP * FEW) {
        const int at = first + ITEM * FEW;
        float v[FEW];
        if (is_kept)
            UNROLL for (int i = 0; i < FEW; i++)
                v[i] = at + i < n ? part[at + i] : 0.0f;
        else
            load_few(v, to, n, at);
        quantize_few(acts + get_group_id(0) * (size_t)acts_bytes, v, at, padded, room);
    }
}

// ---- sums and rotations

// x += y for rows of n; y has one row for all where its stride is 0, and row which[r] is row r's where there are such.
KERNEL add(__global float *x, const __global float *y, int n, int y_stride, const __global int *which, int has_which)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t row = get_group_id(1), from = has_which ? (size_t)which[row] : row;
    if (i < n)
        x[row * (size_t)n + (size_t)i] += y[from * (size_t)y_stride + (size_t)i];
}

// x = x + y * by
KERNEL add_scaled(__global float *x, const __global float *y, int n, float by)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t at = get_group_id(1) * (size_t)n + (size_t)i;
    if (i < n)
        x[at] = fma(y[at], by, x[at]);
}

// x = x * by, or, with is_there, times the number that is there, or that of the row.
KERNEL scale(__global float *x, int n, float by, const __global float *there, int is_there, int is_of_row)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t row = get_group_id(1);
    if (i < n)
        x[row * (size_t)n + (size_t)i] *= is_there ? there[is_of_row ? row : 0] : by;
}

// x = x within -most .. most; what is not a number becomes -most.
KERNEL limit(__global float *x, int n, float most)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t at = get_group_id(1) * (size_t)n + (size_t)i;
    if (i < n)
        x[at] = !(x[at] > -most) ? -most : x[at] > most ? most : x[at];
}

// Queries [heads][dim], which stand before their gates in `both`: rows of n, and of 2 n.
KERNEL split(__global float *queries, const __global float *both, int n, int dim)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t row = get_group_id(1);
    if (i < n)
        queries[row * (size_t)n + (size_t)i] = both[row * 2 * (size_t)n + (size_t)(i / dim * 2 * dim + i % dim)];
}

// x *= sigmoid(gates): those of `both` above, or, without `beside`, one for each `dim` elements.
KERNEL gate(__global float *x, const __global float *gates, int n, int dim, int beside)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t row = get_group_id(1);
    if (i >= n)
        return;
    const float g = beside ? gates[row * 2 * (size_t)n + (size_t)((2 * (i / dim) + 1) * dim + i % dim)]
                           : gates[row * (size_t)(n / dim) + (size_t)(i / dim)];
    x[row * (size_t)n + (size_t)i] *= activated(g, SIGMOID);
}

// Rotates pair i of a head; `turn` is of its row.
INLINE void rotate_pair(__global float *head, const __global float *turn, int i, int n_rot, int neox)
{
    const int pairs = n_rot / 2;
    __global float *a = head + (neox ? i : 2 * i);
    __global float *b = a + (neox ? pairs : 1);
    const float c = turn[i], s = turn[pairs + i], old_a = *a, old_b = *b;
    *a = fma(old_a, c, -(old_b * s));
    *b = fma(old_a, s, old_b * c);
}

// Rotates heads: an item a pair. Groups: pairs of a head, heads, rows.
KERNEL rope(__global float *x, const __global float *cos_sin, int n_heads, int dim, int n_rot, int neox)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t row = get_group_id(2), head = row * (size_t)n_heads + get_group_id(1);
    if (i < n_rot / 2)
        rotate_pair(x + head * (size_t)dim, cos_sin + row * (size_t)n_rot, i, n_rot, neox);
}

// ---- feed-forward parts

// gate = f(gate) * up, or f(gate) where there is no up; 0 where the mask says so. Groups: neurons, rows.
KERNEL activate(__global float *gate, const __global float *up, int n, int act, int has_up, const __global uchar *mask,
                int has_mask)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t at = get_group_id(1) * (size_t)n + (size_t)i;
    if (i >= n)
        return;
    const float v = activated(gate[at], act);
    gate[at] = has_mask && !mask[at] ? 0.0f : has_up ? v * factor(up[at], act) : v;
}

// x = xIELU of x (struct hearth_xielu). Groups: neurons, rows.
KERNEL xielu(__global float *x, int n, float by_square, float by_exp, float by, float eps)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t at = get_group_id(1) * (size_t)n + (size_t)i;
    if (i >= n)
        return;
    const float v = x[at], cut = v < eps ? v : eps;
    x[at] = v > 0.0f ? v * fma(by_square, v, by) : fma(exp_of(cut) - 1.0f - v, by_exp, by * v);
}

// What activate() does without a mask, and quantised. Groups: GROUP times four numbers, rows.
KERNEL activate_quantize(__global float *gate, const __global float *up, int n, int act, int has_up, __global uchar *acts,
                         int padded, int acts_bytes)
{
    ROOM(GROUP)
    const int at = ((int)get_group_id(0) * GROUP + ITEM) * FEW;
    const size_t row = get_group_id(1) * (size_t)n;
    float v[FEW], u[FEW];
    load_few(v, gate + row, n, at);
    UNROLL for (int i = 0; i < FEW; i++)
        u[i] = 0.0f;
    if (has_up)
        load_few(u, up + row, n, at);
    UNROLL for (int i = 0; i < FEW; i++) {
        const float on = activated(v[i], act);
        v[i] = at + i >= n ? 0.0f : has_up ? on * factor(u[i], act) : on;
        if (at + i < n)
            gate[row + (size_t)(at + i)] = v[i];
    }
    quantize_few(acts + get_group_id(1) * (size_t)acts_bytes, v, at, padded, room);
}

// mask = 1 where a predictor names the neuron, or it is one of the first `always`; without has_scores all.
KERNEL mask_scores(__global uchar *mask, const __global float *scores, int n, float least, int always, int has_scores)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t at = get_group_id(1) * (size_t)n + (size_t)i;
    if (i < n)
        mask[at] = !has_scores || i < always || scores[at] >= least;
}

// Drops from the mask neurons whose gate is not on, or, with least above 0, whose activated gate is smaller.
KERNEL mask_gates(__global uchar *mask, const __global float *gate, int n, int act, int is_relu, float least)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t at = get_group_id(1) * (size_t)n + (size_t)i;
    if (i >= n)
        return;
    if (is_relu)
        mask[at] &= !(gate[at] <= 0.0f);
    if (least > 0.0f)
        mask[at] &= !(fabs(activated(gate[at], act)) < least);
}
