// SPDX-License-Identifier: MIT
// AMX tiles in plain C, for kernels/x86/tiles_amx.h: every instruction does what the manual's pseudo-code
// does to the state of the calling thread, and where the instruction would raise an exception the program
// ends with a message. So the model also proves that a kernel configures what it uses and releases it.
#ifndef HEARTH_TESTS_TILES_MODEL_H
#define HEARTH_TESTS_TILES_MODEL_H

#include <stddef.h>
#include <stdint.h>

struct tile_shapes;

// LDTILECFG, TILERELEASE.
void tiles_configure(const struct tile_shapes *shapes);
void tiles_release(void);
// TILEZERO, TILELOADD, TILESTORED, TDPBF16PS.
void tile_zero(int t);
void tile_load(int t, const void *from, size_t stride);
void tile_store(int t, void *to, size_t stride);
void tile_dot(int c, int a, int b);

static inline void tiles_see_memory(void) {}

// Products since the program began, of all threads; and whether this thread has tiles configured now.
uint64_t tiles_model_products(void);
int tiles_model_configured(void);
// A row of a tile as it is now, all 64 bytes.
const uint8_t *tiles_model_row(int t, int row);

// kernels/x86/prompt_amx.c on these tiles: what hearth_kernels_init_tiles_amx() is on the real ones.
struct hearth_kernels;
void hearth_kernels_init_tiles_model(struct hearth_kernels *t);

#endif
