// SPDX-License-Identifier: MIT
// Causal attention over KV pages. A page is a tile: scores, softmax and weighted values are computed tile by
// tile and merged in ascending order; sixteen tiles are a range, and ranges are merged in ascending order,
// too. Tiles and ranges lie at fixed positions of the sequence, so the result does not depend on who computes
// what, and no score row is ever longer than a tile. A head's sink is merged after the last range, as one more
// score whose value is zero. Where a token attends to chosen positions alone (choose.h), or to blocks of
// positions and a window (blend.h), these are put side by side first: the i-th of them then takes the place of position i.
#include "engine/attention.h"

#include <math.h>
#include <string.h>

#include "base/poison.h"
#include "engine/gates.h"

struct job {
    struct hearth_attention_work *work;
    struct hearth_rows rows;
    int layer;
    int n_blocks;
    int n_ranges;                        // steps: ranges that a token's positions may reach into, a task each
    bool chosen;                         // the layer attends to chosen positions alone
    int n_head;                          // of the layer
    int group;                           // query heads of a task,
    int n_groups;                        // and how often they go into all
    int window;                          // of the layer
    const struct hearth_kv_heads *heads; // that it attends to
    float scale;
};

// What one task holds: tokens [first, last) of the batch with the query heads of group g.
struct work {
    const struct job *j;
    struct hearth_attention_worker *w;
    void *matmul; // scratch memory of products
    int first, last, g;
    int group;     // query heads, which share a key/value head,
    int head_kv;   // this one
    size_t dim;    // of a key
    size_t value;  // of a value
    const void *q; // [(last - first) * group] queries, as the key format wants them
    size_t q_stride;
};

// How many positions a token attends to that are put side by side first: chosen ones, or blocks of positions and a window;
// 0: those of its window, or all before it.
static int listed(const struct job *j, int token)
{
    const struct hearth_attention_work *w = j->work;
    return j->chosen ? w->choose->counts[token] : w->blend->counts ? w->blend->counts[token] : 0;
}

// The last of the positions that a token attends to, counted without those between that it does not.
static int last_of(const struct job *j, int token)
{
    const struct hearth_attention_work *w = j->work;
    return listed(j, token) ? listed(j, token) - 1 : w->c->rows[token].pos;
}

// The part of a tile that a token attends to.
struct span {
    int from, n;   // slots [from, from + n) of it; n <= 0: none
    bool is_first; // of the token's spans in the tile's range
};

// The first position that a token attends to.
static int oldest_of(const struct job *j, int token)
{
    const int window = listed(j, token) ? 0 : j->window, pos = j->work->c->rows[token].pos;
    if (window && j->work->c->hp->chunked)
        return pos / window * window;
    return window && pos >= window ? pos - window + 1 : 0;
}

static struct span span_of(const struct job *j, int token, int tile)
{
    const int pos = last_of(j, token), oldest = oldest_of(j, token);
    const int start = tile * HEARTH_KV_TILE;
    const int from = oldest > start ? oldest - start : 0;
    const int end = pos + 1 - start < HEARTH_KV_TILE ? pos + 1 - start : HEARTH_KV_TILE;
    return (struct span){from, end - from, tile % HEARTH_ATTN_RANGE == 0 || tile == oldest / HEARTH_KV_TILE};
}

// ---- one tile

// Adds what query i got from a tile (in tile_out) to what it got from the range's tiles before.
static void merge_tile(const struct work *x, int i, bool is_first, float tile_max, float tile_sum)
{
    struct hearth_attention_worker *w = x->w;
    float *out = w->range_out + (size_t)i * x->value, *tile = w->tile_out + (size_t)i * x->value;
    if (is_first) {
        memcpy(out, tile, x->value * sizeof *out);
        w->max[i] = tile_max;
        w->sum[i] = tile_sum;
        return;
    }
    const float top = w->max[i] > tile_max ? w->max[i] : tile_max;
    const float a = hearth_exp(w->max[i] - top), b = hearth_exp(tile_max - top);
    x->j->work->c->kernels->scale_add(out, a, tile, b, x->value);
    w->sum[i] = fmaf(tile_sum, b, w->sum[i] * a);
    w->max[i] = top;
}

// The tile's values, weighted: tile_out of all queries; spans are the tokens' and all covers them. Values in
// blocks have one way for each class; for plain ones the two would give the same bits. Positions that a token
// does not attend to are left out rather than weighted with 0: they may hold what is not finite.
static void weigh_values(const struct work *x, const uint8_t *values, const struct span *spans,
                         struct span all, bool full)
{
    const struct hearth_kernels *kernels = x->j->work->c->kernels;
    const struct hearth_kv *kv = x->j->work->kv;
    const size_t stride = x->j->heads->stride_v;
    const int n_queries = (x->last - x->first) * x->group;
    const bool blocks = x->j->rows.phase == HEARTH_PHASE_PROMPT && hearth_type_info(kv->type_v)->unit_elems;
    if (blocks)
        memset(x->w->tile_out, 0, (size_t)n_queries * x->value * sizeof *x->w->tile_out);
    if (blocks && full) {
        kernels->prompt_t[kv->type_v](x->w->tile_out, x->value, values, stride, 0, x->value, (size_t)all.n,
                                      x->w->scores, HEARTH_KV_TILE, (size_t)n_queries, x->matmul);
        return;
    }
    if (blocks) {
        for (int i = 0; i < n_queries; i += x->group) {
            const struct span at = spans[i / x->group];
            const size_t before = (size_t)(at.from - all.from);
            if (at.n > 0)
                kernels->prompt_t[kv->type_v](x->w->tile_out + (size_t)i * x->value, x->value,
                                              values + before * stride, stride, 0, x->value, (size_t)at.n,
                                              x->w->scores + (size_t)i * HEARTH_KV_TILE + before,
                                              HEARTH_KV_TILE, (size_t)x->group, x->matmul);
        }
        return;
    }
    memset(x->w->tile_out, 0, (size_t)n_queries * x->value * sizeof(float));
    for (int i = 0; i < n_queries; i++)
        kernels->axpy[kv->type_v](x->w->tile_out + (size_t)i * x->value, values, stride, x->value,
                                  (size_t)all.n, x->w->scores + (size_t)i * HEARTH_KV_TILE);
}

// Whether queries may go past tiles in the kernels made for that.
static bool has_kernels(const struct job *j)
{
    const struct hearth_kernels *kernels = j->work->c->kernels;
    const struct hearth_kv *kv = j->work->kv;
    // A prompt's values in blocks are weighed by prompt_t.
    return j->work->c->hp->score_cap == 0.0f && j->work->c->hp->alibi == 0.0f &&
           kernels->attend_scores[kv->type_k] && kernels->attend_values[kv->type_v] &&
           j->heads->dim % HEARTH_ATTEND_DIM == 0 && j->heads->value % HEARTH_ATTEND_DIM == 0 &&
           j->heads->dim <= (hearth_type_info(kv->type_k)->unit_elems ? HEARTH_ATTEND_MAX_BLOCKS
                                                                      : HEARTH_ATTEND_MAX_DIM) &&
           (j->rows.phase == HEARTH_PHASE_STEP || !hearth_type_info(kv->type_v)->unit_elems);
}

// Where a tile's keys and values are; next: the keys of the tile after it, or NULL.
struct tile_at {
    const uint8_t *keys, *values, *next;
};

// The same by these kernels. Queries whose tokens attend to the same positions go together.
static void attend_together(const struct work *x, struct tile_at tile, const struct span *spans)
{
    const struct hearth_kernels *kernels = x->j->work->c->kernels;
    const struct hearth_kv *kv = x->j->work->kv;
    const struct hearth_kv_heads *heads = x->j->heads;
    struct hearth_attention_worker *w = x->w;
    const int n_queries = (x->last - x->first) * x->group;
    for (int i = 0, n; i < n_queries; i += n) {
        const struct span at = spans[i / x->group];
        for (n = 1; n < HEARTH_ATTEND_QUERIES && i + n < n_queries; n++) {
            const struct span other = spans[(i + n) / x->group];
            if (other.from != at.from || other.n != at.n || other.is_first != at.is_first)
                break;
        }
        if (at.n <= 0)
            continue;
        const size_t from = (size_t)at.from, rows = (size_t)at.n, first = (size_t)i, count = (size_t)n;
        // Later queries find the tile in the caches.
        const struct hearth_tile k = {tile.keys + from * heads->row_k, heads->row_k, rows, x->dim,
                                      i ? NULL : tile.values};
        const struct hearth_tile v = {tile.values + from * heads->stride_v, heads->stride_v, rows, x->value,
                                      i ? NULL : tile.next};
        kernels->attend_scores[kv->type_k](w->scores, w->tile_max, &k,
                                           (const uint8_t *)x->q + first * x->q_stride, x->q_stride, count,
                                           x->j->scale);
        kernels->attend_values[kv->type_v](w->range_out + first * x->value, w->max + i, w->sum + i,
                                           at.is_first, w->scores, w->tile_max, &v, count);
    }
}

// Scores of one query of the task by n positions, of which the first is slot `from` of a tile: scaled, and less the further
// away they are, by the slope of the query's head (ALiBi).
static void bend(const struct work *x, int i, int tile, int from, float *scores, int n)
{
    const struct job *j = x->j;
    const float slope = j->work->slopes[x->g * x->group + i % x->group];
    const int pos = j->work->c->rows[x->first + i / x->group].pos, first = tile * HEARTH_KV_TILE + from;
    for (int k = 0; k < n; k++)
        scores[k] = fmaf(slope, (float)(first + k - pos), j->scale * scores[k]);
}

// All queries of the task against one tile.
static void attend_tile(const struct work *x, int tile, struct tile_at at_tile)
{
    const struct job *j = x->j;
    const struct hearth_kernels *kernels = j->work->c->kernels;
    const struct hearth_kv *kv = j->work->kv;
    struct hearth_attention_worker *w = x->w;
    struct span spans[HEARTH_ATTN_BLOCK], all = {HEARTH_KV_TILE, 0, false};
    int end = 0;
    for (int t = x->first; t < x->last; t++) {
        const struct span at = spans[t - x->first] = span_of(j, t, tile);
        if (at.n > 0) {
            all.from = at.from < all.from ? at.from : all.from;
            end = at.from + at.n > end ? at.from + at.n : end;
        }
    }
    all.n = end - all.from;
    if (all.n <= 0)
        return;

    const uint8_t *keys = at_tile.keys + (size_t)all.from * j->heads->row_k;
    const uint8_t *values = at_tile.values + (size_t)all.from * j->heads->stride_v;
    HEARTH_ABOUT_TO_READ(keys, (size_t)all.n, j->heads->row_k, hearth_type_bytes(kv->type_k, x->dim));
    HEARTH_ABOUT_TO_READ(values, (size_t)all.n, j->heads->stride_v, hearth_type_bytes(kv->type_v, x->value));
    if (has_kernels(j)) {
        attend_together(x, at_tile, spans);
        return;
    }
    const int n_queries = (x->last - x->first) * x->group;
    kernels->step[kv->type_k](w->scores, HEARTH_KV_TILE, keys, j->heads->row_k, x->dim, (size_t)all.n, x->q,
                              x->q_stride, (size_t)n_queries, x->matmul);
    const bool capped = j->work->c->hp->score_cap > 0, bent = j->work->c->hp->alibi > 0;
    bool full = true;
    for (int i = 0; i < n_queries; i++) {
        const struct span at = spans[i / x->group];
        float *p = w->scores + (size_t)i * HEARTH_KV_TILE;
        const int before = at.n > 0 ? at.from - all.from : all.n, n = at.n > 0 ? at.n : 0;
        full &= n == all.n;
        memset(p, 0, (size_t)before * sizeof *p);
        memset(p + before + n, 0, (size_t)(all.n - before - n) * sizeof *p);
        if (n && capped)
            hearth_soft_cap(kernels, p + before, (size_t)n, j->scale, j->work->c->hp->score_cap);
        if (n && bent)
            bend(x, i, tile, at.from, p + before, n);
        if (n)
            w->tile_max[i] = kernels->softmax_tile(p + before, (size_t)n, capped || bent ? 1.0f : j->scale,
                                                   &w->tile_sum[i]);
    }
    weigh_values(x, values, spans, all, full);
    for (int i = 0; i < n_queries; i++)
        if (spans[i / x->group].n > 0)
            merge_tile(x, i, spans[i / x->group].is_first, w->tile_max[i], w->tile_sum[i]);
}

// ---- ranges

// What a token's query head got from all ranges so far: [dim] values, not yet divided by the sum.
struct total {
    float *out, *max, *sum;
};

// Adds the next range's share; the first one has sum 0 before it.
static void merge_range(const struct job *j, struct total to, const float *out, float max, float sum,
                        size_t dim)
{
    if (*to.sum == 0.0f) {
        memcpy(to.out, out, dim * sizeof *out);
        *to.max = max;
        *to.sum = sum;
        return;
    }
    const float top = *to.max > max ? *to.max : max;
    const float a = hearth_exp(*to.max - top), b = hearth_exp(max - top);
    j->work->c->kernels->scale_add(to.out, a, out, b, dim);
    *to.sum = fmaf(sum, b, *to.sum * a);
    *to.max = top;
}

// Divides by the sum, in which a sink takes part: exp(sink - top) more, all scaled to the larger one.
static void normalise(const struct job *j, float *out, float max, float sum, size_t dim, int head)
{
    const float *sinks = j->work->c->weights->layers[j->layer].attn_sinks.data;
    const float top = sinks && sinks[head] > max ? sinks[head] : max;
    const float inverse =
        sinks ? hearth_exp(max - top) / fmaf(sum, hearth_exp(max - top), hearth_exp(sinks[head] - top))
              : 1.0f / sum;
    for (size_t i = 0; i < dim; i++)
        out[i] *= inverse;
}

static float *output_of(const struct work *x, int i)
{
    const size_t head = (size_t)x->g * (size_t)x->group + (size_t)(i % x->group);
    const int width = x->j->n_head * x->j->heads->value;
    return hearth_row_of(x->j->work->out, x->first + i / x->group, width) + head * x->value;
}

// Tiles that are pages.
static void attend_pages(const struct work *x, int first, int last)
{
    const struct hearth_kv *kv = x->j->work->kv;
    const int *ids = kv->seqs[x->j->work->c->rows[x->first].seq].pages, layer = x->j->layer;
    uint8_t *pages[HEARTH_ATTN_RANGE + 1];
    for (int tile = first; tile < last; tile++)
        pages[tile - first] = hearth_kv_pin(kv, ids[tile]);
    pages[last - first] = NULL;
    for (int tile = first; tile < last; tile++) {
        uint8_t *page = pages[tile - first], *next = pages[tile - first + 1];
        const struct tile_at at = {hearth_kv_key(kv, page, layer, x->head_kv, 0),
                                   hearth_kv_value(kv, page, layer, x->head_kv, 0),
                                   next ? hearth_kv_key(kv, next, layer, x->head_kv, 0) : NULL};
        attend_tile(x, tile, at);
    }
    for (int tile = first; tile < last; tile++)
        hearth_kv_unpin(kv, ids[tile]);
}

// Where some of a token's listed positions lie side by side, in a page: keys, and values unless these are keys.
struct run {
    int page;
    uint8_t *bytes;
    const uint8_t *keys, *values;
    int n;
};

// The run that begins with the i-th chosen position; its page is pinned.
static struct run find_chosen(const struct work *x, int i)
{
    const struct hearth_attention_work *work = x->j->work;
    const struct hearth_kv *kv = work->kv;
    const int pos = hearth_choose_position(work->choose, x->first, x->head_kv, i),
              slot = pos % HEARTH_KV_TILE,
              page = kv->seqs[work->c->rows[x->first].seq].pages[pos / HEARTH_KV_TILE];
    const int block = work->c->hp->chooser.block; // of several pages it begins at one
    uint8_t *bytes = hearth_kv_pin(kv, page);
    return (struct run){page, bytes, hearth_kv_key(kv, bytes, x->j->layer, x->head_kv, slot),
                        hearth_kv_value(kv, bytes, x->j->layer, x->head_kv, slot),
                        block < HEARTH_KV_TILE ? block : HEARTH_KV_TILE};
}

// The same of blocks, and then of the window.
static struct run find_blended(const struct work *x, int i)
{
    const struct hearth_attention_work *work = x->j->work;
    const struct hearth_kv *kv = work->kv;
    const struct hearth_blend_work *blend = work->blend;
    const int layer = x->j->layer, block = work->c->hp->blender.block[layer],
              own = work->c->rows[x->first].pos, n_blocks = blend->n_blocks[x->first];
    const bool blended = i < n_blocks;
    const int pos = blended ? (hearth_blend_block(blend, x->first, layer, i) + 1) * block - 1
                            : own + 1 - blend->counts[x->first] + i,
              page = kv->seqs[work->c->rows[x->first].seq].pages[pos / HEARTH_KV_TILE],
              slot = blended ? hearth_kv_block_slot(block, pos) : pos % HEARTH_KV_TILE;
    uint8_t *bytes = hearth_kv_pin(kv, page);
    return (struct run){page, bytes,
                        blended ? hearth_kv_block(kv, bytes, layer, slot)
                                : hearth_kv_key(kv, bytes, layer, x->head_kv, slot),
                        NULL, blended ? 1 : HEARTH_KV_TILE - slot};
}

// Tiles of positions that are listed for the task's token.
static void attend_listed(const struct work *x, int first, int last)
{
    const struct hearth_attention_work *work = x->j->work;
    const struct hearth_kv *kv = work->kv;
    const struct hearth_kv_heads *heads = x->j->heads;
    const int end = last_of(x->j, x->first) + 1;
    uint8_t *keys = x->w->listed, *values = kv->latent ? keys : keys + HEARTH_KV_TILE * heads->row_k;
    for (int tile = first; tile < last; tile++) {
        const int start = tile * HEARTH_KV_TILE,
                  stop = end < start + HEARTH_KV_TILE ? end : start + HEARTH_KV_TILE;
        for (int i = start, n; i < stop; i += n) {
            const struct run run = x->j->chosen ? find_chosen(x, i) : find_blended(x, i);
            const size_t at = (size_t)(i - start);
            n = stop - i < run.n ? stop - i : run.n;
            memcpy(keys + at * heads->row_k, run.keys, (size_t)n * heads->row_k);
            if (!kv->latent)
                memcpy(values + at * heads->stride_v, run.values, (size_t)n * heads->stride_v);
            hearth_kv_unpin(kv, run.page);
        }
        attend_tile(x, tile, (struct tile_at){keys, values, NULL});
    }
}

// Range r's tiles, for whatever of the task's tokens reaches into it. Returns whether there were any.
static bool attend_range(const struct work *x, int r)
{
    const int start = r * HEARTH_ATTN_RANGE;
    // The rows of a block are of one sequence at rising positions (or there is one).
    const int from = oldest_of(x->j, x->first) / HEARTH_KV_TILE,
              to = last_of(x->j, x->last - 1) / HEARTH_KV_TILE + 1;
    const int first = from > start ? from : start;
    const int last = to < start + HEARTH_ATTN_RANGE ? to : start + HEARTH_ATTN_RANGE;
    memset(x->w->sum, 0, (size_t)((x->last - x->first) * x->group) * sizeof *x->w->sum);
    if (first >= last)
        return false;
    (listed(x->j, x->first) ? attend_listed : attend_pages)(x, first, last);
    return true;
}

// The task's queries side by side.
static void gather_queries(struct work *x)
{
    const struct hearth_attention_work *work = x->j->work;
    const bool block = hearth_type_info(work->kv->type_k)->unit_elems != 0;
    x->q_stride = block ? hearth_acts_bytes(x->dim) : x->dim * sizeof(float);
    x->q = x->w->q;
    for (int i = 0; i < (x->last - x->first) * x->group; i++) {
        const float *q = hearth_row_of(work->q, x->first + i / x->group, x->j->n_head * (int)x->dim) +
                         (size_t)(x->g * x->group + i % x->group) * x->dim;
        uint8_t *to = (uint8_t *)x->w->q + (size_t)i * x->q_stride;
        if (block)
            work->c->kernels->quantize_acts(to, q, x->dim);
        else
            memcpy(to, q, x->q_stride);
    }
}

static struct work work_of(const struct job *j, int g, int block, int worker)
{
    const struct hearth_attention_work *work = j->work;
    struct work x = {.j = j,
                     .w = &work->workers[worker],
                     .matmul = work->matmul->scratch[worker],
                     .first = work->blocks[block],
                     .last = work->blocks[block + 1],
                     .g = g,
                     .group = j->group,
                     .head_kv = g * j->heads->n / j->n_groups,
                     .dim = (size_t)j->heads->dim,
                     .value = (size_t)j->heads->value};
    gather_queries(&x);
    return x;
}

// A block of tokens, all ranges.
static void block_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    if (hearth_given_up(j->work->c, j->rows.phase))
        return;
    const struct work x = work_of(j, task / j->n_blocks, task % j->n_blocks, worker);
    struct hearth_attention_worker *w = x.w;
    const int n_queries = (x.last - x.first) * x.group;
    const int ranges = last_of(j, x.last - 1) / (HEARTH_KV_TILE * HEARTH_ATTN_RANGE) + 1;
    memset(w->total_sum, 0, (size_t)n_queries * sizeof *w->total_sum);
    for (int r = 0; r < ranges; r++) {
        if (!attend_range(&x, r))
            continue;
        for (int i = 0; i < n_queries; i++)
            if (w->sum[i] != 0.0f)
                merge_range(j, (struct total){output_of(&x, i), &w->total_max[i], &w->total_sum[i]},
                            w->range_out + (size_t)i * x.value, w->max[i], w->sum[i], x.value);
    }
    for (int i = 0; i < n_queries; i++)
        normalise(j, output_of(&x, i), w->total_max[i], w->total_sum[i], x.value,
                  x.g * x.group + i % x.group);
}

// ---- steps over long contexts: a task for each range, then their shares are added up

// Share of range r in what the job's row `row` gets in query head `head`: [value] values, then max and sum.
static float *share_of(const struct job *j, int row, int r, int head)
{
    const size_t at = ((size_t)row * (size_t)j->n_ranges + (size_t)r) * (size_t)j->n_head;
    return j->work->shares + (at + (size_t)head) * ((size_t)j->heads->value + 2);
}

static void range_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    const int r = task / j->n_groups % j->n_ranges;
    const struct work x = work_of(j, task % j->n_groups, task / j->n_groups / j->n_ranges, worker);
    const bool any = attend_range(&x, r);
    for (int i = 0; i < (x.last - x.first) * x.group; i++) {
        const int row = x.first - j->rows.first + i / x.group;
        float *share = share_of(j, row, r, x.g * x.group + i % x.group);
        share[x.value + 1] = any ? x.w->sum[i] : 0.0f;
        if (!any)
            continue;
        memcpy(share, x.w->range_out + (size_t)i * x.value, x.value * sizeof *share);
        share[x.value] = x.w->max[i];
    }
}

static void combine_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const size_t dim = (size_t)j->heads->value;
    const int row = task / j->n_groups, first = task % j->n_groups * j->group;
    const int width = j->n_head * j->heads->value;
    for (int head = first; head < first + j->group; head++) {
        float *out = hearth_row_of(j->work->out, j->rows.first + row, width) + (size_t)head * dim;
        float max = 0, sum = 0;
        for (int r = 0; r < j->n_ranges; r++) {
            const float *share = share_of(j, row, r, head);
            if (share[dim + 1] != 0.0f)
                merge_range(j, (struct total){out, &max, &sum}, share, share[dim], share[dim + 1], dim);
        }
        normalise(j, out, max, sum, dim, head);
    }
}

// Cuts the rows into blocks: consecutive positions of one sequence, so that a tile of keys is read once for
// all of them; a row whose positions are listed is alone. Returns how many; block i is [blocks[i], blocks[i + 1]).
static int cut_blocks(const struct job *j)
{
    struct hearth_attention_work *w = j->work;
    const struct hearth_row *at = w->c->rows;
    const int end = j->rows.first + j->rows.n;
    int n = 0;
    for (int i = j->rows.first, first = i; i < end; i++) {
        const bool goes_on = i > first && at[i].seq == at[i - 1].seq && at[i].pos == at[i - 1].pos + 1 &&
                             i - first < HEARTH_ATTN_BLOCK && !listed(j, i);
        if (goes_on)
            continue;
        w->blocks[n++] = first = i;
    }
    w->blocks[n] = end;
    return n;
}

// Query heads that one task takes. Where values are keys all share one key/value head, and are divided among
// tasks; no head's result depends on which others go with it.
static int group_of(const struct hearth_hparams *hp, int n_head, int n_head_kv)
{
    int group = n_head / n_head_kv;
    for (int parts = 1; hearth_values_in_keys(hp) && group > HEARTH_ATTEND_QUERIES; parts++)
        if (n_head % parts == 0)
            group = n_head / parts;
    return group;
}

void hearth_attention_slopes(const struct hearth_hparams *hp, float *slopes)
{
    const int n = hp->n_head;
    int p = 1;
    while (2 * p <= n)
        p *= 2;
    for (int h = 0; h < n; h++) {
        const double share = h < p ? (double)(h + 1) / p : (double)(2 * (h - p) + 1) / (2 * p);
        slopes[h] = (float)exp2(-(double)hp->alibi * share);
    }
}

void hearth_attention(struct hearth_attention_work *w, struct hearth_rows rows, int layer)
{
    const struct hearth_kv_heads *heads = hearth_kv_heads_of(w->kv, layer);
    const int n_head = hearth_n_head_of(w->c->hp, layer), group = group_of(w->c->hp, n_head, heads->n);
    struct job j = {.work = w,
                    .rows = rows,
                    .layer = layer,
                    .n_ranges = 1,
                    .chosen = hearth_is_chosen_for(w->c->hp, layer),
                    .n_head = n_head,
                    .group = group,
                    .n_groups = n_head / group,
                    .window = hearth_window_of(w->c->hp, layer),
                    .heads = heads,
                    .scale = w->c->hp->attn_scale};
    j.n_blocks = cut_blocks(&j);
    if (w->c->hp->alibi > 0)
        hearth_attention_slopes(w->c->hp, w->slopes);
    if (rows.phase == HEARTH_PHASE_STEP)
        for (int i = 0; i < rows.n; i++) {
            const int reach = last_of(&j, rows.first + i) / (HEARTH_KV_TILE * HEARTH_ATTN_RANGE) + 1;
            j.n_ranges = reach > j.n_ranges ? reach : j.n_ranges;
        }
    if (j.n_ranges == 1) {
        hearth_parallel(w->c, block_task, &j, j.n_groups * j.n_blocks);
        return;
    }
    hearth_parallel(w->c, range_task, &j, j.n_groups * j.n_ranges * j.n_blocks);
    hearth_parallel(w->c, combine_task, &j, j.n_groups * rows.n);
}

// ---- opening

static void lay_out_worker(struct hearth_attention_worker *w, size_t dim, size_t queries, size_t listed_bytes,
                           struct hearth_arena *a)
{
    const size_t f32 = sizeof(float), acts = hearth_acts_bytes(dim);
    w->listed = hearth_arena_take(a, 1, listed_bytes);
    w->q = hearth_arena_take(a, queries, acts > dim * f32 ? acts : dim * f32);
    w->scores = hearth_arena_take(a, queries * HEARTH_KV_TILE, f32);
    w->tile_out = hearth_arena_take(a, queries, dim * f32);
    w->range_out = hearth_arena_take(a, queries, dim * f32);
    float **const states[] = {&w->tile_max, &w->tile_sum, &w->max, &w->sum, &w->total_max, &w->total_sum};
    for (size_t k = 0; k < sizeof states / sizeof *states; k++)
        *states[k] = hearth_arena_take(a, queries, f32);
}

void hearth_attention_lay_out(struct hearth_attention_work *w, int max_rows, int max_steps,
                              struct hearth_arena *a)
{
    const struct hearth_hparams *hp = w->c->hp;
    const size_t t = (size_t)max_rows, steps = (size_t)max_steps;
    const size_t f32 = sizeof(float), dim = (size_t)hearth_head_dim_most(hp),
                 heads = (size_t)hearth_n_head_most(hp);
    const size_t value = hp->latent.rank ? (size_t)hp->value_dim : dim, kv = (size_t)hearth_kv_most(hp);
    const int full = group_of(hp, hp->n_head, hp->uneven ? hp->n_head_kv_least : hp->n_head_kv),
              windowed = group_of(hp, hp->n_head_window, hp->n_head_kv_window);
    const size_t queries = (size_t)(full > windowed ? full : windowed) * HEARTH_ATTN_BLOCK;
    // Blocks and a window may be more than a context, but not twice as many.
    const size_t span = HEARTH_KV_TILE * HEARTH_ATTN_RANGE,
                 most = (size_t)w->kv->n_ctx * (hp->blender.n_layers ? 2 : 1),
                 ranges = (most + span - 1) / span;
    const int n_workers = hearth_pool_size(w->c->pool);
    const size_t row = w->kv->heads[0].row_k + w->kv->heads[0].row_v,
                 listed_bytes = hp->chooser.block || hp->blender.n_layers ? HEARTH_KV_TILE * row : 0;
    w->q = hearth_arena_take_rows(a, t, steps, heads * dim * f32);
    w->k = hearth_arena_take_rows(a, t, steps, kv * f32);
    const bool apart = !hearth_values_in_keys(hp);
    w->v = hearth_arena_take_rows(a, apart ? t : 0, apart ? steps : 0, kv * f32);
    w->out = hearth_arena_take_rows(a, t, steps, heads * value * f32);
    w->blocks = hearth_arena_take(a, t + 1, sizeof *w->blocks);
    w->slopes = hearth_arena_take(a, hp->alibi > 0 ? heads : 0, f32);
    w->shares = hearth_arena_take(a, ranges > 1 ? (size_t)max_steps * ranges : 0, heads * (value + 2) * f32);
    w->workers = hearth_arena_take(a, (size_t)n_workers, sizeof *w->workers);
    for (int i = 0; i < n_workers; i++) {
        struct hearth_attention_worker worker;
        lay_out_worker(&worker, dim, queries, listed_bytes, a);
        if (w->workers)
            w->workers[i] = worker;
    }
}
