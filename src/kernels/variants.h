// SPDX-License-Identifier: MIT
// The ladder of kernel variants. Each function overwrites the table entries that it does faster; nothing else in
// Hearth calls a variant directly.
#ifndef HEARTH_KERNELS_VARIANTS_H
#define HEARTH_KERNELS_VARIANTS_H

#include "kernels/kernels.h"

// Fills every entry that the number formats allow.
void hearth_kernels_init_matmul_c(struct hearth_kernels *t);
void hearth_kernels_init_axpy_c(struct hearth_kernels *t);
void hearth_kernels_init_vector_c(struct hearth_kernels *t);

#endif
