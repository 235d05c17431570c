// SPDX-License-Identifier: MIT
// A session's insides: for session.c, evaluate.c, turn.c, replay.c, forward.c, by_layer.c, rope.c, kv_file.c and
// kv_block.c alone, and for tests.
#ifndef HEARTH_ENGINE_SESSION_H
#define HEARTH_ENGINE_SESSION_H

#include "engine/attention.h"
#include "engine/batch.h"
#include "engine/blend.h"
#include "engine/choose.h"
#include "engine/ffn.h"
#include "engine/grams.h"
#include "engine/kv.h"
#include "engine/latent.h"
#include "engine/one_vector.h"
#include "engine/placement.h"
#include "engine/predict.h"
#include "engine/recurrent.h"
#include "engine/streams.h"

struct hearth_tracing; // engine/tracing.h
struct hearth_offload; // engine/offload.h
struct hearth_tail;    // engine/tail.c

// Buffers of one evaluation, sized once; T = max_rows tokens.
struct hearth_work {
    float *x;                                // [T x E] residual stream; or several of them
    float *h;                                // [T x E] normed; after the layers, what the final norm gives
    float *branch;                           // [T x E] attention's output in a parallel layer
    float *cos_sin;                          // [T x n_rot]
    float *inv_freq;                         // [n_rot / 2]
    float *cos_sin_window, *inv_freq_window; // the same of layers with a window, where they differ
    float *ones;             // [D], or [E] where no norm has any: weights of norms that have none
    float *token_layers;     // [T x L P] what tokens give each layer
    float *token_gate;       // [T x P] of one layer
    float **token_row;       // [workers][L P] of its table
    float *logits;           // [logit_rows x V]
    double *pooled;          // [E] of hidden states (pooling.h)
    float *nextn_pair;       // [T x 2 E] of a layer that guesses ahead: what its input is made of
    uint8_t **embedding_row; // [workers] of the table, when its rows come from the file
    struct hearth_matmul_work matmul;
    float *q_gate; // [T x 2 Q] of gated attention: each head's queries, then what gates its output
    float *gate;   // [T x Q] [T x heads] of layers with an attn_gate
    struct hearth_attention_work attention;
    struct hearth_latent_work latent;
    struct hearth_recurrent_work recurrent;
    struct hearth_streams_work streams;
    struct hearth_predict_work predict;
    struct hearth_choose_work choose;
    struct hearth_grams_work grams;
    struct hearth_blend_work blend;
    struct hearth_one_vector_work one_vector;
    struct hearth_ffn_work ffn;
};

// Of the call that evaluates: a prompt takes several evaluations, else there is one.
struct hearth_session_progress {
    bool (*fn)(void *arg, float share); // or NULL
    void *arg;
    int before, rows, all; // rows of earlier evaluations, of this one, and of all
};

// What an evaluation of a layer that guesses ahead is given (nextn.h), by the caller's row.
struct hearth_nextn {
    const float *embds;         // [rows x E]
    const float *const *states; // [rows][E]
};

struct hearth_session {
    const struct hearth_model *model;
    struct hearth_sources *sources;    // of weights
    struct hearth_sources_user user;   // what it was joined with
    struct hearth_placement placement; // of one that is only measured
    struct hearth_pool *pool;
    struct hearth_fault fault; // of the evaluation that is going on
    struct hearth_deferred deferred;
    struct hearth_probes probes;
    struct hearth_context context; // of all these
    struct hearth_sparse_mode mode;
    struct hearth_kv kv;
    _Atomic uint64_t model_id; // hearth_model_fingerprint(), from the first time it is needed on; 0: not yet
    int n_ctx, n_ubatch;
    struct hearth_batch_limits limits;
    struct hearth_batch batch; // that is being evaluated, or was
    struct hearth_batch again; // takes its place while tokens are evaluated again (replay.c)
    struct hearth_work work;
    struct hearth_region memory, rows_memory; // behind work
    struct hearth_arena_rows rows;            // of these: where a budget lends them
    struct hearth_stats stats;
    struct hearth_tracing *tracing; // or NULL
    struct hearth_offload *offload; // the first of its devices; or NULL
    struct hearth_session_progress progress;
    struct hearth_tail *tail;  // states that guesses ahead begin with (tail.h); or NULL
    struct hearth_nextn nextn; // of a layer that guesses ahead
    bool by_layer;             // it has the weights (by_layer.h)
    size_t by_layer_width;     // and then, hearth_by_layer_width()
    bool inexact;              // its numbers may be those of a device that has other ones
};

// What a session would take besides weights, without taking it: there may be less memory than that here.
// The errors of opening one, but for HEARTH_E_MEMORY of what is large.
int hearth_session_measure(struct hearth_sources_user *out, const struct hearth_model *model,
                           const struct hearth_session_params *params, struct hearth_error *err);

// hearth_model_fingerprint() of its model, which is worked out once. Thread-safe.
int hearth_session_model_id(struct hearth_session *s, uint64_t *id, struct hearth_error *err);

// The numeric law of what it keeps, for files: one that no other session has where a device may have other numbers.
uint32_t hearth_session_law(const struct hearth_session *s);

// From hearth_turn_begin() to hearth_turn_end() the weights are this session's, unless it fails.
int hearth_turn_begin(struct hearth_session *s, struct hearth_error *err);
void hearth_turn_end(struct hearth_session *s);

// Before tokens are added to these sequences, which there are: evaluates those again that their states do not
// know (states.h). Where it fails, sequences are as they were.
int hearth_replay(struct hearth_session *s, const struct hearth_batch_row *rows, int n,
                  struct hearth_error *err);

// Takes the batch through all layers; work.x then holds the last one's output. HEARTH_E_INTERRUPTED when it
// is cancelled; HEARTH_E_IO, only where weights are read from the file meanwhile.
int hearth_forward(struct hearth_session *s, struct hearth_error *err);

// Takes a batch whose inputs of recurrent layers are kept through these, as far as their states need it. Fails as
// hearth_forward().
int hearth_forward_states(struct hearth_session *s, struct hearth_error *err);

// The parts of it: the batch's input to the first layer, to work.x; where its rows are rotated to, before any
// layer; a layer whose weights are in memory, on work.x.
void hearth_forward_embed(struct hearth_session *s);
void hearth_forward_place(struct hearth_session *s);
// A token's embedding [E], as the first layer gets it, but for the position.
void hearth_forward_embed_token(struct hearth_session *s, int token, int worker, float *out);
void hearth_forward_layer(struct hearth_session *s, int layer);

// The final norm of n rows of the batch: row k of work.h becomes that of row wanted[k] of work.x.
void hearth_forward_norm(struct hearth_session *s, const int *wanted, int n);

// The head: row k of work.logits becomes that of row k of work.h, at most limits.logit_rows. classes: rows
// [first, first + n) are of the class. Fails as hearth_forward().
int hearth_forward_head(struct hearth_session *s, const struct hearth_rows *classes, int n_classes,
                        struct hearth_error *err);

#endif
