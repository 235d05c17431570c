// SPDX-License-Identifier: MIT
// Choosing kernel variants, once, from the CPU's flags.
#include "kernels/variants.h"

#include <string.h>

static void init_c(struct hearth_kernels *t)
{
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

void hearth_kernels_raise_scratch(struct hearth_kernels *t, size_t (*need)(size_t k))
{
    size_t i = 0;
    while (i < HEARTH_SCRATCH_NEEDS - 1 && t->scratch_bytes[i] && t->scratch_bytes[i] != need)
        i++;
    t->scratch_bytes[i] = need;
}

size_t hearth_kernels_scratch(const struct hearth_kernels *t, size_t k)
{
    size_t most = 64; // so that those who allocate it get something
    for (size_t i = 0; i < HEARTH_SCRATCH_NEEDS && t->scratch_bytes[i]; i++) {
        const size_t need = t->scratch_bytes[i](k);
        most = need > most ? need : most;
    }
    return most;
}
