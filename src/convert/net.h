// SPDX-License-Identifier: MIT
// A predictor's network while it is trained: z = fc2 . relu(fc1 . x) - HEARTH_NET_BIAS, by Adam, in float32. Of a
// *wide* one, z = fc2 . [x, relu(fc1 . x)] - HEARTH_NET_BIAS, and fc2 consists of signs, which share a size in each
// block of a row. Gradients of signs are taken for those of the numbers whose signs they are.
//
// Every number is one sum in a fixed order, whichever thread makes it: products are those of PROMPT
// (kernels.h), one fma after the other, ascending in what is summed over; all else is element by element. So
// results depend neither on threads nor on the CPU.
#ifndef HEARTH_CONVERT_NET_H
#define HEARTH_CONVERT_NET_H

#include "base/memory.h"
#include "base/threads.h"
#include "kernels/kernels.h"

// A neuron is worth computing when its output exceeds this. So an output of nothing says that it is not, and
// thresholds of use are above zero, which lets one serve all layers (train.c).
#define HEARTH_NET_BIAS 1.0f

// A network's sizes.
struct hearth_net_shape {
    size_t r;     // inner units
    size_t block; // of a wide one: signs that share a size, a divisor of E + R; else 0
};

// Sizes: E inputs, R inner units, F neurons, B rows of a batch; K = R, of a wide one E + R; S = K / block.
struct hearth_net {
    // The caller's, before hearth_net_lay_out(). Afterwards hearth_net_reset() is given one shape after the other.
    size_t e, f, b;
    struct hearth_net_shape narrow, wide; // the largest ones; without units: there are none
    const struct hearth_kernels *kernels;
    struct hearth_pool *pool;

    struct hearth_net_shape shape; // what it is now
    size_t k;
    float *w1, *w2;           // [R x E], [F x K]
    float *m1, *m2, *v1, *v2; // of Adam
    float *g1, *g2;           // gradients
    float *size;              // [F x S] of signs,
    float *ms, *vs, *gs;      // and the same of them
    float *x, *xt;            // [B x E], [E x B]
    float *h, *ht;            // [B x K], [K x B]
    float *dh, *dht;          // [B x R], [R x B]
    float *p, *pt;            // [B x F] outputs, then their gradients; [F x B]
    float *w2t;               // [K x F]
    uint8_t *codes;           // [B x F] what should come out (hearth_code())
    void **scratch;           // [workers]
    uint64_t step;
    float weights[256];           // of an active neuron by its code; hearth_net_weigh()
    _Atomic uint64_t found, mass; // of the step before: magnitudes of neurons above the bias, and of all
};

// Lays out all buffers; run once to measure and once to assign.
void hearth_net_lay_out(struct hearth_net *n, struct hearth_arena *a);

// Becomes a network of this shape, no larger than those that memory was laid out for, with random weights, which the seed
// gives.
void hearth_net_reset(struct hearth_net *n, struct hearth_net_shape shape, uint64_t seed);

// Of a wide network that was just reset: what w2 holds of inputs, which the caller may have set, becomes as large as it
// is to be to begin with, whatever it was.
void hearth_net_level(struct hearth_net *n);

// Of a wide network, what fc2 is: signs times sizes, to w2 [F x K].
void hearth_net_sign(struct hearth_net *n, float *w2);

// The first n_rows of x to p [n_rows x F], without the bias.
void hearth_net_forward(struct hearth_net *n, const float *w1, const float *w2, size_t n_rows);

// Computing a neuron costs as much as losing an activation of this magnitude, in units of hearth_code_mass().
void hearth_net_weigh(struct hearth_net *n, double price);

// One step of Adam with x and codes [n_rows]. Gradients are those at w1 and w2, which are the net's own weights or
// what rounding makes of them; then they may lie where gradients will be. Of a wide network, w2 is always that.
void hearth_net_train(struct hearth_net *n, const float *w1, const float *w2, size_t n_rows, float rate);

// ---- magnitudes of activations, as bytes: eighths of powers of two

// 0: not active.
uint8_t hearth_code(float magnitude);
// What a code stands for, in units of which sums are exact.
uint64_t hearth_code_mass(uint8_t code);

#endif
