// SPDX-License-Identifier: MIT
// Which positions a layer attends to (struct hearth_chooser): those of the blocks that are best by a small
// attention of its own, and those behind the last whole block. A token that sees no more whole blocks than
// are chosen attends to all.
//
// A block's key is the mean of its positions' raw keys, normed and rotated as its first position. A block
// scores the sum over heads of what of the products with queries is above 0, times the head's weight where the
// token gives heads some; or, where each head of keys and values has a choice, the best product of a position with
// its head's query. Of equal ones the earlier is better.
//
// The KV cache has a row for each position (hearth_kv_choice()): the sum of raw keys from the block's
// beginning up to there, and at its last position the block's key. So a sequence can be cut anywhere.
#ifndef HEARTH_ENGINE_CHOOSE_H
#define HEARTH_ENGINE_CHOOSE_H

#include "engine/batch.h"
#include "engine/matmul.h"

// Workspace; T tokens of a batch, H heads of C elements, B blocks of a context, N choices of a token, S rows that
// are looked at together.
struct hearth_choose_work {
    const struct hearth_context *c;
    const struct hearth_kv *kv;
    struct hearth_matmul_work *matmul;
    const float *inv_freq; // of the rotation
    float *q, *k;          // [T x H C] [T x C]
    float *weights;        // [T x H] of heads, or none
    int *counts;           // [T] positions that a row attends to, where they are chosen; 0: to all before it
    int *blocks;           // [T x N x most] the chosen ones, ascending
    float *scores;         // [S x N x B]
    float **products;      // [workers][H x keys of a page]
    float **turned;        // [workers][n_rot] a block's rotation
    int most_rows;         // S
    size_t row_blocks;     // B
};

// The caller sets what stands before the buffers. Nothing where positions are not chosen.
void hearth_choose_lay_out(struct hearth_choose_work *w, int max_rows, int max_steps, struct hearth_arena *a);

// The products of a class's rows with the layer's input: those that make keys, heads' weights, and queries unless they
// are made of what latent attention's are made of. Returns how many: at most 2, where there are no weights or no
// queries among them.
int hearth_choose_products(struct hearth_choose_work *w, struct hearth_rows rows, int layer,
                           struct hearth_product *out);

// The one that makes queries of that. Returns how many: 1, or 0.
int hearth_choose_low_products(struct hearth_choose_work *w, struct hearth_rows rows, int layer,
                               struct hearth_product *out);

// Once there are those of all classes: stores keys, and chooses for each row of the batch. cos_sin [T x
// n_rot]: rows' rotations.
void hearth_choose(struct hearth_choose_work *w, const struct hearth_batch *b, int layer,
                   const float *cos_sin);

// A row's choice, as a caller keeps it for another layer of the batch: so many numbers, of which those behind the first
// count where that is not 0.
static inline size_t hearth_choose_kept(const struct hearth_hparams *hp)
{
    return 1 + (size_t)hearth_choices(&hp->chooser) * (size_t)hp->chooser.most;
}
// It goes to `kept`, or comes from there.
void hearth_choose_move(struct hearth_choose_work *w, int row, int *kept, bool out);

// The blocks of a row's choice: of a head of keys and values, where each has one.
static inline int *hearth_choose_blocks(const struct hearth_choose_work *w, int row, int head)
{
    const struct hearth_chooser *c = &w->c->hp->chooser;
    const size_t choice = (size_t)row * (size_t)hearth_choices(c) + (size_t)(c->each ? head : 0);
    return w->blocks + choice * (size_t)c->most;
}

// A position that a row attends to, the i-th of `counts`: those of a block are neighbours.
static inline int hearth_choose_position(const struct hearth_choose_work *w, int row, int head, int i)
{
    const struct hearth_chooser *c = &w->c->hp->chooser;
    const int at = i / c->block, whole = (w->c->rows[row].pos + 1) / c->block;
    const int block = at < c->most ? hearth_choose_blocks(w, row, head)[at] : whole;
    return block * c->block + i % c->block;
}

#endif
