// SPDX-License-Identifier: MIT
// A session's insides, shared by the files of this room.
#ifndef HEARTH_ENGINE_SESSION_H
#define HEARTH_ENGINE_SESSION_H

#include "base/fault.h"
#include "base/threads.h"
#include "engine/kv.h"

struct hearth_product;     // engine/matmul.h
struct hearth_sparse_part; // engine/sparse.h
struct hearth_streaming;   // engine/streaming.h

// Where one token of a batch stands.
struct hearth_row {
    int seq, pos;
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

// Buffers of sparse feed-forward parts; NULL where no layer is one. T = HEARTH_SPARSE_ROWS, C clusters, R the
// widest rank.
struct hearth_sparse_work {
    struct hearth_sparse_part *all;   // [max(1, X)] of one evaluation
    struct hearth_sparse_part *parts; // [T] of one pass
    struct hearth_product *products;  // [T + 1]
    float *rank;                      // [T x R] the predictor's inner layer
    void *rank_acts;                  // [T] acts blocks of it
    float *partials;                  // [T x C x E] the clusters' sums
    uint8_t *used;                    // [T x C] whether a cluster has one
    float *seen;                      // [slots x E] what the experts' predictors look at
};

// Scratch memory of one worker.
struct hearth_worker {
    struct hearth_sparse_worker sparse;
    void *matmul; // hearth_kernels_scratch(longest row)
    uint8_t *row; // of the embedding table, when its rows come from the file
    // Attention; Q is the queries of a task: HEARTH_ATTN_BLOCK tokens' heads that share a key/value head.
    void *q;                      // [Q] queries as the key format wants them: f32 rows or acts blocks
    float *scores;                // [Q][HEARTH_KV_TILE]
    float *tile_out, *range_out;  // [Q][head_dim] weighted values of a tile, of a range
    float *tile_max, *tile_sum;   // [Q] softmax state of a tile,
    float *max, *sum;             // [Q] of a range so far,
    float *total_max, *total_sum; // [Q] of all ranges so far
};

// Prompt tokens that one attention task takes together, so that a tile of keys is read once for all of them.
#define HEARTH_ATTN_BLOCK 8
// Tiles that are added up on their own, so that a long context can be divided among threads.
#define HEARTH_ATTN_RANGE 16

// An expert and the rows of its tokens: slots [first, first + n).
struct hearth_expert_unit {
    int expert, first, n;
    struct hearth_weight gate, up, down; // down by neuron where the model has it so
};

// Which experts a batch uses. Each token has U = n_expert_used of X experts; a slot is one (expert, token)
// pair. An expert's tokens are consecutive rows, in their order.
struct hearth_expert_work {
    float *scores;                    // [T x X]
    int *ids;                         // [T x U] chosen experts, ascending
    float *weights;                   // [T x U] theirs
    int *slots;                       // [T x U] theirs
    int *counts;                      // [X] tokens of each expert
    int *next;                        // [X] slot for its next token, while they are being assigned
    int *order;                       // [X] the experts that are used, in the order of their slots
    struct hearth_expert_unit *units; // [X] the same with all that is to be known
    float *rows;                      // [T x U x E] by slot: the expert's input, later its output
    struct hearth_product *tasks;     // [2 X]
};

// Buffers of one evaluation, sized once; T = max_rows tokens.
struct hearth_work {
    int *tokens;             // [T]
    struct hearth_row *rows; // [T]
    float *x;                // [T x E] residual stream
    float *h;                // [T x E] normed
    float *q, *k, *v;        // [T x Q] [T x KV] [T x KV]
    float *att;              // [T x Q]
    float *att_shares;       // [sequences][ranges][heads][head_dim + 2] of a step: see attention.c
    float *branch;           // [T x E] attention's output in a parallel layer
    float *down;             // [T x E] of a prompt whose neurons come in pieces; [T x U x E] with experts
    float *gate, *up;        // [T x F]; by slot in a model with experts: [T x U x F]
    void *acts;              // [T] acts blocks of the widest input; [T x U] with experts
    float *cos_sin;          // [T x n_rot]
    float *inv_freq;         // [n_rot / 2]
    float *logits;           // [logit_rows x V]
    struct hearth_expert_work experts;
    struct hearth_sparse_work sparse;
    struct hearth_worker *workers;
};

// Something to be done beside the next matrix product, by whichever thread comes to it first.
struct hearth_aside {
    void (*fn)(void *arg); // NULL: nothing
    void *arg;
};

struct hearth_session {
    const struct hearth_model *model;
    struct hearth_weights weights;      // the model's, or this session's own when they stream
    struct hearth_streaming *streaming; // NULL: the model has all weights in memory
    struct hearth_pool *pool;
    struct hearth_fault fault; // of the evaluation that is going on
    struct hearth_aside aside;
    struct hearth_kv kv;
    uint64_t model_id; // hearth_model_fingerprint(), from the first time it is needed on; 0: not yet
    int n_ctx, n_ubatch, max_rows;
    int max_steps;                 // rows of a step
    enum hearth_sparsity sparsity; // never AUTO
    float predict_threshold, sparsity_threshold;
    float *thresholds; // [layers] in place of sparsity_threshold, which is above 0 then; or NULL
    int logit_rows;    // capacity of work.logits
    int have_logits;   // rows that hearth_logits() may give
    struct hearth_work work;
    struct hearth_region memory; // behind work
    struct hearth_stats stats;

    // For tests and profiles: told the experts of each row of a batch, layer by layer. Or NULL.
    void (*on_experts)(void *arg, int layer, struct hearth_row row, const int *ids, const float *weights,
                       int n);
    void *on_experts_arg;
    // The same: told each row's input of a feed-forward part (normed [E]) and the stream before its norm [E],
    // layer by layer, before the experts are chosen. Or NULL.
    void (*on_ffn)(void *arg, enum hearth_phase phase, int layer, struct hearth_row row, const float *normed,
                   const float *stream);
    void *on_ffn_arg;

    // For profiles: told what goes down, act [F] of one space, for each row of a batch, layer by layer, on
    // the thread that evaluates; in a model with experts once for each of a row's experts (else expert is 0).
    // Or NULL.
    void (*on_neurons)(void *arg, int layer, int expert, struct hearth_row row, const float *act);
    void *on_neurons_arg;
    // The same for steps with a sparsity threshold: told the activated gates [F] that decide. Or NULL.
    void (*on_gates)(void *arg, int layer, struct hearth_row row, const float *gates);
    void *on_gates_arg;

    struct hearth_tracing *tracing; // tracing.h; or NULL
};

// Evaluates work.tokens/work.rows[0..n) through all layers; positions must be reserved. work.x then holds the
// last layer's output. Can fail only where weights are read from the file meanwhile.
int hearth_forward(struct hearth_session *s, enum hearth_phase phase, int n, struct hearth_error *err);

// Final norm and head for rows [first, first + n) of work.x, n <= logit_rows: fills work.logits. Fails as the
// above.
int hearth_forward_logits(struct hearth_session *s, enum hearth_phase phase, int first, int n,
                          struct hearth_error *err);

// Causal attention of work.q over the KV cache into work.att, for layer `layer`, rows [0, n).
void hearth_attention(struct hearth_session *s, enum hearth_phase phase, int layer, int n);

// Feed-forward part of layer `layer`, dense or in experts, of rows [0, n): work.h to work.h. The bias of
// ffn_down is left to the caller.
void hearth_ffn(struct hearth_session *s, enum hearth_phase phase, int layer, int n);
void hearth_ffn_experts(struct hearth_session *s, enum hearth_phase phase, int layer, int n);

// Frequencies of the rotation, [n_rot / 2]: `factors` divides them, or is NULL.
void hearth_rope_frequencies(const struct hearth_hparams *hp, const float *factors, float *out);

// Row i of a matrix of rows of `width` floats.
static inline float *hearth_row_of(float *base, int i, int width)
{
    return base + (size_t)i * (size_t)width;
}

// Runs a task list on the session's threads; a single task runs at once on the calling thread.
static inline void hearth_run(struct hearth_session *s, hearth_task_fn fn, void *arg, int n_tasks)
{
    if (n_tasks == 1)
        fn(arg, 0, 0);
    else
        hearth_pool_run(s->pool, fn, arg, n_tasks);
}

#endif
