// SPDX-License-Identifier: MIT
// Looking ahead: while a layer's neurons are awaited and computed, those that the next layer will probably
// want are read. Its predictor is asked with this layer's input, which differs little from its own. A wrong
// guess costs time, never a result: the next layer asks again with its own input. Where predictors look at
// this input anyway, the caller makes the next layer's choice now, and nothing is guessed.
#ifndef HEARTH_ENGINE_LOOK_AHEAD_H
#define HEARTH_ENGINE_LOOK_AHEAD_H

#include "engine/matmul.h"
#include "weights/sources.h"

// Scratch memory of one worker, for a cluster of neurons.
struct hearth_look_ahead_worker {
    uint32_t *list;
    const void **rows;
    float *scores;
};

// Rows that will probably go through one space of the next layer.
struct hearth_look_space {
    uint32_t id; // layer * max(1, X) + expert
    struct hearth_weight fc2;
    int first, n; // rows of the predictors' inner layer
};

// Where a predictor puts its first product: rows of its inner layer are `inner` [K], in which what it looks at stands
// before that, where fc2 wants it (model.h).
static inline struct hearth_product hearth_inner_product(const struct hearth_weight *fc1,
                                                         const struct hearth_weight *fc2, float *inner)
{
    return (struct hearth_product){.w = *fc1, .out = inner + (fc2->k - fc1->n), .out_stride = fc2->k};
}

// Makes a row of an inner layer of K numbers, R of which are products, ready for the second product: `seen` is what the
// predictor looks at.
void hearth_inner_prepare(const struct hearth_kernels *kernels, float *inner, void *acts, size_t k, size_t r,
                          const float *seen);

// The experts that some rows will probably use in the next layer.
struct hearth_look_guess {
    int n_rows;
    const int *ids;   // [n_rows x U] best first; of equal ones in any order
    const int *slots; // [n_rows x U] of a row: where the pass has its input, several times
};

// Workspace; the caller sets what stands before the buffers. T = HEARTH_STEP_ROWS, S spaces: 1 without
// experts.
struct hearth_look_ahead {
    const struct hearth_context *c;
    struct hearth_matmul_work *matmul;
    float threshold; // of the predictors' scores

    float *inner;    // [T x K] the predictors' inner layer
    uint8_t *acts;   // [T] acts blocks of it
    uint8_t *wanted; // [S x F]
    uint32_t *ids;   // [S x F] those of them
    struct hearth_look_ahead_worker *workers;
    int max_spaces; // S

    const struct hearth_source *source;
    struct hearth_look_space spaces[HEARTH_STEP_ROWS];
    size_t n_elsewhere;         // clusters of each space of which nothing is to be read, the first ones
    int n_spaces, n_rows;       // of these spaces, all in all
    int from[HEARTH_STEP_ROWS]; // rows of what predictors look at
    size_t r;                   // products in a row of the inner layer
};

// max_rows: that go through spaces in one step; inner: the widest inner layer.
void hearth_look_ahead_lay_out(struct hearth_look_ahead *w, size_t max_rows, size_t inner,
                               struct hearth_arena *a);

// Begins for a layer whose weights are in memory, and n_rows rows. Returns how many products are to be
// evaluated on what the predictor of the layer before gets, or on what there is before the layer's attention.
// 0: there is nothing to look at.
int hearth_look_ahead_begin(struct hearth_look_ahead *w, const struct hearth_sources *s, int layer,
                            int n_rows, enum hearth_guess_when when, struct hearth_product *products);
// The same for a model with experts; products[T].
int hearth_look_ahead_begin_experts(struct hearth_look_ahead *w, const struct hearth_sources *s, int layer,
                                    const struct hearth_look_guess *guess, struct hearth_product *products);
// Then, for each of w->n_rows rows: makes the predictors' inner layer ready. `seen`: what the products were evaluated
// on. Any thread.
void hearth_look_ahead_prepare(struct hearth_look_ahead *w, int row, const float *seen);
// Then, for each task: finds out which absent neurons of a cluster the layer will probably want. Any thread.
size_t hearth_look_ahead_tasks(const struct hearth_look_ahead *w);
void hearth_look_ahead_choose(struct hearth_look_ahead *w, size_t task, int worker);
// Or, without experts, where that is known: wanted[i] is whether neuron i of the cluster is.
void hearth_look_ahead_take(struct hearth_look_ahead *w, size_t cluster, const uint8_t *wanted, int worker);
// Then: has them read when the storage has nothing more urgent to do.
void hearth_look_ahead_end(struct hearth_look_ahead *w);

#endif
