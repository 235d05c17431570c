// SPDX-License-Identifier: MIT
// PROMPT products of block formats, AVX-512 VNNI (see prompt_tmpl.h).
#include "kernels/x86/prompt_tmpl.h"

void hearth_kernels_init_prompt_avx512(struct hearth_kernels *t)
{
    init_prompt(t);
}
