// SPDX-License-Identifier: MIT
// Steps by neuron: computing only the neurons of a feed-forward part that a token uses.
#ifndef HEARTH_ENGINE_FFN_SPARSE_H
#define HEARTH_ENGINE_FFN_SPARSE_H

#include "engine/hot.h"
#include "engine/look_ahead.h"
#include "engine/matmul.h"
#include "engine/sparse_mode.h"
#include "sparse/space.h"
#include "weights/sources.h"

// Rows [first, first + n) of a layer's input go through this space.
struct hearth_sparse_part {
    struct hearth_space space;
    struct hearth_weight fc1, fc2; // its predictor, or none
    size_t always;                 // neurons computed whatever the predictor says
    float crossover;               // share of a cluster's neurons from which on its dense product is faster
    int expert, first, n;
    uint32_t space_id; // layer * max(1, X) + expert
};

// Scratch memory of one worker for one cluster of neurons and the rows (tokens) of a pass: n neurons, t rows.
struct hearth_sparse_worker {
    uint64_t predictor_bytes, gate_bytes, up_bytes, down_bytes; // read so far, as in hearth_stats
    float *gate, *up;                                           // [t x n]
    float *picked;                                              // [t x n]
    uint8_t *mask;                                              // [t x n]
    uint8_t *any;                                               // [n] what some token marks
    uint32_t *list;                                             // [n] places in the cluster
    const void **rows;                                          // [n]
    const uint8_t **bundles;                                    // [n] of neurons that are not resident
};

// Workspace. T = HEARTH_STEP_ROWS, C clusters, K the widest inner layer of a predictor.
struct hearth_sparse_work {
    const struct hearth_context *c;
    struct hearth_matmul_work *matmul;
    const struct hearth_sparse_mode *mode;
    const struct hearth_model *model;
    struct hearth_sources *sources;
    struct hearth_hot *hot; // clusters that devices compute, linked; or NULL
    struct hearth_look_ahead look;
    struct hearth_look_guess guess; // of the experts behind the next layer to be run; no rows: none

    struct hearth_sparse_part *parts; // [T] of one pass
    struct hearth_product *products;  // [2 T]
    float *inner;                     // [T x K] the predictor's inner layer
    void *inner_acts;                 // [T] acts blocks of it
    float *partials;                  // [T x C x E] the clusters' sums
    uint8_t *used;                    // [T x C] whether a cluster has one
    // Where single neurons come.
    struct hearth_want *wants; // [T x C]
    uint8_t *masks;            // [T x F], or [2 x max_early x F]: see masks_of()
    uint32_t *ids;             // [T x F] of the wants
    // Where predictors look at the layer before and single neurons come, a layer's masks are made while that
    // one is computed. Rows of a step, at most (0: that is not so); and for which layer they are there now.
    size_t max_early;
    int known;
    struct hearth_sparse_worker *workers;
};

// The caller sets what stands before the buffers; where no layer goes by neuron, there are none. `streams`:
// neurons may stream. max_steps: rows of a step.
void hearth_sparse_lay_out(struct hearth_sparse_work *w, bool streams, size_t max_steps,
                           struct hearth_arena *a);

// A part for the space of a layer and expert (0 in a dense model), with its predictor where it is in use;
// rows are left to the caller.
struct hearth_sparse_part hearth_sparse_part_of(const struct hearth_sparse_work *w, int layer, int expert);

// STEP phase: parts of layer `layer` on x [n_rows x E], sorted by `first` and side by side, to out
// [n_rows x E]; n_rows is the end of the last part. Predictors get the rows of `seen` (x itself where they
// look at the normed input). The layers of an evaluation follow one another, all with the same rows. `act`
// [n_rows x F] gets what goes down where that is not stored by neuron, and out is left alone then, and where
// on_neurons wants it. `gates` [n_rows x F], or NULL, gets the activated gates where a sparsity threshold
// decides.
void hearth_sparse_run(struct hearth_sparse_work *w, int layer, const struct hearth_sparse_part *parts,
                       int n_parts, const float *x, const float *seen, float *out, float *act, float *gates);

// Before the attention of a layer that is in memory: whether its neurons are to be guessed now, because none were as the
// layer before was computed; and has those that n_rows rows will probably want read. `seen`: as its predictor gets it, or
// nearly.
bool hearth_sparse_looks(const struct hearth_sparse_work *w, int layer);
void hearth_sparse_look(struct hearth_sparse_work *w, int layer, const float *seen, int n_rows);

#endif
