// SPDX-License-Identifier: MIT
// Attention to positions that have one vector, key and value in one, which all heads share: what it does beside attention.
// Queries are made in two steps, each head is normed without weights. The last elements of queries and vectors rotate; as
// these come back among what attention gives, that is rotated back. Groups of heads are made narrow, each by a matrix of its
// own, before the output's matrix. A layer calls these in the order in which they stand here, with hearth_attention() before
// the last.
#ifndef HEARTH_ENGINE_ONE_VECTOR_H
#define HEARTH_ENGINE_ONE_VECTOR_H

#include "engine/context.h"
#include "engine/matmul.h"

// Workspace; T tokens of a batch. Empty in other models.
struct hearth_one_vector_work {
    const struct hearth_context *c;
    struct hearth_matmul_work *matmul;
    const float *ones; // [D] weights of norms that have none
    float *low;        // [T x q_rank] queries after the first step
    float *narrow;     // [T x groups out_rank]
    float **turned;    // [workers][n_rot] a rotation back
};

// The caller sets c, matmul and ones. max_steps: rows of the step class.
void hearth_one_vector_lay_out(struct hearth_one_vector_work *w, int max_rows, int max_steps,
                               struct hearth_arena *a);

// The product that begins queries, from the layer's normed input.
struct hearth_product hearth_one_vector_first(const struct hearth_one_vector_work *w, struct hearth_rows rows,
                                              int layer);
// The second step, to q [T x heads x D]; with it `more` products of the same input, of which there is room for one before
// them.
void hearth_one_vector_second(struct hearth_one_vector_work *w, struct hearth_rows rows, int layer, float *q,
                              struct hearth_product *products, int more);

// Norms and rotates a row's queries q [heads x D] and its vector k [D]. On any thread.
void hearth_one_vector_place(const struct hearth_one_vector_work *w, int layer, float *q, float *k,
                             const float *cos_sin);

// Rotates what attention gave back, out [T x heads x D], and makes it narrow: the result is w->narrow. q [T x heads x D] is
// overwritten. cos_sin [T x n_rot]: rows' rotations.
void hearth_one_vector_narrow(struct hearth_one_vector_work *w, struct hearth_rows rows, int layer,
                              const float *out, float *q, const float *cos_sin);

#endif
