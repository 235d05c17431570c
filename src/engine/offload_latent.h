// SPDX-License-Identifier: MIT
// Latent attention on a device: what latent.c does, as operations on its memory. Nothing of it is there in models with
// ordinary attention.
#ifndef HEARTH_ENGINE_OFFLOAD_LATENT_H
#define HEARTH_ENGINE_OFFLOAD_LATENT_H

#include <stdbool.h>
#include <stdint.h>

struct hearth_hparams;
struct hearth_offload;
struct hearth_offload_layer;
struct hearth_offload_rows;
struct hearth_accel_memory;
struct hearth_accel_rotation;

// Calls fn for each buffer of its own: those of a class with n rows; those that all share, for n rows of any class.
typedef void (*hearth_offload_buffer_fn)(void *arg, struct hearth_accel_memory *m, uint64_t bytes);
void hearth_offload_latent_rows_buffers(struct hearth_offload *o, struct hearth_offload_rows *rows,
                                        uint64_t n, hearth_offload_buffer_fn fn, void *arg);
void hearth_offload_latent_buffers(struct hearth_offload *o, uint64_t n, hearth_offload_buffer_fn fn,
                                   void *arg);
// Floats of a row that goes into a product, or into a gate; of a head that goes into one of its own. At least 0.
uint64_t hearth_offload_latent_widest(const struct hearth_hparams *hp);
uint64_t hearth_offload_latent_inside(const struct hearth_hparams *hp);

// The rows of a class are `n` now: its heads' tiles go to the device, where they are others.
void hearth_offload_latent_begin(struct hearth_offload *o, struct hearth_offload_rows *rows);
// Queries and vectors of the layer's input, which is normed and quantised; the vectors are stored.
void hearth_offload_latent_project(struct hearth_offload *o, struct hearth_offload_rows *rows,
                                   const struct hearth_offload_layer *l, int layer,
                                   const struct hearth_accel_rotation *rotation);
// What the layer's last product of attention reads, of what its heads got of the vectors, o->out.
const struct hearth_accel_memory *hearth_offload_latent_values(struct hearth_offload *o,
                                                               const struct hearth_offload_rows *rows,
                                                               const struct hearth_offload_layer *l);

#endif
