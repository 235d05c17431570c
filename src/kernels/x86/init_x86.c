// SPDX-License-Identifier: MIT
// The levels of x86-64.
#include <stdatomic.h>

#include "base/cpu.h"
#include "kernels/x86/variants_x86.h"

static void init_avx2(struct hearth_kernels *t)
{
    hearth_kernels_init_step_avx2(t);
    hearth_kernels_init_prompt_avx2(t);
    hearth_kernels_init_plain_avx2(t);
    hearth_kernels_init_axpy_avx2(t);
    hearth_kernels_init_vector_avx2(t);
}

static void init_avxvnni(struct hearth_kernels *t)
{
    hearth_kernels_init_step_avxvnni(t);
    hearth_kernels_init_prompt_avxvnni(t);
}

static void init_avx512(struct hearth_kernels *t)
{
    hearth_kernels_init_step_avx512(t);
    hearth_kernels_init_step_rows_avx512(t);
    hearth_kernels_init_prompt_avx512(t);
    hearth_kernels_init_plain_avx512(t);
    hearth_kernels_init_axpy_avx512(t);
    hearth_kernels_init_vector_avx512(t);
    hearth_kernels_init_attend_avx512(t);
}

#if defined(HEARTH_HAVE_AMX)
// Tiles are compared with the reference once in a program's life, when they are first wanted.
static void init_amx(struct hearth_kernels *t)
{
    static atomic_bool proved;
    hearth_kernels_adopt_once(t, hearth_kernels_init_tiles_amx, hearth_kernels_init_prompt_amx, "AMX",
                              HEARTH_CPU_AMX, &proved);
}
#endif

const struct hearth_kernel_level hearth_kernel_levels[] = {
    {HEARTH_CPU_AVX2, init_avx2},
    {HEARTH_CPU_AVXVNNI, init_avxvnni},
    {HEARTH_CPU_AVX512, init_avx512},
#if defined(HEARTH_HAVE_AMX)
    {HEARTH_CPU_AMX, init_amx},
#endif
    {0, NULL},
};
