// SPDX-License-Identifier: MIT
// Feed-forward parts by neuron: computing only those that a token uses, and down stored by neuron.
#ifndef HEARTH_ENGINE_SPARSE_H
#define HEARTH_ENGINE_SPARSE_H

#include "base/memory.h"
#include "engine/matmul.h"
#include "engine/session.h"
#include "sparse/space.h"

// Rows (tokens, or tokens of an expert) that go through a layer together.
#define HEARTH_SPARSE_ROWS 16

// Rows [first, first + n) of a layer's input go through this space.
struct hearth_sparse_part {
    struct hearth_space space;
    struct hearth_weight fc1, fc2; // its predictor, or none
    size_t always;                 // neurons computed whatever the predictor says
    float crossover;               // share of a cluster's neurons from which on its dense product is faster
    int expert, first, n;
    uint32_t space_id; // layer * max(1, X) + expert
};

// What the options and the file make of params->sparsity; fills the session's fields of that name.
int hearth_sparse_choose(struct hearth_session *s, const struct hearth_session_params *params,
                         struct hearth_error *err);

// Buffers for it, and of one worker (in the two passes of session.c).
void hearth_sparse_lay_out(struct hearth_session *s, struct hearth_arena *a);
struct hearth_sparse_worker hearth_sparse_lay_out_worker(const struct hearth_session *s,
                                                         struct hearth_arena *a);

// The widest rank of the predictors in use, or 0.
size_t hearth_sparse_rank(const struct hearth_session *s);

// Whether steps of this layer go by neuron.
bool hearth_sparse_layer(const struct hearth_session *s, int layer);

// A part for the space of a layer and expert (0 in a dense model), with its predictor where it is in use;
// rows are left to the caller.
struct hearth_sparse_part hearth_sparse_part_of(const struct hearth_session *s, int layer, int expert);

// STEP phase: parts of layer `layer` on x [n_rows x E], sorted by `first` and side by side, to out
// [n_rows x E]; n_rows is the end of the last part. Predictors get the rows of `seen` (x itself where they
// look at the normed input). `act` [n_rows x F] gets what goes down where that is not stored by neuron, and
// out is left alone then, and where session.on_neurons wants it. `gates` [n_rows x F], or NULL, gets the
// activated gates where a sparsity threshold decides.
void hearth_sparse_run(struct hearth_session *s, int layer, const struct hearth_sparse_part *parts,
                       int n_parts, const float *x, const float *seen, float *out, float *act, float *gates);

// PROMPT phase: for each product, out[t] [w.k] = row first + t of act [w.n, act_stride apart] times w, which
// is down by neuron [w.n x w.k]: one sum per element, ascending over all neurons; with `add` it goes on from
// what is in out. `chunk` and `end` are overwritten.
void hearth_prompt_down(struct hearth_session *s, struct hearth_product *products, int n_products,
                        const float *act, size_t act_stride, bool add);

#endif
