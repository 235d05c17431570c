// SPDX-License-Identifier: MIT
// Small vector operations, NEON (see vector_tmpl.h).
#include "kernels/arm/lanes16.h"
#include "kernels/arm/variants_arm.h"

#include "kernels/vector_tmpl.h"

void hearth_kernels_init_vector_neon(struct hearth_kernels *t)
{
    init_vector(t);
}
