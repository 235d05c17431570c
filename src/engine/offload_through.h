// SPDX-License-Identifier: MIT
// Prompts through a device: the weights of the layers that the CPU keeps pass through two stages of its memory, one
// layer's on its way while the device computes the one before. So a prompt's rows go there with the first of these layers
// and stay, where that is faster than the CPU (through_choice.h). No bit depends on it.
//
// Weights come as the CPU would get them: from memory, or as they are read from the file. Threads convert them, piece by
// piece, and each piece is copied beside what the device computes.
#ifndef HEARTH_ENGINE_OFFLOAD_THROUGH_H
#define HEARTH_ENGINE_OFFLOAD_THROUGH_H

#include "accel/operations.h"
#include "engine/session.h"
#include "engine/through_choice.h"
#include "engine/through_pieces.h"

struct hearth_offload_layer; // engine/offload.h

struct hearth_through {
    struct hearth_accel *a;
    const struct hearth_session *s;
    bool always;                         // whatever it takes
    int n_layers;                        // layers [0, n_layers) pass
    struct hearth_offload_layer *stages; // [2], a layer's is layer % 2
    const size_t *roles;                 // [n_roles] weights of a layer, as places in struct hearth_layer
    size_t n_roles;
    struct hearth_through_pieces pieces;
    int32_t *before; // [n_before] pages with positions before the batch's
    size_t n_before;
    struct hearth_through_choice choice;
    uint64_t tokens; // rows that went through
};

// What the device's layers have.
struct hearth_through_setup {
    const size_t *roles; // [n_roles] that prompts use; outlives it all
    size_t n_roles, max_pages;
    uint64_t cache_bytes; // of a layer's part of the cache, at most
    int n_layers;
    bool always;
};

// Bytes of a device's memory that it takes; 0: devices do not know a weight of these layers, or have no pieces of memory
// as large as `largest` bytes.
uint64_t hearth_through_bytes(const struct hearth_session *s, const struct hearth_through_setup *setup,
                              uint64_t largest);

// HEARTH_E_MEMORY (of the host). Where the device has failed, its memory is full, and *out becomes NULL.
int hearth_through_open(struct hearth_through **out, struct hearth_accel *a, const struct hearth_session *s,
                        const struct hearth_through_setup *setup, struct hearth_error *err);
void hearth_through_close(struct hearth_through **through);

// ---- evaluations

// The layer from which on the device computes a batch of so many prompt rows, n_layers where the CPU has all.
int hearth_through_from(struct hearth_through *t, int n_rows);

// A page that the batch looks at, with positions before its own; forget: all of an earlier part.
void hearth_through_forget_pages(struct hearth_through *t);
void hearth_through_add_page(struct hearth_through *t, int page);

// Brings a layer's weights, and the keys and values of those pages, to its stage, which the layer two before has left.
// False: the device has failed, or a read has, which raises the evaluation's fault.
bool hearth_through_bring(struct hearth_through *t, int layer, int n_rows);

#endif
