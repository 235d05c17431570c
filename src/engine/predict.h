// SPDX-License-Identifier: MIT
// Several residual streams of which a layer computes one ("Alternating Updates", arXiv 2301.13310): the others are
// predicted before it and corrected after it.
//
// Of the active stream's x, or of what the layer has made of it, m = tanh(router(norm(x)) / E) has G elements. Each stream
// becomes itself plus the sum over all streams j of P_ij x_j, where P = predict_by(m). Beside attention, the normed active
// stream h goes past it: h + norm(past_out(past_in(h))). The layer adds both to the active stream, times the root of a
// half, and to that the feed-forward part, which is `now`. Each stream then gets 1 + correct_by(m) times the difference
// of `now` and the active one. What tokens give the layer, by the corrected active stream, goes to all but the first.
//
// The first stream begins as the embedding, the others as products of it that have its size, the root of the mean of
// squares. Before the head there is the mean of the first and of products of the others, made as long as it.
#ifndef HEARTH_ENGINE_PREDICT_H
#define HEARTH_ENGINE_PREDICT_H

#include "engine/matmul.h"

// Workspace; T tokens of a batch, G streams, M elements that go past attention.
struct hearth_predict_work {
    const struct hearth_context *c;
    struct hearth_matmul_work *matmul;
    float *now;    // [T x E] the active stream while the layer computes it, without norm
    float *normed; // [T x E]
    float *scores; // [T x G] m
    float *low;    // [T x M]
    float *past;   // [T x E] what goes past attention
    float *ends;   // [T x E] streams before the head, one by one,
    float *made;   // [T x E] and their products
};

// The caller sets c and matmul. Nothing where no stream is predicted.
void hearth_predict_lay_out(struct hearth_predict_work *w, int max_rows, int max_steps,
                            struct hearth_arena *a);

// Rows' first streams, in embds [T x E], and the others made of them to x [T x G E].
void hearth_predict_begin(struct hearth_predict_work *w, struct hearth_rows rows, const float *embds,
                          float *x);

// Before attention: x [T x G E] becomes the predictions, h [T x E] the normed active one.
void hearth_predict(struct hearth_predict_work *w, struct hearth_rows rows, int layer, float *x, float *h);

// Behind attention, which has given h [T x E]: h becomes what the feed-forward part reads.
void hearth_predict_go_on(struct hearth_predict_work *w, struct hearth_rows rows, int layer, const float *x,
                          float *h);

// Behind the feed-forward part, which has given h: x is corrected, h becomes what gates of what tokens give read.
void hearth_predict_correct(struct hearth_predict_work *w, struct hearth_rows rows, int layer, float *x,
                            float *h);

// What tokens give the layer, given [T x E], is normed and added.
void hearth_predict_take(struct hearth_predict_work *w, struct hearth_rows rows, int layer, float *given,
                         float *x);

// Before the head: rows `wanted` of x, or the first ones where it is NULL, normed, to h [n x E].
void hearth_predict_end(struct hearth_predict_work *w, const int *wanted, int n, const float *x, float *h);

#endif
