// SPDX-License-Identifier: MIT
// The feed-forward part of a layer. A dense one is one expert that every token uses.
#ifndef HEARTH_ENGINE_FFN_H
#define HEARTH_ENGINE_FFN_H

#include "engine/device_shared.h"
#include "engine/ffn_sparse.h"
#include "engine/hot_experts.h"
#include "engine/moe.h"
#include "engine/through_experts.h"

// Workspace; T tokens of a batch, U experts of each (1 of a dense model), X experts.
struct hearth_ffn_work {
    const struct hearth_context *c;
    struct hearth_matmul_work *matmul;
    struct hearth_sources *sources;
    struct hearth_moe_work moe;
    struct hearth_sparse_work sparse;
    struct hearth_hot_experts *experts;     // that devices compute, linked; or NULL
    struct hearth_through_experts *through; // that pass through a device in prompts; or NULL
    struct hearth_device_shared
        *elsewhere; // the expert that all tokens use, where a device computes it; or NULL

    float *gate, *up;               // [T x U x F] by slot, class by class
    float *down;                    // [T x U x E] of prompts whose neurons come in pieces
    float *inputs;                  // [2 x max_steps x E] of two layers' steps, where predictors look at them
    size_t max_steps;               // rows of a step
    float *small;                   // [T x M] what experts read and give, where that is not the stream itself
    float *shared_gate, *shared_up; // [T x S] of what all tokens go through
    float *shared;                  // [T x E] what it gives
    float *shared_weights;          // [T] and its weights, where the model has a router for it
    struct hearth_want *wants;      // [X] of all classes,
    struct hearth_want *own;        // [X] and those of them that one class has rows for
    struct hearth_sparse_part *parts; // [X]
    struct hearth_product *products;  // [2 X]
};

struct hearth_ffn_sizes {
    int max_rows, max_steps; // rows of a batch, of a step
    bool neurons_stream, streams;
};

// The caller sets what stands before the buffers, of `moe` and `sparse`, too.
void hearth_ffn_lay_out(struct hearth_ffn_work *w, const struct hearth_ffn_sizes *sizes,
                        struct hearth_arena *a);

// Of the rows of all classes: h to h [T x E]; x [T x E] is the stream before the norm that made h. What
// streams is read once for all of them. The bias of ffn_down is left to the caller.
void hearth_ffn(struct hearth_ffn_work *w, const struct hearth_rows *classes, int n_classes, int layer,
                float *h, const float *x);

// Steps' inputs of the feed-forward part before layer `layer`, [max_steps x E], where predictors look at them; NULL:
// nobody does, or there is none.
float *hearth_ffn_previous(const struct hearth_ffn_work *w, int layer);

// Before the attention of a layer: whether its neurons are to be guessed now for the rows of a class, and has
// those read. h [T x E] is the norm before its feed-forward part of x [T x E], as the stream is now.
bool hearth_ffn_looks(const struct hearth_ffn_work *w, struct hearth_rows rows, int layer);
void hearth_ffn_look(struct hearth_ffn_work *w, struct hearth_rows rows, int layer, const float *h,
                     const float *x);

#endif
