// SPDX-License-Identifier: MIT
// CPU features of x86-64: a level counts only if the CPU has all of it and the operating system saves its
// registers.
#include <cpuid.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/cpu_levels.h"
#include "base/os.h"

static bool has(unsigned reg, unsigned bits)
{
    return (reg & bits) == bits;
}

// Whether the operating system saves these registers (bits of XCR0).
static bool saves(uint32_t registers)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, bit_OSXSAVE))
        return false;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return has(low, registers);
}

// Code compiled for AVX2 may use all of x86-64-v3.
static bool detect_avx2(void)
{
    unsigned a, b, d, c1, b7, c7, c81;
    const unsigned ymm = 0x06, v3_c1 = bit_SSE4_2 | bit_POPCNT | bit_MOVBE | bit_FMA | bit_AVX | bit_F16C;
    return saves(ymm) && __get_cpuid(1, &a, &b, &c1, &d) && __get_cpuid_count(7, 0, &a, &b7, &c7, &d) &&
           __get_cpuid(0x80000001u, &a, &b, &c81, &d) && has(c1, v3_c1) &&
           has(b7, bit_AVX2 | bit_BMI | bit_BMI2) && has(c81, 1u << 5); // LZCNT
}

static bool detect_avxvnni(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && has(a, 1u << 4);
}

static bool detect_avx512(void)
{
    unsigned a, b, c, d;
    // leaf 7 ebx: F 16, DQ 17, CD 28, BW 30, VL 31; ecx: VBMI 1, VNNI 11
    const unsigned zmm = 0xe6, in_b = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
    return saves(zmm) && __get_cpuid_count(7, 0, &a, &b, &c, &d) && has(b, in_b) &&
           has(c, 1u << 1 | 1u << 11);
}

// Tile products use whole tiles. Palette 1 has eight tiles of 16 rows of 64 bytes.
static bool has_tiles(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid_count(0x1d, 1, &a, &b, &c, &d) || b >> 16 < 8 || (b & 0xffff) < 64 || (c & 0xffff) < 16)
        return false;
    // ebx: the largest K (rows of four bytes), then the largest N (bytes)
    return __get_cpuid_count(0x1e, 0, &a, &b, &c, &d) && (b & 0xff) >= 16 && (b >> 8 & 0xffff) >= 64;
}

static bool detect_amx(void)
{
    unsigned a, b, c, d;
    const unsigned tiles = 0x60000;
    // leaf 7 edx: AMX-BF16 22, AMX-TILE 24. The permission comes last: it makes signal frames larger.
    return saves(tiles) && __get_cpuid_count(7, 0, &a, &b, &c, &d) && has(d, 1u << 22 | 1u << 24) &&
           has_tiles() && hearth_os_permit_amx();
}

bool hearth_cpu_halves_512(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(0, &a, &b, &c, &d) || b != signature_AMD_ebx || !__get_cpuid(1, &a, &b, &c, &d))
        return false;
    return (a >> 8 & 0xf) + (a >> 20 & 0xff) == 0x19;
}

bool hearth_cpu_reads_streams(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx;
}

#define LEVELS(X) X(avx2, 0) X(avxvnni, HEARTH_CPU_AVX2) X(avx512, HEARTH_CPU_AVX2) X(amx, HEARTH_CPU_AVX512)
HEARTH_CPU_TABLE(LEVELS)

void hearth_cpu_read_brand(char *to, size_t n)
{
    unsigned regs[12];
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &regs[4 * i], &regs[4 * i + 1], &regs[4 * i + 2], &regs[4 * i + 3]))
            return;
    char text[sizeof regs + 1];
    memcpy(text, regs, sizeof regs);
    text[sizeof regs] = '\0';
    const char *start = text + strspn(text, " ");
    size_t length = strlen(start);
    while (length > 0 && start[length - 1] == ' ')
        length--;
    if (length > 0)
        snprintf(to, n, "%.*s", (int)length, start);
}
