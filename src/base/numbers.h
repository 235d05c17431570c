// SPDX-License-Identifier: MIT
// Numbers in files: little-endian, of 1 to 8 bytes.
#ifndef HEARTH_BASE_NUMBERS_H
#define HEARTH_BASE_NUMBERS_H

#include <stdint.h>

// Writes the lowest `size` bytes of v, and moves *to behind them.
static inline void hearth_put_number(uint8_t **to, uint64_t v, int size)
{
    for (int i = 0; i < size; i++)
        *(*to)++ = (uint8_t)(v >> (8 * i));
}

// The number in the next `size` bytes, behind which *from then is.
static inline uint64_t hearth_take_number(const uint8_t **from, int size)
{
    uint64_t v = 0;
    for (int i = 0; i < size; i++)
        v |= (uint64_t) * (*from)++ << (8 * i);
    return v;
}

#endif
