// SPDX-License-Identifier: MIT
// Causal attention over the KV cache.
#ifndef HEARTH_ENGINE_ATTENTION_H
#define HEARTH_ENGINE_ATTENTION_H

#include "engine/blend.h"
#include "engine/choose.h"
#include "engine/context.h"
#include "engine/kv.h"
#include "engine/matmul.h"

// Tokens of a sequence that one attention task takes together, so that a tile of keys is read once for all of
// them.
#define HEARTH_ATTN_BLOCK 8
// Tiles that are added up on their own, so that a long context can be divided among threads.
#define HEARTH_ATTN_RANGE 16

// Scratch memory of one worker; Q is the queries of a task: HEARTH_ATTN_BLOCK tokens' heads that share a
// key/value head, or some of them.
struct hearth_attention_worker {
    void *q;                      // [Q] queries as the key format wants them: f32 rows or acts blocks
    float *scores;                // [Q][HEARTH_KV_TILE]
    uint8_t *listed;              // keys, then values of a tile of positions put side by side
    float *tile_out, *range_out;  // [Q][value_dim] weighted values of a tile, of a range
    float *tile_max, *tile_sum;   // [Q] softmax state of a tile,
    float *max, *sum;             // [Q] of a range so far,
    float *total_max, *total_sum; // [Q] of all ranges so far
};

// Workspace; T tokens of a batch.
struct hearth_attention_work {
    const struct hearth_context *c;
    const struct hearth_kv *kv;
    struct hearth_matmul_work *matmul;
    const struct hearth_choose_work *choose; // of which positions rows attend to
    const struct hearth_blend_work *blend;   // and of which blocks of positions
    float *q, *k, *v;                        // [T x Q] [T x KV] [T x KV]; no v with latent attention
    float *out;                              // [T x heads x value_dim]
    int *blocks;                             // [T + 1] first rows of blocks
    float *slopes;                           // [heads] of ALiBi
    float *shares;                           // [steps][ranges][heads][value_dim + 2]: see attention.c
    struct hearth_attention_worker *workers;
};

// The caller sets c, kv (open), matmul and choose. max_steps: rows of the step class.
void hearth_attention_lay_out(struct hearth_attention_work *w, int max_rows, int max_steps,
                              struct hearth_arena *a);

// Causal attention of work.q over the KV cache into work.out, for these rows.
void hearth_attention(struct hearth_attention_work *w, struct hearth_rows rows, int layer);

// How fast each head's scores fall with the distance, to slopes [heads]: 2^(-b (h + 1) / p) for the first p heads, the
// largest power of two that there are, then by odd numbers half as fast.
void hearth_attention_slopes(const struct hearth_hparams *hp, float *slopes);

#endif
