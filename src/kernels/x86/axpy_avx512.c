// SPDX-License-Identifier: MIT
// Weighted sums of rows, AVX-512 (see axpy_tmpl.h).
#include "kernels/x86/units_avx512.h"
#include "kernels/x86/variants_x86.h"

// Slots are in the format's own order, scales in its order of lanes.
struct unpacked {
    _Alignas(64) int8_t q[512];
    _Alignas(64) float scale[LANES];
    _Alignas(64) float min[LANES];
};

typedef const struct shape *format;

INLINE size_t format_unit(format f)
{
    return f->unit;
}
INLINE bool format_has_min(format f)
{
    return f->has_min;
}
INLINE size_t slot_piece(format f, size_t i)
{
    return f->pieces[i / 4][i % 4];
}
INLINE size_t slot_lane(format f, size_t i)
{
    return f->inverse[slot_piece(f, i) * LANES / f->unit];
}

INLINE void unpack_units(struct unpacked *t, const uint8_t *src, float p, unpack_fn unpack, format f)
{
    struct weights w;
    unpack(&w, src);
    for (size_t i = 0; i < f->registers; i++)
        _mm512_store_si512(t->q + i * 64, _mm512_sub_epi8(w.u[i], _mm512_set1_epi8((char)f->offset)));
    _mm512_store_ps(t->scale, _mm512_mul_ps(_mm512_set1_ps(p), w.scale));
    if (f->has_min)
        _mm512_store_ps(t->min, w.min);
}

#define BLOCK_FORMATS HEARTH_UNITS_AVX512
#include "kernels/axpy_tmpl.h"

// ---- axpy for the formats that down is mostly stored in: blocks of 32 behind a scale of two bytes

// The 32 numbers of a block as floats.
typedef void (*block_fn)(f32x16 value[2], const uint8_t *numbers);

INLINE void block_q4_0(f32x16 value[2], const uint8_t *numbers)
{
    const __m512 table = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)numbers));
    // Only four bits of an index count.
    value[0] = _mm512_permutexvar_ps(bytes, table);
    value[1] = _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), table);
}

INLINE void block_q8_0(f32x16 value[2], const uint8_t *numbers)
{
    value[0] = i_to_f(i_load_i8((const int8_t *)numbers));
    value[1] = i_to_f(i_load_i8((const int8_t *)numbers + LANES));
}

// Adds block b of n rows (a constant after inlining), whose scales times p are at scale[r * LANES].
INLINE void add_block(float *out, const uint8_t *const *src, size_t bytes, const float *scale, int n,
                      block_fn block)
{
    f32x16 low = f_load(out), high = f_load(out + LANES);
    for (int r = 0; r < n; r++) {
        const f32x16 by = f_set1(scale[r * LANES]);
        f32x16 value[2];
        block(value, src[r] + bytes + sizeof(uint16_t));
        low = f_fma(by, value[0], low);
        high = f_fma(by, value[1], high);
    }
    f_store(out, low);
    f_store(out + LANES, high);
}

INLINE void add_rows(float *out, const struct batch *b, const struct batch *later, size_t n,
                     size_t block_bytes, int rows, unpack_fn unpack, const struct shape *s, block_fn block)
{
    _Alignas(64) float scale[TOGETHER][LANES];
    const size_t blocks = n / 32;
    size_t at = 0;
    for (; at + LANES <= blocks; at += LANES) {
        for (int r = 0; r < later->n; r++)
            prefetch(later->rows[r] + at * block_bytes, LANES * block_bytes);
        for (int r = 0; r < rows; r++) {
            struct weights w;
            unpack(&w, b->rows[r] + at * block_bytes);
            _mm512_store_ps(scale[r], _mm512_mul_ps(_mm512_set1_ps(b->p[r]), w.scale));
        }
        for (size_t i = 0; i < LANES; i++)
            add_block(out + (at + i) * 32, b->rows, (at + i) * block_bytes, &scale[0][s->inverse[i]], rows,
                      block);
    }
    for (int r = 0; r < later->n; r++)
        prefetch_end(later->rows[r] + at * block_bytes, (blocks - at) * block_bytes);
    for (; at < blocks; at++) {
        for (int r = 0; r < rows; r++)
            scale[r][0] = b->p[r] * half_at(b->rows[r] + at * block_bytes);
        add_block(out + at * 32, b->rows, at * block_bytes, scale[0], rows, block);
    }
}

INLINE void axpy_blocks(float *out, const void *const *rows, size_t n_rows, size_t n, const float *p,
                        size_t block_bytes, unpack_fn unpack, const struct shape *s, block_fn block)
{
    for (struct walk w = begin_walk(rows, p, n_rows, n / 32 * block_bytes); walk_on(&w);)
        switch (w.now.n) {
        case 1:
            add_rows(out, &w.now, &w.later, n, block_bytes, 1, unpack, s, block);
            break;
        case 2:
            add_rows(out, &w.now, &w.later, n, block_bytes, 2, unpack, s, block);
            break;
        case 3:
            add_rows(out, &w.now, &w.later, n, block_bytes, 3, unpack, s, block);
            break;
        default:
            add_rows(out, &w.now, &w.later, n, block_bytes, TOGETHER, unpack, s, block);
        }
}

#define AXPY_BLOCKS(TYPE, bytes, unpack, shape, block)                                                       \
    static void axpy_blocks_##TYPE(float *out, const void *const *rows, size_t n_rows, size_t n,             \
                                   const float *p)                                                           \
    {                                                                                                        \
        axpy_blocks(out, rows, n_rows, n, p, bytes, unpack, &shape, block);                                  \
    }
AXPY_BLOCKS(Q4_0, 18, unpack_q4_0, shape_q4_0, block_q4_0)
AXPY_BLOCKS(Q8_0, 34, unpack_q8_0, shape_q8_0, block_q8_0)

void hearth_kernels_init_axpy_avx512(struct hearth_kernels *t)
{
    init_axpy(t);
    t->axpy_rows[HEARTH_TYPE_Q4_0] = axpy_blocks_Q4_0;
    t->axpy_rows[HEARTH_TYPE_Q8_0] = axpy_blocks_Q8_0;
}
