// SPDX-License-Identifier: MIT
// Choosing kernel variants, once, from the CPU's flags.
#include "kernels/variants.h"

#include <string.h>

#include "base/cpu.h"

void hearth_kernels_init(struct hearth_kernels *table, unsigned cpu_flags)
{
    memset(table, 0, sizeof *table);
    table->cpu = cpu_flags;
    hearth_kernels_init_matmul_c(table);
    hearth_kernels_init_axpy_c(table);
    hearth_kernels_init_vector_c(table);
}

// A panel of 32 unpacked rows (int8 and, per unit of 16, a scale and a minimum) is the largest need.
size_t hearth_kernels_scratch(size_t k)
{
    size_t kp = hearth_acts_padded(k);
    return 32 * (kp + kp / 16 * 2 * sizeof(float)) + 4096;
}
