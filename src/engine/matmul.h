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
    float *low;     // inputs of adapters' second matrices; none without adapters
    float **part;   // [workers] what adapters add to some rows
};

struct hearth_matmul_sizes {
    size_t rows, often; // of the widest input, and of that of a step
    size_t row_bytes;   // acts bytes of each
    size_t longest;     // row of a weight, elements
    size_t low;         // elements for adapters, of each row, in all products of one call together
    size_t most_ranks;  // of one matrix's adapters
};

// The caller sets `c`.
void hearth_matmul_lay_out(struct hearth_matmul_work *w, const struct hearth_matmul_sizes *sizes,
                           struct hearth_arena *a);

// out[t * w.n + r] = dot(row r of w, row first + t of x) for t < n, times *w.scales where it has some
struct hearth_product {
    struct hearth_weight w;
    float *out; // [n x w.n]
    int first, n;
    size_t out_stride; // floats from one token's output to the next; 0: w.n
    size_t row;        // of adapters' matrices: the one that is for the first row of w,
    int expert;        // and whose they are

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
