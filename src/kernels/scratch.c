// SPDX-License-Identifier: MIT
// The scratch memory that the kernels of a table need.
#include "kernels/variants.h"

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
