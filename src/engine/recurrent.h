// SPDX-License-Identifier: MIT
// Layers that do not attend, but know of the tokens before a state of a fixed size (states.h): a short
// convolution over neighbouring tokens, then the gated delta rule, or a scan; or the convolution alone, with
// gates; or a scan alone, which forgets at rates that no token changes.
//
// A sequence's tokens change its state one after the other, in the same order of operations in prompts and in
// steps. So micro-batches, batch-mates and threads change no bit. Threads share heads, and the rows of their
// states.
#ifndef HEARTH_ENGINE_RECURRENT_H
#define HEARTH_ENGINE_RECURRENT_H

#include "engine/batch.h"
#include "engine/matmul.h"

// Workspace; T tokens of a batch, I projected elements, W values, H heads, as in struct hearth_layer.
struct hearth_recurrent_work {
    const struct hearth_context *c;
    const struct hearth_states *states;
    struct hearth_matmul_work *matmul;
    // [T x I] projected; then queries, keys and values; then what heads give, over values, but of a scan
    float *mixed;
    float *gate;                // [T x W] then what goes out
    float *decay;               // [T x H] how much of the state stays; or of each key, [T x W]
    float *low_fade, *low_gate; // [T x R] between the two steps of these and of gates, where there are two
    float *beta;                // [T x H] how much of what is new comes in
    float *both;                // [T x 2 H] products of the two, where they come together
    // Inputs of the last evaluation's steps, for sequences that are cut between them; max_kept 0: none are kept.
    int max_kept;
    float *kept_mixed;      // [layers x max_kept x I]
    float *kept_weights;    // [layers x max_kept x H + H, or W + H] those of decay and beta, or of both
    float *norm_q, *norm_k; // [dim] the same number: what makes of RMSNorm the norm that is wanted
    float *rates;           // [H] how fast heads forget, where no token changes it, in the first layer
};

// The caller sets c, states (open) and matmul. Nothing where the model has no such layers. Inputs are kept where there
// may be more steps than sequences.
void hearth_recurrent_lay_out(struct hearth_recurrent_work *w, int max_rows, int max_steps, int max_seqs,
                              struct hearth_arena *a);
void hearth_recurrent_init(struct hearth_recurrent_work *w);

// Projections of a class's rows of h [T x E], normed.
void hearth_recurrent_project(struct hearth_recurrent_work *w, struct hearth_rows rows, int layer,
                              const float *h);
// Takes the sequences of the batch, all classes of them, past their tokens.
void hearth_recurrent_mix(struct hearth_recurrent_work *w, const struct hearth_batch *b, int layer);
// The same for one sequence with the inputs that are kept of it, from step batch->kept on; nothing comes of it but the
// state.
void hearth_recurrent_again(struct hearth_recurrent_work *w, const struct hearth_batch *b, int layer);
// What comes of it for a class, to its rows of out [T x E].
void hearth_recurrent_output(struct hearth_recurrent_work *w, struct hearth_rows rows, int layer, float *out);

#endif
