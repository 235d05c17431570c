// SPDX-License-Identifier: MIT
// The tensors of the GGUF that a checkpoint becomes, and where in the checkpoint their numbers are.
#ifndef HEARTH_CONVERT_HF_TENSORS_H
#define HEARTH_CONVERT_HF_TENSORS_H

#include "convert/hf_model.h"

// A matrix [rows][cols] within a tensor of the checkpoint; a vector is a column.
struct hearth_hf_piece {
    const struct hearth_source_tensor *from;
    // Scales of `from`, whose numbers are MXFP4 with two in a byte; they lie at the same places. NULL: it has plain
    // numbers.
    const struct hearth_source_tensor *scales;
    // Factors of `from`, whose numbers are F8_E4M3. NULL: it has plain numbers.
    const struct hearth_source_tensor *factors;
    bool fp4;       // `scales` are of NVFP4: in F8_E4M3, of 16 numbers each
    uint64_t first; // element of `from`
    uint64_t rows, cols;
    uint32_t step;   // so many rows of `from` for one of these; where columns become rows, columns
    uint64_t stride; // elements of `from` from one of these rows to the next
};

struct hearth_hf_tensor {
    char name[64];
    uint32_t n_dims;
    uint64_t ne[4];
    bool is_vectors;              // a vector, or one for each expert
    enum hearth_hf_order order;   // of the rows of each piece; halves are pieces of their own, in order
    size_t first_piece, n_pieces; // one after the other
    uint64_t n_zero;              // rows of zeros behind them
    const float *values;          // numbers that are in no file [ne[0]]; then there are no pieces
};

struct hearth_hf_tensors {
    struct hearth_hf_tensor *items;
    size_t n, cap;
    struct hearth_hf_piece *pieces;
    size_t n_pieces, cap_pieces;
    float *rope_factors; // NULL: none
    float **owned;       // numbers of tensors that are in no file, beside these
    size_t n_owned;
    bool has_predictors;
};

// Whether the checkpoint has the layers that guess tokens ahead of which config.json speaks: trained variants may have
// lost them.
bool hearth_hf_has_extra(const struct hearth_hf_model *m, const struct hearth_checkpoint *c);

// Finds all tensors of the model, and checks their shapes and that the checkpoint has no others.
// HEARTH_E_FORMAT: a tensor is missing, or has another shape; HEARTH_E_UNSUPPORTED: one has no place in the
// model, or numbers in a format that cannot be converted; HEARTH_E_MEMORY. *out borrows from both, and is the
// caller's to free in any case.
int hearth_hf_tensors_find(struct hearth_hf_tensors *out, const struct hearth_hf_model *m,
                           const struct hearth_checkpoint *c, struct hearth_error *err);
void hearth_hf_tensors_free(struct hearth_hf_tensors *t);

// The row of a piece that comes at row i of the tensor's part that is made of it. Not for HEARTH_HF_COLUMNS.
uint64_t hearth_hf_source_row(const struct hearth_hf_model *m, enum hearth_hf_order order, uint64_t i);
// The same of columns.
uint64_t hearth_hf_source_column(const struct hearth_hf_model *m, enum hearth_hf_order order, uint64_t i);

#endif
