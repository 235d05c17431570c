// SPDX-License-Identifier: MIT
// Checkpoints whose matrices are in F8_E4M3 (a sign, four bits of exponent, three of mantissa) and have factors
// beside them: one for a matrix, one for each of its rows, or one for each block of rows and columns.
#ifndef HEARTH_CONVERT_HF_F8_H
#define HEARTH_CONVERT_HF_F8_H

#include "base/threads.h"
#include "convert/hf_tensors.h"

// Reads "quantization_config", or hf_quant_config.json, into m->f8. HEARTH_E_UNSUPPORTED: numbers in other formats, by name, but for
// MXFP4 in families that have it. HEARTH_E_FORMAT: blocks that cannot be.
int hearth_hf_f8_config(struct hearth_hf_model *m, struct hearth_error *err);

// Whether the numbers are in this format.
bool hearth_hf_is_f8(const struct hearth_source_tensor *t);
// Whether they are integers of four bits, eight in an I32 ("pack-quantized"), which have factors as well.
bool hearth_hf_is_packed(const struct hearth_hf_model *m, const struct hearth_source_tensor *t);

// Finds the factors of a matrix, or of several in one tensor, and checks that their shape fits. HEARTH_E_FORMAT,
// HEARTH_E_UNSUPPORTED.
int hearth_hf_f8_find(const struct hearth_hf_model *m, const struct hearth_checkpoint *c,
                      const struct hearth_source_tensor *t, const struct hearth_source_tensor **factors,
                      struct hearth_error *err);

// Whether a tensor of this name is about activations or caches alone, so that no number of the model depends on it.
bool hearth_hf_f8_is_needless(const struct hearth_hf_model *m, const char *name);

// Reads numbers of one tensor after the other. Begins as zeros but for the pool, which is the caller's.
struct hearth_hf_f8_reader {
    struct hearth_pool *pool;
    const struct hearth_source_tensor *from; // whose factors are here
    float *factors;
    uint64_t n_rows, n_cols;           // of a matrix
    uint64_t row_block, col_block;     // of one factor
    uint64_t factor_rows, factor_cols; // of a matrix
    bool one_for_all;                  // matrices
    bool packed;                       // two numbers in a byte
    uint8_t *bytes;
    size_t cap; // of bytes
};

// dst[0..n) = elements [first, first + n) of the piece's tensor, times their factors, in F32. HEARTH_E_IO,
// HEARTH_E_MEMORY.
int hearth_hf_f8_read(struct hearth_hf_f8_reader *r, const struct hearth_hf_model *m,
                      const struct hearth_hf_piece *p, uint64_t first, uint64_t n, float *dst,
                      struct hearth_error *err);
void hearth_hf_f8_reader_free(struct hearth_hf_f8_reader *r);

#endif
