// SPDX-License-Identifier: MIT
// Choosing kernel variants, once, from the CPU's flags.
#include "kernels/variants.h"

#include <stdatomic.h>
#include <string.h>

#include "base/cpu.h"

#if defined(HEARTH_HAVE_AMX)
// Tiles are held against the reference once in a program's life, when they are first asked for.
static void init_amx(struct hearth_kernels *table)
{
    static atomic_bool proved;
    if (atomic_load(&proved)) {
        hearth_kernels_init_tiles_amx(table);
    } else if (hearth_kernels_adopt(table, hearth_kernels_init_tiles_amx, "AMX")) {
        atomic_store(&proved, true);
    } else {
        hearth_cpu_distrust(HEARTH_CPU_AMX);
        table->cpu &= ~(unsigned)HEARTH_CPU_AMX;
    }
}
#endif

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
    hearth_kernels_init_attend_avx512(table);
#if defined(HEARTH_HAVE_AMX)
    if (cpu_flags & HEARTH_CPU_AMX)
        init_amx(table);
#endif
#endif
}

// Eight tokens prepared by the AVX-512 step kernels take 38 bytes an element of k, the AVX2 panel of sixteen
// rows 24.
size_t hearth_kernels_scratch(size_t k)
{
    const size_t plain = hearth_acts_padded(k) * 40 + 4096;
#if defined(__x86_64__)
    const size_t panel = hearth_panel_scratch_avx512(), many = hearth_many_scratch_avx512(k);
    size_t most = panel > many ? panel : many;
#if defined(HEARTH_HAVE_AMX)
    const size_t tiles = hearth_tiles_scratch_amx();
    most = tiles > most ? tiles : most;
#endif
    return most > plain ? most : plain;
#else
    return plain;
#endif
}
