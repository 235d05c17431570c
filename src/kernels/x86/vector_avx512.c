// SPDX-License-Identifier: MIT
// Small vector operations, AVX-512 (see vector_tmpl.h).
#include "kernels/x86/lanes16.h"
#include "kernels/x86/variants_x86.h"

#include "kernels/vector_tmpl.h"

void hearth_kernels_init_vector_avx512(struct hearth_kernels *t)
{
    init_vector(t);
}
