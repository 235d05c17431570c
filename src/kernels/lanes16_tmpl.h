// SPDX-License-Identifier: MIT
// What follows from the 16 lanes that an instruction set provides (instruction_set.h); the last thing that
// its lanes16.h includes.

typedef f32x16 (*load_fn)(const void *p);

INLINE f32x16 f_load_f32(const void *p)
{
    return f_load(p);
}

// 16 elements of `width` bytes, or the n that there are and zeros.
INLINE f32x16 f_load_some(const uint8_t *p, size_t n, size_t width, load_fn load)
{
    uint8_t part[LANES * sizeof(float)] = {0};
    return load(n < LANES ? memcpy(part, p, n * width) : p);
}

// The first n < 16 elements, zeros behind.
INLINE f32x16 f_load_part(const float *p, size_t n)
{
    float tmp[LANES] = {0};
    memcpy(tmp, p, n * sizeof *tmp);
    return f_load(tmp);
}
INLINE void f_store_part(float *p, f32x16 x, size_t n)
{
    float tmp[LANES];
    f_store(tmp, x);
    memcpy(p, tmp, n * sizeof *tmp);
}

// x = n ln 2 + r with the whole number n in *n; returns exp(r), by hearth_exp()'s operations.
INLINE f32x16 f_exp_fraction(f32x16 x, f32x16 *whole)
{
    const f32x16 n = *whole = f_round(f_mul(x, f_set1(1.44269504088896341f)));
    f32x16 r = f_fma(n, f_set1(-0.693145751953125f), x);
    r = f_fma(n, f_set1(-1.428606765330187045e-6f), r);
    f32x16 p = f_set1(0.0013814599f);
    p = f_fma(p, r, f_set1(0.008368717f));
    p = f_fma(p, r, f_set1(0.04166839f));
    p = f_fma(p, r, f_set1(0.16666521f));
    p = f_fma(p, r, f_set1(0.49999994f));
    p = f_fma(p, r, f_set1(1.0f));
    return f_fma(p, r, f_set1(1.0f));
}

// hearth_exp() on 16 lanes: the same operations.
INLINE f32x16 f_exp(f32x16 x)
{
    f32x16 n;
    const f32x16 p = f_exp_fraction(x, &n);
    i32x16 whole = f_to_i(n);
    i32x16 half = i_sar(whole, 1);
    i32x16 rest = i_sub(whole, half);
    f32x16 a = i_as_f(i_shl(i_add(half, i_set1(127)), 23)), b = i_as_f(i_shl(i_add(rest, i_set1(127)), 23));
    f32x16 y = f_mul(f_mul(p, a), b);
    y = f_if_less(f_set1(88.7f), x, f_set1(__builtin_inff()), y);
    y = f_if_less(x, f_set1(-87.3f), f_zero(), y);
    // NaN compares false everywhere and has gone through the products already: y is NaN, whose bits the C
    // code takes from x.
    return f_if_less(f_abs(x), f_set1(__builtin_inff()), y, f_if_less(f_zero(), f_abs(x), y, x));
}

// hearth_gelu() on 16 lanes: the same operations.
INLINE f32x16 f_gelu(f32x16 x)
{
    f32x16 t = f_div(f_set1(1.0f), f_fma(f_abs(x), f_set1(0.29698484809834995f), f_set1(1.0f)));
    f32x16 p = f_set1(0.03519554494949891f);
    p = f_fma(p, t, f_set1(-0.16046557839532272f));
    p = f_fma(p, t, f_set1(0.22092558869448145f));
    p = f_fma(p, t, f_set1(-0.06581381182663448f));
    p = f_fma(p, t, f_set1(0.13466761185023565f));
    p = f_fma(p, t, f_set1(0.09727156141864896f));
    p = f_fma(p, t, f_set1(0.1198078838055423f));
    p = f_fma(p, t, f_set1(0.11841111823033978f));
    f32x16 tail = f_mul(f_mul(p, t), f_exp(f_mul(f_mul(x, x), f_set1(-0.5f))));
    f32x16 y = f_if_less(x, f_zero(), f_mul(x, tail), f_fma(f_neg(x), tail, x));
    y = f_if_less(f_set1(13.2f), x, x, y);
    y = f_if_less(x, f_set1(-13.2f), f_zero(), y);
    return f_if_less(f_abs(x), f_set1(__builtin_inff()), y, f_if_less(f_zero(), f_abs(x), y, x));
}
