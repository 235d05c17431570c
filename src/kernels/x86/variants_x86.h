// SPDX-License-Identifier: MIT
// The x86-64 variants.
#ifndef HEARTH_KERNELS_X86_VARIANTS_X86_H
#define HEARTH_KERNELS_X86_VARIANTS_X86_H

#include "kernels/variants.h"

// x86-64-v3: AVX2, FMA, F16C, BMI2.
void hearth_kernels_init_step_avx2(struct hearth_kernels *t);
void hearth_kernels_init_prompt_avx2(struct hearth_kernels *t);
void hearth_kernels_init_plain_avx2(struct hearth_kernels *t);
void hearth_kernels_init_axpy_avx2(struct hearth_kernels *t);
void hearth_kernels_init_vector_avx2(struct hearth_kernels *t);

// AVX-VNNI on top of it.
void hearth_kernels_init_step_avxvnni(struct hearth_kernels *t);
void hearth_kernels_init_prompt_avxvnni(struct hearth_kernels *t);

// The AVX-512 bundle: F, BW, VL, DQ, CD, VNNI, VBMI.
void hearth_kernels_init_step_avx512(struct hearth_kernels *t);
void hearth_kernels_init_step_rows_avx512(struct hearth_kernels *t);
void hearth_kernels_init_prompt_avx512(struct hearth_kernels *t);
void hearth_kernels_init_plain_avx512(struct hearth_kernels *t);
void hearth_kernels_init_axpy_avx512(struct hearth_kernels *t);
void hearth_kernels_init_vector_avx512(struct hearth_kernels *t);
void hearth_kernels_init_attend_avx512(struct hearth_kernels *t);
// How STEP products of one token go through the rows of a matrix (step_avx512.c). init chooses by the CPU;
// checkkernels tries all of them. Thread-safe.
enum hearth_row_walk { HEARTH_WALK_BESIDE, HEARTH_WALK_IN_TURN, HEARTH_WALK_APART };
void hearth_kernels_walk_avx512(enum hearth_row_walk walk);
// PROMPT products of a block format.
void hearth_prompt_avx512(uint32_t type, float *out, size_t out_stride, const void *w, size_t w_stride,
                          size_t k, size_t n_rows, const void *x, size_t x_stride, size_t n_tokens,
                          void *scratch);
// STEP products of a block format with several tokens; k is at least a group (512). And the scratch bytes
// that they need.
void hearth_step_many_avx512(uint32_t type, float *out, size_t out_stride, const void *w, size_t w_stride,
                             size_t k, size_t n_rows, const void *x, size_t x_stride, size_t n_tokens,
                             void *scratch);
size_t hearth_step_many_scratch_avx512(size_t k);
// The same with a few tokens and rows of any length.
void hearth_step_few_avx512(uint32_t type, float *out, size_t out_stride, const void *w, size_t w_stride,
                            size_t k, size_t n_rows, const void *x, size_t x_stride, size_t n_tokens,
                            void *scratch);
size_t hearth_step_few_scratch_avx512(size_t k);

// AMX-TILE and AMX-BF16 on top of it; not built where the compiler does not know them (HEARTH_HAVE_AMX). The
// first function enters products by tiles, the second one those that use tiles only where these are faster.
void hearth_kernels_init_tiles_amx(struct hearth_kernels *t);
void hearth_kernels_init_prompt_amx(struct hearth_kernels *t);

#endif
