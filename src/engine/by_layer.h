// SPDX-License-Identifier: MIT
// Many texts through a model layer by layer: all of them pass a layer before any passes the next one. So a
// layer's weights are read once, whatever the model's size, and what is in memory is one layer, the keys and
// values of the texts that are passing it, and what the caller keeps of all texts: the stream of each token.
// Texts are prompts; each has the bits that hearth_prompt() gives it. For profiles and for training.
#ifndef HEARTH_ENGINE_BY_LAYER_H
#define HEARTH_ENGINE_BY_LAYER_H

#include "engine/context.h"

// Begins: the session makes n new sequences of up to `length` tokens each, numbers 0 to n - 1, and has the
// weights until hearth_by_layer_end(), which follows in any case. It has no sequence yet; n is at most
// max_seqs. HEARTH_E_KV_FULL and other errors of evaluations.
int hearth_by_layer_begin(struct hearth_session *s, int n, int length, struct hearth_error *err);
void hearth_by_layer_end(struct hearth_session *s);

// Before and after a layer's use; layers in ascending order from 0 on.
int hearth_by_layer_enter(struct hearth_session *s, int layer, struct hearth_error *err);
void hearth_by_layer_leave(struct hearth_session *s, int layer);

// Floats that the caller keeps of each token between two layers, where texts have up to `length` tokens: its stream, and
// where layers attend to what earlier ones chose, this.
size_t hearth_by_layer_width(const struct hearth_hparams *hp, int length);

// Takes the next tokens of a sequence through the layer: x [n x that many] is what is known of them before it and becomes
// that behind it; for layer 0 it is only written. rows[i] is a sequence and a token; those of a sequence lie side
// by side; n is at most n_ubatch. The session's probes see them. HEARTH_E_INTERRUPTED, HEARTH_E_IO.
struct hearth_by_layer_row {
    int seq;
    hearth_token token;
};
int hearth_by_layer_pass(struct hearth_session *s, int layer, const struct hearth_by_layer_row *rows, int n,
                         float *x, struct hearth_error *err);

// All sequences are empty again: for the next texts, or for the next layer.
void hearth_by_layer_rewind(struct hearth_session *s);

#endif
