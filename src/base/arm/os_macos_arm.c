// SPDX-License-Identifier: MIT
// What the operating system says of a 64-bit ARM processor: macOS.
#include "base/arm/os_arm.h"

#include <stdio.h>
#include <sys/sysctl.h>

static bool has(const char *feature)
{
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(feature, &value, &size, NULL, 0) == 0 && value != 0;
}

bool hearth_os_arm_has_dotprod(void)
{
    return has("hw.optional.arm.FEAT_DotProd");
}

bool hearth_os_arm_has_i8mm(void)
{
    return has("hw.optional.arm.FEAT_I8MM");
}

uint64_t hearth_os_arm_midr(void)
{
    return 0;
}

void hearth_os_arm_brand(char *to, size_t n)
{
    char name[64];
    size_t size = sizeof name;
    if (sysctlbyname("machdep.cpu.brand_string", name, &size, NULL, 0) == 0 && size > 1)
        snprintf(to, n, "%s", name);
}
