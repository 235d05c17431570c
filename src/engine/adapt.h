// SPDX-License-Identifier: MIT
// What adapters add to products with the matrices that they change (struct hearth_change).
#ifndef HEARTH_ENGINE_ADAPT_H
#define HEARTH_ENGINE_ADAPT_H

#include "engine/matmul.h"

// Bytes of one of work.part.
size_t hearth_adapt_part_bytes(size_t most_ranks);

// After the products themselves: out[t] = fma(scale, B (A x_t), out[t]) for each change of a product's matrix,
// in their order. A and B are products of the phase with plain numbers. `chunk` and `end` are overwritten.
void hearth_adapt(struct hearth_matmul_work *work, enum hearth_phase phase, struct hearth_product *products,
                  int n_products, const float *x);

// The same of a row of the embedding table, x [E]: with STEP products, whatever the phase.
void hearth_adapt_embedding(const struct hearth_matmul_work *work, int token, int worker, float *x);

#endif
