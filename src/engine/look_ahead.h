// SPDX-License-Identifier: MIT
// Looking ahead: while a layer's neurons are awaited and computed, those that the next layer will probably
// want are read. Its predictor is asked with this layer's input, which differs little from its own. A wrong
// guess costs time, never a result: the next layer asks again with its own input.
#ifndef HEARTH_ENGINE_LOOK_AHEAD_H
#define HEARTH_ENGINE_LOOK_AHEAD_H

#include "engine/matmul.h"
#include "engine/neurons.h"

// Begins for the layer behind `layer`, on a pass of n_rows rows: false when there is nothing to look at. Then
// *product is the first matrix of the predictor, to be evaluated on what this layer's predictor gets.
bool hearth_look_ahead_begin(struct hearth_neurons *n, int layer, int n_rows, struct hearth_product *product);
// Then, for each row: makes the predictor's inner layer ready. Any thread.
void hearth_look_ahead_prepare(struct hearth_neurons *n, int row);
// Then, for each cluster of the layer: finds out which absent neurons it will probably want. Any thread.
void hearth_look_ahead_choose(struct hearth_neurons *n, size_t cluster, int worker);
// Then: lists them as what is to be read when the storage has nothing more urgent to do.
void hearth_look_ahead_end(struct hearth_neurons *n);

#endif
