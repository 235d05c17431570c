// SPDX-License-Identifier: MIT
// What one layer of a model with SiLU or GELU becomes when most of its neurons are off for a token: docs/sparse.md, "Models whose
// neurons were always active". All sums are in a fixed order, so results depend neither on threads nor on the CPU.
#ifndef HEARTH_CONVERT_SPARSIFY_LAYER_H
#define HEARTH_CONVERT_SPARSIFY_LAYER_H

#include "base/memory.h"
#include "base/threads.h"
#include "model/model.h"

// Sizes: E inputs, F neurons, S samples of the layer's input.
struct hearth_sparsify_layer {
    // The caller's, before hearth_sparsify_layer_lay_out().
    size_t e, f, s;
    enum hearth_activation activation; // one that hearth_sparsify_can() says yes to
    const struct hearth_kernels *kernels;
    struct hearth_pool *pool;

    float *x;         // [S x E] the caller's: what the feed-forward part reads
    float *gate, *up; // [F x S] products
    float *c;         // [F] what an activated gate nearly is where a neuron is off
    float *bias, *slope,
        *p;         // [F] it is on where gate + bias > 0, and gives c + slope * (gate + bias) + p there
    float *heights; // [F x n_heights] how far some samples' activated gates are above c, to be sorted
    size_t n_heights;
    float *linear; // [E x E]
    void **worker; // [workers] memory of its own for each
};

// Whether it is an activation that has one lowest point, and rises right of it like a line: SiLU, or one of GELU.
bool hearth_sparsify_can(enum hearth_activation activation);

// Lays out all buffers; run once to measure and once to assign.
void hearth_sparsify_layer_lay_out(struct hearth_sparsify_layer *l, struct hearth_arena *a);

// From the first n_samples of x and the layer's matrices ([F x E] [F x E] [E x F], in memory): c, bias, slope, p and
// linear. So many of the samples have a neuron on, over all neurons: density, 0..1, or fewer where more would not help.
// False: weights or samples are not finite.
bool hearth_sparsify_layer_fit(struct hearth_sparsify_layer *l, const struct hearth_weight *gate,
                               const struct hearth_weight *up, const struct hearth_weight *down,
                               size_t n_samples, double density);

// By what the rows of gate and up, and the bias, are multiplied so that a neuron gives jump_relu(gate + bias) * up.
static inline float hearth_sparsify_gate_scale(const struct hearth_sparsify_layer *l, size_t neuron)
{
    return l->slope[neuron] / l->p[neuron];
}
static inline float hearth_sparsify_up_scale(const struct hearth_sparsify_layer *l, size_t neuron)
{
    return l->p[neuron];
}

#endif
