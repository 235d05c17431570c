// SPDX-License-Identifier: MIT
// What the engine computes, on a device: with the bits of the kernels of the same names (kernels/kernels.h). Rows lie
// side by side. Failures are kept by the device (accel.h).
#ifndef HEARTH_ACCEL_OPERATIONS_H
#define HEARTH_ACCEL_OPERATIONS_H

#include "accel/accel.h"
#include "kernels/kernels.h"

// ---- weights

// A matrix of n rows of k elements, or n vectors. Block formats become units: 4 or 8 bits an element, and the units'
// scales and minima; plain numbers stay as they are.
struct hearth_accel_weight {
    struct hearth_accel_memory q, scales, minima;
    uint32_t type;
    size_t k, n;                        // n 0: none
    const float *scale;                 // products are multiplied by it; NULL: they are not
    struct hearth_accel_change *change; // what hearth_accel_add_changes() adds to products; NULL: nothing
};

// What an adapter adds to products W x: by * (B (A x)), A [r x k] and B [n x r] of plain numbers.
struct hearth_accel_change {
    struct hearth_accel_change *next; // which is added behind it; or NULL
    struct hearth_accel_weight a, b;
    float by;
};

// Bytes that it takes of the device's memory; 0: devices do not know the type, or rows of this length.
size_t hearth_accel_weight_bytes(uint32_t type, size_t k, size_t n);
// Bytes of its q, scales and minima. False: as above.
#define HEARTH_ACCEL_WEIGHT_PARTS 3
bool hearth_accel_weight_parts(uint32_t type, size_t k, size_t n, size_t bytes[HEARTH_ACCEL_WEIGHT_PARTS]);
// Takes its memory; put() then brings rows [first, first + n) there, `stride` bytes apart at `data`. HEARTH_E_MEMORY: no
// memory to convert them. open() is both for all rows. The caller closes it in any case.
int hearth_accel_weight_begin(struct hearth_accel *a, struct hearth_accel_weight *w, uint32_t type, size_t k,
                              size_t n, struct hearth_error *err);
int hearth_accel_weight_put(struct hearth_accel *a, const struct hearth_accel_weight *w, size_t first,
                            size_t n, const void *data, size_t stride, struct hearth_error *err);
int hearth_accel_weight_open(struct hearth_accel *a, struct hearth_accel_weight *w, uint32_t type, size_t k,
                             size_t n, const void *data, size_t stride, struct hearth_error *err);
void hearth_accel_weight_close(struct hearth_accel *a, struct hearth_accel_weight *w);

// The same in parts that any thread can do, for rows that a caller brings there one piece after the other. A piece is
// memory of the host for `rows` rows, of hearth_accel_weight_bytes() of one each. convert() makes row number `row` of it
// from one in the file's format, with `scratch` of hearth_accel_convert_scratch(k) bytes, aligned for floats; it touches
// no device. begin_put() begins to write its first n rows to rows [first, first + n) of the weight; each of the events
// is waited for, in any case, before the piece changes (hearth_accel_begin_write()).
#define HEARTH_ACCEL_PUT_EVENTS HEARTH_ACCEL_WEIGHT_PARTS
size_t hearth_accel_convert_scratch(size_t k);
void hearth_accel_weight_convert(uint32_t type, size_t k, void *piece, size_t rows, size_t row,
                                 const void *data, void *scratch);
void hearth_accel_weight_begin_put(struct hearth_accel *a, const struct hearth_accel_weight *w, size_t first,
                                   size_t n, const void *piece, size_t rows,
                                   void *events[HEARTH_ACCEL_PUT_EVENTS]);

// ---- rows of a batch

// out = norm(x), rows of w->k; b: NULL, or without rows: none. Where w has several rows they are those of rows that
// follow one another, again and again.
void hearth_accel_norm(struct hearth_accel *a, const struct hearth_accel_memory *out,
                       const struct hearth_accel_memory *x, const struct hearth_accel_weight *w,
                       const struct hearth_accel_weight *b, bool is_layer, float eps, size_t n_rows);
// The same, and acts = the quantised rows.
void hearth_accel_norm_quantize(struct hearth_accel *a, const struct hearth_accel_memory *out,
                                const struct hearth_accel_memory *acts, const struct hearth_accel_memory *x,
                                const struct hearth_accel_weight *w, const struct hearth_accel_weight *b,
                                bool is_layer, float eps, size_t n_rows);
// x += y, rows of n
void hearth_accel_add(struct hearth_accel *a, const struct hearth_accel_memory *x,
                      const struct hearth_accel_memory *y, size_t n, size_t n_rows);
void hearth_accel_add_scaled(struct hearth_accel *a, const struct hearth_accel_memory *x,
                             const struct hearth_accel_memory *y, float by, size_t n, size_t n_rows);
// x *= by; or the only number of a weight, which may have no rows; or row r times by[r]
void hearth_accel_scale(struct hearth_accel *a, const struct hearth_accel_memory *x, float by, size_t n,
                        size_t n_rows);
void hearth_accel_scale_by(struct hearth_accel *a, const struct hearth_accel_memory *x,
                           const struct hearth_accel_weight *by, size_t n, size_t n_rows);
void hearth_accel_scale_rows(struct hearth_accel *a, const struct hearth_accel_memory *x,
                             const struct hearth_accel_memory *by, size_t n, size_t n_rows);
// x within -most .. most, as fmaxf() and fminf() have it
void hearth_accel_limit(struct hearth_accel *a, const struct hearth_accel_memory *x, float most, size_t n,
                        size_t n_rows);
// x += bias, which may have no rows; with `which` [n_rows] of 32 bits, row which[r] of the bias for row r
void hearth_accel_add_bias(struct hearth_accel *a, const struct hearth_accel_memory *x,
                           const struct hearth_accel_weight *bias, size_t n_rows);
void hearth_accel_add_bias_of(struct hearth_accel *a, const struct hearth_accel_memory *x,
                              const struct hearth_accel_weight *bias, const struct hearth_accel_memory *which,
                              size_t n_rows);
// Queries, rows of n: what of `both`, rows of 2 n, stands before gates, for each head of `dim` elements.
void hearth_accel_split(struct hearth_accel *a, const struct hearth_accel_memory *queries,
                        const struct hearth_accel_memory *both, size_t n, size_t dim, size_t n_rows);
// x *= sigmoid(gates), rows of n: the gates of `both`, or one for each `each` elements.
void hearth_accel_gate_beside(struct hearth_accel *a, const struct hearth_accel_memory *x,
                              const struct hearth_accel_memory *both, size_t n, size_t dim, size_t n_rows);
void hearth_accel_gate(struct hearth_accel *a, const struct hearth_accel_memory *x,
                       const struct hearth_accel_memory *gates, size_t n, size_t each, size_t n_rows);
// cos_sin: n_rot numbers a row.
void hearth_accel_rope(struct hearth_accel *a, const struct hearth_accel_memory *x,
                       const struct hearth_accel_memory *cos_sin, size_t n_heads, size_t dim, size_t n_rot,
                       bool neox, size_t n_rows);
// acts: hearth_acts_bytes(k) a row.
void hearth_accel_quantize(struct hearth_accel *a, const struct hearth_accel_memory *acts,
                           const struct hearth_accel_memory *x, size_t k, size_t n_rows);

// ---- products

// What rows are for a product: as numbers and, for block formats, as acts blocks of them.
struct hearth_accel_input {
    const struct hearth_accel_memory *plain, *acts;
};

// out [n_tokens x w->n] = the products of all rows. In steps, rows that no token has in the mask [n_tokens x w->n] of
// bytes may be left out, where there is a mask: what they get has no meaning.
void hearth_accel_product(struct hearth_accel *a, bool is_prompt, const struct hearth_accel_memory *out,
                          const struct hearth_accel_weight *w, struct hearth_accel_input x, size_t n_tokens,
                          const struct hearth_accel_memory *mask);

// The products of several weights with the same rows, each to its own memory: in one kernel, as far as those that follow
// one another have the same form.
#define HEARTH_ACCEL_TOGETHER 3
struct hearth_accel_output {
    const struct hearth_accel_memory *out;
    const struct hearth_accel_weight *w;
};
void hearth_accel_products(struct hearth_accel *a, bool is_prompt, const struct hearth_accel_output *outputs,
                           int n, struct hearth_accel_input x, size_t n_tokens);
// out += the products of all rows; the weight has no scale.
void hearth_accel_product_add(struct hearth_accel *a, bool is_prompt, const struct hearth_accel_memory *out,
                              const struct hearth_accel_weight *w, struct hearth_accel_input x,
                              size_t n_tokens);

// out += by * (B (A x)) for each of the weight's changes, in their order, x [n_tokens x w->k] being numbers; low
// [n_tokens x r] and high [n_tokens x w->n] are workspace for any of them.
void hearth_accel_add_changes(struct hearth_accel *a, bool is_prompt, const struct hearth_accel_memory *out,
                              const struct hearth_accel_weight *w, const struct hearth_accel_memory *x,
                              size_t n_tokens, const struct hearth_accel_memory *low,
                              const struct hearth_accel_memory *high);

// Tokens that go through different matrices of the same size, of which w has several side by side: tokens
// [first, first + n) through number `matrix`, HEARTH_ACCEL_STEP_TILE or HEARTH_ACCEL_PROMPT_TILE at most.
struct hearth_accel_tile {
    int32_t first, n, matrix;
};
#define HEARTH_ACCEL_STEP_TILE   4
#define HEARTH_ACCEL_PROMPT_TILE 64

// out [tokens x n_out]: the products of the tokens of these tiles with their matrices, of n_out rows.
void hearth_accel_products_of(struct hearth_accel *a, bool is_prompt, const struct hearth_accel_memory *out,
                              const struct hearth_accel_weight *w, size_t n_out, struct hearth_accel_input x,
                              const struct hearth_accel_memory *tiles, size_t n_tiles);
// The same of several weights, as hearth_accel_products() has them. A tile may have no tokens; singles: none has more than
// one.
void hearth_accel_products_of_all(struct hearth_accel *a, bool is_prompt,
                                  const struct hearth_accel_output *outputs, int n, size_t n_out,
                                  struct hearth_accel_input x, const struct hearth_accel_memory *tiles,
                                  size_t n_tiles, bool singles);

// Down by neuron, w [F x E]: out [n_tokens x E] = p [n_tokens x F] times w, as one sum (prompts), or by clusters of
// `cluster` neurons, whose sums go to parts [n_tokens x clusters x E].
void hearth_accel_columns(struct hearth_accel *a, const struct hearth_accel_memory *out,
                          const struct hearth_accel_weight *w, const struct hearth_accel_memory *p,
                          size_t n_tokens);
void hearth_accel_clusters(struct hearth_accel *a, const struct hearth_accel_memory *out,
                           const struct hearth_accel_memory *parts, const struct hearth_accel_weight *w,
                           const struct hearth_accel_memory *p, size_t cluster, size_t n_tokens);

// ---- feed-forward parts, of rows of n neurons

// gate = f(gate) * up; up NULL: f(gate). 0 where there is a mask that says so.
void hearth_accel_activate(struct hearth_accel *a, const struct hearth_accel_memory *gate,
                           const struct hearth_accel_memory *up, const struct hearth_accel_memory *mask,
                           enum hearth_activation act, size_t n, size_t n_rows);
// x = xIELU of x, by these numbers: x * (a x + b) above 0, else (exp(min(x, eps)) - 1 - x) * n + b x
struct hearth_accel_xielu {
    float a, n, b, eps;
};
void hearth_accel_xielu(struct hearth_accel *a, const struct hearth_accel_memory *x,
                        const struct hearth_accel_xielu *by, size_t n, size_t n_rows);
// activate() without a mask, and acts = the quantised rows.
void hearth_accel_activate_quantize(struct hearth_accel *a, const struct hearth_accel_memory *gate,
                                    const struct hearth_accel_memory *up,
                                    const struct hearth_accel_memory *acts, enum hearth_activation act,
                                    size_t n, size_t n_rows);
// mask = 1 for neurons that a predictor names, and for the first `always`; scores NULL: for all.
void hearth_accel_mask_scores(struct hearth_accel *a, const struct hearth_accel_memory *mask,
                              const struct hearth_accel_memory *scores, float least, size_t always, size_t n,
                              size_t n_rows);
// Drops neurons whose gate is off (of the ReLU family), or whose activated gate is below `least`, if that is above 0.
void hearth_accel_mask_gates(struct hearth_accel *a, const struct hearth_accel_memory *mask,
                             const struct hearth_accel_memory *gate, enum hearth_activation act, float least,
                             size_t n, size_t n_rows);

// ---- attention

// The longest head.
#define HEARTH_ACCEL_MAX_DIM 576

// Whether keys or values of so many elements may be in a cache of this format: F32, F16, or Q8_0.
bool hearth_accel_knows_cache(uint32_t type, size_t dim);

// A layer's part of the cache: for each page and key/value head 64 keys, then 64 values, unless these are the beginnings
// of keys.
struct hearth_accel_cache {
    struct hearth_accel_memory pages;
    uint32_t type_k, type_v;
    size_t n_heads, n_heads_kv, dim, dim_v; // elements of a key, and of a value
    bool values_in_keys;                    // dim_v is less than dim then
};

// Of the batch's rows: [rows][2] position, and where the row's pages begin in `pages`, which are numbers of pages.
struct hearth_accel_places {
    const struct hearth_accel_memory *rows, *pages;
};

// How queries and keys are rotated (hearth_accel_rope()).
struct hearth_accel_rotation {
    const struct hearth_accel_memory *cos_sin; // NULL: not at all
    size_t n_rot;
    bool neox;
};
// What a query attends to, and what becomes of its scores.
struct hearth_accel_attention {
    size_t window;                            // positions, itself with them; 0: all before it
    bool chunked;                             // those since the last multiple of `window` instead
    float scale, cap;                         // cap above 0: scaled scores x become cap * tanh(x / cap)
    const struct hearth_accel_memory *slopes; // [heads] of what distance adds to scores (ALiBi), or NULL
};
// Rotates queries q and keys k [n_rows x heads x dim], then stores keys and values; `copy` from this byte on
// [n_rows x heads x head bytes] gets what is stored. v is not used where values are in keys.
void hearth_accel_store(struct hearth_accel *a, const struct hearth_accel_cache *c,
                        const struct hearth_accel_memory *copy, size_t copy_at,
                        const struct hearth_accel_memory *q, const struct hearth_accel_memory *k,
                        const struct hearth_accel_memory *v, struct hearth_accel_rotation rotation,
                        struct hearth_accel_places places, size_t n_rows);
// Attention of queries [n_rows x heads x dim] to out [n_rows x heads x dim_v]; is_prompt: most rows follow one another in a
// sequence, and of the class PROMPT. sinks may have no rows. n_ranges: 1, as in prompts, or as many as the longest row has,
// with shares [n_rows x n_ranges x heads x (dim_v + 2)] floats of workspace. acts: where keys are in blocks, workspace of
// hearth_acts_bytes(dim) for each query.
void hearth_accel_attend(struct hearth_accel *a, const struct hearth_accel_cache *c,
                         const struct hearth_accel_memory *out, const struct hearth_accel_memory *q,
                         struct hearth_accel_places places, const struct hearth_accel_weight *sinks,
                         const struct hearth_accel_attention *how, bool is_prompt, size_t n_ranges,
                         const struct hearth_accel_memory *shares, const struct hearth_accel_memory *acts,
                         size_t n_rows);

// ---- checking

// Compares small cases of each operation with the C reference. HEARTH_E_UNSUPPORTED: the device gives other bits.
int hearth_operations_check(struct hearth_accel *a, struct hearth_error *err);
// The same of products with one token alone. False: they are wrong, or the device failed.
bool hearth_operations_check_one(struct hearth_accel *a);
// Does a small list several times. False: something else came of it than of one by one, or the device failed.
bool hearth_operations_check_lists(struct hearth_accel *a);

#endif
