// SPDX-License-Identifier: MIT
// Choosing kernel variants, once, from the CPU's flags.
#include "kernels/variants.h"
#include "quant/grids.h"

#include <string.h>

static void init_c(struct hearth_kernels *t)
{
    hearth_grids_fill();
    hearth_kernels_init_step_c(t);
    hearth_kernels_init_prompt_c(t);
    hearth_kernels_init_plain_c(t);
    hearth_kernels_init_axpy_c(t);
    hearth_kernels_init_vector_c(t);
}

void hearth_kernels_init(struct hearth_kernels *table, unsigned cpu_flags)
{
    memset(table, 0, sizeof *table);
    table->cpu = cpu_flags;
    init_c(table);
    for (const struct hearth_kernel_level *level = hearth_kernel_levels; level->init; level++)
        if (cpu_flags & level->flag)
            level->init(table);
}
