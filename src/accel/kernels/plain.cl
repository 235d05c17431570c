// SPDX-License-Identifier: MIT
// Products of matrices of plain numbers with tokens.

#define PLAIN_ARGS                                                                                               \
    __global float *out, const __global uchar *w, int format, const __global float *x, int k, int n_rows, int n_tokens, \
        const __global uchar *mask, int has_mask, const __global int *tiles, int has_tiles, int adds

KERNEL step_plain(PLAIN_ARGS)
{
    __local float lane[GROUP];
    const int l = ITEM % LANES, row = (int)get_group_id(0) * (GROUP / LANES) + ITEM / LANES;
    const struct tile tile = tile_of((int)get_group_id(1), 1, n_tokens, tiles, has_tiles);
    for (int t = 0; t < tile.n; t++) {
        const size_t token = (size_t)(tile.first + t);
        const __global float *from = x + token * (size_t)k;
        const int wanted = row < n_rows && !(has_mask && !mask[token * (size_t)n_rows + (size_t)row]);
        float acc = 0.0f;
        const size_t begin = (tile.matrix * (size_t)n_rows + (size_t)row) * (size_t)k;
        for (int i0 = l; wanted && i0 < k; i0 += 8 * LANES) {
            uint bits[8];
            float y[8];
            UNROLL for (int j = 0; j < 8; j++) {
                const int i = i0 + j * LANES < k ? i0 + j * LANES : i0;
                bits[j] = plain_bits(w, format, begin + (size_t)i);
                y[j] = from[i];
            }
            UNROLL for (int j = 0; j < 8; j++)
                if (i0 + j * LANES < k)
                    acc = fma(plain_of_bits(bits[j], format), y[j], acc);
        }
        if (k % LANES && l >= k % LANES)
            acc += 0.0f;
        lane[ITEM] = acc;
        sum_lanes(lane + ITEM / LANES * LANES, l);
        __global float *to = out + token * (size_t)n_rows + (size_t)row;
        if (l == 0 && row < n_rows)
            *to = adds ? *to + lane[ITEM] : lane[ITEM];
        SYNC;
    }
}

KERNEL prompt_plain(PLAIN_ARGS)
{
    const int row = (int)get_group_id(0) * GROUP + ITEM;
    const struct tile tile = tile_of((int)get_group_id(1), PROMPT_TOKENS, n_tokens, tiles, has_tiles);
    for (int at = 0; row < n_rows && at < tile.n; at += PROMPT_TOKENS) {
        const int first = tile.first + at, n = tile.n - at < PROMPT_TOKENS ? tile.n - at : PROMPT_TOKENS;
        float acc[PROMPT_TOKENS];
        UNROLL for (int t = 0; t < PROMPT_TOKENS; t++)
            acc[t] = 0.0f;
        for (int i = 0; i < k; i++) {
            const float v =
                plain_at(w, format, (tile.matrix * (size_t)n_rows + (size_t)row) * (size_t)k + (size_t)i);
            UNROLL for (int t = 0; t < PROMPT_TOKENS; t++)
                if (t < n)
                    acc[t] = fma(v, x[(size_t)(first + t) * (size_t)k + (size_t)i], acc[t]);
        }
        UNROLL for (int t = 0; t < PROMPT_TOKENS; t++)
            if (t < n) {
                __global float *to = out + (size_t)(first + t) * (size_t)n_rows + (size_t)row;
                *to = adds ? *to + acc[t] : acc[t];
            }
    }
    (void)mask;
    (void)has_mask;
}
