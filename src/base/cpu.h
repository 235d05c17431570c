// SPDX-License-Identifier: MIT
// CPU features: which instruction sets the CPU has, the operating system saves, and the user allows.
//
// Instructions come in levels, each with all of those before it. Level 0 is "c", portable code; the others
// and their names are those of the processor that Hearth is built for (base/cpu_levels.h).
#ifndef HEARTH_BASE_CPU_H
#define HEARTH_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Each flag is a bundle of features, because a kernel file needs all of its bundle. Level i has bit i - 1.
enum {                            // x86-64
    HEARTH_CPU_AVX2 = 1u << 0,    // x86-64-v3: AVX2, FMA, F16C, BMI2
    HEARTH_CPU_AVXVNNI = 1u << 1, // AVX-VNNI (Intel Core from Alder Lake on, N100; Zen 5)
    HEARTH_CPU_AVX512 = 1u << 2,  // F, BW, VL, DQ, CD, VNNI, VBMI (Ice Lake, Zen 4 and later)
    HEARTH_CPU_AMX = 1u << 3      // AMX-TILE and AMX-BF16, with permission from the operating system
};
enum {                            // 64-bit ARM
    HEARTH_CPU_NEON = 1u << 0,    // what all of them have
    HEARTH_CPU_DOTPROD = 1u << 1, // SDOT, UDOT (Cortex-A55 and A76, Apple M1 and later)
    HEARTH_CPU_I8MM = 1u << 2     // SMMLA, USDOT (Cortex-X2 and A510, Neoverse V1 and N2, Apple M2 and later)
};

// The flags of this CPU. Detected once. Thread-safe.
unsigned hearth_cpu_flags(void);

// Removes flags from this CPU for the rest of the process: their instructions gave wrong results.
// Thread-safe.
void hearth_cpu_distrust(unsigned flags);

// Name of level i, "c" being level 0, whether or not this CPU has it; NULL for the number behind the last.
// Static storage.
const char *hearth_cpu_level(size_t i);
// "auto" and the names of all levels, separated by '|'.
extern const char hearth_cpu_words[];

// Limits *flags to an upper level; NULL: all that the CPU has. "c" gives 0. Returns false when the name is
// unknown or this CPU lacks the level.
bool hearth_cpu_limit(const char *level, unsigned *flags);

// Name of the highest level in flags, such as "avx512", for messages. Static storage.
const char *hearth_cpu_level_name(unsigned flags);

// Of x86-64: whether the CPU makes two operations of each one on 512 bits (Zen 4). Thread-safe.
bool hearth_cpu_halves_512(void);

// Whether the CPU reads several streams faster than one, because its prefetcher runs only some lines ahead in
// each page (Intel's). Thread-safe.
bool hearth_cpu_reads_streams(void);

// The CPU's brand string, such as "AMD EPYC 9755"; "unknown" when it has none. Static storage.
const char *hearth_cpu_brand(void);

#endif
