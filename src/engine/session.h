// SPDX-License-Identifier: MIT
// A session's insides, shared by the files of this room.
#ifndef HEARTH_ENGINE_SESSION_H
#define HEARTH_ENGINE_SESSION_H

#include "base/threads.h"
#include "engine/kv.h"

// Where one token of a batch stands.
struct hearth_row {
    int seq, pos;
};

// Scratch memory of one worker.
struct hearth_worker {
    void *matmul;     // hearth_kernels_scratch(longest row)
    float *scores;    // [group][HEARTH_KV_TILE] of one token's query heads that share a key/value head
    float *tile_out;  // [head_dim] a tile's weighted values
    float *max, *sum; // [HEARTH_ATTN_BLOCK][group] running softmax state
    void *q_acts;     // [HEARTH_ATTN_BLOCK][group] quantised queries (block-format keys only)
};

// Prompt tokens that one attention task takes together, so that a tile of keys is read once for all of them.
#define HEARTH_ATTN_BLOCK 8

// Buffers of one evaluation, sized once; T = max_rows tokens.
struct hearth_work {
    int *tokens;             // [T]
    struct hearth_row *rows; // [T]
    float *x;                // [T x E] residual stream
    float *h;                // [T x E] normed
    float *q, *k, *v;        // [T x Q] [T x KV] [T x KV]
    float *att;              // [T x Q]
    float *gate, *up;        // [T x F]
    void *acts;              // [T] acts blocks of the widest input
    float *cos_sin;          // [T x n_rot]
    float *inv_freq;         // [n_rot / 2]
    float *logits;           // [logit_rows x V]
    struct hearth_worker *workers;
};

struct hearth_session {
    const struct hearth_model *model;
    struct hearth_pool *pool;
    struct hearth_kv kv;
    int n_ctx, n_ubatch, max_rows;
    int logit_rows;  // capacity of work.logits
    int have_logits; // rows that hearth_logits() may give
    struct hearth_work work;
    struct hearth_region memory; // behind work
    struct hearth_stats stats;
};

// Evaluates work.tokens/work.rows[0..n) through all layers; positions must be reserved. work.x then holds the
// last layer's output.
void hearth_forward(struct hearth_session *s, enum hearth_phase phase, int n);

// Final norm and head for rows [first, first + n) of work.x, n <= logit_rows: fills work.logits.
void hearth_forward_logits(struct hearth_session *s, enum hearth_phase phase, int first, int n);

// Causal attention of work.q over the KV cache into work.att, for layer `layer`, rows [0, n).
void hearth_attention(struct hearth_session *s, enum hearth_phase phase, int layer, int n);

// Runs a task list on the session's threads; a single task runs at once on the calling thread.
static inline void hearth_run(struct hearth_session *s, hearth_task_fn fn, void *arg, int n_tasks)
{
    if (n_tasks == 1)
        fn(arg, 0, 0);
    else
        hearth_pool_run(s->pool, fn, arg, n_tasks);
}

#endif
