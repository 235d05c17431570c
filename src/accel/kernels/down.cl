// SPDX-License-Identifier: MIT
// Sums by neuron: the rows of a matrix, each times its neuron's number.

// ---- down by neuron: element `column` of row `row`

INLINE int integer_at(const __global uchar *q, int bits, int unit, int base, size_t row, int n_units, int column)
{
    const int in = column % unit, u = column / unit;
    const __global uchar *from = q + (row * (size_t)n_units + (size_t)u) * (size_t)(bits * unit / 8);
    if (bits == 8)
        return (int)((const __global char *)from)[in];
    const int byte = from[in % (unit / 2)];
    return (in < unit / 2 ? byte & 15 : byte >> 4) + base;
}

#define DOWN_ARGS                                                                                             \
    __global float *out, const __global float *p, int p_stride, const __global uchar *q,                      \
        const __global uchar *scales, const __global uchar *minima, int n_columns, int n_neurons, int has_min, \
        int base, int cluster, int n_clusters, int n_tokens

// Neurons that are looked at together.
#define LIST      512
#define LIST_EACH (LIST / GROUP)

struct list {
    __local float *by;
    __local int *neuron, *count; // [LIST], [GROUP]
};

#define LIST_MEMORY                                                  \
    __local float list_by[LIST];                                     \
    __local int list_neuron[LIST], list_count[GROUP];                \
    struct list list;                                                \
    list.by = list_by;                                               \
    list.neuron = list_neuron;                                       \
    list.count = list_count;

// Those of neurons [first, end), LIST at most, whose number is not 0, in their order. Returns how many.
INLINE int make_list(struct list list, const __global float *weights, int first, int end)
{
    float by[LIST_EACH];
    int n = 0;
    UNROLL for (int i = 0; i < LIST_EACH; i++) {
        const int r = first + ITEM * LIST_EACH + i;
        by[i] = r < end ? weights[r] : 0.0f;
        n += by[i] != 0.0f;
    }
    SYNC; // the list before is used
    list.count[ITEM] = n;
    for (int width = 1; width < GROUP; width *= 2) {
        SYNC;
        const int more = ITEM >= width ? list.count[ITEM - width] : 0;
        SYNC;
        list.count[ITEM] += more;
    }
    int at = list.count[ITEM] - n;
    UNROLL for (int i = 0; i < LIST_EACH; i++)
        if (by[i] != 0.0f) {
            list.by[at] = by[i];
            list.neuron[at++] = first + ITEM * LIST_EACH + i;
        }
    SYNC;
    return list.count[GROUP - 1];
}

// A step's clusters, each from zero: out [tokens][clusters][columns]. Groups: columns, clusters, tokens.
INLINE void clusters_body(struct list list, DOWN_ARGS, const int bits, const int unit, const int is_half)
{
    const int own = (int)get_group_id(0) * GROUP + ITEM, column = own < n_columns ? own : n_columns - 1;
    const int first = (int)get_group_id(1) * cluster;
    const int end = n_neurons - first < cluster ? n_neurons : first + cluster;
    const __global float *weights = p + get_group_id(2) * (size_t)p_stride;
    const int n_units = n_columns / unit;
    float acc = 0.0f;
    for (int at = first; at < end; at += LIST) {
        const int n = make_list(list, weights, at, end - at < LIST ? end : at + LIST);
        for (int r = 0; r < n; r += 8) {
            uint scale[8], low[8];
            int q_of[8];
            UNROLL for (int i = 0; i < 8; i++) {
                const size_t neuron = (size_t)list.neuron[r + i < n ? r + i : n - 1];
                const size_t u = neuron * (size_t)n_units + (size_t)(column / unit);
                scale[i] = scale_bits(scales, is_half, u);
                low[i] = has_min ? scale_bits(minima, is_half, u) : 0;
                q_of[i] = integer_at(q, bits, unit, base, neuron, n_units, column);
            }
            UNROLL for (int i = 0; i < 8; i++) {
                if (r + i >= n)
                    continue;
                acc = fma(list.by[r + i] * scale_of_bits(scale[i], is_half), (float)q_of[i], acc);
                if (has_min)
                    acc = fma(-list.by[r + i], scale_of_bits(low[i], is_half), acc);
            }
        }
    }
    if (own < n_columns)
        out[(get_group_id(2) * (size_t)n_clusters + get_group_id(1)) * (size_t)n_columns + (size_t)column] = acc;
    (void)n_tokens;
}

// A prompt's sum over all neurons, of decoded weights, for tokens that share what is decoded. Groups: columns, 1, tokens.
#define COLUMN_TOKENS 8

INLINE void columns_body(__local float *by, DOWN_ARGS, const int bits, const int unit, const int is_half)
{
    const int own = (int)get_group_id(0) * GROUP + ITEM, column = own < n_columns ? own : n_columns - 1;
    const int n_units = n_columns / unit, first = (int)get_group_id(2) * COLUMN_TOKENS;
    float acc[COLUMN_TOKENS];
    UNROLL for (int t = 0; t < COLUMN_TOKENS; t++)
        acc[t] = 0.0f;
    for (int at = 0; at < n_neurons; at += GROUP) {
        SYNC;
        for (int t = 0; t < COLUMN_TOKENS; t++)
            by[t * GROUP + ITEM] = first + t < n_tokens && at + ITEM < n_neurons
                                       ? p[(size_t)(first + t) * (size_t)p_stride + (size_t)(at + ITEM)]
                                       : 0.0f;
        SYNC;
        const int end = n_neurons - at < GROUP ? n_neurons - at : GROUP;
        for (int i0 = 0; i0 < end; i0 += 4) {
            uint scale[4], low[4];
            int q_of[4];
            UNROLL for (int i = 0; i < 4; i++) {
                const size_t neuron = (size_t)(at + (i0 + i < end ? i0 + i : i0));
                const size_t u = neuron * (size_t)n_units + (size_t)(column / unit);
                scale[i] = scale_bits(scales, is_half, u);
                low[i] = has_min ? scale_bits(minima, is_half, u) : 0;
                q_of[i] = integer_at(q, bits, unit, base, neuron, n_units, column);
            }
            UNROLL for (int i = 0; i < 4; i++) {
                float value = scale_of_bits(scale[i], is_half) * (float)q_of[i];
                if (has_min)
                    value = value - scale_of_bits(low[i], is_half);
                UNROLL for (int t = 0; t < COLUMN_TOKENS; t++) {
                    const float factor_of = i0 + i < end ? by[t * GROUP + i0 + i] : 0.0f;
                    if (factor_of != 0.0f)
                        acc[t] = fma(factor_of, value, acc[t]);
                }
            }
        }
    }
    UNROLL for (int t = 0; t < COLUMN_TOKENS; t++)
        if (own < n_columns && first + t < n_tokens)
            out[(size_t)(first + t) * (size_t)n_columns + (size_t)column] = acc[t];
    (void)cluster;
    (void)n_clusters;
}

// ---- plain numbers

// Down by neuron of plain numbers, where clusters and whole sums differ in nothing else. Groups: columns, clusters,
// tokens.
KERNEL down_plain(__global float *out, const __global float *p, int p_stride, const __global uchar *w, int format,
                  int n_columns, int n_neurons, int cluster, int n_clusters)
{
    const int column = (int)get_group_id(0) * GROUP + ITEM, first = (int)get_group_id(1) * cluster;
    const int end = n_neurons - first < cluster ? n_neurons : first + cluster;
    const __global float *weights = p + get_group_id(2) * (size_t)p_stride;
    if (column >= n_columns)
        return;
    float acc = 0.0f;
    for (int r = first; r < end; r++)
        if (weights[r] != 0.0f)
            acc = fma(weights[r], plain_at(w, format, (size_t)r * (size_t)n_columns + (size_t)column), acc);
    out[(get_group_id(2) * (size_t)n_clusters + get_group_id(1)) * (size_t)n_columns + (size_t)column] = acc;
}

// out = the clusters' sums, ascending, from zero. Groups: columns, tokens.
KERNEL sum_clusters(__global float *out, const __global float *parts, int n_columns, int n_clusters)
{
    const int column = (int)get_group_id(0) * GROUP + ITEM;
    if (column >= n_columns)
        return;
    float acc = 0.0f;
    for (int c = 0; c < n_clusters; c++)
        acc += parts[(get_group_id(1) * (size_t)n_clusters + (size_t)c) * (size_t)n_columns + (size_t)column];
    out[get_group_id(1) * (size_t)n_columns + (size_t)column] = acc;
}
