// SPDX-License-Identifier: MIT
// The few AMX instructions that the kernels use, and nothing else of it: whoever defines HEARTH_TILES_MODEL
// as the name of a header gets that header's functions of the same names instead (tests/kernels/tiles_model.h
// does what the instructions do, in C, so that the kernels can be proved on a CPU without them).
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, LDTILECFG, TILELOADD,
// TILESTORED, TILEZERO, TDPBF16PS, TILERELEASE. A tile is up to 16 rows of up to 64 bytes; there are eight.
// The state belongs to the thread.
#ifndef HEARTH_KERNELS_X86_TILES_AMX_H
#define HEARTH_KERNELS_X86_TILES_AMX_H

#include <stdint.h>

#define N_TILES    8
#define TILE_ROWS  16
#define TILE_BYTES 64 // of a row

// What LDTILECFG reads. Tiles that are not used have no rows and no bytes.
struct tile_shapes {
    _Alignas(64) uint8_t palette; // 1
    uint8_t start_row;            // 0
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
_Static_assert(sizeof(struct tile_shapes) == 64, "the instruction reads 64 bytes");

#if defined(HEARTH_TILES_MODEL)

#include HEARTH_TILES_MODEL

#else

#include <immintrin.h>

// The compiler's own functions do not all say that they read memory: what they read must be written before.
#define TILE_BARRIER()             __asm__ volatile("" ::: "memory")

static inline void tiles_configure(const struct tile_shapes *shapes)
{
    __asm__ volatile("" ::"r"(shapes) : "memory");
    _tile_loadconfig(shapes);
}

// Before the first tile_load() of what this thread has just written.
static inline void tiles_see_memory(void)
{
    TILE_BARRIER();
}

// All tiles back to their initial state, in which the system need not save them.
static inline void tiles_release(void)
{
    _tile_release();
}

// t, c, a, b: numbers of tiles, literal. Rows are `stride` bytes apart.
#define tile_zero(t)               _tile_zero(t)
#define tile_load(t, from, stride) _tile_loadd(t, from, stride)
#define tile_store(t, to, stride)  _tile_stored(t, to, stride)
// c += a * b, pairs of BF16 numbers: c[m][n] += sum over k of a[m][k] * b[k / 2][2 * n + k % 2], in f32.
// Exact where all of these sums are whole numbers of at most 2^24 (times one power of two).
#define tile_dot(c, a, b)          _tile_dpbf16ps(c, a, b)

#endif

#endif
