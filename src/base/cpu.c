// SPDX-License-Identifier: MIT
// CPU features: a bundle counts only when the CPU has all of it and the operating system saves its registers.
#include "base/cpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/os.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_uint detected;
static char brand[64] = "unknown";

#if defined(__x86_64__)

static bool has(unsigned reg, unsigned bits)
{
    return (reg & bits) == bits;
}

static uint64_t read_xcr0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

// Palette 1 has eight tiles of 16 rows of 64 bytes, and products take whole ones.
static bool has_tiles(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid_count(0x1d, 1, &a, &b, &c, &d) || b >> 16 < 8 || (b & 0xffff) < 64 || (c & 0xffff) < 16)
        return false;
    // ebx: the largest K (rows of four bytes), then the largest N (bytes)
    return __get_cpuid_count(0x1e, 0, &a, &b, &c, &d) && (b & 0xff) >= 16 && (b >> 8 & 0xffff) >= 64;
}

static unsigned detect_flags(void)
{
    unsigned a, b, d, c1, b7, c7, d7, c81;
    if (!__get_cpuid(1, &a, &b, &c1, &d) || !has(c1, bit_OSXSAVE))
        return 0;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) || !__get_cpuid(0x80000001u, &a, &b, &c81, &d))
        return 0;
    uint64_t xcr0 = read_xcr0();
    const uint64_t ymm = 0x06, zmm = 0xe6, tiles = 0x60000;
    unsigned flags = 0;

    // bit 5 of 0x80000001.ecx: LZCNT. Compilers use all of x86-64-v3 when asked for AVX2 code.
    unsigned v3_c1 = bit_SSE4_2 | bit_POPCNT | bit_MOVBE | bit_FMA | bit_AVX | bit_F16C;
    if ((xcr0 & ymm) == ymm && has(c1, v3_c1) && has(b7, bit_AVX2 | bit_BMI | bit_BMI2) && has(c81, 1u << 5))
        flags |= HEARTH_CPU_AVX2;
    // leaf 7 ebx: F 16, DQ 17, CD 28, BW 30, VL 31; ecx: VBMI 1, VNNI 11
    unsigned avx512_b7 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
    if (flags && (xcr0 & zmm) == zmm && has(b7, avx512_b7) && has(c7, 1u << 1 | 1u << 11))
        flags |= HEARTH_CPU_AVX512;
    // leaf 7 edx: AMX-BF16 22, AMX-TILE 24. The permission comes last: it makes signal frames larger.
    if ((flags & HEARTH_CPU_AVX512) && (xcr0 & tiles) == tiles && has(d7, 1u << 22 | 1u << 24) &&
        has_tiles() && hearth_os_permit_amx())
        flags |= HEARTH_CPU_AMX;
    return flags;
}

static void detect_brand(void)
{
    unsigned regs[12];
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &regs[4 * i], &regs[4 * i + 1], &regs[4 * i + 2], &regs[4 * i + 3]))
            return;
    char text[sizeof regs + 1];
    memcpy(text, regs, sizeof regs);
    text[sizeof regs] = '\0';
    const char *start = text + strspn(text, " ");
    size_t n = strlen(start);
    while (n > 0 && start[n - 1] == ' ')
        n--;
    if (n > 0)
        snprintf(brand, sizeof brand, "%.*s", (int)n, start);
}

#elif defined(__aarch64__)

static unsigned detect_flags(void)
{
    unsigned flags = HEARTH_CPU_NEON; // part of the base architecture
#if defined(__APPLE__)
    flags |= HEARTH_CPU_DOTPROD;      // every Apple CPU that runs macOS
#else
    if (hearth_os_hwcap(1) >> 20 & 1) // HWCAP_ASIMDDP
        flags |= HEARTH_CPU_DOTPROD;
    if ((flags & HEARTH_CPU_DOTPROD) && (hearth_os_hwcap(2) >> 13 & 1)) // HWCAP2_I8MM
        flags |= HEARTH_CPU_I8MM;
#endif
    return flags;
}

static void detect_brand(void)
{
    snprintf(brand, sizeof brand, "ARMv8 CPU");
}

#else

static unsigned detect_flags(void)
{
    return 0;
}

static void detect_brand(void) {}

#endif

static void detect(void)
{
    atomic_store(&detected, detect_flags());
    detect_brand();
}

unsigned hearth_cpu_flags(void)
{
    pthread_once(&once, detect);
    return atomic_load(&detected);
}

void hearth_cpu_distrust(unsigned flags)
{
    pthread_once(&once, detect);
    atomic_fetch_and(&detected, ~flags);
}

const char *hearth_cpu_brand(void)
{
    pthread_once(&once, detect);
    return brand;
}

static const struct {
    const char *name;
    unsigned top, all; // the bundle that gives the level its name, and everything up to it
} levels[] = {
    {"amx", HEARTH_CPU_AMX, HEARTH_CPU_AVX2 | HEARTH_CPU_AVX512 | HEARTH_CPU_AMX},
    {"avx512", HEARTH_CPU_AVX512, HEARTH_CPU_AVX2 | HEARTH_CPU_AVX512},
    {"avx2", HEARTH_CPU_AVX2, HEARTH_CPU_AVX2},
    {"i8mm", HEARTH_CPU_I8MM, HEARTH_CPU_NEON | HEARTH_CPU_DOTPROD | HEARTH_CPU_I8MM},
    {"dotprod", HEARTH_CPU_DOTPROD, HEARTH_CPU_NEON | HEARTH_CPU_DOTPROD},
    {"neon", HEARTH_CPU_NEON, HEARTH_CPU_NEON},
};

bool hearth_cpu_limit(const char *level, unsigned *flags)
{
    unsigned have = hearth_cpu_flags();
    if (!level) {
        *flags = have;
        return true;
    }
    if (strcmp(level, "c") == 0) {
        *flags = 0;
        return true;
    }
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strcmp(level, levels[i].name) == 0 && (have & levels[i].top)) {
            *flags = have & levels[i].all;
            return true;
        }
    return false;
}

const char *hearth_cpu_level_name(unsigned flags)
{
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (flags & levels[i].top)
            return levels[i].name;
    return "c";
}
