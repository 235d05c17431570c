// SPDX-License-Identifier: MIT
// What n-grams of tokens add to the residual streams (struct hearth_grams), in one layer.
//
// A token's n-grams, hashed, name rows of a large table. Of these rows, one behind the other, comes a value
// for all streams and a key for each. Keys meet the streams, each normed on its own: the root of their
// product's size, with its sign, is the gate's input. What the gates leave of the value goes into the
// streams, and so does a convolution over that, normed, of tokens so many positions apart. Its inputs are
// part of a sequence's state (states.h); the tokens before are known to the KV cache.
#ifndef HEARTH_ENGINE_GRAMS_H
#define HEARTH_ENGINE_GRAMS_H

#include "engine/batch.h"
#include "engine/matmul.h"
#include "weights/sources.h"

// Workspace; T tokens of a batch, W elements of all their rows, G streams.
struct hearth_grams_work {
    const struct hearth_context *c;
    const struct hearth_kv *kv;
    struct hearth_sources *const *sources;
    struct hearth_matmul_work *matmul;
    float *rows;   // [T x W] of the table
    float *keys;   // [T x G E] then what the gates leave of the value
    float *values; // [T x E]
    float *inputs; // [T x G E] of the convolution; before that the streams, normed
    float *sums;   // [T x G E] of the convolution
    float *kept;   // [steps x G E] inputs of the last evaluation's steps, as in struct hearth_recurrent_work
    uint8_t **row; // [workers] of the table, where its rows come from the file
};

// The caller sets what stands before the buffers. Nothing where the model has no n-grams.
void hearth_grams_lay_out(struct hearth_grams_work *w, int max_rows, int max_steps, int max_seqs,
                          struct hearth_arena *a);

// Adds them to the streams x [T x G E] of the batch, and takes its sequences' states past its tokens.
void hearth_grams_add(struct hearth_grams_work *w, const struct hearth_batch *b, float *x);
// The states alone, of one sequence whose inputs are kept, from step b->kept on.
void hearth_grams_again(struct hearth_grams_work *w, const struct hearth_batch *b);

#endif
