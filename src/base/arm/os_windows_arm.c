// SPDX-License-Identifier: MIT
// What the operating system says of a 64-bit ARM processor: Windows.
#include <stdio.h>
#include <windows.h>

#include "base/arm/os_arm.h"

// As the interface has them; older headers lack the second one.
#define DOTPROD 43
#define I8MM    66

#define KEY L"HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0"

bool hearth_os_arm_has_dotprod(void)
{
    return IsProcessorFeaturePresent(DOTPROD);
}

bool hearth_os_arm_has_i8mm(void)
{
    return IsProcessorFeaturePresent(I8MM);
}

// The system keeps the register under the name of its encoding.
uint64_t hearth_os_arm_midr(void)
{
    uint64_t midr = 0;
    DWORD size = sizeof midr;
    return RegGetValueW(HKEY_LOCAL_MACHINE, KEY, L"CP 4000", RRF_RT_REG_QWORD, NULL, &midr, &size) ? 0 : midr;
}

void hearth_os_arm_brand(char *to, size_t n)
{
    wchar_t name[96];
    char utf8[192];
    DWORD size = sizeof name;
    if (!RegGetValueW(HKEY_LOCAL_MACHINE, KEY, L"ProcessorNameString", RRF_RT_REG_SZ, NULL, name, &size) &&
        WideCharToMultiByte(CP_UTF8, 0, name, -1, utf8, sizeof utf8, NULL, NULL) > 1)
        snprintf(to, n, "%s", utf8);
}
