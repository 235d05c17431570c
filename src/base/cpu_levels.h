// SPDX-License-Identifier: MIT
// What base/cpu.c asks of the processor that Hearth is built for. Each has a folder, of which CMake takes
// one: base/x86, base/arm, base/generic (a processor whose instructions Hearth does not know).
#ifndef HEARTH_BASE_CPU_LEVELS_H
#define HEARTH_BASE_CPU_LEVELS_H

#include <stdbool.h>
#include <stddef.h>

// A level is a bundle of instruction sets. Level i of the table has bit i of the HEARTH_CPU_* flags.
struct hearth_cpu_level {
    const char *name;
    unsigned needs; // flags of the levels that it builds on
    // Whether this CPU and the operating system have what the level adds to those. Asked once, and only where they
    // have them.
    bool (*detect)(void);
};

// From the lowest level to the highest; a level without a name ends the table.
extern const struct hearth_cpu_level hearth_cpu_levels[];

// Puts the CPU's brand into to[n], which holds what to say when there is none.
void hearth_cpu_read_brand(char *to, size_t n);

// From a list of levels X(name, needs), lowest first: the table, and hearth_cpu_words (base/cpu.h).
#define HEARTH_CPU_LEVEL(name, needs) {#name, needs, detect_##name},
#define HEARTH_CPU_WORD(name, needs)  "|" #name
#define HEARTH_CPU_TABLE(LEVELS)                                                                             \
    const struct hearth_cpu_level hearth_cpu_levels[] = {LEVELS(HEARTH_CPU_LEVEL){NULL, 0, NULL}};           \
    const char hearth_cpu_words[] = "auto|c" LEVELS(HEARTH_CPU_WORD);

#endif
