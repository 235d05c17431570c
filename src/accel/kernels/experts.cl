// SPDX-License-Identifier: MIT
// Experts of a layer: which ones a token uses, lists of what goes through each, and what comes of it (engine/moe.c).

// Experts of a layer, and of a token, at most.
#define MOST_EXPERTS 1024
#define MOST_USED    64
#define MOST_GROUPS  256

// ---- choosing

#define CHOICE_GROUP 256
// How scores become weights: numbers of enum hearth_accel_gating.
#define OF_SIGMOID 1
#define OF_NEAR    2
// What counts beside a score: engine/moe.c says why.
#define NEAR_SHARE  0.02f
#define LEAST_TOTAL 1e-20f

// x = exp(x - the largest); returns the sum of all. All items of the group come here.
INLINE float softmax_of(__local float *x, int n, __local float *lane)
{
    if (ITEM < LANES) {
        float largest = -INFINITY;
        for (int i = ITEM; i < n; i += LANES)
            largest = x[i] > largest ? x[i] : largest;
        lane[ITEM] = largest;
    }
    SYNC;
    float max = -INFINITY;
    UNROLL for (int l = 0; l < LANES; l++)
        max = lane[l] > max ? lane[l] : max;
    SYNC;
    for (int i = ITEM; i < n; i += CHOICE_GROUP)
        x[i] = exp_of(x[i] - max);
    SYNC;
    if (ITEM < LANES) {
        float acc = 0.0f;
        for (int i = ITEM; i < n; i += LANES)
            acc += x[i];
        lane[ITEM] = acc;
    }
    sum_lanes(lane, ITEM);
    const float total = lane[0];
    SYNC;
    return total;
}

// The n_best best of n numbers, best first, of equal ones the lower: by one item, as the C reference does it.
INLINE void choose_in_turn(const __local float *x, int n, __local int *best, int n_best)
{
    int have = 0;
    for (int e = 0; e < n; e++) {
        if (have == n_best && !(x[e] > x[best[n_best - 1]]))
            continue;
        int at = have < n_best ? have++ : n_best - 1;
        for (; at > 0 && x[e] > x[best[at - 1]]; at--)
            best[at] = best[at - 1];
        best[at] = e;
    }
}

// The same by all items, as long as all are numbers. All of the group come here.
INLINE void choose_together(const __local float *x, int n, __local int *best, int n_best, __local int *odd)
{
    if (ITEM == 0)
        *odd = 0;
    SYNC;
    for (int e = ITEM; e < n; e += CHOICE_GROUP)
        if (!(x[e] == x[e]))
            *odd = 1;
    SYNC;
    const int is_odd = *odd;
    if (is_odd && ITEM == 0)
        choose_in_turn(x, n, best, n_best);
    for (int e = ITEM; e < n && !is_odd; e += CHOICE_GROUP) {
        int rank = 0;
        for (int i = 0; i < n; i++)
            rank += x[i] > x[e] || (x[i] == x[e] && i < e);
        if (rank < n_best)
            best[rank] = e;
    }
    SYNC;
}

// What a group of `size` experts is worth: its best score, or the sum of its best two.
INLINE float worth_of(const __local float *x, int size, int of_best)
{
    float best = -INFINITY, second = -INFINITY;
    for (int e = 0; e < size; e++) {
        if (x[e] > best) {
            second = best;
            best = x[e];
        } else if (x[e] > second)
            second = x[e];
    }
    return of_best || size == 1 ? best : best + second;
}

// Chosen expert number i, best first: the weight of a softmax over those near it that were not chosen before.
INLINE float weight_near(const __local float *x, int n, const __local int *best, int i)
{
    const float top = x[best[i]];
    float total = 0.0f;
    for (int e = 0; e < n; e++) {
        int before = 0;
        for (int k = 0; k < i; k++)
            before |= best[k] == e;
        const float size = fabs(x[e]), larger = !(size >= top) ? top : size;
        if (!before && !(divide(top - x[e], larger) > NEAR_SHARE))
            total += exp_of(x[e] - top);
    }
    return divide(1.0f, total);
}

// Of each row of a router's products [rows x n]: the experts that the token uses, ascending, and their weights, both
// [rows x n_used]. A group a row.
KERNEL_OF(CHOICE_GROUP) choose_experts(const __global float *products, int n, int n_used, int gating, float by,
                                       const __global float *bias, int has_bias, const __global float *choice_bias,
                                       int has_choice_bias, int softmax_choice, int n_groups, int n_groups_used,
                                       int normalises, float scale, const __global float *scales, int has_scales,
                                       __global int *ids, __global float *weights)
{
    __local float x[MOST_EXPERTS], decides[MOST_EXPERTS], worth[MOST_GROUPS], near[MOST_USED], lane[LANES];
    __local int best[MOST_USED], best_groups[MOST_GROUPS], sorted[MOST_USED], odd;
    const size_t row = get_group_id(0);
    for (int e = ITEM; e < n; e += CHOICE_GROUP) {
        float v = products[row * (size_t)n + (size_t)e] * by;
        if (has_bias)
            v += bias[e];
        x[e] = gating == OF_SIGMOID ? divide(1.0f, 1.0f + exp_of(-v)) : v;
        decides[e] = x[e];
    }
    SYNC;
    // All come to each barrier, whatever the kind: PoCL 3.1 goes wrong where loops lie between some that are left out.
    const int is_softmax = gating != OF_SIGMOID && gating != OF_NEAR;
    const float all = softmax_of(decides, softmax_choice ? n : 0, lane);
    for (int e = ITEM; e < n; e += CHOICE_GROUP) {
        const float v = softmax_choice ? divide(decides[e], all) : decides[e];
        decides[e] = has_choice_bias ? v + choice_bias[e] : v;
    }
    SYNC;
    const int size = n_groups ? n / n_groups : n;
    for (int g = ITEM; g < n_groups; g += CHOICE_GROUP)
        worth[g] = worth_of(decides + g * size, size, is_softmax);
    SYNC;
    if (ITEM == 0)
        choose_in_turn(worth, n_groups, best_groups, n_groups_used);
    SYNC;
    for (int e = ITEM; e < n; e += CHOICE_GROUP) {
        int used = !n_groups;
        for (int i = 0; i < n_groups_used; i++)
            used |= best_groups[i] == e / size;
        if (!used)
            decides[e] = -INFINITY;
    }
    choose_together(decides, n, best, n_used, &odd);
    const int n_near = gating == OF_NEAR ? n_used : 0;
    for (int i = ITEM; i < n_near; i += CHOICE_GROUP)
        near[i] = weight_near(x, n, best, i);
    SYNC;
    for (int i = ITEM; i < n_near; i += CHOICE_GROUP)
        x[best[i]] = near[i];
    for (int i = ITEM; i < n_used; i += CHOICE_GROUP) {
        int before = 0;
        for (int k = 0; k < n_used; k++)
            before += best[k] < best[i];
        sorted[before] = best[i];
    }
    SYNC;
    const float of_all = softmax_of(x, is_softmax ? n : 0, lane);
    float total = is_softmax ? of_all : 1.0f;
    if (normalises) {
        total = is_softmax ? 0.0f : LEAST_TOTAL;
        for (int i = 0; i < n_used; i++)
            total += x[sorted[i]];
    }
    for (int i = ITEM; i < n_used; i += CHOICE_GROUP) {
        const float weight = divide(x[sorted[i]], total) * scale;
        ids[row * (size_t)n_used + (size_t)i] = sorted[i];
        weights[row * (size_t)n_used + (size_t)i] = has_scales ? weight * scales[sorted[i]] : weight;
    }
}

// ---- lists

// How many of n_ids are a group's expert.
KERNEL count_experts(const __global int *ids, int n_ids, __global int *counts)
{
    __local int part[GROUP];
    const int expert = (int)get_group_id(0);
    int n = 0;
    for (int i = ITEM; i < n_ids; i += GROUP)
        n += ids[i] == expert;
    part[ITEM] = n;
    SYNC;
    if (ITEM == 0) {
        n = 0;
        for (int i = 0; i < GROUP; i++)
            n += part[i];
        counts[expert] = n;
    }
}

// Slots of all experts side by side, a group an expert: slots[i] of ids[i], from[slot] = i, which[slot] = the expert; and
// tiles of `most` slots at most, those of the list that are not needed being empty. Few ids are counted here.
KERNEL list_experts(const __global int *ids, int n_ids, int n_experts, const __global int *counts, int has_counts, int most,
                    __global int *tiles, int n_tiles, __global int *slots, __global int *from, __global int *which)
{
    __local int count[MOST_EXPERTS], part[GROUP];
    const int expert = (int)get_group_id(0), each = (n_ids + GROUP - 1) / GROUP;
    const int begin = ITEM * each, end = begin + each < n_ids ? begin + each : n_ids;
    for (int e = ITEM; e < n_experts; e += GROUP) {
        int n = has_counts ? counts[e] : 0;
        for (int i = 0; i < n_ids && !has_counts; i++)
            n += ids[i] == e;
        count[e] = n;
    }
    int own = 0;
    for (int i = begin; i < end; i++)
        own += ids[i] == expert;
    part[ITEM] = own;
    SYNC;
    int slot = 0, tile = 0;
    for (int e = 0; e < expert; e++) {
        slot += count[e];
        tile += (count[e] + most - 1) / most;
    }
    int at = slot;
    for (int i = 0; i < ITEM; i++)
        at += part[i];
    for (int i = begin; i < end; i++)
        if (ids[i] == expert) {
            slots[i] = at;
            from[at] = i;
            which[at++] = expert;
        }
    const int n = count[expert], n_own = (n + most - 1) / most;
    for (int t = ITEM; t < n_own; t += GROUP) {
        tiles[3 * (tile + t)] = slot + t * most;
        tiles[3 * (tile + t) + 1] = n - t * most < most ? n - t * most : most;
        tiles[3 * (tile + t) + 2] = expert;
    }
    for (int t = tile + n_own + ITEM; t < n_tiles && expert == n_experts - 1; t += GROUP) {
        tiles[3 * t] = 0;
        tiles[3 * t + 1] = 0;
        tiles[3 * t + 2] = 0;
    }
}

// ---- rows

// Rows of k numbers to slots, quantised, and with has_plain as they are; with `weighs` times their weights. Groups: GROUP
// times four numbers, slots.
KERNEL gather_rows(__global uchar *acts, __global float *plain, const __global float *x, const __global int *from,
                   const __global float *weights, int n_used, int k, int padded, int acts_bytes, int has_plain, int weighs)
{
    ROOM(GROUP)
    const int at = ((int)get_group_id(0) * GROUP + ITEM) * FEW, i = from[get_group_id(1)];
    const float by = weighs ? weights[i] : 1.0f;
    float v[FEW];
    load_few(v, x + (size_t)(i / n_used) * (size_t)k, k, at);
    UNROLL for (int j = 0; j < FEW; j++) {
        v[j] = weighs ? v[j] * by : v[j];
        if (has_plain && at + j < k)
            plain[get_group_id(1) * (size_t)k + (size_t)(at + j)] = v[j];
    }
    quantize_few(acts + get_group_id(1) * (size_t)acts_bytes, v, at, padded, room);
}

// x = x * by[which[row]], rows of n. Groups: numbers, rows.
KERNEL scale_which(__global float *x, int n, const __global float *by, const __global int *which)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t row = get_group_id(1);
    if (i < n)
        x[row * (size_t)n + (size_t)i] *= by[which[row]];
}

// out = the sum of a row's experts, ascending, with `weighs` each times its weight; then what all tokens' expert gives, as
// it is (shared_kind 1) or times the sigmoid of its router's product (2); then times a number. With `adds` that is added to
// what is in out. Groups: numbers, rows.
KERNEL sum_experts(__global float *out, const __global float *outputs, int n, int n_used, const __global int *slots,
                   const __global int *ids, const __global float *weights, int weighs, const __global float *bias,
                   int has_bias, const __global float *shared, const __global float *shared_products, int shared_kind,
                   float scale, int adds)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t row = get_group_id(1), at = row * (size_t)n + (size_t)i;
    if (i >= n)
        return;
    float sum = 0.0f;
    for (int u = 0; u < n_used; u++) {
        const size_t own = row * (size_t)n_used + (size_t)u;
        const float by = weighs ? weights[own] : 1.0f;
        float y = outputs[(size_t)slots[own] * (size_t)n + (size_t)i];
        if (has_bias)
            y += bias[(size_t)ids[own] * (size_t)n + (size_t)i];
        if (by != 0.0f)
            sum = fma(by, y, sum);
    }
    if (shared_kind == 1)
        sum += shared[at];
    if (shared_kind == 2)
        sum = fma(shared[at], divide(1.0f, 1.0f + exp_of(-shared_products[row])), sum);
    sum *= scale;
    out[at] = adds ? out[at] + sum : sum;
}
