// SPDX-License-Identifier: MIT
// The formats of 1 to 3 bits a weight whose numbers are points of a grid: a few bits name the point that stands
// for eight (or four) neighbours at once. quant_iq.c defines the formats; kernels look the same points up.
#ifndef HEARTH_QUANT_GRIDS_H
#define HEARTH_QUANT_GRIDS_H

#include <stdint.h>

// Points as bytes, the first element in the lowest one. Those of IQ1 are 8 times the number, plus 8.
struct hearth_grids {
    uint64_t iq1[2048], iq2_xxs[256], iq2_xs[512], iq2_s[1024];
    uint32_t iq3_xxs[256], iq3_s[512];
    uint64_t signs[256]; // byte i is 255 where bit i is set
    // Which of the grid's values a point's elements have, a byte for each half of the point, for kernels that look
    // many points up in registers. IQ2: two bits an element, IQ3: three.
    _Alignas(64) uint8_t iq2_xxs_digits[2][256], iq3_xxs_digits[2][256], iq3_s_digits[2][512];
};
extern struct hearth_grids hearth_grids;

// Fills the above, the first time. Thread-safe. It has run for whoever got kernels from hearth_kernels_init().
void hearth_grids_fill(void);

// Two points of four, as the numbers of eight neighbours.
static inline uint64_t hearth_two_points(uint32_t low, uint32_t high)
{
    return low | (uint64_t)high << 32;
}

#endif
