// SPDX-License-Identifier: MIT
// Blocks of positions that become one: see blend.h. The order of operations is part of the numeric law
// (docs/architecture.md).
#include "engine/blend.h"

#include <math.h>
#include <string.h>

#include "engine/best.h"
#include "engine/rope.h"
#include "model/ffn.h"

// Rows that are looked at together, at least, pages of a row that one task scores, and elements that one task blends.
#define ROWS     16
#define PAGES    16
#define ELEMENTS 64

struct job {
    struct hearth_blend_work *work;
    const struct hearth_batch *batch;
    int layer, block;
    bool overlaps;
    const float *cos_sin;
    int n_chunks; // tasks of a sequence
    int first;    // of the rows that are looked at together
    int n_parts;  // tasks of a row
};

static const struct hearth_layer *layer_of(const struct job *j)
{
    return &j->work->c->weights->layers[j->layer];
}

static int chunks_in(int n)
{
    return (n + ELEMENTS - 1) / ELEMENTS;
}

static struct job job_of(struct hearth_blend_work *w, const struct hearth_batch *b, int layer)
{
    const bool overlaps = hearth_blend_overlaps(w->c->hp, layer);
    return (struct job){.work = w,
                        .batch = b,
                        .layer = layer,
                        .block = w->c->hp->blender.block[layer],
                        .overlaps = overlaps,
                        .n_chunks = chunks_in(w->c->hp->head_dim) +
                                    (overlaps ? chunks_in(w->c->hp->chooser.dim) : 0)};
}

// ---- states

// Some elements of what a block has come to so far: [n] each.
struct mean {
    float *max, *sum, *all; // the largest gate, weights, weighed values
};

// A position's values and gates join. first: of the block.
static void join(struct mean m, const float *values, const float *gates, const float *biases, size_t n,
                 bool first)
{
    for (size_t i = 0; i < n; i++) {
        const float gate = gates[i] + biases[i];
        if (first || gate > m.max[i]) {
            const float by = first ? 0.0f : hearth_exp(m.max[i] - gate);
            m.sum[i] = first ? 1.0f : fmaf(m.sum[i], by, 1.0f);
            m.all[i] = first ? values[i] : fmaf(m.all[i], by, values[i]);
            m.max[i] = gate;
        } else {
            const float by = hearth_exp(gate - m.max[i]);
            m.sum[i] += by;
            m.all[i] = fmaf(values[i], by, m.all[i]);
        }
    }
}

// out = the mean; with that of another block, both together.
static void finish(float *out, struct mean own, const struct mean *other, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!other) {
            out[i] = own.all[i] / own.sum[i];
            continue;
        }
        const float top = own.max[i] > other->max[i] ? own.max[i] : other->max[i],
                    a = hearth_exp(other->max[i] - top), b = hearth_exp(own.max[i] - top);
        out[i] = fmaf(own.all[i], b, other->all[i] * a) / fmaf(own.sum[i], b, other->sum[i] * a);
    }
}

// A chunk of elements: where their inputs and biases are. Those of keys to choose by stand behind the others, and so do
// a block's own ones (where blocks overlap) behind those for the next block.
struct chunk {
    size_t at, n;        // elements [at, at + n) of the block's vector
    size_t value, gate;  // first inputs
    size_t own;          // from there to the block's own ones
    size_t bias, stride; // first bias, and from place to place
    const float *biases;
};

static struct chunk chunk_of(const struct job *j, int task)
{
    const struct hearth_layer *l = layer_of(j);
    const struct hearth_hparams *hp = j->work->c->hp;
    const int before = chunks_in(hp->head_dim);
    const bool chooses = task >= before;
    const size_t dim = (size_t)hp->head_dim, width = chooses ? (size_t)hp->chooser.dim : dim,
                 at = (size_t)(chooses ? task - before : task) * ELEMENTS, parts = j->overlaps ? 2 : 1;
    const size_t value = (chooses ? 2 * parts * dim : 0) + at;
    return (struct chunk){.at = (chooses ? dim : 0) + at,
                          .n = width - at < ELEMENTS ? width - at : ELEMENTS,
                          .value = value,
                          .gate = value + parts * width,
                          .own = j->overlaps ? width : 0,
                          .bias = at,
                          .stride = parts * width,
                          .biases = hearth_vector_of(chooses ? &l->blend_choose_bias : &l->blend_bias)};
}

static struct mean mean_at(float *state, size_t width, size_t index, size_t at)
{
    float *from = state + 3 * index * width + at;
    return (struct mean){from, from + width, from + 2 * width};
}

static void clear(struct mean m, size_t n)
{
    memset(m.max, 0, n * sizeof *m.max);
    memset(m.sum, 0, n * sizeof *m.sum);
    memset(m.all, 0, n * sizeof *m.all);
}

static void copy(struct mean to, struct mean from, size_t n)
{
    memcpy(to.max, from.max, n * sizeof *to.max);
    memcpy(to.sum, from.sum, n * sizeof *to.sum);
    memcpy(to.all, from.all, n * sizeof *to.all);
}

// Takes some elements of a sequence's state past its tokens, in ascending order of position. Of overlapping blocks there
// are the means of a block's own positions, of the same positions for the next block, and of the block before for this one.
static void blend_chunk(const struct job *j, int seq, struct chunk c)
{
    enum { OWN, NEXT, BEFORE, PARTS };
    const struct hearth_blend_work *w = j->work;
    const struct hearth_states *states = &w->kv->states;
    const size_t width = (size_t)hearth_blend_width(w->c->hp, j->layer);
    const struct hearth_state_seq *s = &states->seqs[j->batch->seqs[seq]];
    const int n_means = j->overlaps ? PARTS : 1;
    float *to = hearth_state_blend(states, s->to, j->layer),
          *from = s->from < 0 ? NULL : hearth_state_blend(states, s->from, j->layer);
    struct mean means[PARTS];
    for (int i = 0; i < n_means; i++) {
        means[i] = mean_at(to, width, (size_t)i, c.at);
        if (!from)
            clear(means[i], c.n);
        else if (from != to)
            copy(means[i], mean_at(from, width, (size_t)i, c.at), c.n);
    }
    for (int i = 0; i < j->batch->counts[seq]; i++) {
        const int row = j->batch->sorted[j->batch->firsts[seq] + i], pos = j->batch->changes[seq].pos + i,
                  place = pos % j->block;
        const float *in = hearth_row_of(w->inputs, row, w->most_inputs),
                    *biases = c.biases + (size_t)place * c.stride + c.bias;
        if (j->overlaps && !place && pos)
            copy(means[BEFORE], means[NEXT], c.n);
        join(means[OWN], in + c.value + c.own, in + c.gate + c.own, biases + c.own, c.n, !place);
        if (j->overlaps)
            join(means[NEXT], in + c.value, in + c.gate, biases, c.n, !place);
        if (place == j->block - 1)
            finish(hearth_row_of(w->blocks, row, w->most_width) + c.at, means[OWN],
                   j->overlaps && pos >= j->block ? &means[BEFORE] : NULL, c.n);
    }
}

static void blend_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    blend_chunk(j, task / j->n_chunks, chunk_of(j, task % j->n_chunks));
}

// ---- blocks

static uint8_t *pin(const struct hearth_kv *kv, int seq, int tile)
{
    return hearth_kv_pin(kv, kv->seqs[seq].pages[tile]);
}

static void unpin(const struct hearth_kv *kv, int seq, int tile)
{
    hearth_kv_unpin(kv, kv->seqs[seq].pages[tile]);
}

static void norm(const struct job *j, float *x, const struct hearth_weight *by)
{
    const struct hearth_context *c = j->work->c;
    c->kernels->rms_norm(x, x, hearth_vector_of(by), by->k, c->hp->norm_eps);
}

// Rotates the last elements of n vectors.
static void turn(const struct job *j, float *x, size_t n, size_t dim, const float *cos_sin)
{
    const struct hearth_hparams *hp = j->work->c->hp;
    const size_t n_rot = (size_t)hp->n_rot;
    j->work->c->kernels->rope(x + dim - n_rot, cos_sin, n, dim, n_rot, hp->positions == HEARTH_POS_ROPE_NEOX);
}

// Stores the block that ends with a row. Where blocks are two pages, the first one's place stays empty.
static void store_block(const struct job *j, int row, int worker)
{
    const struct hearth_blend_work *w = j->work;
    const struct hearth_kv *kv = w->kv;
    const struct hearth_hparams *hp = w->c->hp;
    const struct hearth_row at = j->batch->rows[row];
    const size_t dim = (size_t)hp->head_dim, small = (size_t)hp->chooser.dim;
    const int tile = at.pos / HEARTH_KV_TILE, slot = hearth_kv_block_slot(j->block, at.pos);
    float *block = hearth_row_of(w->blocks, row, w->most_width), *turned = w->turned[worker];
    uint8_t *bytes = pin(kv, at.seq, tile);
    hearth_rope_turn(turned, w->inv_freq, hp->n_rot, at.pos - j->block + 1, hp->rope_attn);
    norm(j, block, &layer_of(j)->blend_norm);
    turn(j, block, 1, dim, turned);
    hearth_type_info(kv->type_k)->encode(block, hearth_kv_block(kv, bytes, j->layer, slot), dim);
    if (j->overlaps) {
        norm(j, block + dim, &layer_of(j)->blend_choose_norm);
        turn(j, block + dim, 1, small, turned);
        memcpy(hearth_kv_block_key(kv, bytes, j->layer, slot), block + dim, small * sizeof *block);
    }
    unpin(kv, at.seq, tile);
}

// A row's queries that choose; the block that ends with it.
static void prepare_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    const struct hearth_blend_work *w = j->work;
    const struct hearth_chooser *b = &w->c->hp->chooser;
    const struct hearth_row at = j->batch->rows[task];
    if (j->overlaps)
        turn(j, hearth_row_of(w->q, task, b->n_heads * b->dim), (size_t)b->n_heads, (size_t)b->dim,
             j->cos_sin + (size_t)task * (size_t)w->c->hp->n_rot);
    if (j->batch->again)
        return;
    if (at.pos % j->block == j->block - 1)
        store_block(j, task, worker);
    else if (j->block > HEARTH_KV_TILE && at.pos % HEARTH_KV_TILE == HEARTH_KV_TILE - 1) {
        const int tile = at.pos / HEARTH_KV_TILE;
        memset(hearth_kv_block(w->kv, pin(w->kv, at.seq, tile), j->layer, 0), 0,
               hearth_kv_heads_of(w->kv, j->layer)->row_k);
        unpin(w->kv, at.seq, tile);
    }
}

// ---- the choice

static int whole_blocks(const struct job *j, int row)
{
    return (j->work->c->rows[row].pos + 1) / j->block;
}

static bool chooses(const struct job *j, int row)
{
    return j->work->n_blocks[row] < whole_blocks(j, row);
}

static float *scores_of(const struct job *j, int row)
{
    return j->work->scores + (size_t)(row - j->first) * j->work->row_blocks;
}

// Scores of a row's blocks in some pages: over heads, in ascending order, the sum of their weights times what of the product
// is above 0.
static void score_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    const struct hearth_blend_work *w = j->work;
    const struct hearth_chooser *b = &w->c->hp->chooser;
    const int row = j->first + task / j->n_parts, per_page = HEARTH_KV_TILE / j->block;
    const int blocks = whole_blocks(j, row), seq = w->c->rows[row].seq, from = task % j->n_parts * PAGES;
    const size_t dim = (size_t)b->dim, heads = (size_t)b->n_heads;
    const float *weights = hearth_row_of(w->weights, row, b->n_heads);
    float *products = w->products[worker], *scores = scores_of(j, row);
    if (!chooses(j, row))
        return;
    for (int tile = from; tile < from + PAGES && tile * per_page < blocks; tile++) {
        const int left = blocks - tile * per_page, n = left < per_page ? left : per_page;
        uint8_t *bytes = pin(w->kv, seq, tile);
        w->c->kernels->step[HEARTH_TYPE_F32](
            products, (size_t)n, hearth_kv_block_key(w->kv, bytes, j->layer, 0), dim * sizeof(float), dim,
            (size_t)n, hearth_row_of(w->q, row, b->n_heads * b->dim), dim * sizeof(float), heads,
            w->matmul->scratch[worker]);
        unpin(w->kv, seq, tile);
        for (int i = 0; i < n; i++) {
            float sum = 0;
            for (size_t head = 0; head < heads; head++) {
                const float product = products[head * (size_t)n + (size_t)i];
                sum = product > 0 ? fmaf(weights[head], product, sum) : sum;
            }
            scores[tile * per_page + i] = sum;
        }
    }
}

static void choose_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_blend_work *w = j->work;
    const int row = j->first + task, most = w->c->hp->chooser.most;
    if (chooses(j, row))
        hearth_best_of(scores_of(j, row), whole_blocks(j, row), most, w->chosen + (size_t)row * (size_t)most);
}

// Rows [j->first, end).
static void choose_rows(struct job *j, int end)
{
    const int per_part = PAGES * HEARTH_KV_TILE / j->block;
    int most = 0;
    for (int row = j->first; row < end; row++)
        if (chooses(j, row) && whole_blocks(j, row) > most)
            most = whole_blocks(j, row);
    if (!most)
        return;
    j->n_parts = (most + per_part - 1) / per_part;
    hearth_parallel(j->work->c, score_task, j, (end - j->first) * j->n_parts);
    hearth_parallel(j->work->c, choose_task, j, end - j->first);
}

// What each row attends to: blocks, then its window.
static void count(const struct job *j)
{
    const struct hearth_blend_work *w = j->work;
    const int window = w->c->hp->window, most = w->c->hp->chooser.most;
    for (int row = 0; row < j->batch->n; row++) {
        const int pos = j->batch->rows[row].pos, whole = whole_blocks(j, row),
                  n = j->overlaps && whole > most ? most : whole;
        w->n_blocks[row] = n;
        w->counts[row] = n ? n + (pos < window ? pos + 1 : window) : 0;
    }
}

// ---- a layer

// The layer's part of a step's kept inputs.
static float *kept_at(const struct hearth_blend_work *w, int layer, int step)
{
    size_t before = 0;
    for (int i = 0; i < layer; i++)
        before += w->c->hp->blender.block[i] ? (size_t)hearth_blend_inputs(w->c->hp, i) : 0;
    return w->kept + (size_t)step * w->all_inputs + before;
}

static void keep(const struct job *j)
{
    const struct hearth_blend_work *w = j->work;
    const size_t bytes = (size_t)hearth_blend_inputs(w->c->hp, j->layer) * sizeof(float);
    for (int i = 0; i < j->batch->n_classes && j->batch->keeps; i++) {
        const struct hearth_rows rows = j->batch->classes[i];
        for (int k = 0; k < rows.n && rows.phase == HEARTH_PHASE_STEP; k++)
            memcpy(kept_at(w, j->layer, k), hearth_row_of(w->inputs, rows.first + k, w->most_inputs), bytes);
    }
}

void hearth_blend(struct hearth_blend_work *w, const struct hearth_batch *b, int layer, const float *cos_sin)
{
    struct job j = job_of(w, b, layer);
    if (!j.block) {
        memset(w->counts, 0, (size_t)b->n * sizeof *w->counts);
        return;
    }
    j.cos_sin = cos_sin;
    keep(&j);
    hearth_parallel(w->c, blend_task, &j, b->n_seqs * j.n_chunks);
    hearth_parallel(w->c, prepare_task, &j, b->n);
    count(&j);
    for (; j.overlaps && j.first < b->n; j.first += w->most_rows)
        choose_rows(&j, j.first + w->most_rows < b->n ? j.first + w->most_rows : b->n);
}

void hearth_blend_again(struct hearth_blend_work *w, const struct hearth_batch *b, int layer)
{
    struct job j = job_of(w, b, layer);
    const size_t bytes = (size_t)hearth_blend_inputs(w->c->hp, layer) * sizeof(float);
    for (int row = 0; row < b->n; row++)
        memcpy(hearth_row_of(w->inputs, row, w->most_inputs), kept_at(w, layer, b->kept + row), bytes);
    hearth_parallel(w->c, blend_task, &j, b->n_seqs * j.n_chunks);
}

int hearth_blend_products(struct hearth_blend_work *w, struct hearth_rows rows, int layer,
                          struct hearth_product *out)
{
    const struct hearth_hparams *hp = w->c->hp;
    const struct hearth_layer *l = &w->c->weights->layers[layer];
    const struct hearth_weight *const parts[] = {&l->blend_value, &l->blend_gate, &l->blend_choose_value,
                                                 &l->blend_choose_gate};
    const int n = !hp->blender.block[layer] ? 0 : hearth_blend_overlaps(hp, layer) ? 4 : 2;
    float *to = hearth_row_of(w->inputs, rows.first, w->most_inputs);
    for (int i = 0; i < n; to += parts[i]->n, i++)
        out[i] = (struct hearth_product){
            .w = *parts[i], .out = to, .n = rows.n, .out_stride = (size_t)w->most_inputs};
    if (n < 4)
        return n;
    out[n] = (struct hearth_product){
        .w = l->choose_weigh, .out = hearth_row_of(w->weights, rows.first, hp->chooser.n_heads), .n = rows.n};
    return n + 1;
}

int hearth_blend_low_products(struct hearth_blend_work *w, struct hearth_rows rows, int layer,
                              struct hearth_product *out)
{
    const struct hearth_chooser *b = &w->c->hp->chooser;
    if (!hearth_blend_overlaps(w->c->hp, layer))
        return 0;
    *out = (struct hearth_product){.w = w->c->weights->layers[layer].choose_q,
                                   .out = hearth_row_of(w->q, rows.first, b->n_heads * b->dim),
                                   .n = rows.n};
    return 1;
}

// ---- opening

// What layers have at most, and all together.
static void measure(struct hearth_blend_work *w)
{
    const struct hearth_hparams *hp = w->c->hp;
    w->most_inputs = w->most_width = 0;
    w->all_inputs = 0;
    for (int i = 0; i < hp->n_layer; i++) {
        if (!hp->blender.block[i])
            continue;
        const int inputs = hearth_blend_inputs(hp, i), width = hearth_blend_width(hp, i);
        w->most_inputs = inputs > w->most_inputs ? inputs : w->most_inputs;
        w->most_width = width > w->most_width ? width : w->most_width;
        w->all_inputs += (size_t)inputs;
    }
}

void hearth_blend_lay_out(struct hearth_blend_work *w, int max_rows, int max_steps, int max_seqs,
                          struct hearth_arena *a)
{
    const struct hearth_hparams *hp = w->c->hp;
    const struct hearth_chooser *b = &hp->chooser;
    const size_t t = (size_t)max_rows, steps = (size_t)max_steps, f32 = sizeof(float), dim = (size_t)b->dim,
                 heads = (size_t)b->n_heads, per_page = HEARTH_KV_TILE / HEARTH_OVERLAPPING;
    const int n_workers = hearth_pool_size(w->c->pool);
    if (!hp->blender.n_layers)
        return;
    measure(w);
    w->most_rows = max_steps > ROWS ? max_steps : ROWS;
    w->row_blocks = (size_t)w->kv->pages_per_seq * per_page;
    const bool chooses = b->n_heads && w->row_blocks > (size_t)b->most;
    w->inputs = hearth_arena_take_rows(a, t, steps, (size_t)w->most_inputs * f32);
    w->blocks = hearth_arena_take_rows(a, t, steps, (size_t)w->most_width * f32);
    w->q = hearth_arena_take_rows(a, t, steps, heads * dim * f32);
    w->weights = hearth_arena_take_rows(a, t, steps, heads * f32);
    w->counts = hearth_arena_take(a, t, sizeof *w->counts);
    w->n_blocks = hearth_arena_take(a, t, sizeof *w->n_blocks);
    w->chosen = hearth_arena_take_rows(a, chooses ? t : 0, steps, (size_t)b->most * sizeof *w->chosen);
    w->scores = hearth_arena_take(a, chooses ? (size_t)w->most_rows : 0, w->row_blocks * f32);
    w->kept = hearth_arena_take(a, max_steps > max_seqs ? steps : 0, w->all_inputs * f32);
    w->products = hearth_arena_take(a, (size_t)n_workers, sizeof *w->products);
    w->turned = hearth_arena_take(a, (size_t)n_workers, sizeof *w->turned);
    for (int i = 0; i < n_workers; i++) {
        float *products = hearth_arena_take(a, heads * per_page, f32),
              *turned = hearth_arena_take(a, (size_t)hp->n_rot, f32);
        if (w->turned) {
            w->products[i] = products;
            w->turned[i] = turned;
        }
    }
}
