// SPDX-License-Identifier: MIT
// Matrix products of plain numbers, AVX-512 (see plain_tmpl.h).
#include "kernels/x86/plain_tmpl.h"

void hearth_kernels_init_plain_avx512(struct hearth_kernels *t)
{
    init_plain(t);
}
