// SPDX-License-Identifier: MIT
// What a program takes of free memory.
#include "base/free_memory.h"

#define MIB ((uint64_t)1 << 20)

static uint64_t within(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

uint64_t hearth_free_memory_to_take(const struct hearth_free_memory *f, bool asked)
{
    if (f->bytes == UINT64_MAX)
        return UINT64_MAX;
    uint64_t rest =
        asked ? within(f->bytes / 16, 16 * MIB, 512 * MIB) : within(f->bytes / 8, 32 * MIB, 2048 * MIB);
    if (rest > f->bytes / 2)
        rest = f->bytes / 2;
    return (f->bytes - rest) / MIB * MIB;
}
