// SPDX-License-Identifier: MIT
// What latent attention (struct hearth_latent) does beside attention: queries, in one step or two, what keys'
// and values' matrices do to each head's query and to what it got. A layer calls these in the order in which
// they stand here, with hearth_attention() before the last.
#ifndef HEARTH_ENGINE_LATENT_H
#define HEARTH_ENGINE_LATENT_H

#include "engine/context.h"
#include "engine/matmul.h"

// Workspace; T tokens of a batch. Empty in models with ordinary attention.
struct hearth_latent_work {
    const struct hearth_context *c;
    struct hearth_matmul_work *matmul;
    float *low;     // [T x q_rank] queries after the first of two steps
    float *heads;   // [T x heads x (still + n_rot)] queries, later [T x heads x value] values of each head
    void **scratch; // [workers] inputs of one head's product
};

// The caller sets c and matmul. max_steps: rows of the step class.
void hearth_latent_lay_out(struct hearth_latent_work *w, int max_rows, int max_steps, struct hearth_arena *a);

// The longest row that goes into a product of latent attention.
size_t hearth_latent_widest(const struct hearth_hparams *hp);

// The product that makes queries, or what they are made of, from the layer's normed input.
struct hearth_product hearth_latent_first(const struct hearth_latent_work *w, struct hearth_rows rows,
                                          int layer);

// Queries, where they take two steps, and n products more of what they are made of.
void hearth_latent_second(struct hearth_latent_work *w, struct hearth_rows rows, int layer,
                          const struct hearth_product *more, int n);

// Norms the latent vector of row `row`, k [rank + n_rot], and rotates its key and its queries. On any thread.
void hearth_latent_place(struct hearth_latent_work *w, int row, int layer, float *k, const float *cos_sin);

// Queries as they meet latent vectors: q [T x heads x (rank + n_rot)].
void hearth_latent_queries(struct hearth_latent_work *w, struct hearth_rows rows, int layer, float *q);

// Values of each head, to w->heads, from what attention gave: out [T x heads x rank].
void hearth_latent_values(struct hearth_latent_work *w, struct hearth_rows rows, int layer, const float *out);

#endif
