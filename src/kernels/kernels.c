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
    hearth_kernels_init_sparse_c(table);
#if defined(__x86_64__)
    if (!(cpu_flags & HEARTH_CPU_AVX2))
        return;
    hearth_kernels_init_vector_avx2(table);
    hearth_kernels_init_plain_avx2(table);
    hearth_kernels_init_step_avx2(table);
    hearth_kernels_init_neuron_avx2(table);
    hearth_kernels_init_prompt_avx2(table);
    if (!(cpu_flags & HEARTH_CPU_AVX512))
        return;
    hearth_kernels_init_vector_avx512(table);
    hearth_kernels_init_plain_avx512(table);
    hearth_kernels_init_step_avx512(table);
    hearth_kernels_init_rows_avx512(table);
    hearth_kernels_init_neuron_avx512(table);
    hearth_kernels_init_panel_avx512(table);
#endif
}

// Eight tokens prepared by the AVX-512 step kernels take 38 bytes an element of k, the AVX2 panel of sixteen
// rows 24.
size_t hearth_kernels_scratch(size_t k)
{
    const size_t plain = hearth_acts_padded(k) * 40 + 4096;
#if defined(__x86_64__)
    const size_t panel = hearth_panel_scratch_avx512(), many = hearth_many_scratch_avx512(k);
    const size_t most = panel > many ? panel : many;
    return most > plain ? most : plain;
#else
    return plain;
#endif
}
