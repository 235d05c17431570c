// SPDX-License-Identifier: MIT
// Latent attention: what is done with a position's vector and with heads' parts, before and after products that each head
// has of its own. These take rows head by head, [heads][tokens], while all else lies token by token.

// A key [rank + n_rot]: the norm of its first `rank` elements, and the rotation of the rest; a query, which has n_heads
// heads of still + n_rot: the rotation of each one's last n_rot, where anything rotates. Groups: heads and one more, whose
// is the key, rows.
KERNEL_OF(ROW_GROUP) place_latent(__global float *k, __global float *q, const __global float *weights, int rank,
                                  float eps, const __global float *cos_sin, int n_heads, int still, int n_rot, int neox,
                                  int rotates)
{
    __local float part[ROW_PART], lane[LANES];
    const size_t row = get_group_id(1), head = get_group_id(0);
    const int is_key = head == (size_t)n_heads;
    __global float *key = k + row * (size_t)(rank + n_rot);
    __global float *x = is_key ? key + rank : q + (row * (size_t)n_heads + head) * (size_t)(still + n_rot) + still;
    for (int i = ITEM; rotates && i < n_rot / 2; i += ROW_GROUP)
        rotate_pair(x, cos_sin + row * (size_t)n_rot, i, n_rot, neox);
    const int n = is_key ? rank : 0;
    const float squares = lane_of_row(key, n, 0.0f, 1, part);
    if (ITEM < LANES)
        lane[ITEM] = squares;
    sum_lanes(lane, ITEM);
    const float scale = divide(1.0f, sqrt(divide(lane[0], (float)rank) + eps));
    for (int i = ITEM; i < n; i += ROW_GROUP)
        key[i] = key[i] * scale * weights[i];
}

// Of each token's head, n of its `width` elements, as a row of their own: as numbers, and with has_acts quantised in their
// place. Groups: GROUP times four numbers, heads, tokens.
KERNEL gather_heads(__global float *plain, __global uchar *acts, const __global float *x, int n, int width, int n_heads,
                    int n_tokens, int padded, int acts_bytes, int has_acts)
{
    ROOM(GROUP)
    const int at = ((int)get_group_id(0) * GROUP + ITEM) * FEW;
    const size_t head = get_group_id(1), token = get_group_id(2), to = head * (size_t)n_tokens + token;
    const __global float *from = x + (token * (size_t)n_heads + head) * (size_t)width;
    float v[FEW];
    UNROLL for (int i = 0; i < FEW; i++)
        v[i] = at + i < n ? from[at + i] : 0.0f;
    if (has_acts) {
        quantize_few(acts + to * (size_t)acts_bytes, v, at, padded, room);
        return;
    }
    UNROLL for (int i = 0; i < FEW; i++)
        if (at + i < n)
            plain[to * (size_t)n + (size_t)(at + i)] = v[i];
}

// The way back: n elements from number `at` on of each head's rows of `width`, and behind them the last n_rest of what
// `rest` has of the token's head, of rest_width elements. Groups: elements, heads, tokens.
KERNEL spread_heads(__global float *out, const __global float *x, int n, int width, int from, const __global float *rest,
                    int n_rest, int rest_width, int n_heads, int n_tokens)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t head = get_group_id(1), token = get_group_id(2), to = token * (size_t)n_heads + head;
    if (i >= n + n_rest)
        return;
    out[to * (size_t)(n + n_rest) + (size_t)i] =
        i < n ? x[(head * (size_t)n_tokens + token) * (size_t)width + (size_t)(from + i)]
              : rest[to * (size_t)rest_width + (size_t)(rest_width - n_rest + i - n)];
}

// Each head's first n_rows rows of those that it has of a matrix (`each` of them), times the first elements of what x has of
// the token's head, of `width`: their sum, in ascending order, to out [heads][tokens][n_columns]. bits 0: plain numbers. A
// step's number is multiplied by the scale, a prompt's by the decoded element. Groups: columns, heads, tokens.
KERNEL sum_rows_of_heads(__global float *out, const __global float *x, int width, const __global uchar *q,
                         const __global uchar *scales, const __global uchar *minima, int bits, int unit, int is_half,
                         int has_min, int base, int format, int n_columns, int each, int n_rows, int n_heads,
                         int n_tokens, int is_prompt)
{
    const int column = (int)get_group_id(0) * GROUP + ITEM;
    const size_t head = get_group_id(1), token = get_group_id(2);
    const __global float *by = x + (token * (size_t)n_heads + head) * (size_t)width;
    const int n_units = bits ? n_columns / unit : 0;
    if (column >= n_columns)
        return;
    float acc = 0.0f;
    for (int r = 0; r < n_rows; r++) {
        const size_t row = head * (size_t)each + (size_t)r;
        const float p = by[r];
        if (p == 0.0f)
            continue;
        if (!bits) {
            acc = fma(p, plain_at(q, format, row * (size_t)n_columns + (size_t)column), acc);
            continue;
        }
        const size_t u = row * (size_t)n_units + (size_t)(column / unit);
        const float scale = scale_at(scales, is_half, u), low = has_min ? scale_at(minima, is_half, u) : 0.0f;
        const float integer = (float)integer_at(q, bits, unit, base, row, n_units, column);
        if (is_prompt) {
            float value = scale * integer;
            if (has_min)
                value = value - low;
            acc = fma(p, value, acc);
        } else {
            acc = fma(p * scale, integer, acc);
            if (has_min)
                acc = fma(-p, low, acc);
        }
    }
    out[(head * (size_t)n_tokens + token) * (size_t)n_columns + (size_t)column] = acc;
}
