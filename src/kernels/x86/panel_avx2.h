// SPDX-License-Identifier: MIT
// The panel of PROMPT products in registers of 256 bits (prompt_avx2_tmpl.h).
#ifndef HEARTH_KERNELS_X86_PANEL_AVX2_H
#define HEARTH_KERNELS_X86_PANEL_AVX2_H

#include "kernels/x86/units_avx2.h"

// Tokens whose sums are in registers together.
#define MAX_TOGETHER 4

// All formats with so narrow weights take the high plane alone (hearth_prompt_planes).
INLINE bool is_narrow(const struct shape *s)
{
    return s->most <= 15;
}

struct panel {
    uint8_t *q;   // [k/4][16 rows][4] weights
    float *scale; // [units][16 rows]
    float *min;   // same; only of formats with one
};

#endif
