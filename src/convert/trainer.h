// SPDX-License-Identifier: MIT
// Predictors being trained: for train.c and train_file.c alone.
#ifndef HEARTH_CONVERT_TRAINER_H
#define HEARTH_CONVERT_TRAINER_H

#include "convert/predictor.h"
#include "convert/train.h"
#include "convert/walk.h"
#include "model/model.h"

// X experts (1 of a dense part), F neurons of a space, E inputs, U experts of a token, T tokens that count.
struct hearth_trainer {
    const struct hearth_model *model;
    struct hearth_train_params params;
    const char *out;
    struct hearth_walk walk;
    struct hearth_window *windows;
    size_t n_layer, n_expert, n_ff, n_embd, n_used, n_tokens;
    bool by_gates, stream; // a threshold decides; predictors look at the stream
    uint64_t settings;     // a hash of all that the result depends on
    struct hearth_error *err;

    // The layer that is being passed.
    int layer;
    size_t n_untrained; // experts of all layers so far (struct hearth_train_layer)
    bool sizing;
    float least;
    int rc; // of a callback
    struct hearth_error callback_err;
    uint64_t *sizes;
    uint64_t *firsts; // [n_windows] the windows' first tokens
    // [T] rows of E floats: the layer's, or where predictors are early, by turns its own and those of the one before.
    struct hearth_row_store inputs[2];
    struct hearth_row_store targets; // [T x U] rows of F codes
    int32_t *experts;                // [T x U] whose these are; -1: none
    uint8_t *n_spaces, *n_gates;     // [T] of a token so far
    uint8_t *codes;                  // [F]
    struct hearth_sample *samples;   // [T x U] of one space: those to train with, then those held out

    struct hearth_pool *pool;
    struct hearth_net net;
    struct hearth_region memory; // of the net
    struct hearth_predictor_shape shapes[HEARTH_PREDICTOR_SHAPES];
    int n_shapes;
    double neuron_bytes;
    uint8_t *row;                   // of a gate, as in the file
    uint64_t steps_done, steps_all; // of this layer
    struct hearth_predictor fit;
    uint8_t *fc1, *fc2; // of all experts of a layer, in the number format
};

// Sets t->settings.
int hearth_trainer_hash(struct hearth_trainer *t, const hearth_token *tokens, size_t n_tokens);
// Before anything is done: whether the disk has room for all that training may write, which is the model with
// predictors, the files of layers, and what memory has no room for. HEARTH_E_IO.
int hearth_trainer_check_disk(const struct hearth_trainer *t);
// Whether the layer is finished, and its file is as it was written; then *layer says what became of it.
bool hearth_trainer_has_layer(const struct hearth_trainer *t, int layer, struct hearth_train_layer *out);
// Keeps the layer's predictors, which are in fc1 and fc2.
int hearth_trainer_put_layer(struct hearth_trainer *t, const struct hearth_train_layer *layer);
// Writes the model with all layers' predictors, and removes what was kept.
int hearth_trainer_write(struct hearth_trainer *t);

#endif
