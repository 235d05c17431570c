// SPDX-License-Identifier: MIT
// Kernels of devices, in OpenCL C 1.2, for all back ends: a back end whose compiler is no OpenCL one sets HEARTH_PTX
// (cuda.c). Each gives the bits of the C reference (kernels/kernels.h), so a sum has the order that is written there:
// where items share one, each has whole lanes of it.
//
// A group has GROUP items. Matrices of block formats are what kernels/kernels.h calls units, as operations.h lays them
// out; activations are acts blocks. Sizes are in elements where nothing else is said, `stride` is of rows.
#ifdef HEARTH_PTX
#define KERNEL __attribute__((reqd_work_group_size(64, 1, 1))) __kernel void
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
typedef __SIZE_TYPE__ size_t;
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned long ulong;
#else
#define KERNEL       __kernel __attribute__((reqd_work_group_size(64, 1, 1))) void
#define divide(a, b) ((a) / (b))
#endif
#pragma OPENCL FP_CONTRACT OFF

#define GROUP 64
#define LANES 16
#define ITEM  ((int)get_local_id(0))
#define SYNC  barrier(CLK_LOCAL_MEM_FENCE)

// ---- numbers

static float half_at(const __global ushort *p, size_t i)
{
#ifdef HEARTH_PTX
    float f;
    __asm__("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(p[i]));
    return f;
#else
    return vload_half(i, (const __global half *)p);
#endif
}

// To nearest, ties to even.
static ushort half_of(float f)
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

// Element i of plain numbers: 0 F32, 1 F16, 2 BF16.
static float plain_at(const __global uchar *p, int format, size_t i)
{
    if (format == 0)
        return ((const __global float *)p)[i];
    const __global ushort *half_words = (const __global ushort *)p;
    return format == 1 ? half_at(half_words, i) : as_float((uint)half_words[i] << 16);
}

// Sum of four products of signed bytes.
static int dot4(uint a, uint b)
{
#ifdef HEARTH_PTX
    int sum;
    __asm__("dp4a.s32.s32 %0, %1, %2, 0;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
#else
    const int4 x = convert_int4(as_char4(a)), y = convert_int4(as_char4(b)), z = x * y;
    return z.x + z.y + z.z + z.w;
#endif
}

// hearth_exp()
static float exp_of(float x)
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
static float gelu_of(float x)
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

static float activated(float x, int act)
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
    return x > 0.0f ? x : 0.0f;
}

static float factor(float up, int act)
{
    if (act == DRELU)
        return activated(up, act);
    if (act != SWIGLU)
        return up;
    const float cut = up > 7.0f ? 7.0f : up < -7.0f ? -7.0f : up;
    return cut + 1.0f;
}

// The lanes' tree, of the 16 at `lane`, for all items of the group at once; lane[0] has the sum afterwards.
static void sum_lanes(__local float *lane, int i)
{
    for (int width = LANES / 2; width; width /= 2) {
        SYNC;
        if (i < width)
            lane[i] += lane[i + width];
    }
    SYNC;
}

// ---- rows of a batch

// out = norm(x), a group a row: RMS norm, or with is_layer a layer norm, whose b may be missing. out may be x.
KERNEL norm(__global float *out, const __global float *x, const __global float *w, const __global float *b, int n,
            float eps, int is_layer, int has_bias)
{
    __local float lane[LANES];
    const __global float *from = x + (size_t)get_group_id(0) * (size_t)n;
    __global float *to = out + (size_t)get_group_id(0) * (size_t)n;
    const int item = ITEM;
    float mean = 0.0f;
    if (is_layer) {
        if (item < LANES) {
            float acc = 0.0f;
            for (int i = item; i < n; i += LANES)
                acc += from[i];
            lane[item] = acc;
        }
        sum_lanes(lane, item);
        mean = divide(lane[0], (float)n);
        SYNC;
    }
    if (item < LANES) {
        float acc = 0.0f;
        for (int i = item; i < n; i += LANES) {
            const float v = is_layer ? from[i] - mean : from[i];
            acc = fma(v, v, acc);
        }
        lane[item] = acc;
    }
    sum_lanes(lane, item);
    const float scale = divide(1.0f, sqrt(divide(lane[0], (float)n) + eps));
    for (int i = item; i < n; i += GROUP) {
        if (is_layer)
            to[i] = fma((from[i] - mean) * scale, w[i], has_bias ? b[i] : 0.0f);
        else
            to[i] = from[i] * scale * w[i];
    }
}

// x += y for rows of n; y has one row for all where its stride is 0, and row which[r] is row r's where there are such.
KERNEL add(__global float *x, const __global float *y, int n, int y_stride, const __global int *which, int has_which)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t row = get_group_id(1), from = has_which ? (size_t)which[row] : row;
    if (i < n)
        x[row * (size_t)n + (size_t)i] += y[from * (size_t)y_stride + (size_t)i];
}

// x = x + y * by
KERNEL add_scaled(__global float *x, const __global float *y, int n, float by)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t at = get_group_id(1) * (size_t)n + (size_t)i;
    if (i < n)
        x[at] = fma(y[at], by, x[at]);
}

// Rotates heads: an item a pair. Groups: pairs of a head, heads, rows.
KERNEL rope(__global float *x, const __global float *cos_sin, int n_heads, int dim, int n_rot, int neox)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM, pairs = n_rot / 2;
    const size_t row = get_group_id(2), head = row * (size_t)n_heads + get_group_id(1);
    if (i >= pairs)
        return;
    const __global float *turn = cos_sin + row * (size_t)n_rot;
    __global float *a = x + head * (size_t)dim + (neox ? i : 2 * i);
    __global float *b = a + (neox ? pairs : 1);
    const float c = turn[i], s = turn[pairs + i], old_a = *a, old_b = *b;
    *a = fma(old_a, c, -(old_b * s));
    *b = fma(old_a, s, old_b * c);
}

// One unit of 32 activations an item. Groups: units, rows.
KERNEL quantize(__global uchar *acts, const __global float *x, int k, int padded, int acts_bytes)
{
    const int at = ((int)get_group_id(0) * GROUP + ITEM) * 32;
    if (at >= padded)
        return;
    const __global float *from = x + get_group_id(1) * (size_t)k;
    __global char *hi = (__global char *)acts + get_group_id(1) * (size_t)acts_bytes;
    __global char *lo = hi + padded;
    __global float *d = (__global float *)(lo + padded);
    __global int *sum = (__global int *)(d + padded / 32);
    __global int *bias = sum + padded / 16;
    const int n = k - at < 32 ? (k - at > 0 ? k - at : 0) : 32;
    float amax = 0.0f;
    int finite = 1;
    for (int i = 0; i < n; i++) {
        const float v = fabs(from[at + i]);
        amax = v > amax ? v : amax;
        finite &= (as_uint(v) & 0x7f800000) != 0x7f800000;
    }
    const float inverse = amax > 0.0f ? divide(16256.0f, amax) : 0.0f;
    const int zero = !finite || !(inverse <= 3.0e38f);
    for (int part = 0; part < 2; part++) {
        int total = 0, high_total = 0;
        for (int i = 16 * part; i < 16 * part + 16; i++) {
            const int q = i < n && !zero ? (int)rint(from[at + i] * inverse) : 0, high = (q + 64) >> 7;
            hi[at + i] = (char)high;
            lo[at + i] = (char)(q - 128 * high);
            total += q;
            high_total += high;
        }
        sum[at / 16 + part] = total;
        bias[at / 16 + part] = -128 * high_total;
    }
    d[at / 32] = !finite ? as_float(0x7fc00000) : zero ? 0.0f : divide(amax, 16256.0f);
}

// ---- products of block formats
//
// Words of a unit: 8 bits an element, or 4 bits, element i of the lower half below element i of the upper one, and
// `base` less than the integer. Scales and minima are halfs or floats.

#define STEP_TOKENS   4
#define PROMPT_TOKENS 8

static float scale_at(const __global uchar *p, int is_half, size_t i)
{
    return is_half ? half_at((const __global ushort *)p, i) : ((const __global float *)p)[i];
}

struct token {
    const __global uint *hi, *lo;
    const __global float *d;
    const __global int *sum, *bias;
};

static struct token token_of(const __global uchar *acts, int padded)
{
    struct token t;
    t.hi = (const __global uint *)acts;
    t.lo = t.hi + padded / 4;
    t.d = (const __global float *)(t.lo + padded / 4);
    t.sum = (const __global int *)(t.d + padded / 32);
    t.bias = t.sum + padded / 16;
    return t;
}

static int dot_plane(const uint *w, int bits, int unit, const __global uint *x)
{
    int sum = 0;
    if (bits == 8) {
        for (int i = 0; i < unit / 4; i++)
            sum += dot4(w[i], x[i]);
    } else {
        for (int i = 0; i < unit / 8; i++)
            sum += dot4(w[i] & 0x0f0f0f0f, x[i]) + dot4(w[i] >> 4 & 0x0f0f0f0f, x[unit / 8 + i]);
    }
    return sum;
}

// The two fmas of unit u, whose words are w.
static float add_unit(float acc, const uint *w, int bits, int unit, float scale, float minimum, int has_min, int base,
                      struct token x, int u, int planes)
{
    const int word = u * unit / 4;
    const float d = planes == 2 ? x.d[u * unit / 32] : 128.0f * x.d[u * unit / 32];
    const __global int *sums = planes == 2 ? x.sum : x.bias;
    int isum = unit == 32 ? sums[2 * u] + sums[2 * u + 1] : sums[u];
    if (planes == 1)
        isum /= -128;
    int dot = dot_plane(w, bits, unit, x.hi + word);
    if (planes == 2)
        dot = 128 * dot + dot_plane(w, bits, unit, x.lo + word);
    dot += base * isum;
    acc = fma(scale * d, (float)dot, acc);
    return has_min ? fma(-(minimum * d), (float)isum, acc) : acc;
}

#define UNIT_WORDS(bits, unit) ((bits) * (unit) / 32)

#define PRODUCT_ARGS                                                                                               \
    __global float *out, int out_stride, const __global uint *q, const __global uchar *scales,                     \
        const __global uchar *minima, const __global uchar *acts, int padded, int acts_bytes, int n_units, int n_rows, \
        int n_tokens, int has_min, int base, int planes, const __global uchar *mask, int has_mask,                 \
        const __global int *tiles, int has_tiles

// The tokens of a group, and the matrix that they go through, of several side by side. Without tiles, which have three
// numbers each, there is one, and `most` tokens belong together.
struct tile {
    int first, n;
    size_t matrix;
};

static struct tile tile_of(int number, int most, int n_tokens, const __global int *tiles, int has_tiles)
{
    struct tile t;
    t.first = has_tiles ? tiles[3 * number] : number * most;
    t.n = has_tiles ? tiles[3 * number + 1] : n_tokens - t.first < most ? n_tokens - t.first : most;
    t.matrix = has_tiles ? (size_t)tiles[3 * number + 2] : 0;
    return t;
}

// STEP: 4 rows a group, of which an item has one lane. Groups: rows, tokens. Rows that none of the tokens has in the
// mask are left out.
static void step_body(__local float *lane, PRODUCT_ARGS, const int bits, const int unit, const int is_half)
{
    const int words = UNIT_WORDS(bits, unit), l = ITEM % LANES;
    const int row = (int)get_group_id(0) * (GROUP / LANES) + ITEM / LANES;
    const struct tile tile = tile_of((int)get_group_id(1), STEP_TOKENS, n_tokens, tiles, has_tiles);
    const int first = tile.first, n = tile.n;
    float acc[STEP_TOKENS] = {0.0f, 0.0f, 0.0f, 0.0f};
    int wanted = row < n_rows;
    if (wanted && has_mask) {
        wanted = 0;
        for (int t = 0; t < n; t++)
            wanted |= mask[(size_t)(first + t) * (size_t)n_rows + (size_t)row];
    }
    struct token x[STEP_TOKENS];
    for (int t = 0; t < STEP_TOKENS; t++)
        x[t] = token_of(acts + (size_t)(first + (t < n ? t : 0)) * (size_t)acts_bytes, padded);
    for (int u = l; wanted && u < n_units; u += LANES) {
        const size_t at = (tile.matrix * (size_t)n_rows + (size_t)row) * (size_t)n_units + (size_t)u;
        const __global uint *from = q + at * (size_t)words;
        uint w[8];
        for (int i = 0; i < words; i++)
            w[i] = from[i];
        const float scale = scale_at(scales, is_half, at), low = has_min ? scale_at(minima, is_half, at) : 0.0f;
        for (int t = 0; t < STEP_TOKENS; t++)
            if (t < n)
                acc[t] = add_unit(acc[t], w, bits, unit, scale, low, has_min, base, x[t], u, 2);
    }
    // The padding of lanes that have fewer units.
    if (n_units % LANES && l >= n_units % LANES)
        for (int t = 0; t < STEP_TOKENS; t++)
            acc[t] += 0.0f;
    for (int t = 0; t < n; t++) {
        lane[ITEM] = acc[t];
        sum_lanes(lane + ITEM / LANES * LANES, l);
        if (l == 0 && row < n_rows)
            out[(size_t)(first + t) * (size_t)out_stride + (size_t)row] = lane[ITEM];
        SYNC;
    }
    (void)planes;
}

// PROMPT: an item has a row, for some tokens. Groups: rows, tokens.
static void prompt_body(PRODUCT_ARGS, const int bits, const int unit, const int is_half)
{
    const int words = UNIT_WORDS(bits, unit);
    const int row = (int)get_group_id(0) * GROUP + ITEM;
    const struct tile tile = tile_of((int)get_group_id(1), PROMPT_TOKENS, n_tokens, tiles, has_tiles);
    const int first = tile.first, n = tile.n;
    if (row >= n_rows)
        return;
    float acc[PROMPT_TOKENS] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int u = 0; u < n_units; u++) {
        const size_t at = (tile.matrix * (size_t)n_rows + (size_t)row) * (size_t)n_units + (size_t)u;
        const __global uint *from = q + at * (size_t)words;
        uint w[8];
        for (int i = 0; i < words; i++)
            w[i] = from[i];
        const float scale = scale_at(scales, is_half, at), low = has_min ? scale_at(minima, is_half, at) : 0.0f;
        for (int t = 0; t < PROMPT_TOKENS; t++)
            if (t < n)
                acc[t] = add_unit(acc[t], w, bits, unit, scale, low, has_min, base,
                                  token_of(acts + (size_t)(first + t) * (size_t)acts_bytes, padded), u, planes);
    }
    for (int t = 0; t < PROMPT_TOKENS; t++)
        if (t < n)
            out[(size_t)(first + t) * (size_t)out_stride + (size_t)row] = acc[t];
    (void)mask;
    (void)has_mask;
}

// ---- down by neuron: element `column` of row `row`

static int integer_at(const __global uchar *q, int bits, int unit, int base, size_t row, int n_units, int column)
{
    const int in = column % unit, u = column / unit;
    const __global uchar *from = q + (row * (size_t)n_units + (size_t)u) * (size_t)(bits * unit / 8);
    if (bits == 8)
        return (int)((const __global char *)from)[in];
    const int byte = from[in % (unit / 2)];
    return (in < unit / 2 ? byte & 15 : byte >> 4) + base;
}

#define DOWN_ARGS                                                                                             \
    __global float *out, const __global float *p, int p_stride, const __global uchar *q,                      \
        const __global uchar *scales, const __global uchar *minima, int n_columns, int n_neurons, int has_min, \
        int base, int cluster, int n_clusters

// A step's clusters, each from zero: out [tokens][clusters][columns]. Groups: columns, clusters, tokens.
static void clusters_body(DOWN_ARGS, const int bits, const int unit, const int is_half)
{
    const int column = (int)get_group_id(0) * GROUP + ITEM;
    const int first = (int)get_group_id(1) * cluster;
    const int end = n_neurons - first < cluster ? n_neurons : first + cluster;
    const __global float *weights = p + get_group_id(2) * (size_t)p_stride;
    const int n_units = n_columns / unit;
    if (column >= n_columns)
        return;
    float acc = 0.0f;
    for (int r = first; r < end; r++) {
        const float by = weights[r];
        if (by == 0.0f)
            continue;
        const size_t at = (size_t)r * (size_t)n_units + (size_t)(column / unit);
        acc = fma(by * scale_at(scales, is_half, at),
                  (float)integer_at(q, bits, unit, base, (size_t)r, n_units, column), acc);
        if (has_min)
            acc = fma(-by, scale_at(minima, is_half, at), acc);
    }
    out[(get_group_id(2) * (size_t)n_clusters + get_group_id(1)) * (size_t)n_columns + (size_t)column] = acc;
}

// A prompt's sum over all neurons, of decoded weights. Groups: columns, 1, tokens.
static void columns_body(DOWN_ARGS, const int bits, const int unit, const int is_half)
{
    const int column = (int)get_group_id(0) * GROUP + ITEM, n_units = n_columns / unit;
    const __global float *weights = p + get_group_id(2) * (size_t)p_stride;
    if (column >= n_columns)
        return;
    float acc = 0.0f;
    for (int r = 0; r < n_neurons; r++) {
        const float by = weights[r];
        if (by == 0.0f)
            continue;
        const size_t at = (size_t)r * (size_t)n_units + (size_t)(column / unit);
        float value =
            scale_at(scales, is_half, at) * (float)integer_at(q, bits, unit, base, (size_t)r, n_units, column);
        if (has_min)
            value = value - scale_at(minima, is_half, at);
        acc = fma(by, value, acc);
    }
    out[get_group_id(2) * (size_t)n_columns + (size_t)column] = acc;
    (void)cluster;
    (void)n_clusters;
}

// One kernel of each for each form of units.
#define FORM(name, bits, unit, is_half)                                                                          \
    KERNEL step_##name(PRODUCT_ARGS)                                                                             \
    {                                                                                                            \
        __local float lane[GROUP];                                                                               \
        step_body(lane, out, out_stride, q, scales, minima, acts, padded, acts_bytes, n_units, n_rows, n_tokens, \
                  has_min, base, planes, mask, has_mask, tiles, has_tiles, bits, unit, is_half);                 \
    }                                                                                                            \
    KERNEL prompt_##name(PRODUCT_ARGS)                                                                           \
    {                                                                                                            \
        prompt_body(out, out_stride, q, scales, minima, acts, padded, acts_bytes, n_units, n_rows, n_tokens,     \
                    has_min, base, planes, mask, has_mask, tiles, has_tiles, bits, unit, is_half);               \
    }                                                                                                            \
    KERNEL clusters_##name(DOWN_ARGS)                                                                            \
    {                                                                                                            \
        clusters_body(out, p, p_stride, q, scales, minima, n_columns, n_neurons, has_min, base, cluster,         \
                      n_clusters, bits, unit, is_half);                                                          \
    }                                                                                                            \
    KERNEL columns_##name(DOWN_ARGS)                                                                             \
    {                                                                                                            \
        columns_body(out, p, p_stride, q, scales, minima, n_columns, n_neurons, has_min, base, cluster,          \
                     n_clusters, bits, unit, is_half);                                                           \
    }
FORM(4_32h, 4, 32, 1)
FORM(8_32h, 8, 32, 1)
FORM(4_32, 4, 32, 0)
FORM(8_32, 8, 32, 0)
FORM(4_16, 4, 16, 0)
FORM(8_16, 8, 16, 0)

// ---- products of plain numbers

#define PLAIN_ARGS                                                                                               \
    __global float *out, int out_stride, const __global uchar *w, int format, const __global float *x, int k,    \
        int n_rows, int n_tokens, const __global uchar *mask, int has_mask, const __global int *tiles, int has_tiles

KERNEL step_plain(PLAIN_ARGS)
{
    __local float lane[GROUP];
    const int l = ITEM % LANES, row = (int)get_group_id(0) * (GROUP / LANES) + ITEM / LANES;
    const struct tile tile = tile_of((int)get_group_id(1), 1, n_tokens, tiles, has_tiles);
    for (int t = 0; t < tile.n; t++) {
        const size_t token = (size_t)(tile.first + t);
        const __global float *from = x + token * (size_t)k;
        const int wanted = row < n_rows && !(has_mask && !mask[token * (size_t)n_rows + (size_t)row]);
        float acc = 0.0f;
        for (int i = l; wanted && i < k; i += LANES)
            acc = fma(plain_at(w, format, (tile.matrix * (size_t)n_rows + (size_t)row) * (size_t)k + (size_t)i),
                      from[i], acc);
        if (k % LANES && l >= k % LANES)
            acc += 0.0f;
        lane[ITEM] = acc;
        sum_lanes(lane + ITEM / LANES * LANES, l);
        if (l == 0 && row < n_rows)
            out[token * (size_t)out_stride + (size_t)row] = lane[ITEM];
        SYNC;
    }
}

KERNEL prompt_plain(PLAIN_ARGS)
{
    const int row = (int)get_group_id(0) * GROUP + ITEM;
    const struct tile tile = tile_of((int)get_group_id(1), PROMPT_TOKENS, n_tokens, tiles, has_tiles);
    const int first = tile.first, n = tile.n;
    if (row >= n_rows)
        return;
    float acc[PROMPT_TOKENS] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int i = 0; i < k; i++) {
        const float v =
            plain_at(w, format, (tile.matrix * (size_t)n_rows + (size_t)row) * (size_t)k + (size_t)i);
        for (int t = 0; t < PROMPT_TOKENS; t++)
            if (t < n)
                acc[t] = fma(v, x[(size_t)(first + t) * (size_t)k + (size_t)i], acc[t]);
    }
    for (int t = 0; t < PROMPT_TOKENS; t++)
        if (t < n)
            out[(size_t)(first + t) * (size_t)out_stride + (size_t)row] = acc[t];
    (void)mask;
    (void)has_mask;
}

// Down by neuron of plain numbers, where clusters and whole sums differ in nothing else. Groups: columns, clusters,
// tokens.
KERNEL down_plain(__global float *out, const __global float *p, int p_stride, const __global uchar *w, int format,
                  int n_columns, int n_neurons, int cluster, int n_clusters)
{
    const int column = (int)get_group_id(0) * GROUP + ITEM, first = (int)get_group_id(1) * cluster;
    const int end = n_neurons - first < cluster ? n_neurons : first + cluster;
    const __global float *weights = p + get_group_id(2) * (size_t)p_stride;
    if (column >= n_columns)
        return;
    float acc = 0.0f;
    for (int r = first; r < end; r++)
        if (weights[r] != 0.0f)
            acc = fma(weights[r], plain_at(w, format, (size_t)r * (size_t)n_columns + (size_t)column), acc);
    out[(get_group_id(2) * (size_t)n_clusters + get_group_id(1)) * (size_t)n_columns + (size_t)column] = acc;
}

// out = the clusters' sums, ascending, from zero. Groups: columns, tokens.
KERNEL sum_clusters(__global float *out, const __global float *parts, int n_columns, int n_clusters)
{
    const int column = (int)get_group_id(0) * GROUP + ITEM;
    if (column >= n_columns)
        return;
    float acc = 0.0f;
    for (int c = 0; c < n_clusters; c++)
        acc += parts[(get_group_id(1) * (size_t)n_clusters + (size_t)c) * (size_t)n_columns + (size_t)column];
    out[get_group_id(1) * (size_t)n_columns + (size_t)column] = acc;
}

// ---- feed-forward parts

// gate = f(gate) * up, or f(gate) where there is no up; 0 where the mask says so. Groups: neurons, rows.
KERNEL activate(__global float *gate, const __global float *up, int n, int act, int has_up, const __global uchar *mask,
                int has_mask)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t at = get_group_id(1) * (size_t)n + (size_t)i;
    if (i >= n)
        return;
    const float v = activated(gate[at], act);
    gate[at] = has_mask && !mask[at] ? 0.0f : has_up ? v * factor(up[at], act) : v;
}

// mask = 1 where a predictor names the neuron, or it is one of the first `always`; without has_scores all.
KERNEL mask_scores(__global uchar *mask, const __global float *scores, int n, float least, int always, int has_scores)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t at = get_group_id(1) * (size_t)n + (size_t)i;
    if (i < n)
        mask[at] = !has_scores || i < always || scores[at] >= least;
}

// Drops from the mask neurons whose gate is not on, or, with least above 0, whose activated gate is smaller.
KERNEL mask_gates(__global uchar *mask, const __global float *gate, int n, int act, int is_relu, float least)
{
    const int i = (int)get_group_id(0) * GROUP + ITEM;
    const size_t at = get_group_id(1) * (size_t)n + (size_t)i;
    if (i >= n)
        return;
    if (is_relu)
        mask[at] &= !(gate[at] <= 0.0f);
    if (least > 0.0f)
        mask[at] &= !(fabs(activated(gate[at], act)) < least);
}

// ---- attention
//
// A page of the cache has 64 positions: for each key/value head 64 keys, then 64 values. `places` has for each row of
// the batch its position and where its sequence's pages begin in `pages`. A group has 64 items: one a position while
// scores are computed, then one for each 64th element of values.

#define TILE     64
#define RANGE    16
#define MAX_DIMS 8

// Stores a row's keys and values: to its page, and side by side to `copy`, from where the host takes them. Groups:
// heads, rows.
KERNEL store(__global uchar *pages_at, __global uchar *copy, const __global float *k, const __global float *v,
             const __global int *places, const __global int *pages, int n_heads, int dim, int format_k, int format_v)
{
    const size_t row = get_group_id(1), head = get_group_id(0);
    const int pos = places[2 * row], page = pages[places[2 * row + 1] + pos / TILE], slot = pos % TILE;
    const size_t row_k = (size_t)dim * (format_k ? 2 : 4), row_v = (size_t)dim * (format_v ? 2 : 4);
    __global uchar *tile = pages_at + ((size_t)page * (size_t)n_heads + head) * TILE * (row_k + row_v);
    __global uchar *keys = tile + (size_t)slot * row_k;
    __global uchar *values = tile + TILE * row_k + (size_t)slot * row_v;
    __global uchar *keys_copy = copy + (row * (size_t)n_heads + head) * (row_k + row_v);
    __global uchar *values_copy = keys_copy + row_k;
    const size_t at = (row * (size_t)n_heads + head) * (size_t)dim;
    for (int i = ITEM; i < dim; i += GROUP) {
        if (format_k) {
            const ushort h = half_of(k[at + (size_t)i]);
            ((__global ushort *)keys_copy)[i] = h;
            ((__global ushort *)keys)[i] = h;
        } else {
            ((__global float *)keys_copy)[i] = k[at + (size_t)i];
            ((__global float *)keys)[i] = k[at + (size_t)i];
        }
        if (format_v) {
            const ushort h = half_of(v[at + (size_t)i]);
            ((__global ushort *)values_copy)[i] = h;
            ((__global ushort *)values)[i] = h;
        } else {
            ((__global float *)values_copy)[i] = v[at + (size_t)i];
            ((__global float *)values)[i] = v[at + (size_t)i];
        }
    }
}

// What attention keeps of what it has seen: item i's elements i, i + 64, ... of the values, not divided yet.
struct state {
    float out[MAX_DIMS], max, sum;
};

// Adds `more` to what there is: the larger maximum wins, both are scaled to it.
static void merge(struct state *to, const struct state *more)
{
    const float top = to->max > more->max ? to->max : more->max;
    const float a = exp_of(to->max - top), b = exp_of(more->max - top);
    for (int i = 0; i < MAX_DIMS; i++)
        to->out[i] = fma(more->out[i], b, to->out[i] * a);
    to->sum = fma(more->sum, b, to->sum * a);
    to->max = top;
}

struct heads {
    const __global uchar *pages_at;
    int n_heads, head, dim, format_k, format_v;
    float scale;
};

// Positions [from, from + n) of a page.
static void attend_tile(struct state *s, const struct heads *h, const __local float *q, __local float *scores,
                        __local float *lane, int page, int from, int n)
{
    const size_t row_k = (size_t)h->dim * (h->format_k ? 2 : 4), row_v = (size_t)h->dim * (h->format_v ? 2 : 4);
    const __global uchar *tile =
        h->pages_at + ((size_t)page * (size_t)h->n_heads + (size_t)h->head) * TILE * (row_k + row_v);
    const __global uchar *keys = tile + (size_t)from * row_k;
    const __global uchar *values = tile + TILE * row_k + (size_t)from * row_v;
    const int item = ITEM;
    if (item < n) {
        float acc[LANES];
        for (int l = 0; l < LANES; l++)
            acc[l] = 0.0f;
        for (int i = 0; i < h->dim; i += LANES)
            for (int l = 0; l < LANES; l++)
                acc[l] = i + l < h->dim ? fma(plain_at(keys, h->format_k, (size_t)item * (size_t)h->dim + (size_t)(i + l)),
                                              q[i + l], acc[l])
                                        : acc[l] + 0.0f;
        for (int width = LANES / 2; width; width /= 2)
            for (int l = 0; l < LANES / 2; l++)
                if (l < width)
                    acc[l] += acc[l + width];
        scores[item] = acc[0] * h->scale;
    }
    SYNC;
    float max = -INFINITY;
    for (int i = 0; i < n; i++)
        max = scores[i] > max ? scores[i] : max;
    SYNC;
    if (item < n)
        scores[item] = exp_of(scores[item] - max);
    SYNC;
    if (item < LANES) {
        float acc = 0.0f;
        for (int i = item; i < n; i += LANES)
            acc += scores[i];
        lane[item] = acc;
    }
    sum_lanes(lane, item);
    s->max = max;
    s->sum = lane[0];
    for (int k = 0; k < MAX_DIMS; k++)
        s->out[k] = 0.0f;
    for (int r = 0; r < n; r++) {
        const float p = scores[r];
        if (p == 0.0f)
            continue;
        for (int k = 0; k < MAX_DIMS; k++)
            if (k * GROUP + item < h->dim)
                s->out[k] = fma(p,
                                plain_at(values, h->format_v,
                                         (size_t)r * (size_t)h->dim + (size_t)(k * GROUP + item)),
                                s->out[k]);
    }
    SYNC;
}

// Ranges [first, end) of a row's positions; leaves sum 0 where there are none.
static void attend_ranges(struct state *all, const struct heads *h, const __local float *q, __local float *scores,
                          __local float *lane, const __global int *pages, int pos, int window, int first, int end)
{
    const int oldest = window && pos >= window ? pos - window + 1 : 0;
    const int first_tile = oldest / TILE, last_tile = pos / TILE;
    all->max = 0.0f;
    all->sum = 0.0f;
    for (int r = first; r < end; r++) {
        struct state range;
        range.sum = 0.0f;
        range.max = 0.0f;
        int begun = 0;
        for (int tile = r * RANGE > first_tile ? r * RANGE : first_tile; tile < (r + 1) * RANGE && tile <= last_tile;
             tile++) {
            const int start = tile * TILE, from = oldest > start ? oldest - start : 0;
            const int last = pos + 1 - start < TILE ? pos + 1 - start : TILE;
            struct state s;
            attend_tile(&s, h, q, scores, lane, pages[tile], from, last - from);
            if (begun)
                merge(&range, &s);
            else
                range = s;
            begun = 1;
        }
        if (range.sum == 0.0f)
            continue;
        if (all->sum == 0.0f)
            *all = range;
        else
            merge(all, &range);
    }
}

// Divides by the sum, in which a sink takes part.
static void normalise(const struct state *s, __global float *out, int dim, int has_sink, float sink)
{
    const float top = has_sink && sink > s->max ? sink : s->max;
    float inverse;
    if (has_sink) {
        const float by = exp_of(s->max - top);
        inverse = divide(by, fma(s->sum, by, exp_of(sink - top)));
    } else {
        inverse = divide(1.0f, s->sum);
    }
    for (int k = 0; k < MAX_DIMS; k++)
        if (k * GROUP + ITEM < dim)
            out[k * GROUP + ITEM] = s->out[k] * inverse;
}

// Groups: query heads, rows, ranges. With n_ranges 1 a group takes all ranges, and out is final; else it takes its
// own, for combine(): [rows][ranges][heads][dim + 2], values, then maximum and sum.
KERNEL attend(__global float *out, const __global float *queries, const __global uchar *pages_at,
              const __global int *places, const __global int *pages, const __global float *sinks, int has_sinks,
              int n_heads, int n_heads_kv, int dim, int format_k, int format_v, int window, float scale, int n_ranges)
{
    __local float q[GROUP * MAX_DIMS], scores[TILE], lane[LANES];
    const int head = (int)get_group_id(0), r = (int)get_group_id(2);
    const size_t row = get_group_id(1);
    const int pos = places[2 * row], ranges = pos / (TILE * RANGE) + 1;
    struct heads h;
    h.pages_at = pages_at;
    h.n_heads = n_heads_kv;
    h.head = head / (n_heads / n_heads_kv);
    h.dim = dim;
    h.format_k = format_k;
    h.format_v = format_v;
    h.scale = scale;
    for (int i = ITEM; i < dim; i += GROUP)
        q[i] = queries[(row * (size_t)n_heads + (size_t)head) * (size_t)dim + (size_t)i];
    SYNC;
    struct state s;
    for (int k = 0; k < MAX_DIMS; k++)
        s.out[k] = 0.0f;
    const int first = n_ranges > 1 ? r : 0, end = n_ranges > 1 ? (r < ranges ? r + 1 : r) : ranges;
    attend_ranges(&s, &h, q, scores, lane, pages + places[2 * row + 1], pos, window, first, end);
    if (n_ranges == 1) {
        normalise(&s, out + (row * (size_t)n_heads + (size_t)head) * (size_t)dim, dim, has_sinks,
                  has_sinks ? sinks[head] : 0.0f);
        return;
    }
    __global float *share =
        out + ((row * (size_t)n_ranges + (size_t)r) * (size_t)n_heads + (size_t)head) * (size_t)(dim + 2);
    for (int k = 0; k < MAX_DIMS; k++)
        if (k * GROUP + ITEM < dim)
            share[k * GROUP + ITEM] = s.out[k];
    if (ITEM == 0) {
        share[dim] = s.max;
        share[dim + 1] = s.sum;
    }
}

// Adds up the ranges of each row and head. Groups: heads, rows.
KERNEL combine(__global float *out, const __global float *shares, const __global float *sinks, int has_sinks, int n_heads,
               int dim, int n_ranges)
{
    const int head = (int)get_group_id(0);
    const size_t row = get_group_id(1);
    struct state all;
    all.max = 0.0f;
    all.sum = 0.0f;
    for (int k = 0; k < MAX_DIMS; k++)
        all.out[k] = 0.0f;
    for (int r = 0; r < n_ranges; r++) {
        const __global float *share =
            shares + ((row * (size_t)n_ranges + (size_t)r) * (size_t)n_heads + (size_t)head) * (size_t)(dim + 2);
        struct state s;
        for (int k = 0; k < MAX_DIMS; k++)
            s.out[k] = k * GROUP + ITEM < dim ? share[k * GROUP + ITEM] : 0.0f;
        s.max = share[dim];
        s.sum = share[dim + 1];
        if (s.sum == 0.0f)
            continue;
        if (all.sum == 0.0f)
            all = s;
        else
            merge(&all, &s);
    }
    normalise(&all, out + (row * (size_t)n_heads + (size_t)head) * (size_t)dim, dim, has_sinks,
              has_sinks ? sinks[head] : 0.0f);
}
