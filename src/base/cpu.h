// SPDX-License-Identifier: MIT
// CPU features: which instruction sets the CPU has, the operating system saves, and the user allows.
#ifndef HEARTH_BASE_CPU_H
#define HEARTH_BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

// Bundles, not single bits: a kernel file needs a whole bundle.
enum {
    HEARTH_CPU_AVX2 = 1u << 0,   // x86-64-v3: AVX2, FMA, F16C, BMI2
    HEARTH_CPU_AVX512 = 1u << 1, // F, BW, VL, DQ, CD + VNNI + VBMI (Ice Lake, Zen 4 and later)
    HEARTH_CPU_AMX = 1u << 2,    // AMX-TILE and AMX-BF16, with permission from the kernel
    HEARTH_CPU_NEON = 1u << 8,
    HEARTH_CPU_DOTPROD = 1u << 9,
    HEARTH_CPU_I8MM = 1u << 10
};

// Detected once (CPUID and XGETBV); thread-safe.
unsigned hearth_cpu_flags(void);

// These do not do what they should: from now on this CPU does not have them. Thread-safe.
void hearth_cpu_distrust(unsigned flags);

// The flags that remain under an upper level ("c", "avx2", "avx512", "amx", "neon", "dotprod", "i8mm"; NULL:
// all). False when the name is unknown or this CPU does not have the level. "c" leaves 0.
bool hearth_cpu_limit(const char *level, unsigned *flags);

// "avx512" etc.: the highest level in flags, for messages.
const char *hearth_cpu_level_name(unsigned flags);

// The CPU's brand string, e.g. "AMD EPYC 9755"; "unknown" when there is none. Static storage.
const char *hearth_cpu_brand(void);

#endif
