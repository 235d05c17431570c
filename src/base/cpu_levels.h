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
    // Whether this CPU and the operating system have all that the level needs. Asked once.
    bool (*detect)(void);
};

// From the lowest level to the highest; a level without a name ends the table.
extern const struct hearth_cpu_level hearth_cpu_levels[];

// Puts the CPU's brand into to[n], which holds what to say when there is none.
void hearth_cpu_read_brand(char *to, size_t n);

// From a list of levels X(name), lowest first: the table, and hearth_cpu_words (base/cpu.h).
#define HEARTH_CPU_LEVEL(name) {#name, detect_##name},
#define HEARTH_CPU_WORD(name)  "|" #name
#define HEARTH_CPU_TABLE(LEVELS)                                                                             \
    const struct hearth_cpu_level hearth_cpu_levels[] = {LEVELS(HEARTH_CPU_LEVEL){NULL, NULL}};              \
    const char hearth_cpu_words[] = "auto|c" LEVELS(HEARTH_CPU_WORD);

#endif
