// SPDX-License-Identifier: MIT
// STEP products of block formats with a few tokens, AVX-512 VNNI.
//
// As with one token (step_avx512.h) a register holds one value of each of 16 units. But a group's weights are
// transposed once for all tokens, so that register i has word i (four weights) of every unit, and so are the
// activations, once per call: the products of a group then add up in place, where one token by itself needs as many
// shuffles as it has registers. Two rows share what is loaded of the activations. All rows of a band go through one
// group before the next one, whose activations take the place of this one's in the L1 cache; their sums wait there.
#include "kernels/x86/step_ends_avx512.h"
#include "kernels/x86/variants_x86.h"

// Tokens that share unpacked weights.
#define MAX_TOKENS 8
// Rows of a band, an even number. The ends of all of them may go together.
#define BAND_ROWS ENDS_ROWS
// How many bytes of a band's column ahead of the arithmetic rows are fetched, into the L2 cache: the way to L1 is what
// activations come by.
#define FEW_AHEAD 8192
// Rows that are multiplied together.
#define PAIR 2

// One token's activations of one group.
struct words {
    __m512i planes[8][2]; // word i of each unit: [i][hi, lo]
    __m512i start;        // minus the format's offset times the sum of q
    __m512 d, sum;        // as in struct prepared
};

struct few_scratch {
    __m512 acc[BAND_ROWS * MAX_TOKENS]; // [row][token]
    struct prepared one;                // before its words are put in order
    struct ends_groups groups;
    struct words x[]; // [group][token], then of the ends
};

size_t hearth_step_few_scratch_avx512(size_t k)
{
    // Groups of short units, and the ends'.
    return sizeof(struct few_scratch) + (hearth_acts_padded(k) / 256 + 1) * MAX_TOKENS * sizeof(struct words);
}

// A group's registers: register i gets word i of each unit, in the order of scales.
INLINE void transpose_words(__m512i *u, const struct shape *s)
{
    if (s->unit == 16) {
        i_transpose_quarters(u);
        return;
    }
    // First halves of units and second ones, or the first eight units and the others.
    __m512i a[4], b[4];
    for (int i = 0; i < 4; i++) {
        a[i] = u[s->pairs ? 2 * i : i];
        b[i] = u[s->pairs ? 2 * i + 1 : i + 4];
    }
    i_transpose_quarters(a);
    i_transpose_quarters(b);
    for (int i = 0; i < 4; i++) {
        u[i] = s->pairs ? a[i] : _mm512_shuffle_i32x4(a[i], b[i], 0x88);
        u[i + 4] = s->pairs ? b[i] : _mm512_shuffle_i32x4(a[i], b[i], 0xdd);
    }
}

INLINE void words_of(struct words *out, const struct prepared *x, const struct shape *s)
{
    for (int p = 0; p < 2; p++) {
        __m512i u[8];
        for (int i = 0; i < s->registers; i++)
            u[i] = _mm512_load_si512(x->planes[i][p]);
        transpose_words(u, s);
        for (int i = 0; i < s->registers; i++)
            out->planes[i][p] = u[i];
    }
    out->start = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_load_si512(x->offset));
    out->d = _mm512_load_ps(x->d);
    out->sum = _mm512_load_ps(x->sum);
}

INLINE void unpack_words(struct weights *w, const uint8_t *src, unpack_fn unpack, const struct shape *s)
{
    unpack(w, src);
    transpose_words(w->u, s);
}

// Exact sums of q * qx per unit of each row and token (constants after inlining), [token][row]: two of both are
// as many sums as hide how long a product takes, and two products for each load.
INLINE void dot_words(__m512i *dot, const struct weights *w, const struct words *x, size_t rows,
                      size_t tokens, const struct shape *s)
{
    __m512i high[4], low[4];
    for (size_t t = 0; t < tokens; t++)
        for (size_t r = 0; r < rows; r++) {
            high[t * rows + r] = _mm512_setzero_si512();
            low[t * rows + r] = s->offset ? x[t].start : _mm512_setzero_si512();
        }
    UNROLL for (size_t i = 0; i < s->registers; i++) for (size_t t = 0; t < tokens; t++)
    {
        const __m512i hi = load_kept((const uint8_t *)&x[t].planes[i][0]);
        const __m512i lo = load_kept((const uint8_t *)&x[t].planes[i][1]);
        for (size_t r = 0; r < rows; r++) {
            high[t * rows + r] = _mm512_dpbusd_epi32(high[t * rows + r], w[r].u[i], hi);
            low[t * rows + r] = _mm512_dpbusd_epi32(low[t * rows + r], w[r].u[i], lo);
        }
    }
    for (size_t i = 0; i < rows * tokens; i++)
        dot[i] = _mm512_add_epi32(_mm512_slli_epi32(high[i], 7), low[i]);
}

// A group of PAIR rows for so many tokens (a constant after inlining), whose sums are acc[row * n + token].
INLINE void add_tokens(__m512 *acc, size_t n, const struct weights *w, const struct words *x, size_t tokens,
                       const struct shape *s)
{
    __m512i dot[4];
    dot_words(dot, w, x, PAIR, tokens, s);
    for (size_t t = 0; t < tokens; t++)
        for (size_t r = 0; r < PAIR; r++) {
            __m512 a = _mm512_fmadd_ps(_mm512_mul_ps(w[r].scale, x[t].d),
                                       _mm512_cvtepi32_ps(dot[t * PAIR + r]), acc[r * n + t]);
            if (s->has_min)
                a = _mm512_fnmadd_ps(_mm512_mul_ps(w[r].min, x[t].d), x[t].sum, a);
            acc[r * n + t] = a;
        }
}

// The same for n tokens.
INLINE void add_pair(__m512 *acc, size_t n, const struct weights *w, const struct words *x,
                     const struct shape *s)
{
    size_t t = 0;
    for (; t + 2 <= n; t += 2)
        add_tokens(acc + t, n, w, x + t, 2, s);
    if (t < n)
        add_tokens(acc + t, n, w, x + t, 1, s);
}

// The ends of several rows, which are one group, for n tokens.
INLINE void add_ends_words(__m512 *acc, size_t n, const uint8_t *group, size_t rows, const struct ends *e,
                           const struct words *x, unpack_fn unpack, const struct shape *s)
{
    // Unit u of row r is number r * units + u of the group.
    const __m512i order = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)s->order));
    const __m512i inverse = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)s->inverse));
    const __mmask16 units = _mm512_cmplt_epi32_mask(order, _mm512_set1_epi32(e->units));
    struct weights w;
    unpack_words(&w, group, unpack, s);
    for (size_t t = 0; t < n; t++) {
        __m512i dot;
        dot_words(&dot, &w, x + t, 1, 1, s);
        const __m512 value = _mm512_cvtepi32_ps(dot), scale = _mm512_mul_ps(w.scale, x[t].d);
        const __m512 min = s->has_min ? _mm512_mul_ps(w.min, x[t].d) : scale;
        __m512i unit = order;
        for (size_t r = 0; r < rows; r++) {
            const __m512i lanes = _mm512_permutexvar_epi32(unit, inverse);
            __m512 a = acc[r * n + t];
            a = _mm512_mask3_fmadd_ps(_mm512_permutexvar_ps(lanes, scale),
                                      _mm512_permutexvar_ps(lanes, value), a, units);
            if (s->has_min)
                a = _mm512_mask3_fnmadd_ps(_mm512_permutexvar_ps(lanes, min), x[t].sum, a, units);
            acc[r * n + t] = a;
            unit = _mm512_add_epi32(unit, _mm512_set1_epi32(e->units));
        }
    }
}

// Sums of `rows` rows over their lanes.
INLINE void finish(float *out, size_t out_stride, const __m512 *acc, size_t n, size_t rows,
                   const struct shape *s)
{
    for (size_t t = 0; t < n; t++, out += out_stride) {
        size_t r = 0;
        for (; r + 4 <= rows; r += 4) {
            const __m512 four[4] = {acc[r * n + t], acc[(r + 1) * n + t], acc[(r + 2) * n + t],
                                    acc[(r + 3) * n + t]};
            sum_lanes(out + r, four, 4, s);
        }
        for (; r < rows; r++)
            sum_lanes(out + r, &acc[r * n + t], 1, s);
    }
}

// What does not change between bands.
struct few_call {
    size_t w_stride, group_bytes, full, n;
    struct ends ends;
};

// Whole groups of a band's rows. Where their number is odd, the last one is its own partner.
INLINE void band_groups(struct few_scratch *f, const uint8_t *w, size_t rows, const struct few_call *c,
                        unpack_fn unpack, const struct shape *s)
{
    const size_t later = (FEW_AHEAD / c->group_bytes + 1) * c->w_stride;
    memset(f->acc, 0, (rows + 1) / PAIR * PAIR * c->n * sizeof *f->acc);
    for (size_t g = 0; g < c->full; g++)
        for (size_t r = 0; r < rows; r += PAIR) {
            struct weights weights[PAIR];
            for (size_t i = 0; i < PAIR; i++) {
                const uint8_t *from = w + (r + i < rows ? r + i : r) * c->w_stride + g * c->group_bytes;
                prefetch_l2(from + later, c->group_bytes);
                unpack_words(&weights[i], from, unpack, s);
            }
            add_pair(f->acc + r * c->n, c->n, weights, f->x + g * c->n, s);
        }
}

// The ends of a band's rows.
INLINE void band_ends(struct few_scratch *f, const uint8_t *w, size_t rows, const struct few_call *c,
                      unpack_fn unpack, const struct shape *s)
{
    const size_t before = c->full * c->group_bytes, together = (size_t)c->ends.together;
    const size_t most = ENDS_ROWS / together * together;
    for (size_t first = 0; first < rows; first += most) {
        const size_t some = rows - first < most ? rows - first : most;
        for (size_t r = 0; r < some; r++)
            take_end(&f->groups, w + (first + r) * c->w_stride, before, (int)r, &c->ends);
        for (size_t r = 0; r < some; r += together)
            add_ends_words(f->acc + (first + r) * c->n, c->n, f->groups.bytes[r / together],
                           some - r < together ? some - r : together, &c->ends, f->x + c->full * c->n, unpack,
                           s);
    }
}

// Activations of n tokens, as words.
INLINE void prepare_words(struct few_scratch *f, struct few_call *c, const uint8_t *x, size_t x_stride,
                          size_t k, const struct shape *s)
{
    for (size_t t = 0; t < c->n; t++, x += x_stride) {
        for (size_t g = 0; g < c->full; g++) {
            prepare_group(&f->one, x, k, g, s);
            words_of(f->x + g * c->n + t, &f->one, s);
        }
        if (c->ends.bytes) {
            prepare_ends(&c->ends, &f->one, x, k, c->full, c->group_bytes, s);
            words_of(f->x + c->full * c->n + t, &f->one, s);
        }
    }
}

// Tokens [0, n), n <= MAX_TOKENS.
INLINE void few(float *out, size_t out_stride, const uint8_t *w, size_t w_stride, size_t k, size_t n_rows,
                const uint8_t *x, size_t x_stride, size_t n, struct few_scratch *f, uint32_t type,
                unpack_fn unpack, const struct shape *s)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t elements = (size_t)s->unit * LANES;
    struct few_call c = {.w_stride = w_stride, .n = n, .full = k / elements};
    c.group_bytes = elements / info->block_elems * info->block_bytes;
    c.ends.bytes = (k - c.full * elements) / info->block_elems * info->block_bytes;
    c.ends.together = ends_together(k - c.full * elements, s);
    prepare_words(f, &c, x, x_stride, k, s);
    if (c.ends.bytes)
        memset(&f->groups, 0, sizeof f->groups); // rows may be too few to fill the last one
    for (size_t r = 0; r < n_rows; r += BAND_ROWS) {
        const size_t rows = n_rows - r < BAND_ROWS ? n_rows - r : BAND_ROWS;
        band_groups(f, w + r * w_stride, rows, &c, unpack, s);
        if (c.ends.bytes)
            band_ends(f, w + r * w_stride, rows, &c, unpack, s);
        finish(out + r, out_stride, f->acc, n, rows, s);
    }
}

#define FEW(type, unpack, shape)                                                                             \
    static void few_##type(float *out, size_t out_stride, const uint8_t *w, size_t w_stride, size_t k,       \
                           size_t n_rows, const uint8_t *x, size_t x_stride, size_t n, void *scratch)        \
    {                                                                                                        \
        few(out, out_stride, w, w_stride, k, n_rows, x, x_stride, n, scratch, HEARTH_TYPE_##type, unpack,    \
            &shape);                                                                                         \
    }
HEARTH_UNITS_AVX512(FEW)

void hearth_step_few_avx512(uint32_t type, float *out, size_t out_stride, const void *w, size_t w_stride,
                            size_t k, size_t n_rows, const void *x, size_t x_stride, size_t n_tokens,
                            void *scratch)
{
    static const some_fn formats[HEARTH_TYPE_END] = {
#define ENTER(type, unpack, shape) [HEARTH_TYPE_##type] = few_##type,
        HEARTH_UNITS_AVX512(ENTER)
#undef ENTER
    };
    some_at_a_time(formats[type], MAX_TOKENS, out, out_stride, w, w_stride, k, n_rows, x, x_stride, n_tokens,
                   scratch);
}
