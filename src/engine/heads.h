// SPDX-License-Identifier: MIT
// A token's heads between projection and use: queries, keys and values, D elements each. Threads: tasks of one evaluation
// may prepare different rows at the same time.
#ifndef HEARTH_ENGINE_HEADS_H
#define HEARTH_ENGINE_HEADS_H

#include <stdbool.h>

struct hearth_hparams;
struct hearth_session;
struct hearth_weight;

// Queries or keys x [n_heads x D] of a layer: bias, limit, norm, rotation by cos_sin, or rotation before the norm. NULL: they
// do not rotate.
void hearth_heads_prepare(const struct hearth_session *s, int layer, float *x, int n_heads,
                          const struct hearth_weight *bias, const struct hearth_weight *head_norm,
                          const float *cos_sin);

// RMSNorm of each of x [n_heads x dim], with the same weights [dim].
void hearth_heads_norm(const struct hearth_session *s, float *x, int n_heads, int dim, const float *weights);

// n elements of queries, keys or values stay within the model's limit, where it has one.
void hearth_heads_limit(const struct hearth_hparams *hp, float *x, int n);

// Queries far from the beginning grow, so that attention over many positions stays as sharp ("Llama 4", and Ministral 3):
// whether a layer's do, by how much at a position, and n elements of one that is there.
bool hearth_heads_do_grow(const struct hearth_hparams *hp, int layer);
float hearth_heads_growth(const struct hearth_hparams *hp, int pos);
void hearth_heads_grow(const struct hearth_hparams *hp, int layer, int pos, float *q, int n);

#endif
