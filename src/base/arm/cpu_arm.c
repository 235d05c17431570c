// SPDX-License-Identifier: MIT
// CPU features of 64-bit ARM.
#include <stdio.h>

#include "base/arm/os_arm.h"
#include "base/cpu.h"
#include "base/cpu_levels.h"

// NEON with fused products is part of every 64-bit ARM processor.
static bool detect_neon(void)
{
    return true;
}

static bool detect_dotprod(void)
{
    return hearth_os_arm_has_dotprod();
}

static bool detect_i8mm(void)
{
    return hearth_os_arm_has_i8mm();
}

#define LEVELS(X) X(neon, 0) X(dotprod, HEARTH_CPU_NEON) X(i8mm, HEARTH_CPU_DOTPROD)
HEARTH_CPU_TABLE(LEVELS)

// ARM's own cores, by part number. Others are told by their numbers.
static const struct {
    unsigned part;
    const char *name;
} arm_cores[] = {
    {0xd03, "Cortex-A53"},  {0xd05, "Cortex-A55"},  {0xd07, "Cortex-A57"},  {0xd08, "Cortex-A72"},
    {0xd09, "Cortex-A73"},  {0xd0a, "Cortex-A75"},  {0xd0b, "Cortex-A76"},  {0xd0c, "Neoverse N1"},
    {0xd0d, "Cortex-A77"},  {0xd40, "Neoverse V1"}, {0xd41, "Cortex-A78"},  {0xd44, "Cortex-X1"},
    {0xd46, "Cortex-A510"}, {0xd47, "Cortex-A710"}, {0xd48, "Cortex-X2"},   {0xd49, "Neoverse N2"},
    {0xd4b, "Cortex-A78C"}, {0xd4d, "Cortex-A715"}, {0xd4e, "Cortex-X3"},   {0xd4f, "Neoverse V2"},
    {0xd80, "Cortex-A520"}, {0xd81, "Cortex-A720"}, {0xd82, "Cortex-X4"},   {0xd84, "Neoverse V3"},
    {0xd85, "Cortex-X925"}, {0xd87, "Cortex-A725"}, {0xd8e, "Neoverse N3"},
};

bool hearth_cpu_reads_streams(void)
{
    return false;
}

void hearth_cpu_read_brand(char *to, size_t n)
{
    const uint64_t midr = hearth_os_arm_midr();
    const unsigned maker = (unsigned)(midr >> 24 & 0xff), part = (unsigned)(midr >> 4 & 0xfff);
    if (midr)
        snprintf(to, n, "ARM core 0x%02x:0x%03x", maker, part);
    for (size_t i = 0; maker == 0x41 && i < sizeof arm_cores / sizeof *arm_cores; i++)
        if (arm_cores[i].part == part)
            snprintf(to, n, "ARM %s", arm_cores[i].name);
    hearth_os_arm_brand(to, n);
}
