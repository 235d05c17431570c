// SPDX-License-Identifier: MIT
// STEP and PROMPT products of plain numbers, AVX-512 (see plain_tmpl.h).
#include "kernels/x86/lanes16.h"
#include "kernels/x86/variants_x86.h"

#include "kernels/plain_tmpl.h"

void hearth_kernels_init_plain_avx512(struct hearth_kernels *t)
{
    init_plain(t);
}
