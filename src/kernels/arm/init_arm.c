// SPDX-License-Identifier: MIT
// The levels of 64-bit ARM. Those who wrote them had an emulator alone, so products of block formats are compared with
// the reference once in a program's life, when they are first wanted.
#include <stdatomic.h>

#include "base/cpu.h"
#include "kernels/arm/variants_arm.h"

static void products_neon(struct hearth_kernels *t)
{
    hearth_kernels_init_step_neon(t);
    hearth_kernels_init_prompt_neon(t);
}

static void products_dotprod(struct hearth_kernels *t)
{
    hearth_kernels_init_step_dotprod(t);
    hearth_kernels_init_prompt_dotprod(t);
}

static void init_neon(struct hearth_kernels *t)
{
    static atomic_bool proved;
    hearth_kernels_init_plain_neon(t);
    hearth_kernels_init_axpy_neon(t);
    hearth_kernels_init_vector_neon(t);
    hearth_kernels_init_attend_neon(t);
    hearth_kernels_adopt_once(t, products_neon, products_neon, "NEON", HEARTH_CPU_NEON, &proved);
}

static void init_dotprod(struct hearth_kernels *t)
{
    static atomic_bool proved;
    hearth_kernels_adopt_once(t, products_dotprod, products_dotprod, "dot product", HEARTH_CPU_DOTPROD,
                              &proved);
}

static void init_i8mm(struct hearth_kernels *t)
{
    static atomic_bool proved;
    hearth_kernels_adopt_once(t, hearth_kernels_init_prompt_i8mm, hearth_kernels_init_prompt_i8mm,
                              "matrix product", HEARTH_CPU_I8MM, &proved);
}

const struct hearth_kernel_level hearth_kernel_levels[] = {
    {HEARTH_CPU_NEON, init_neon},
    {HEARTH_CPU_DOTPROD, init_dotprod},
    {HEARTH_CPU_I8MM, init_i8mm},
    {0, NULL},
};
