// SPDX-License-Identifier: MIT
// Blocks of positions that become one (struct hearth_blender): what a token attends to before its window.
//
// Each element of a block's vector is the mean of its positions' values, weighed by the softmax of their gates, which have a
// bias by place in the block. Overlapping blocks have two such means, of their own positions and of the block's before, with
// values and gates of their own, under one softmax. The vector is normed and rotated as the block's first position, and lies
// in the KV cache behind the keys of its last position's page. So does a key to choose it by, made likewise.
//
// What a block's positions so far come to is part of the sequence's state (states.h): for each element the largest gate, and
// the sums of weights and of weighed values. Position by position it grows in the same operations, wherever a text is cut
// into batches.
#ifndef HEARTH_ENGINE_BLEND_H
#define HEARTH_ENGINE_BLEND_H

#include "engine/batch.h"
#include "engine/matmul.h"

// Products of the layer's input that blending takes, at most.
#define HEARTH_BLEND_PRODUCTS 5

// Workspace; T tokens of a batch, H heads of C elements, B blocks of a context, S rows that are looked at together, I the
// most inputs of a position, W the widest block.
struct hearth_blend_work {
    const struct hearth_context *c;
    const struct hearth_kv *kv;
    struct hearth_matmul_work *matmul;
    const float *inv_freq; // of the rotation
    float *inputs;         // [T x I] values and gates; behind them the same of keys to choose by
    float *blocks;         // [T x W] what becomes of blocks that end with a row
    float *q, *weights;    // [T x H C] [T x H] of what chooses
    int *counts;           // [T] what a row attends to in this layer; 0: its window alone
    int *n_blocks;         // [T] and how many of these are blocks, before the window
    int *chosen;           // [T x most] which blocks, ascending, where not all are
    float *scores;         // [S x B]
    float **products;      // [workers][H x blocks of a page]
    float **turned;        // [workers][n_rot] a block's rotation
    float *kept; // [steps x inputs of all layers] of the last evaluation, as in struct hearth_recurrent_work
    int most_rows;     // S
    int most_inputs;   // I
    int most_width;    // W
    size_t row_blocks; // B
    size_t all_inputs; // of all layers
};

// The caller sets what stands before the buffers. Nothing where no layer has blocks.
void hearth_blend_lay_out(struct hearth_blend_work *w, int max_rows, int max_steps, int max_seqs,
                          struct hearth_arena *a);

// The products of a class's rows with the layer's input. Returns how many.
int hearth_blend_products(struct hearth_blend_work *w, struct hearth_rows rows, int layer,
                          struct hearth_product *out);
// The one with what queries are made of: queries that choose. Returns how many: 1, or 0.
int hearth_blend_low_products(struct hearth_blend_work *w, struct hearth_rows rows, int layer,
                              struct hearth_product *out);

// Once there are those of all classes: takes the states of the batch's sequences past its tokens, stores blocks that end,
// and finds out what each row attends to. cos_sin [T x n_rot]: rows' rotations.
void hearth_blend(struct hearth_blend_work *w, const struct hearth_batch *b, int layer, const float *cos_sin);
// The states alone, of one sequence whose inputs are kept, from step b->kept on.
void hearth_blend_again(struct hearth_blend_work *w, const struct hearth_batch *b, int layer);

// The i-th of the blocks that a row attends to.
static inline int hearth_blend_block(const struct hearth_blend_work *w, int row, int layer, int i)
{
    const struct hearth_hparams *hp = w->c->hp;
    const bool all = w->n_blocks[row] == (w->c->rows[row].pos + 1) / hp->blender.block[layer];
    return all ? i : w->chosen[(size_t)row * (size_t)hp->chooser.most + (size_t)i];
}

#endif
