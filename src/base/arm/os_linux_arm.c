// SPDX-License-Identifier: MIT
// What the operating system says of a 64-bit ARM processor: Linux.
#include "base/arm/os_arm.h"

#include <stdio.h>
#include <sys/auxv.h>

// Bits of the auxiliary vector, as the kernel's interface has them; older headers lack the second one.
#define HAS_DOTPROD (1ul << 20) // of AT_HWCAP
#define HAS_MIDR    (1ul << 11) // of AT_HWCAP: programs may read the ID registers
#define HAS_I8MM    (1ul << 13) // of AT_HWCAP2

bool hearth_os_arm_has_dotprod(void)
{
    return (getauxval(AT_HWCAP) & HAS_DOTPROD) != 0;
}

bool hearth_os_arm_has_i8mm(void)
{
    return (getauxval(AT_HWCAP2) & HAS_I8MM) != 0;
}

// The kernel answers for the processor that this thread runs on. Where there are big and little ones, the one
// with the greatest capacity names the machine.
uint64_t hearth_os_arm_midr(void)
{
    uint64_t midr = 0;
    unsigned most = 0;
    for (int cpu = 0;; cpu++) {
        char path[96];
        unsigned long long value;
        unsigned capacity = 1;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/regs/identification/midr_el1", cpu);
        FILE *f = fopen(path, "re");
        if (!f)
            break;
        const bool known = fscanf(f, "%llx", &value) == 1;
        fclose(f);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpu_capacity", cpu);
        f = fopen(path, "re");
        if (f && fscanf(f, "%u", &capacity) != 1)
            capacity = 1;
        if (f)
            fclose(f);
        if (known && capacity > most) {
            most = capacity;
            midr = value;
        }
    }
    if (!midr && getauxval(AT_HWCAP) & HAS_MIDR)
        __asm__("mrs %0, midr_el1" : "=r"(midr));
    return midr;
}

void hearth_os_arm_brand(char *to, size_t n)
{
    (void)to;
    (void)n;
}
