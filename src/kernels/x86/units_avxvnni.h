// SPDX-License-Identifier: MIT
// Weights that AVX2 unpacks, as AVX-VNNI multiplies them.
#ifndef HEARTH_KERNELS_X86_UNITS_AVXVNNI_H
#define HEARTH_KERNELS_X86_UNITS_AVXVNNI_H

#include "kernels/x86/units_avx2.h"

// What is added to every weight to make it unsigned.
INLINE int offset_of(const struct shape *s)
{
    return s->most == SIGNED ? 128 : s->offset;
}

INLINE __m256i made_unsigned(__m256i w, const struct shape *s)
{
    return s->most == SIGNED ? _mm256_xor_si256(w, _mm256_set1_epi8(INT8_MIN)) : w;
}

#endif
