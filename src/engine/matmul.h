// SPDX-License-Identifier: MIT
// Weight matrices times a batch of tokens, over all threads.
#ifndef HEARTH_ENGINE_MATMUL_H
#define HEARTH_ENGINE_MATMUL_H

#include "engine/session.h"

// out[t * w->n + r] = dot(row r of w, token t)
struct hearth_product {
    const struct hearth_weight *w;
    float *out; // [n_tokens x w->n]
};

// Several products (at most 4) of the same input x [n_tokens x k], in one task list. Uses work.acts when a
// weight has a block format.
void hearth_matmul(struct hearth_session *s, enum hearth_phase phase, const struct hearth_product *products,
                   int n_products, const float *x, int n_tokens);

#endif
