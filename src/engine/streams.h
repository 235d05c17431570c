// SPDX-License-Identifier: MIT
// Several residual streams in place of one ("Hyper-Connections", arXiv 2409.19606): what a part of a layer
// reads is mixed of all of them, and what it gives is added to each, times a weight of its own.
//
// With xn the streams, each normed on its own, and G of them: the input is the mean over streams of
// sigmoid(up(silu(down( xn) / G))) * xn, and stream g gets 2 sigmoid(inject(xn)_g / G) times the output.
// Before the head there is the input alone.
//
// Balanced ones ("mHC", arXiv 2512.24880): with xn all streams, normed together without weights, m = fn(xn) has G weights of
// what is read, G of what comes back and G x G of what streams give one another, each times a scale of its kind, with
// biases. The input is the norm of the sum of sigmoid(m) + eps times the streams. Stream d becomes 2 sigmoid(m)_d times the
// output and the sum of all streams s times B_sd, where B is the softmax of m over d, plus eps, divided by its columns' sums,
// then `rounds` - 1 times by its rows' sums and its columns', each plus eps. Where streams give one another nothing ("iHC"),
// m has the first two kinds alone, and stream d gets `back` sigmoid(m)_d + eps times the output added.
#ifndef HEARTH_ENGINE_STREAMS_H
#define HEARTH_ENGINE_STREAMS_H

#include "engine/matmul.h"

// Weights of one place.
struct hearth_mixer {
    const struct hearth_weight *norm, *down, *up; // [G E] [M x G E] [G E x M]
    const struct hearth_weight *inject;           // [G x G E]; NULL: nothing comes back
    const struct hearth_weight *fn, *base,
        *scale; // the same where all streams weigh, in place of down, up and inject:
    bool last;  // [(2 + G) G x G E] [(2 + G) G] [3], 2 G and [2], or [G x G E] [G] [1]: nothing does
};

// Workspace; T tokens of a batch, G streams, M the rank.
struct hearth_streams_work {
    const struct hearth_context *c;
    struct hearth_matmul_work *matmul;
    float *normed; // [T x G E] then what their gates leave of them
    float *low;    // [T x M]
    float *gates;  // [T x G E]
    float *inject; // [T x G] weights of what comes back
    float *mean;   // [T x E] of the streams, for those that look ahead; what is read, before the norm
    float *mixes;  // [T x (2 + G) G] where all streams weigh
    float *ones;   // [G E] weights of their norm
};

// The caller sets c and matmul. Nothing where the model has one stream.
void hearth_streams_lay_out(struct hearth_streams_work *w, int max_rows, int max_steps,
                            struct hearth_arena *a);

// h [T x E] = the mix of the streams x [T x G E], for these rows; their weights stay for
// hearth_streams_add(). from: rows of x, where that is not the row of h; or NULL.
void hearth_streams_mix(struct hearth_streams_work *w, struct hearth_rows rows,
                        const struct hearth_mixer *mixer, const float *x, const int *from, float *h);

// A row: x [G E] += the part's output [E], by the weights of the last mix.
void hearth_streams_add(const struct hearth_streams_work *w, int row, const float *out, float *x);

// Once there is memory.
void hearth_streams_init(struct hearth_streams_work *w);

// All streams of x [G E] become the first one.
void hearth_streams_begin(const struct hearth_hparams *hp, float *x);

#endif
