// SPDX-License-Identifier: MIT
// Weight matrices times a batch of tokens, over all threads.
#ifndef HEARTH_ENGINE_MATMUL_H
#define HEARTH_ENGINE_MATMUL_H

#include "base/memory.h"
#include "engine/context.h"

// Workspace of products.
struct hearth_matmul_work {
    const struct hearth_context *c;
    uint8_t *acts;  // acts blocks of a product's input rows
    void **scratch; // [workers] hearth_kernels_scratch() of the longest row
};

// The caller sets `c`. rows: of the widest input, of row_bytes acts bytes each; often: of those of a step;
// longest: row of a weight, elements.
void hearth_matmul_lay_out(struct hearth_matmul_work *w, size_t rows, size_t often, size_t row_bytes,
                           size_t longest, struct hearth_arena *a);

// out[t * w.n + r] = dot(row r of w, row first + t of x) for t < n
struct hearth_product {
    struct hearth_weight w;
    float *out; // [n x w.n]
    int first, n;
    size_t out_stride; // floats from one token's output to the next; 0: w.n

    size_t chunk; // filled by hearth_matmul(): rows of w that one task takes,
    int end;      // and the first task number after the product's own
};

// A matrix, and what rows of an input are for it: acts blocks for block formats, else the plain numbers.
struct hearth_operand {
    const struct hearth_weight *w;
    const uint8_t *x;
    size_t x_stride; // bytes from row to row
};

static inline bool hearth_is_block_type(const struct hearth_weight *w)
{
    return hearth_type_info(w->type)->unit_elems != 0;
}

// From row `row` on of an input that there is as plain [w.k] and as acts blocks.
static inline struct hearth_operand hearth_operand_of(const struct hearth_weight *w, const float *plain,
                                                      const void *acts, int row)
{
    const bool block = hearth_is_block_type(w);
    const size_t stride = block ? hearth_acts_bytes(w->k) : w->k * sizeof(float);
    const uint8_t *base = block ? acts : (const void *)plain;
    return (struct hearth_operand){w, base + (size_t)row * stride, stride};
}

// Any number of products with rows of the same x [n_rows x k], in one task list. Uses work.acts for n_rows
// acts blocks when a weight has a block format.
void hearth_matmul(struct hearth_matmul_work *work, enum hearth_phase phase, struct hearth_product *products,
                   int n_products, const float *x, int n_rows);

// PROMPT phase: for each product, out[t] [w.k] = row first + t of act [w.n, act_stride apart] times w, which
// is down by neuron [w.n x w.k]: one sum per element, ascending over all neurons; with `add` it goes on from
// what is in out. `chunk` and `end` are overwritten.
void hearth_prompt_down(struct hearth_matmul_work *work, struct hearth_product *products, int n_products,
                        const float *act, size_t act_stride, bool add);

#endif
