// SPDX-License-Identifier: MIT
// Weight matrices times a batch of tokens, over all threads.
#ifndef HEARTH_ENGINE_MATMUL_H
#define HEARTH_ENGINE_MATMUL_H

#include "engine/session.h"

// out[t * w.n + r] = dot(row r of w, row first + t of x) for t < n
struct hearth_product {
    struct hearth_weight w;
    float *out; // [n x w.n]
    int first, n;
    size_t out_stride; // floats from one token's output to the next; 0: w.n

    size_t chunk; // filled by hearth_matmul(): rows of w that one task takes,
    int end;      // and the first task number after the product's own
};

// Any number of products with rows of the same x [n_rows x k], in one task list. Uses work.acts for n_rows
// acts blocks when a weight has a block format.
void hearth_matmul(struct hearth_session *s, enum hearth_phase phase, struct hearth_product *products,
                   int n_products, const float *x, int n_rows);

#endif
