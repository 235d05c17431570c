// SPDX-License-Identifier: MIT
// Chosen positions: see choose.h. The order of operations is part of the numeric law (docs/architecture.md).
#include "engine/choose.h"

#include <math.h>
#include <string.h>

#include "engine/best.h"
#include "engine/rope.h"
#include "model/ffn.h"

// Rows that are looked at together, at least, and pages of a row that one task scores.
#define ROWS  16
#define PAGES 16

struct job {
    struct hearth_choose_work *work;
    const struct hearth_batch *batch;
    int layer;
    const float *cos_sin;
    int first;   // of the rows that are looked at together
    int n_parts; // tasks of a row
};

static const struct hearth_layer *layer_of(const struct job *j)
{
    return &j->work->c->weights->layers[j->layer];
}

static uint8_t *pin(const struct hearth_kv *kv, int seq, int tile)
{
    return hearth_kv_pin(kv, kv->seqs[seq].pages[tile]);
}

static void unpin(const struct hearth_kv *kv, int seq, int tile)
{
    hearth_kv_unpin(kv, kv->seqs[seq].pages[tile]);
}

// Elements of a head before those that rotate.
static int still_of(const struct hearth_hparams *hp)
{
    return hp->chooser.behind ? hp->chooser.dim - hp->n_rot : 0;
}

// ---- keys

// The sum of the raw keys of positions that have a key together becomes this.
static void finish_key(const struct job *j, float *sum, int first_pos, int worker)
{
    const struct hearth_choose_work *w = j->work;
    const struct hearth_hparams *hp = w->c->hp;
    const size_t dim = (size_t)hp->chooser.dim, n_rot = (size_t)hp->n_rot;
    for (size_t i = 0; i < dim; i++)
        sum[i] /= (float)hp->chooser.per_key;
    if (hearth_has(&layer_of(j)->choose_k_norm_b))
        w->c->kernels->layer_norm(sum, sum, hearth_vector_of(&layer_of(j)->choose_k_norm),
                                  hearth_vector_of(&layer_of(j)->choose_k_norm_b), dim, hp->chooser.eps);
    else
        w->c->kernels->rms_norm(sum, sum, hearth_vector_of(&layer_of(j)->choose_k_norm), dim,
                                hp->chooser.eps);
    hearth_rope_turn(w->turned[worker], w->inv_freq, hp->n_rot, first_pos, hp->rope_attn);
    w->c->kernels->rope(sum + still_of(hp), w->turned[worker], 1, dim, n_rot, hp->chooser.halves);
}

// The rows of such positions from this one on.
static void store_keys(const struct job *j, int row, int worker)
{
    const struct hearth_choose_work *w = j->work;
    const struct hearth_kv *kv = w->kv;
    const int per_key = w->c->hp->chooser.per_key;
    const size_t dim = (size_t)w->c->hp->chooser.dim;
    const struct hearth_row at = j->batch->rows[row];
    const int seq = j->batch->index[at.seq], first = j->batch->changes[seq].pos,
              last = first + j->batch->counts[seq] - 1, tile = at.pos / HEARTH_KV_TILE;
    uint8_t *bytes = pin(kv, at.seq, tile);
    for (int pos = at.pos; pos <= last; pos++) {
        const int own = j->batch->sorted[j->batch->firsts[seq] + pos - first];
        float *sum = hearth_kv_choice(kv, bytes, j->layer, pos % HEARTH_KV_TILE);
        memcpy(sum, hearth_row_of(w->k, own, (int)dim), dim * sizeof *sum);
        const float *before = pos % per_key ? sum - dim : NULL;
        for (size_t i = 0; i < dim && before; i++)
            sum[i] = before[i] + sum[i];
        if (pos % per_key == per_key - 1) {
            finish_key(j, sum, pos - per_key + 1, worker);
            break;
        }
    }
    unpin(kv, at.seq, tile);
}

// A row's queries; and the keys from it on, where it is the first one of those that share a key.
static void prepare_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    const struct hearth_choose_work *w = j->work;
    const struct hearth_hparams *hp = w->c->hp;
    const int heads = hp->chooser.n_heads, dim = hp->chooser.dim;
    const struct hearth_row at = j->batch->rows[task];
    float *q = hearth_row_of(w->q, task, heads * dim);
    for (int i = 0; i < heads && hearth_has(&layer_of(j)->choose_q_norm); i++)
        w->c->kernels->rms_norm(hearth_row_of(q, i, dim), hearth_row_of(q, i, dim),
                                hearth_vector_of(&layer_of(j)->choose_q_norm), (size_t)dim, hp->chooser.eps);
    w->c->kernels->rope(q + still_of(hp), j->cos_sin + (size_t)task * (size_t)hp->n_rot, (size_t)heads,
                        (size_t)dim, (size_t)hp->n_rot, hp->chooser.halves);
    const int first = j->batch->changes[j->batch->index[at.seq]].pos;
    if (!j->batch->again && (at.pos == first || at.pos % hp->chooser.per_key == 0))
        store_keys(j, task, worker);
}

// ---- the choice

// Blocks that a row chooses among.
static int blocks_of(const struct hearth_choose_work *w, int row)
{
    const struct hearth_chooser *c = &w->c->hp->chooser;
    const int pos = w->c->rows[row].pos;
    return c->local ? pos / c->block + 1 : (pos + 1) / c->block;
}

static float *scores_of(const struct job *j, int row, int choice)
{
    const size_t n = (size_t)hearth_choices(&j->work->c->hp->chooser);
    return j->work->scores + ((size_t)(row - j->first) * n + (size_t)choice) * j->work->row_blocks;
}

// A block's score of products[n] with its keys, by the heads together.
static void add_up(const struct job *j, int row, const float *products, int n, int first)
{
    const struct hearth_choose_work *w = j->work;
    const int heads = w->c->hp->chooser.n_heads;
    const float *weights =
        hearth_has(&layer_of(j)->choose_weigh) ? hearth_row_of(w->weights, row, heads) : NULL;
    for (int i = 0; i < n; i++) {
        float sum = 0;
        for (int head = 0; head < heads; head++) {
            const float product = products[head * n + i];
            if (product > 0)
                sum = weights ? fmaf(weights[head], product, sum) : sum + product;
        }
        scores_of(j, row, 0)[first + i] = sum;
    }
}

// Each head's: the best product of a block's positions.
static void keep_best(const struct job *j, int row, const float *products, int n, int first)
{
    const struct hearth_chooser *c = &j->work->c->hp->chooser;
    for (int head = 0; head < c->n_heads; head++)
        for (int i = 0; i < n; i++) {
            float *score = &scores_of(j, row, head)[(first + i) / c->block];
            if ((first + i) % c->block == 0 || products[head * n + i] > *score)
                *score = products[head * n + i];
        }
}

// Scores by the keys in some pages of a row.
static void score_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    const struct hearth_choose_work *w = j->work;
    const struct hearth_kv *kv = w->kv;
    const struct hearth_chooser *c = &w->c->hp->chooser;
    const int row = j->first + task / j->n_parts, per_page = HEARTH_KV_TILE / c->per_key;
    const int keys = (w->c->rows[row].pos + 1) / c->per_key, seq = w->c->rows[row].seq,
              from = task % j->n_parts * PAGES;
    const size_t dim = (size_t)c->dim, heads = (size_t)c->n_heads;
    if (!w->counts[row])
        return;
    for (int tile = from; tile < from + PAGES && tile * per_page < keys; tile++) {
        const int left = keys - tile * per_page, n = left < per_page ? left : per_page;
        uint8_t *bytes = pin(kv, seq, tile);
        w->c->kernels->step[HEARTH_TYPE_F32](w->products[worker], (size_t)n,
                                             hearth_kv_choice(kv, bytes, j->layer, c->per_key - 1),
                                             (size_t)c->per_key * kv->row_choice, dim, (size_t)n,
                                             hearth_row_of(w->q, row, c->n_heads * c->dim),
                                             dim * sizeof(float), heads, w->matmul->scratch[worker]);
        unpin(kv, seq, tile);
        (c->each ? keep_best : add_up)(j, row, w->products[worker], n, tile * per_page);
    }
}

// One choice of a row: the best blocks but for the last `local`, and these.
static void choose_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_choose_work *w = j->work;
    const struct hearth_chooser *c = &w->c->hp->chooser;
    const int row = j->first + task / hearth_choices(c), choice = task % hearth_choices(c);
    const int all = blocks_of(w, row), n = all - c->local, best = c->most - c->local;
    if (!w->counts[row])
        return;
    int *blocks = hearth_choose_blocks(w, row, choice);
    if (best > 0)
        hearth_best_of(scores_of(j, row, choice), n, best, blocks);
    for (int i = 0; i < c->local; i++)
        blocks[best + i] = n + i;
}

// Rows [j->first, end).
static void choose_rows(struct job *j, int end)
{
    const struct hearth_choose_work *w = j->work;
    int pages = 0;
    for (int row = j->first; row < end; row++) {
        const int own = w->counts[row] ? w->c->rows[row].pos / HEARTH_KV_TILE + 1 : 0;
        pages = own > pages ? own : pages;
    }
    if (!pages)
        return;
    j->n_parts = (pages + PAGES - 1) / PAGES;
    hearth_parallel(w->c, score_task, j, (end - j->first) * j->n_parts);
    hearth_parallel(w->c, choose_task, j, (end - j->first) * hearth_choices(&w->c->hp->chooser));
}

void hearth_choose(struct hearth_choose_work *w, const struct hearth_batch *b, int layer,
                   const float *cos_sin)
{
    const struct hearth_chooser *c = &w->c->hp->chooser;
    struct job j = {.work = w, .batch = b, .layer = layer, .cos_sin = cos_sin};
    hearth_parallel(w->c, prepare_task, &j, b->n);
    for (int row = 0; row < b->n; row++) {
        const int blocks = blocks_of(w, row);
        w->counts[row] = blocks > c->most ? (c->most - blocks) * c->block + b->rows[row].pos + 1 : 0;
    }
    for (; j.first < b->n; j.first += w->most_rows)
        choose_rows(&j, j.first + w->most_rows < b->n ? j.first + w->most_rows : b->n);
}

static struct hearth_product query_product(const struct hearth_choose_work *w, struct hearth_rows rows,
                                           int layer)
{
    const struct hearth_chooser *c = &w->c->hp->chooser;
    return (struct hearth_product){.w = w->c->weights->layers[layer].choose_q,
                                   .out = hearth_row_of(w->q, rows.first, c->n_heads * c->dim),
                                   .n = rows.n};
}

void hearth_choose_move(struct hearth_choose_work *w, int row, int *kept, bool out)
{
    const size_t n = hearth_choose_kept(w->c->hp) - 1;
    int *own = w->blocks + (size_t)row * n, *count = &w->counts[row];
    *(out ? kept : count) = *(out ? count : kept);
    if (*count)
        memcpy(out ? kept + 1 : own, out ? own : kept + 1, n * sizeof *own);
}

int hearth_choose_products(struct hearth_choose_work *w, struct hearth_rows rows, int layer,
                           struct hearth_product *out)
{
    const struct hearth_chooser *c = &w->c->hp->chooser;
    const struct hearth_layer *l = &w->c->weights->layers[layer];
    int n = 0;
    if (!hearth_chooses(w->c->hp, layer))
        return 0;
    out[n++] = (struct hearth_product){
        .w = l->choose_k, .out = hearth_row_of(w->k, rows.first, c->dim), .n = rows.n};
    if (!c->low)
        out[n++] = query_product(w, rows, layer);
    if (hearth_has(&l->choose_weigh))
        out[n++] = (struct hearth_product){
            .w = l->choose_weigh, .out = hearth_row_of(w->weights, rows.first, c->n_heads), .n = rows.n};
    return n;
}

int hearth_choose_low_products(struct hearth_choose_work *w, struct hearth_rows rows, int layer,
                               struct hearth_product *out)
{
    if (!hearth_chooses(w->c->hp, layer) || !w->c->hp->chooser.low)
        return 0;
    *out = query_product(w, rows, layer);
    return 1;
}

void hearth_choose_lay_out(struct hearth_choose_work *w, int max_rows, int max_steps, struct hearth_arena *a)
{
    const struct hearth_hparams *hp = w->c->hp;
    const struct hearth_chooser *c = &hp->chooser;
    const size_t t = (size_t)max_rows, steps = (size_t)max_steps, f32 = sizeof(float), dim = (size_t)c->dim,
                 heads = (size_t)c->n_heads, choices = (size_t)hearth_choices(c);
    const int n_workers = hearth_pool_size(w->c->pool);
    if (!c->block)
        return;
    w->most_rows = max_steps > ROWS ? max_steps : ROWS;
    w->row_blocks = ((size_t)w->kv->pages_per_seq * HEARTH_KV_TILE + (size_t)c->block - 1) / (size_t)c->block;
    const bool chooses = w->row_blocks > (size_t)c->most;
    w->q = hearth_arena_take_rows(a, t, steps, heads * dim * f32);
    w->k = hearth_arena_take_rows(a, t, steps, dim * f32);
    w->weights = hearth_arena_take_rows(a, c->low ? t : 0, c->low ? steps : 0, heads * f32);
    w->counts = hearth_arena_take(a, t, sizeof *w->counts);
    w->blocks =
        hearth_arena_take_rows(a, chooses ? t : 0, steps, choices * (size_t)c->most * sizeof *w->blocks);
    w->scores = hearth_arena_take(a, chooses ? (size_t)w->most_rows * choices : 0, w->row_blocks * f32);
    w->products = hearth_arena_take(a, (size_t)n_workers, sizeof *w->products);
    w->turned = hearth_arena_take(a, (size_t)n_workers, sizeof *w->turned);
    for (int i = 0; i < n_workers; i++) {
        float *products = hearth_arena_take(a, heads * (size_t)(HEARTH_KV_TILE / c->per_key), f32),
              *turned = hearth_arena_take(a, (size_t)hp->n_rot, f32);
        if (w->turned) {
            w->products[i] = products;
            w->turned[i] = turned;
        }
    }
}
