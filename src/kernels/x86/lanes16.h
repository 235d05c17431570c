// SPDX-License-Identifier: MIT
// The 16 lanes of kernels/instruction_set.h: one register with AVX-512, two with AVX2.
#ifndef HEARTH_KERNELS_X86_LANES16_H
#define HEARTH_KERNELS_X86_LANES16_H

#include <immintrin.h>

#include "kernels/instruction_set.h"

INLINE float half_at(const void *p)
{
    return _cvtsh_ss(word16_at(p));
}

#if defined(__AVX512F__)

typedef __m512 f32x16;
typedef __m512i i32x16;

INLINE f32x16 f_zero(void)
{
    return _mm512_setzero_ps();
}
INLINE f32x16 f_set1(float x)
{
    return _mm512_set1_ps(x);
}
INLINE f32x16 f_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
INLINE void f_store(float *p, f32x16 x)
{
    _mm512_storeu_ps(p, x);
}
INLINE f32x16 f_fma(f32x16 a, f32x16 b, f32x16 c)
{
    return _mm512_fmadd_ps(a, b, c);
}
INLINE f32x16 f_add(f32x16 a, f32x16 b)
{
    return _mm512_add_ps(a, b);
}
INLINE f32x16 f_sub(f32x16 a, f32x16 b)
{
    return _mm512_sub_ps(a, b);
}
INLINE f32x16 f_mul(f32x16 a, f32x16 b)
{
    return _mm512_mul_ps(a, b);
}
INLINE f32x16 f_div(f32x16 a, f32x16 b)
{
    return _mm512_div_ps(a, b);
}
INLINE f32x16 f_max(f32x16 a, f32x16 b)
{
    return _mm512_max_ps(a, b);
}
INLINE f32x16 f_abs(f32x16 a)
{
    return _mm512_abs_ps(a);
}
INLINE f32x16 f_neg(f32x16 a)
{
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), _mm512_set1_epi32(INT32_MIN)));
}
INLINE f32x16 f_round(f32x16 a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INLINE f32x16 f_if_less(f32x16 a, f32x16 b, f32x16 x, f32x16 y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
INLINE i32x16 f_to_i(f32x16 a)
{
    return _mm512_cvtps_epi32(a);
}
INLINE f32x16 i_to_f(i32x16 a)
{
    return _mm512_cvtepi32_ps(a);
}
INLINE i32x16 i_zero(void)
{
    return _mm512_setzero_si512();
}
INLINE i32x16 i_set1(int32_t x)
{
    return _mm512_set1_epi32(x);
}
INLINE i32x16 i_add(i32x16 a, i32x16 b)
{
    return _mm512_add_epi32(a, b);
}
INLINE i32x16 i_sub(i32x16 a, i32x16 b)
{
    return _mm512_sub_epi32(a, b);
}
#define i_shl(a, n) _mm512_slli_epi32(a, n)
#define i_sar(a, n) _mm512_srai_epi32(a, n)
INLINE f32x16 i_as_f(i32x16 a)
{
    return _mm512_castsi512_ps(a);
}
INLINE void i_store_i8(int8_t *p, i32x16 a)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(a));
}
INLINE i32x16 i_load_i8(const int8_t *p)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
INLINE f32x16 f_load_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}
INLINE f32x16 f_load_bf16(const void *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}
INLINE __m256 f_low(f32x16 a)
{
    return _mm512_castps512_ps256(a);
}
INLINE __m256 f_high(f32x16 a)
{
    return _mm512_extractf32x8_ps(a, 1);
}
INLINE void f_sum4(float *to, f32x16 a, f32x16 b, f32x16 c, f32x16 d)
{
    const __m512 ab8 = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    const __m512 cd8 = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
    const __m512 s4 =
        _mm512_add_ps(_mm512_shuffle_f32x4(ab8, cd8, 0x88), _mm512_shuffle_f32x4(ab8, cd8, 0xdd));
    const __m512 s2 = _mm512_add_ps(s4, _mm512_permute_ps(s4, 0x4e));
    const __m512 s1 = _mm512_add_ps(s2, _mm512_permute_ps(s2, 0xb1));
    const __m512i lanes = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
    _mm_storeu_ps(to, _mm512_castps512_ps128(_mm512_permutexvar_ps(lanes, s1)));
}

typedef __m512 vec;
#define VEC         16
#define V_REGISTERS 32
INLINE vec v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
INLINE void v_store(float *p, vec x)
{
    _mm512_storeu_ps(p, x);
}
INLINE vec v_set1(float x)
{
    return _mm512_set1_ps(x);
}
INLINE vec v_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}
INLINE vec v_load_f16(const void *p)
{
    return f_load_f16(p);
}
INLINE vec v_load_bf16(const void *p)
{
    return f_load_bf16(p);
}

// Within each quarter of four registers: dword j of a quarter of z[i] changes places with dword i of that of z[j].
INLINE void i_transpose_quarters(__m512i z[4])
{
    const __m512i a = _mm512_unpacklo_epi32(z[0], z[1]), b = _mm512_unpackhi_epi32(z[0], z[1]);
    const __m512i c = _mm512_unpacklo_epi32(z[2], z[3]), d = _mm512_unpackhi_epi32(z[2], z[3]);
    z[0] = _mm512_unpacklo_epi64(a, c);
    z[1] = _mm512_unpackhi_epi64(a, c);
    z[2] = _mm512_unpacklo_epi64(b, d);
    z[3] = _mm512_unpackhi_epi64(b, d);
}

// Columns become rows: dword j of z[i] changes places with dword i of z[j].
INLINE void i_transpose(__m512i z[16])
{
    __m512i a[16];
    for (int i = 0; i < 16; i += 4) // z[4i+j]: in each quarter q, column 4q+j of rows 4i to 4i+3
        i_transpose_quarters(z + i);
    for (int j = 0; j < 4; j++) {
        const __m512i even01 = _mm512_shuffle_i32x4(z[j], z[4 + j], 0x88);
        const __m512i odd01 = _mm512_shuffle_i32x4(z[j], z[4 + j], 0xdd);
        const __m512i even23 = _mm512_shuffle_i32x4(z[8 + j], z[12 + j], 0x88);
        const __m512i odd23 = _mm512_shuffle_i32x4(z[8 + j], z[12 + j], 0xdd);
        a[j] = _mm512_shuffle_i32x4(even01, even23, 0x88);
        a[8 + j] = _mm512_shuffle_i32x4(even01, even23, 0xdd);
        a[4 + j] = _mm512_shuffle_i32x4(odd01, odd23, 0x88);
        a[12 + j] = _mm512_shuffle_i32x4(odd01, odd23, 0xdd);
    }
    for (int i = 0; i < 16; i++)
        z[i] = a[i];
}
INLINE void v_transpose(vec z[VEC])
{
    __m512i i[VEC];
    for (int k = 0; k < VEC; k++)
        i[k] = _mm512_castps_si512(z[k]);
    i_transpose(i);
    for (int k = 0; k < VEC; k++)
        z[k] = _mm512_castsi512_ps(i[k]);
}

#else

typedef struct {
    __m256 a, b;
} f32x16;
typedef struct {
    __m256i a, b;
} i32x16;

#define F2(fa, fb)  ((f32x16){fa, fb})
#define I2(ia, ib)  ((i32x16){ia, ib})

INLINE f32x16 f_zero(void)
{
    return F2(_mm256_setzero_ps(), _mm256_setzero_ps());
}
INLINE f32x16 f_set1(float x)
{
    return F2(_mm256_set1_ps(x), _mm256_set1_ps(x));
}
INLINE f32x16 f_load(const float *p)
{
    return F2(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
}
INLINE void f_store(float *p, f32x16 x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
INLINE f32x16 f_fma(f32x16 a, f32x16 b, f32x16 c)
{
    return F2(_mm256_fmadd_ps(a.a, b.a, c.a), _mm256_fmadd_ps(a.b, b.b, c.b));
}
INLINE f32x16 f_add(f32x16 a, f32x16 b)
{
    return F2(_mm256_add_ps(a.a, b.a), _mm256_add_ps(a.b, b.b));
}
INLINE f32x16 f_sub(f32x16 a, f32x16 b)
{
    return F2(_mm256_sub_ps(a.a, b.a), _mm256_sub_ps(a.b, b.b));
}
INLINE f32x16 f_mul(f32x16 a, f32x16 b)
{
    return F2(_mm256_mul_ps(a.a, b.a), _mm256_mul_ps(a.b, b.b));
}
INLINE f32x16 f_div(f32x16 a, f32x16 b)
{
    return F2(_mm256_div_ps(a.a, b.a), _mm256_div_ps(a.b, b.b));
}
INLINE f32x16 f_max(f32x16 a, f32x16 b)
{
    return F2(_mm256_max_ps(a.a, b.a), _mm256_max_ps(a.b, b.b));
}
INLINE f32x16 f_abs(f32x16 a)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return F2(_mm256_andnot_ps(sign, a.a), _mm256_andnot_ps(sign, a.b));
}
INLINE f32x16 f_neg(f32x16 a)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return F2(_mm256_xor_ps(sign, a.a), _mm256_xor_ps(sign, a.b));
}
INLINE f32x16 f_round(f32x16 a)
{
    return F2(_mm256_round_ps(a.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
              _mm256_round_ps(a.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
INLINE f32x16 f_if_less(f32x16 a, f32x16 b, f32x16 x, f32x16 y)
{
    return F2(_mm256_blendv_ps(y.a, x.a, _mm256_cmp_ps(a.a, b.a, _CMP_LT_OQ)),
              _mm256_blendv_ps(y.b, x.b, _mm256_cmp_ps(a.b, b.b, _CMP_LT_OQ)));
}
INLINE i32x16 f_to_i(f32x16 a)
{
    return I2(_mm256_cvtps_epi32(a.a), _mm256_cvtps_epi32(a.b));
}
INLINE f32x16 i_to_f(i32x16 a)
{
    return F2(_mm256_cvtepi32_ps(a.a), _mm256_cvtepi32_ps(a.b));
}
INLINE i32x16 i_zero(void)
{
    return I2(_mm256_setzero_si256(), _mm256_setzero_si256());
}
INLINE i32x16 i_set1(int32_t x)
{
    return I2(_mm256_set1_epi32(x), _mm256_set1_epi32(x));
}
INLINE i32x16 i_add(i32x16 a, i32x16 b)
{
    return I2(_mm256_add_epi32(a.a, b.a), _mm256_add_epi32(a.b, b.b));
}
INLINE i32x16 i_sub(i32x16 a, i32x16 b)
{
    return I2(_mm256_sub_epi32(a.a, b.a), _mm256_sub_epi32(a.b, b.b));
}
#define i_shl(x, n) I2(_mm256_slli_epi32((x).a, n), _mm256_slli_epi32((x).b, n))
#define i_sar(x, n) I2(_mm256_srai_epi32((x).a, n), _mm256_srai_epi32((x).b, n))
INLINE f32x16 i_as_f(i32x16 a)
{
    return F2(_mm256_castsi256_ps(a.a), _mm256_castsi256_ps(a.b));
}
INLINE void i_store_i8(int8_t *p, i32x16 x)
{
    // packs works within 128-bit halves: a0 b0 | a1 b1, put right by one permutation
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i *)(void *)p, bytes);
}
INLINE i32x16 i_load_i8(const int8_t *p)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
    return I2(_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)));
}
INLINE f32x16 f_load_f16(const void *p)
{
    const __m128i *h = p;
    return F2(_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1)));
}
INLINE f32x16 f_load_bf16(const void *p)
{
    const __m128i *h = p;
    return F2(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(h)), 16)),
              _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(h + 1)), 16)));
}
INLINE __m256 f_low(f32x16 a)
{
    return a.a;
}
INLINE __m256 f_high(f32x16 a)
{
    return a.b;
}
INLINE void f_sum4(float *to, f32x16 a, f32x16 b, f32x16 c, f32x16 d)
{
    const __m256 a8 = _mm256_add_ps(a.a, a.b), b8 = _mm256_add_ps(b.a, b.b);
    const __m256 c8 = _mm256_add_ps(c.a, c.b), d8 = _mm256_add_ps(d.a, d.b);
    const __m256 ab =
        _mm256_add_ps(_mm256_permute2f128_ps(a8, b8, 0x20), _mm256_permute2f128_ps(a8, b8, 0x31));
    const __m256 cd =
        _mm256_add_ps(_mm256_permute2f128_ps(c8, d8, 0x20), _mm256_permute2f128_ps(c8, d8, 0x31));
    // halves: a, c and b, d
    const __m256 s2 = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    const __m256 s1 = _mm256_add_ps(_mm256_shuffle_ps(s2, s2, 0x88), _mm256_shuffle_ps(s2, s2, 0xdd));
    _mm_storeu_ps(to, _mm_unpacklo_ps(_mm256_castps256_ps128(s1), _mm256_extractf128_ps(s1, 1)));
}

typedef __m256 vec;
#define VEC         8
#define V_REGISTERS 16
INLINE vec v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
INLINE void v_store(float *p, vec x)
{
    _mm256_storeu_ps(p, x);
}
INLINE vec v_set1(float x)
{
    return _mm256_set1_ps(x);
}
INLINE vec v_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}
INLINE vec v_load_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}
INLINE vec v_load_bf16(const void *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}

INLINE void v_transpose(vec z[VEC])
{
    vec a[VEC], b[VEC];
    for (int i = 0; i < VEC; i += 2) {
        a[i] = _mm256_unpacklo_ps(z[i], z[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(z[i], z[i + 1]);
    }
    for (int i = 0; i < VEC; i += 4)
        for (int j = 0; j < 2; j++) {
            b[i + 2 * j] = _mm256_shuffle_ps(a[i + j], a[i + 2 + j], 0x44);
            b[i + 2 * j + 1] = _mm256_shuffle_ps(a[i + j], a[i + 2 + j], 0xee);
        }
    for (int i = 0; i < 4; i++) {
        z[i] = _mm256_permute2f128_ps(b[i], b[4 + i], 0x20);
        z[4 + i] = _mm256_permute2f128_ps(b[i], b[4 + i], 0x31);
    }
}

#endif

INLINE float f_sum(f32x16 a)
{
    __m256 s8 = _mm256_add_ps(f_low(a), f_high(a));
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}

INLINE float f_most(f32x16 a)
{
    __m256 m8 = _mm256_max_ps(f_low(a), f_high(a));
    __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
    __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
    return _mm_cvtss_f32(_mm_max_ss(m2, _mm_shuffle_ps(m2, m2, 1)));
}

#include "kernels/lanes16_tmpl.h"

#endif
