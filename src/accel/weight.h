// SPDX-License-Identifier: MIT
// How weights lie in a device's memory.
#ifndef HEARTH_ACCEL_WEIGHT_H
#define HEARTH_ACCEL_WEIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Units of a block format: `bits` an element, of which `base` is added; or plain numbers.
struct hearth_accel_form {
    int bits;         // 4, 8; 0: plain numbers, or a type that devices do not know
    size_t unit;      // elements
    bool scales_half; // scales and minima are halfs, else floats
    bool has_min;
    int base;
    int plain; // 0 F32, 1 F16, 2 BF16; -1: unknown
};

struct hearth_accel_form hearth_accel_form_of(uint32_t type);

#endif
