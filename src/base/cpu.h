// SPDX-License-Identifier: MIT
// CPU features: which instruction sets the CPU has, the operating system saves, and the user allows.
#ifndef HEARTH_BASE_CPU_H
#define HEARTH_BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

// Each flag is a bundle of features, because a kernel file needs all of its bundle.
enum {
    HEARTH_CPU_AVX2 = 1u << 0,   // x86-64-v3: AVX2, FMA, F16C, BMI2
    HEARTH_CPU_AVX512 = 1u << 1, // F, BW, VL, DQ, CD, VNNI, VBMI (Ice Lake, Zen 4 and later)
    HEARTH_CPU_AMX = 1u << 2,    // AMX-TILE and AMX-INT8, with permission from the operating system
    HEARTH_CPU_NEON = 1u << 8,
    HEARTH_CPU_DOTPROD = 1u << 9,
    HEARTH_CPU_I8MM = 1u << 10
};

// The flags of this CPU. Detected once (CPUID and XGETBV). Thread-safe.
unsigned hearth_cpu_flags(void);

// Removes flags from this CPU for the rest of the process: their instructions gave wrong results.
// Thread-safe.
void hearth_cpu_distrust(unsigned flags);

// Limits *flags to an upper level: "c", "avx2", "avx512", "amx", "neon", "dotprod", "i8mm"; NULL: all that
// the CPU has. "c" gives 0. Returns false when the name is unknown or this CPU lacks the level.
bool hearth_cpu_limit(const char *level, unsigned *flags);

// Name of the highest level in flags, such as "avx512", for messages. Static storage.
const char *hearth_cpu_level_name(unsigned flags);

// The CPU's brand string, such as "AMD EPYC 9755"; "unknown" when it has none. Static storage.
const char *hearth_cpu_brand(void);

#endif
