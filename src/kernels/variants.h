// SPDX-License-Identifier: MIT
// The ladder of kernel variants. Each function overwrites the table entries that it does faster; nothing else
// in Hearth calls a variant directly.
#ifndef HEARTH_KERNELS_VARIANTS_H
#define HEARTH_KERNELS_VARIANTS_H

#include "kernels/kernels.h"

// Fills every entry that the number formats allow.
void hearth_kernels_init_matmul_c(struct hearth_kernels *t);
void hearth_kernels_init_axpy_c(struct hearth_kernels *t);
void hearth_kernels_init_vector_c(struct hearth_kernels *t);
void hearth_kernels_init_sparse_c(struct hearth_kernels *t);
// The reference by type: a STEP product and one row of an axpy (p is not 0).
void hearth_step_c(uint32_t type, float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,
                   size_t n_rows, const void *x, size_t x_stride, size_t n_tokens);
void hearth_axpy_row_c(uint32_t type, float *out, const uint8_t *row, size_t n, float p);

// Lets `init` overwrite entries of the table if all its products of block formats then have the reference's
// bits (a few milliseconds); else leaves the table as it is and says so through the log, calling what is not
// used `level`. Returns whether they are used.
bool hearth_kernels_adopt(struct hearth_kernels *table, void (*init)(struct hearth_kernels *),
                          const char *level);

#if defined(__x86_64__)
// x86-64-v3: AVX2, FMA, F16C, BMI2.
void hearth_kernels_init_vector_avx2(struct hearth_kernels *t);
void hearth_kernels_init_plain_avx2(struct hearth_kernels *t);
void hearth_kernels_init_step_avx2(struct hearth_kernels *t);
void hearth_kernels_init_neuron_avx2(struct hearth_kernels *t);
void hearth_kernels_init_prompt_avx2(struct hearth_kernels *t);
// The AVX-512 bundle: F, BW, VL, DQ, CD, VNNI, VBMI.
void hearth_kernels_init_vector_avx512(struct hearth_kernels *t);
void hearth_kernels_init_plain_avx512(struct hearth_kernels *t);
void hearth_kernels_init_step_avx512(struct hearth_kernels *t);
void hearth_kernels_init_rows_avx512(struct hearth_kernels *t);
void hearth_kernels_init_neuron_avx512(struct hearth_kernels *t);
void hearth_kernels_init_panel_avx512(struct hearth_kernels *t);
void hearth_kernels_init_attend_avx512(struct hearth_kernels *t);
// STEP products of a block format with several tokens; k is at least a group (512).
void hearth_step_many_avx512(uint32_t type, float *out, size_t out_stride, const void *w, size_t w_stride,
                             size_t k, size_t n_rows, const void *x, size_t x_stride, size_t n_tokens,
                             void *scratch);
// STEP products of a block format with any number of tokens.
void hearth_step_avx512(uint32_t type, float *out, size_t out_stride, const void *w, size_t w_stride,
                        size_t k, size_t n_rows, const void *x, size_t x_stride, size_t n_tokens,
                        void *scratch);
// Scratch bytes of these for rows of k elements, and of prompts, aligned to 64.
size_t hearth_many_scratch_avx512(size_t k);
size_t hearth_panel_scratch_avx512(void);
// AMX-TILE and AMX-BF16 on top of it; not built where the compiler does not know them (HEARTH_HAVE_AMX).
void hearth_kernels_init_tiles_amx(struct hearth_kernels *t);
size_t hearth_tiles_scratch_amx(void);
#endif

#endif
