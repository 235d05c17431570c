// SPDX-License-Identifier: MIT
// A processor whose instructions Hearth does not know: it runs the C kernels.
#include "base/cpu.h"
#include "base/cpu_levels.h"

#define LEVELS(X)
HEARTH_CPU_TABLE(LEVELS)

bool hearth_cpu_reads_streams(void)
{
    return false;
}

void hearth_cpu_read_brand(char *to, size_t n)
{
    (void)to;
    (void)n;
}
