// SPDX-License-Identifier: MIT
// Kernels of devices, in OpenCL C 1.2, for all back ends: a back end whose compiler is no OpenCL one sets HEARTH_PTX
// (cuda.c). Each gives the bits of the C reference (kernels/kernels.h), so a sum has the order that is written there:
// where items share one, each has whole lanes of it. The files of this folder are one text, this one first.
//
// A group has GROUP items, where no other number is written. Matrices of block formats are what kernels/kernels.h calls
// units, as operations.h lays them out; activations are acts blocks. Sizes are in elements where nothing else is said,
// `stride` is of rows.
#ifdef HEARTH_PTX
#define KERNEL_OF(items) __attribute__((reqd_work_group_size(items, 1, 1))) __kernel void
#define INLINE           static inline __attribute__((always_inline))
#define UNROLL           _Pragma("unroll") // so that arrays are registers
#define UNROLL_8         _Pragma("unroll 8")
#define UNROLL_16        _Pragma("unroll 16")
#define get_group_id(d)                                                                                      \
    ((d) == 0   ? __nvvm_read_ptx_sreg_ctaid_x()                                                             \
     : (d) == 1 ? __nvvm_read_ptx_sreg_ctaid_y()                                                             \
                : __nvvm_read_ptx_sreg_ctaid_z())
#define get_local_id(d) __nvvm_read_ptx_sreg_tid_x()
#define barrier(x)      __syncthreads()
#define fma(a, b, c)    __builtin_fmaf(a, b, c)
#define rint(x)         __builtin_rintf(x)
#define fabs(x)         __builtin_fabsf(x)
#define sqrt(x)         __nvvm_sqrt_rn_f(x)
#define divide(a, b)    __nvvm_div_rn_f(a, b)
#define as_int(x)       __builtin_astype((x), int)
#define as_uint(x)      __builtin_astype((x), uint)
#define as_float(x)     __builtin_astype((x), float)
// Instructions, which a test has models of.
#ifndef HALF_TO_FLOAT
#define HALF_TO_FLOAT(f, h) __asm__("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h))
#define DOT4(sum, a, b, to) __asm__("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(to))
#endif
typedef __SIZE_TYPE__ size_t;
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned long ulong;
typedef uint uint2 __attribute__((ext_vector_type(2)));
typedef uint uint4 __attribute__((ext_vector_type(4)));
typedef int int2 __attribute__((ext_vector_type(2)));
typedef float float4 __attribute__((ext_vector_type(4)));
#else
#define KERNEL_OF(items) __kernel __attribute__((reqd_work_group_size(items, 1, 1))) void
#define INLINE           static inline __attribute__((always_inline))
// For GPUs: with these PoCL 3.1 gives wrong sums, where its threads have a group each.
#ifdef HEARTH_GPU
#define UNROLL    _Pragma("unroll")
#define UNROLL_8  _Pragma("unroll 8")
#define UNROLL_16 _Pragma("unroll 16")
#else
#define UNROLL
#define UNROLL_8
#define UNROLL_16
#endif
#define divide(a, b)     ((a) / (b))
#endif
#pragma OPENCL FP_CONTRACT OFF

#define GROUP  64
#define KERNEL KERNEL_OF(GROUP)
#define LANES  16
#define ITEM   ((int)get_local_id(0))
#define SYNC   barrier(CLK_LOCAL_MEM_FENCE)
// What a group's items have written to the device's memory is theirs to read afterwards.
#define SYNC_GLOBAL barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)

// ---- numbers

INLINE float half_of_bits(uint bits)
{
#ifdef HEARTH_PTX
    float f;
    HALF_TO_FLOAT(f, (ushort)bits);
    return f;
#else
    const ushort h = (ushort)bits;
    return vload_half(0, (const half *)&h);
#endif
}

// To nearest, ties to even.
INLINE ushort half_of(float f)
{
    const uint bits = as_uint(f), sign = bits >> 16 & 0x8000, a = bits & 0x7fffffff;
    if (a > 0x7f800000)
        return (ushort)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    if (a >= 0x47800000)
        return (ushort)(sign | 0x7c00);
    if (a < 0x38800000)
        return (ushort)(sign | (as_uint(as_float(a) + 0.5f) - 0x3f000000));
    const uint b = a + 0xfff + (a >> 13 & 1) - (112u << 23);
    return (ushort)(sign | b >> 13);
}

// Element i of plain numbers: 0 F32, 1 F16, 2 BF16. Its bits are a number once they are used: what is converted at once
// is waited for at once.
INLINE uint plain_bits(const __global uchar *p, int format, size_t i)
{
    return format == 0 ? ((const __global uint *)p)[i] : ((const __global ushort *)p)[i];
}

INLINE float plain_of_bits(uint bits, int format)
{
    return format == 0 ? as_float(bits) : format == 1 ? half_of_bits(bits) : as_float(bits << 16);
}

INLINE float plain_at(const __global uchar *p, int format, size_t i)
{
    return plain_of_bits(plain_bits(p, format, i), format);
}

// `to` and the sum of four products of signed bytes.
INLINE int dot4(uint a, uint b, int to)
{
#ifdef HEARTH_PTX
    int sum;
    DOT4(sum, a, b, to);
    return sum;
#else
    const int4 x = convert_int4(as_char4(a)), y = convert_int4(as_char4(b)), z = x * y;
    return to + z.x + z.y + z.z + z.w;
#endif
}

// hearth_exp()
INLINE float exp_of(float x)
{
    if (!(x >= -87.3f))
        return x < -87.3f ? 0.0f : x;
    if (x > 88.7f)
        return INFINITY;
    const float n = rint(x * 1.44269504088896341f);
    float r = fma(n, -0.693145751953125f, x);
    r = fma(n, -1.428606765330187045e-6f, r);
    float p = 0.0013814599f;
    p = fma(p, r, 0.008368717f);
    p = fma(p, r, 0.04166839f);
    p = fma(p, r, 0.16666521f);
    p = fma(p, r, 0.49999994f);
    p = fma(p, r, 1.0f);
    p = fma(p, r, 1.0f);
    const int half_n = (int)n >> 1, rest = (int)n - half_n;
    return p * as_float((uint)(half_n + 127) << 23) * as_float((uint)(rest + 127) << 23);
}

// hearth_gelu()
INLINE float gelu_of(float x)
{
    if (!(x >= -13.2f))
        return x < -13.2f ? 0.0f : x;
    if (x > 13.2f)
        return x;
    const float t = divide(1.0f, fma(fabs(x), 0.29698484809834995f, 1.0f));
    float p = 0.03519554494949891f;
    p = fma(p, t, -0.16046557839532272f);
    p = fma(p, t, 0.22092558869448145f);
    p = fma(p, t, -0.06581381182663448f);
    p = fma(p, t, 0.13466761185023565f);
    p = fma(p, t, 0.09727156141864896f);
    p = fma(p, t, 0.1198078838055423f);
    p = fma(p, t, 0.11841111823033978f);
    const float tail = p * t * exp_of(x * x * -0.5f);
    return x < 0.0f ? x * tail : fma(-x, tail, x);
}

// Numbers of enum hearth_activation.
#define SILU         0
#define DRELU        2
#define GELU         3
#define GELU_TANH    4
#define SWIGLU       5
#define SIGMOID      6
#define JUMP_RELU    7
#define RELU_SQUARED 8

INLINE float activated(float x, int act)
{
    if (act == SILU)
        return divide(x, 1.0f + exp_of(-x));
    if (act == GELU)
        return gelu_of(x);
    if (act == GELU_TANH)
        return divide(x, 1.0f + exp_of(-(x * fma(x * x, 0.0713548162726f, 1.5957691216057f))));
    if (act == SWIGLU) {
        const float cut = x > 7.0f ? 7.0f : x;
        return divide(cut, 1.0f + exp_of(-(1.702f * cut)));
    }
    if (act == SIGMOID)
        return divide(1.0f, 1.0f + exp_of(-x));
    if (act == JUMP_RELU)
        return x > 0.0f ? x + 1.0f : 0.0f;
    if (act == RELU_SQUARED)
        return x > 0.0f ? x * x : 0.0f;
    return x > 0.0f ? x : 0.0f;
}

INLINE float factor(float up, int act)
{
    if (act == DRELU)
        return activated(up, act);
    if (act != SWIGLU)
        return up;
    const float cut = up > 7.0f ? 7.0f : up < -7.0f ? -7.0f : up;
    return cut + 1.0f;
}

// The lanes' tree, of the 16 at `lane`, for all items of the group at once; lane[0] has the sum afterwards.
INLINE void sum_lanes(__local float *lane, int i)
{
    for (int width = LANES / 2; width; width /= 2) {
        SYNC;
        if (i < width)
            lane[i] += lane[i + width];
    }
    SYNC;
}
