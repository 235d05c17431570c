// SPDX-License-Identifier: MIT
// Looking ahead: while a layer's neurons are awaited and computed, those that the next layer will probably
// want are read. Its predictor is asked with this layer's input, which differs little from its own. A wrong
// guess costs time, never a result: the next layer asks again with its own input. Where predictors look at
// this input anyway, the caller makes the next layer's choice now, and nothing is guessed.
#ifndef HEARTH_ENGINE_LOOK_AHEAD_H
#define HEARTH_ENGINE_LOOK_AHEAD_H

#include "engine/matmul.h"
#include "weights/sources.h"

// Scratch memory of one worker, for a cluster of neurons.
struct hearth_look_ahead_worker {
    uint32_t *list;
    const void **rows;
    float *scores;
};

// Workspace; the caller sets what stands before the buffers.
struct hearth_look_ahead {
    const struct hearth_context *c;
    struct hearth_matmul_work *matmul;
    float threshold; // of the predictors' scores

    float *rank;     // [rows x R] the predictor's inner layer
    uint8_t *acts;   // [rows] acts blocks of it
    uint8_t *wanted; // [n_neurons]
    uint32_t *ids;   // [n_neurons] those of them
    struct hearth_look_ahead_worker *workers;

    const struct hearth_source *source;
    uint32_t space;
    int n_rows;
    struct hearth_weight fc2;
};

void hearth_look_ahead_lay_out(struct hearth_look_ahead *w, size_t rows, size_t rank, size_t n_neurons,
                               struct hearth_arena *a);

// Begins for the layer behind `layer`, on a pass of n_rows rows: false when there is nothing to look at. Then
// *product is the first matrix of the predictor, to be evaluated on what this layer's predictor gets.
bool hearth_look_ahead_begin(struct hearth_look_ahead *w, const struct hearth_sources *s, int layer,
                             int n_rows, struct hearth_product *product);
// Then, for each row: makes the predictor's inner layer ready. Any thread.
void hearth_look_ahead_prepare(struct hearth_look_ahead *w, int row);
// Then, for each cluster of the layer: finds out which absent neurons it will probably want. Any thread.
void hearth_look_ahead_choose(struct hearth_look_ahead *w, size_t cluster, int worker);
// Or, where that is known: wanted[i] is whether neuron i of the cluster is.
void hearth_look_ahead_take(struct hearth_look_ahead *w, size_t cluster, const uint8_t *wanted, int worker);
// Then: has them read when the storage has nothing more urgent to do.
void hearth_look_ahead_end(struct hearth_look_ahead *w);

#endif
