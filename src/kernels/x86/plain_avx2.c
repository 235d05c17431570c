// SPDX-License-Identifier: MIT
// Matrix products of plain numbers, AVX2 (see plain_tmpl.h).
#include "kernels/x86/plain_tmpl.h"

void hearth_kernels_init_plain_avx2(struct hearth_kernels *t)
{
    init_plain(t);
}
