// SPDX-License-Identifier: MIT
// The variants of 64-bit ARM.
#ifndef HEARTH_KERNELS_ARM_VARIANTS_ARM_H
#define HEARTH_KERNELS_ARM_VARIANTS_ARM_H

#include "kernels/variants.h"

// What every 64-bit ARM processor has.
void hearth_kernels_init_step_neon(struct hearth_kernels *t);
void hearth_kernels_init_prompt_neon(struct hearth_kernels *t);
void hearth_kernels_init_plain_neon(struct hearth_kernels *t);
void hearth_kernels_init_axpy_neon(struct hearth_kernels *t);
void hearth_kernels_init_vector_neon(struct hearth_kernels *t);
void hearth_kernels_init_attend_neon(struct hearth_kernels *t);

// SDOT: four products of bytes added to a sum of 32 bits.
void hearth_kernels_init_step_dotprod(struct hearth_kernels *t);
void hearth_kernels_init_prompt_dotprod(struct hearth_kernels *t);

// SMMLA: two rows of eight bytes times two columns of them.
void hearth_kernels_init_prompt_i8mm(struct hearth_kernels *t);

#endif
