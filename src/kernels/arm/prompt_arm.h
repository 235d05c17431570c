// SPDX-License-Identifier: MIT
// PROMPT products of block formats on 64-bit ARM: what prompt_LEVEL.c must define between this and prompt_tmpl.h.
//
//   STRIP                        rows whose products with a few tokens stay in registers
//   strip_bytes(s)               of a weight in a strip, 1 or 2
//   pack_strip(to, q, depth, s)  puts STRIP rows of weights, q[STRIP][DEPTH], in the order that is wanted
//   SCALES, pack_scales(to, a)   floats of a unit's scales in a strip, made of those of rows, a[STRIP / 4]
//   FACTORS, pack_factors(to, a) floats of a unit's factors of tokens, made of those of four tokens
//   TOKEN_BYTES                  of an activation's byte in the order that is wanted; 0: as it is
//   pack_tokens(to, x, depth, s) puts TOKENS tokens' activations in that order
//   strip_tokens(...)            the products, below
#ifndef HEARTH_KERNELS_ARM_PROMPT_ARM_H
#define HEARTH_KERNELS_ARM_PROMPT_ARM_H

#include "kernels/arm/units_neon.h"
#include "kernels/arm/variants_arm.h"

#define PANEL_ROWS  32
#define DEPTH       1024 // whole groups of every format
#define DEPTH_UNITS (DEPTH / 16)
#define TOKENS      4

// STRIP rows.
struct strip {
    const int8_t *q;
    const float *scale, *min; // [units][SCALES]; min only of formats with one
};

// TOKENS tokens, those that are missing repeat the last one.
struct tokens {
    const int8_t *hi[TOKENS], *lo[TOKENS]; // from the panel's first element on
    const void *packed;
    const float *d, *sum; // [units][FACTORS]: scales, and sums of what products take
};

#endif
