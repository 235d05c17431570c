// SPDX-License-Identifier: MIT
// The table of number formats. Of some formats only the size is known, so that files which hold them can be
// inspected and copied.
#include "quant/quant.h"

#include <math.h>
#include <string.h>

#include "quant/formats.h"

#define PLAIN(text, bytes)         .name = text, .block_elems = 1, .block_bytes = bytes
#define BLOCKS(text, elems, bytes) .name = text, .block_elems = elems, .block_bytes = bytes
#define UNITS(elems, minimum, f)                                                                             \
    .unit_elems = elems, .has_min = minimum, .decode = f##_decode, .unpack = f##_unpack

static const struct hearth_type_info types[HEARTH_TYPE_END] = {
    [HEARTH_TYPE_F32] = {PLAIN("F32", 4), .decode = hearth_f32_decode, .encode = hearth_f32_encode},
    [HEARTH_TYPE_F16] = {PLAIN("F16", 2), .decode = hearth_f16_decode, .encode = hearth_f16_encode},
    [HEARTH_TYPE_BF16] = {PLAIN("BF16", 2), .decode = hearth_bf16_decode, .encode = hearth_bf16_encode},
    [HEARTH_TYPE_F64] = {PLAIN("F64", 8)},
    [HEARTH_TYPE_I8] = {PLAIN("I8", 1)},
    [HEARTH_TYPE_I16] = {PLAIN("I16", 2)},
    [HEARTH_TYPE_I32] = {PLAIN("I32", 4)},
    [HEARTH_TYPE_I64] = {PLAIN("I64", 8)},

    [HEARTH_TYPE_Q4_0] = {BLOCKS("Q4_0", 32, 18), UNITS(32, 0, hearth_q4_0), .encode = hearth_q4_0_encode},
    [HEARTH_TYPE_Q4_1] = {BLOCKS("Q4_1", 32, 20), UNITS(32, 1, hearth_q4_1), .encode = hearth_q4_1_encode},
    [HEARTH_TYPE_Q5_0] = {BLOCKS("Q5_0", 32, 22), UNITS(32, 0, hearth_q5_0), .encode = hearth_q5_0_encode},
    [HEARTH_TYPE_Q5_1] = {BLOCKS("Q5_1", 32, 24), UNITS(32, 1, hearth_q5_1), .encode = hearth_q5_1_encode},
    [HEARTH_TYPE_Q8_0] = {BLOCKS("Q8_0", 32, 34), UNITS(32, 0, hearth_q8_0), .encode = hearth_q8_0_encode},
    [HEARTH_TYPE_Q8_1] = {BLOCKS("Q8_1", 32, 36)},
    [HEARTH_TYPE_IQ4_NL] = {BLOCKS("IQ4_NL", 32, 18), UNITS(32, 0, hearth_iq4_nl),
                            .encode = hearth_iq4_nl_encode},
    [HEARTH_TYPE_MXFP4] = {BLOCKS("MXFP4", 32, 17), UNITS(32, 0, hearth_mxfp4)},

    [HEARTH_TYPE_Q2_K] = {BLOCKS("Q2_K", 256, 84), UNITS(16, 1, hearth_q2_k), .encode = hearth_q2_k_encode},
    [HEARTH_TYPE_Q3_K] = {BLOCKS("Q3_K", 256, 110), UNITS(16, 0, hearth_q3_k), .encode = hearth_q3_k_encode},
    [HEARTH_TYPE_Q4_K] = {BLOCKS("Q4_K", 256, 144), UNITS(32, 1, hearth_q4_k), .encode = hearth_q4_k_encode},
    [HEARTH_TYPE_Q5_K] = {BLOCKS("Q5_K", 256, 176), UNITS(32, 1, hearth_q5_k), .encode = hearth_q5_k_encode},
    [HEARTH_TYPE_Q6_K] = {BLOCKS("Q6_K", 256, 210), UNITS(16, 0, hearth_q6_k), .encode = hearth_q6_k_encode},
    [HEARTH_TYPE_Q8_K] = {BLOCKS("Q8_K", 256, 292)},
    [HEARTH_TYPE_IQ4_XS] = {BLOCKS("IQ4_XS", 256, 136), UNITS(32, 0, hearth_iq4_xs)},

    [HEARTH_TYPE_IQ1_S] = {BLOCKS("IQ1_S", 256, 50), UNITS(32, 0, hearth_iq1_s)},
    [HEARTH_TYPE_IQ1_M] = {BLOCKS("IQ1_M", 256, 56), UNITS(16, 0, hearth_iq1_m)},
    [HEARTH_TYPE_IQ2_XXS] = {BLOCKS("IQ2_XXS", 256, 66), UNITS(32, 0, hearth_iq2_xxs)},
    [HEARTH_TYPE_IQ2_XS] = {BLOCKS("IQ2_XS", 256, 74), UNITS(16, 0, hearth_iq2_xs)},
    [HEARTH_TYPE_IQ2_S] = {BLOCKS("IQ2_S", 256, 82), UNITS(16, 0, hearth_iq2_s)},
    [HEARTH_TYPE_IQ3_XXS] = {BLOCKS("IQ3_XXS", 256, 98), UNITS(32, 0, hearth_iq3_xxs)},
    [HEARTH_TYPE_IQ3_S] = {BLOCKS("IQ3_S", 256, 110), UNITS(32, 0, hearth_iq3_s)},
    [HEARTH_TYPE_NVFP4] = {BLOCKS("NVFP4", 64, 36), UNITS(16, 0, hearth_nvfp4)},
    [HEARTH_TYPE_Q1_0] = {BLOCKS("Q1_0", 128, 18), UNITS(32, 0, hearth_q1_0), .encode = hearth_q1_0_encode},
    [HEARTH_TYPE_Q2_0] = {BLOCKS("Q2_0", 64, 18), UNITS(32, 0, hearth_q2_0), .encode = hearth_q2_0_encode},
    [HEARTH_TYPE_TQ1_0] = {BLOCKS("TQ1_0", 256, 54), UNITS(32, 0, hearth_tq1_0),
                           .encode = hearth_tq1_0_encode},
    [HEARTH_TYPE_TQ2_0] = {BLOCKS("TQ2_0", 256, 66), UNITS(32, 0, hearth_tq2_0),
                           .encode = hearth_tq2_0_encode},
};

const struct hearth_type_info *hearth_type_info(uint32_t type)
{
    return type < HEARTH_TYPE_END && types[type].name ? &types[type] : NULL;
}

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

int hearth_type_by_name(const char *name)
{
    for (int type = 0; type < HEARTH_TYPE_END; type++) {
        const char *a = types[type].name, *b = name;
        if (!a)
            continue;
        while (*a && *a == upper(*b))
            a++, b++;
        if (!*a && !*b)
            return type;
    }
    return -1;
}

size_t hearth_type_bytes(uint32_t type, uint64_t n)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    if (!info || n % info->block_elems != 0)
        return 0;
    size_t bytes;
    return __builtin_mul_overflow(n / info->block_elems, info->block_bytes, &bytes) ? SIZE_MAX : bytes;
}

// The largest magnitude. NaN counts as larger than all, as its bits are.
static float largest_of(const float *x, size_t n)
{
    int32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    float size;
    memcpy(&size, &largest, sizeof size);
    return size;
}

bool hearth_encode_checked(const struct hearth_type_info *to, float *x, void *dst, size_t n)
{
    const float before = largest_of(x, n), largest_half = 65504.0f;
    to->encode(x, dst, n);
    if (before <= largest_half)
        return true; // no scale is larger than the largest element
    if (!(before < INFINITY))
        return false;
    // A scale that is too large becomes infinite, or its block nothing.
    to->decode(dst, x, n);
    const float after = largest_of(x, n);
    return after < INFINITY && after > before / 4.0f;
}
