// SPDX-License-Identifier: MIT
// The kernels: everything that touches many numbers. One table of functions; the C reference fills it first
// and each instruction set the CPU has overwrites what it does faster.
//
// Kernels come in six families. A family has a file for each level that does it faster: FAMILY_c.c here is
// the reference, which says what the family does, and x86/FAMILY_avx2.c does the same with AVX2,
// arm/FAMILY_neon.c with NEON.
//
//   family   entries of the table                      C   AVX2  AVX-512  AMX  NEON   dotprod  i8mm  once for all
//   step     step, dot_rows of block formats           x   x     x (a)         x      x
//   prompt   prompt of block formats                   x   x     x        x    x      x        x
//   plain    step, dot_rows, prompt of F32, F16, BF16  x   x     x             x                     plain_tmpl.h
//   axpy     axpy, axpy_rows, prompt_t                 x   x     x             x                     axpy_tmpl.h
//   vector   quantize_acts to scan                     x   x     x             x                     vector_tmpl.h
//   attend   attend_scores, attend_values              (b) (b)   x             x (c)
//
//   (a) Products of several tokens are in step_few_avx512.c and step_many_avx512.c, dot_rows in
//       step_rows_avx512.c.
//   (b) Optional: without it callers use the kernels of the other families.
//   (c) Of F32 and F16 alone; with other caches callers use the kernels of the other
//       families, as in (b).
//
//   AVX-VNNI has step and prompt, from the same templates as AVX2; the rest is AVX2's.
//
// Beside them: units_LEVEL.h unpacks block formats, lanes16.h is the 16 lanes that *_tmpl.h are written over
// (instruction_set.h), init_PROCESSOR.c lists the levels. canonical_c.h is shared by the references.
//
// THE LAW OF THIS ROOM: every variant of a kernel gives the same bits as the C reference (tests/checkkernels
// proves it), so results depend neither on the CPU level nor on how work is cut into rows, tokens and
// threads. That is possible because every output element has one canonical reduction, written down here:
//
//   Activations for block formats are 15-bit integers (struct hearth_acts): per 32 elements d = amax / 16256
//   and q = rint(x * (16256 / amax)), kept as two int8 planes, q = 128 * hi + lo. Two int8 dot products give
//   an exact integer; 15 bits keep the error of quantised models at that of their weights alone. Formats of
//   at most five bits a weight, whose own error hides that of 8-bit activations, use the high plane alone in
//   the PROMPT class (hearth_prompt_planes): qx = hi, with 128 * d as its scale. That is half the arithmetic.
//
//   A block format is cut into units (hearth_type_info.unit_elems): weight = scale * q - min. For unit u:
//     acc = fma(scale * d, (float)idot, acc),          idot = exact integer sum of q * qx over the unit
//     acc = fma(-(min * d), (float)isum, acc)          (formats with a minimum), isum = exact sum of qx
//   where d stands for 128 * d, an exact product, when the high plane is all there is.
//   For plain numbers a unit is one element: acc = fma(w, x, acc), w converted to f32.
//
//   STEP class: 16 accumulators from zero; unit u goes to lane u mod 16, ascending; the row is padded to a
//   multiple of 16 units with zeros (scale, min, q = 0); then the lanes are added as a tree: l[i] += l[i+8]
//   for i < 8, l[i] += l[i+4], l[i] += l[i+2], l[0] + l[1]. PROMPT class: one accumulator from zero, units
//   ascending.
//
//   "Sum of n floats" below always means the 16-lane sum of the STEP class (element i to lane i mod 16).
//   (float) is round to nearest even. No kernel is compiled with contraction; fma is always explicit.
#ifndef HEARTH_KERNELS_KERNELS_H
#define HEARTH_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/quant.h"

// ---- quantised activations

#define HEARTH_ACTS_QMAX 16256 // 127 * 128
#define HEARTH_ACTS_PAD  512   // k is padded to a multiple of this with zeros

// One token's k activations, as four arrays in one block of memory aligned to 64.
struct hearth_acts {
    const int8_t *hi;    // [kp]    q = 128 * hi + lo
    const int8_t *lo;    // [kp]    -64..63
    const float *d;      // [kp/32] x is about d * q
    const int32_t *sum;  // [kp/16] sum of q over 16 elements
    const int32_t *bias; // [kp/16] -128 times the sum of hi over 16 elements
};

static inline size_t hearth_acts_padded(size_t k)
{
    return (k + HEARTH_ACTS_PAD - 1) / HEARTH_ACTS_PAD * HEARTH_ACTS_PAD;
}
// Bytes of one token's block, a multiple of 64.
static inline size_t hearth_acts_bytes(size_t k)
{
    size_t kp = hearth_acts_padded(k);
    return kp * 2 + kp / 32 * sizeof(float) + kp / 8 * sizeof(int32_t);
}
static inline struct hearth_acts hearth_acts_view(const void *block, size_t k)
{
    size_t kp = hearth_acts_padded(k);
    const int8_t *hi = block;
    const float *d = (const float *)(const void *)(hi + 2 * kp);
    const int32_t *sum = (const int32_t *)(const void *)(d + kp / 32);
    return (struct hearth_acts){hi, hi + kp, d, sum, sum + kp / 16};
}

// Planes of activations that PROMPT products of a block format use: the high one, or both.
static inline int hearth_prompt_planes(uint32_t type)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    return info->block_bytes * 8 <= info->block_elems * 5 ? 1 : 2;
}

// ---- the table

// out[t * out_stride + r] = dot(row r of w, token t of x) for r < n_rows, t < n_tokens.
// w: n_rows rows of k elements of the table entry's type, w_stride BYTES apart, any alignment, never read
// beyond the last row's last byte. x: for plain types f32 rows, for block types acts blocks; x_stride BYTES
// apart. scratch: hearth_kernels_scratch(t, k) bytes aligned to 64, private to the call.
typedef void (*hearth_matmul_fn)(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,
                                 size_t n_rows, const void *x, size_t x_stride, size_t n_tokens,
                                 void *scratch);

// out[j] = out[j] + sum over r ascending of p[r] * row_r[j], j < n: for plain types fma(p, w, out), for block
// types fma(p * scale, (float)q, out) and then, with a minimum, fma(-p, min, out). Rows with p[r] == 0 are
// skipped.
typedef void (*hearth_axpy_fn)(float *out, const void *w, size_t w_stride, size_t n, size_t n_rows,
                               const float *p);

// The same two over lists of row pointers, for neurons that are picked out of a matrix or lie in a cache:
// each element is what the functions above give. Rows may lie anywhere and are never read beyond their last
// byte.

// out[t * n_rows + i] = STEP product of rows[i] and token t of x.
typedef void (*hearth_dot_rows_fn)(float *out, const void *const *rows, size_t n_rows, size_t k,
                                   const void *x, size_t x_stride, size_t n_tokens, void *scratch);
// out[j] = out[j] + sum over i ascending of p[i] * rows[i][j], j < n, as in hearth_axpy_fn.
typedef void (*hearth_axpy_rows_fn)(float *out, const void *const *rows, size_t n_rows, size_t n,
                                    const float *p);

// PROMPT class product with a matrix stored by neuron: columns [first, first + n) of p times w, added to what
// is there, so that a matrix may come in pieces. out[t * out_stride + i] = from out, r ascending over [0,
// n_rows) with p[t * p_stride + r] != 0: fma(p[t * p_stride + r], w_r[first + i], acc), w decoded to f32.
// first is a multiple of HEARTH_COLUMNS; scratch as for hearth_matmul_fn.
typedef void (*hearth_prompt_t_fn)(float *out, size_t out_stride, const void *w, size_t w_stride,
                                   size_t first, size_t n, size_t n_rows, const float *p, size_t p_stride,
                                   size_t n_tokens, void *scratch);
#define HEARTH_COLUMNS 256 // whole blocks of every format

// ---- attention past one tile, for queries that share its keys and values
//
// Optional: where a level has none (NULL), callers put together the kernels named below, whose bits these
// give. A tile is up to HEARTH_ATTEND_ROWS positions; dim is a multiple of HEARTH_ATTEND_DIM up to
// HEARTH_ATTEND_MAX_DIM, of keys in blocks up to HEARTH_ATTEND_MAX_BLOCKS; n queries, 1 to HEARTH_ATTEND_QUERIES.
#define HEARTH_ATTEND_ROWS       64
#define HEARTH_ATTEND_QUERIES    8
#define HEARTH_ATTEND_DIM        32
#define HEARTH_ATTEND_MAX_DIM    1024
#define HEARTH_ATTEND_MAX_BLOCKS 512 // a unit for each lane

// Keys or values of one tile.
struct hearth_tile {
    const void *rows; // n_rows, 1 to HEARTH_ATTEND_ROWS, of dim elements, stride BYTES apart
    size_t stride, n_rows, dim;
    const void *next; // what will be read after it: fetched meanwhile. Or NULL
};

// What softmax_tile() has before exp: for query i and row r the STEP product with q_i times scale, and
// max[i], the largest over the rows. q: as x of hearth_matmul_fn. s [HEARTH_ATTEND_ROWS *
// HEARTH_ATTEND_QUERIES] is in an order of its own, for hearth_values_fn of the same table.
typedef void (*hearth_scores_fn)(float *s, float *max, const struct hearth_tile *keys, const void *q,
                                 size_t q_stride, size_t n, float scale);
// softmax_tile()'s second half on s, whose results weigh the values (as hearth_axpy_fn on zeros); with
// is_first out [n][dim], max and sum [n] are set to the tile's values, maxima and sums. Else, with top the
// larger of max and tile_max, a = exp(max - top) and b = exp(tile_max - top): out = fma(tile, b, out * a),
// sum likewise, max = top.
typedef void (*hearth_values_fn)(float *out, float *max, float *sum, bool is_first, float *s,
                                 const float *tile_max, const struct hearth_tile *values, size_t n);

#define HEARTH_SCRATCH_NEEDS 16

enum hearth_activation {
    HEARTH_ACT_SILU,
    HEARTH_ACT_RELU,
    HEARTH_ACT_DRELU,
    HEARTH_ACT_GELU,
    HEARTH_ACT_GELU_TANH,
    HEARTH_ACT_SWIGLU_CLAMPED,
    HEARTH_ACT_SIGMOID,
    HEARTH_ACT_JUMP_RELU,   // x + 1 above 0, else 0
    HEARTH_ACT_RELU_SQUARED // x * x above 0, else 0
};
#define HEARTH_ACTS_END (HEARTH_ACT_RELU_SQUARED + 1)

// Whether it is nothing for gates that are not above zero.
static inline bool hearth_act_is_relu(enum hearth_activation act)
{
    return act == HEARTH_ACT_RELU || act == HEARTH_ACT_DRELU || act == HEARTH_ACT_JUMP_RELU ||
           act == HEARTH_ACT_RELU_SQUARED;
}

// One token of a gated delta rule, or of a scan.
struct hearth_delta {
    const float *q, *k; // [dim]
    size_t dim;         // a multiple of 16
    float decay, beta;
    const float *decays; // [dim] what stays of each element, for delta_each
};

struct hearth_kernels {
    unsigned cpu;                             // HEARTH_CPU_* flags in use
    hearth_matmul_fn step[HEARTH_TYPE_END];   // STEP class; NULL where hearth_type_info has no decode
    hearth_matmul_fn prompt[HEARTH_TYPE_END]; // PROMPT class; same
    hearth_axpy_fn axpy[HEARTH_TYPE_END];     // same
    hearth_dot_rows_fn dot_rows[HEARTH_TYPE_END];
    hearth_axpy_rows_fn axpy_rows[HEARTH_TYPE_END];
    hearth_prompt_t_fn prompt_t[HEARTH_TYPE_END];
    hearth_scores_fn attend_scores[HEARTH_TYPE_END]; // of keys
    hearth_values_fn attend_values[HEARTH_TYPE_END]; // of values

    // Fills one acts block (all of it, padding included) from x[k]. A unit of 32 that holds an infinity or a
    // NaN gets d = NaN and q = 0, so that its products are NaN; one whose inverse overflows (amax below
    // 5e-35) gets zeros.
    void (*quantize_acts)(void *block, const float *x, size_t k);
    // out = (x * (1 / sqrt(sum(x*x) / n + eps))) * w; out may be x. The sum is of fma(x, x, lane).
    void (*rms_norm)(float *out, const float *x, const float *w, size_t n, float eps);
    // mean = sum(x) / n, d = x - mean, scale = 1 / sqrt(sum(d*d) / n + eps): out = fma(d * scale, w, b); out
    // may be x. The second sum is of fma(d, d, lane). b may be NULL: zeros.
    void (*layer_norm)(float *out, const float *x, const float *w, const float *b, size_t n, float eps);
    // x += y
    void (*add)(float *x, const float *y, size_t n);
    // out = f(gate) * up: SILU gate / (1 + exp(-gate)), RELU max(gate, 0), DRELU max(gate, 0) * max(up, 0),
    // GELU hearth_gelu(gate), GELU_TANH gate / (1 + exp(-(gate * fma(gate * gate, 0.07135481, 1.5957691)))),
    // SWIGLU_CLAMPED g / (1 + exp(-(1.702 * g))) times u + 1, with g = min(gate, 7) and u = up cut to -7..7,
    // SIGMOID 1 / (1 + exp(-gate)).
    // out may be gate or up. exp is hearth_exp() below.
    void (*glu)(float *out, const float *gate, const float *up, size_t n, enum hearth_activation act);
    // x = f(x), with f as above; DRELU is RELU here, and SWIGLU_CLAMPED has its first factor.
    void (*activate)(float *x, size_t n, enum hearth_activation act);
    // Rotates n_heads vectors of head_dim floats, of which the first n_rot turn: pairs (2i, 2i+1), or with
    // neox (i, i + n_rot/2). cos_sin: n_rot/2 cosines, then n_rot/2 sines. a' = fma(a, c, -(b * s)), b' =
    // fma(a, s, b * c).
    void (*rope)(float *x, const float *cos_sin, size_t n_heads, size_t head_dim, size_t n_rot, bool neox);
    // s[i] = exp(s[i] * scale - m), m = max over i of s[i] * scale. Returns m; *sum gets the 16-lane sum of
    // the new s.
    float (*softmax_tile)(float *s, size_t n, float scale, float *sum);
    // out = out * a + y * b: fma(y, b, out * a)
    void (*scale_add)(float *out, float a, const float *y, float b, size_t n);
    // Takes n rows of a head's state [n x dim], each of one value, past a token: with s = sum(from_r * k),
    // the sum of fma(from, k, lane), and d = beta * (v[r] - decay * s), to_r = fma(k, d, from_r * decay), and
    // out[r] is the same sum of to_r and q. `to` may be `from`, and out may be v.
    void (*delta)(float *out, float *to, const float *from, const float *v, size_t n,
                  const struct hearth_delta *d);
    // The same with a decay for each element: with e = from_r * decays and s = sum(e * k), d = beta * (v[r] - s)
    // and to_r = fma(k, d, e).
    void (*delta_each)(float *out, float *to, const float *from, const float *v, size_t n,
                       const struct hearth_delta *d);
    // The same where nothing is compared: d = beta * v[r], to_r = fma(k, d, from_r * decay).
    void (*scan)(float *out, float *to, const float *from, const float *v, size_t n,
                 const struct hearth_delta *d);

    // What variants need for rows of k elements, as many as there are: for hearth_kernels_scratch().
    size_t (*scratch_bytes[HEARTH_SCRATCH_NEEDS])(size_t k);
};

// Fills the table with the fastest kernels for these flags (hearth_cpu_limit). Thread-safe.
void hearth_kernels_init(struct hearth_kernels *table, unsigned cpu_flags);

// Scratch bytes that these kernels may use for rows of k elements, whatever the type.
size_t hearth_kernels_scratch(const struct hearth_kernels *t, size_t k);

// e^x, the definition for all variants: relative error below 2e-7; 0 below -87.3, +inf above 88.7.
float hearth_exp(float x);

// x times the normal distribution function of x (the exact GELU, not its tanh approximation), the definition
// for all variants: relative error below 5e-6 left of 0 (where the result is nearly nothing), below 5e-7
// right of it; 0 below -13.2.
float hearth_gelu(float x);

#endif
