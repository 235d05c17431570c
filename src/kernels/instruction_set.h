// SPDX-License-Identifier: MIT
// What an instruction set must provide for the kernels that are written once for all of them (*_tmpl.h): a
// header PROCESSOR/lanes16.h that includes this one first and lanes16_tmpl.h last, and has between them, as
// INLINE functions or macros, what is listed here. Each lane does the named operation of IEEE f32 or int32,
// rounded to nearest even, so that all sets give the same bits.
//
// Sixteen lanes as one value, in as many registers as it takes:
//
//   f32x16, i32x16             the types
//   f_zero() f_set1(x)         all lanes the same
//   f_load(p) f_store(p, a)    16 floats at any address
//   f_load_f16(p) f_load_bf16(p)                    16 numbers of two bytes, as floats
//   f_fma(a, b, c)             a * b + c, rounded once
//   f_add f_sub f_mul f_div    of a and b
//   f_max(a, b)                a > b ? a : b
//   f_abs(a) f_neg(a)          the sign bit alone changes
//   f_round(a)                 to whole numbers
//   f_if_less(a, b, x, y)      a < b ? x : y
//   f_sum(a)                   the canonical tree over 16 lanes (kernels.h), a float
//   f_sum4(to, a, b, c, d)     f_sum() of four, to four floats at `to`
//   f_most(a)                  the largest of 16 lanes, none of which is NaN, a float
//   f_to_i(a) i_to_f(a)        conversions
//   i_as_f(a)                  the same bits
//   i_zero() i_set1(x) i_add(a, b) i_sub(a, b)
//   i_shl(a, n) i_sar(a, n)    shifts by a literal n; i_sar keeps the sign
//   i_load_i8(p) i_store_i8(p, a)                   16 int8; values fit
//
// Registers as they are, for what has no order of lanes:
//
//   vec                        the type: VEC floats
//   V_REGISTERS                how many there are
//   v_load(p) v_store(p, a) v_set1(x) v_fma(a, b, c)
//   v_load_f16(p) v_load_bf16(p)                    VEC numbers of two bytes, as floats
//   v_transpose(z)             of z[VEC]: lane j of z[i] changes places with lane i of z[j]
//
// And half_at(p), the number of half precision at p, a float.
#ifndef HEARTH_KERNELS_INSTRUCTION_SET_H
#define HEARTH_KERNELS_INSTRUCTION_SET_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES  16
#define INLINE static inline __attribute__((always_inline, unused))

// f32x16 values that fit in the registers.
#define F_REGISTERS (V_REGISTERS * VEC / LANES)

// Prefetches the 64 bytes around p, which need not be there.
INLINE void prefetch_line(const void *p)
{
    __builtin_prefetch(p);
}
// The same for n bytes from p on.
INLINE void prefetch(const void *p, size_t n)
{
    for (size_t line = 0; line < n; line += 64)
        prefetch_line((const char *)p + line);
}

// The same, and the last one of them, which lies in one more line where p is not aligned: of rows of a list nobody
// asks for it with the next row.
INLINE void prefetch_end(const void *p, size_t n)
{
    prefetch(p, n);
    prefetch_line((const char *)p + n - 1);
}

// As prefetch(), into the second cache alone.
INLINE void prefetch_l2(const void *p, size_t n)
{
    for (size_t line = 0; line < n; line += 64)
        __builtin_prefetch((const char *)p + line, 0, 2);
}

// Numbers of a file or a packed buffer, at any address.
INLINE uint16_t word16_at(const void *p)
{
    uint16_t w;
    memcpy(&w, p, sizeof w);
    return w;
}
INLINE uint32_t word32_at(const void *p)
{
    uint32_t w;
    memcpy(&w, p, sizeof w);
    return w;
}
INLINE uint64_t word64_at(const void *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

// At least 16 bytes, some dozens as a rule: to begin a memcpy() of an unknown size takes longer than this does.
INLINE void copy_few(uint8_t *restrict to, const uint8_t *restrict from, size_t n)
{
    memcpy(to + n - 16, from + n - 16, 16);
    for (size_t i = 0; i + 16 < n; i += 16) {
        memcpy(to + i, from + i, 16);
        __asm__("" : : : "memory"); // or compilers make one memcpy() of all
    }
}

#endif
