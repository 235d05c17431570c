// SPDX-License-Identifier: MIT
// STEP and PROMPT products of plain numbers, NEON (see plain_tmpl.h).
#include "kernels/arm/lanes16.h"
#include "kernels/arm/variants_arm.h"

#include "kernels/plain_tmpl.h"

void hearth_kernels_init_plain_neon(struct hearth_kernels *t)
{
    init_plain(t);
}
