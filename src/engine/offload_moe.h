// SPDX-License-Identifier: MIT
// Whole layers with experts on a device: router, all experts, the one that all tokens use (offload_layer.c
// computes them).
#ifndef HEARTH_ENGINE_OFFLOAD_MOE_H
#define HEARTH_ENGINE_OFFLOAD_MOE_H

#include "accel/experts.h"
#include "engine/device_experts.h"

struct hearth_session;
struct hearth_offload;
struct hearth_offload_layer;

// What their rows use while a layer is computed: of each (row, expert) pair.
struct hearth_offload_moe {
    struct hearth_accel_slots slots;
    struct hearth_accel_memory x, acts; // inputs; x: where experts are of plain numbers
    struct hearth_accel_memory gate, up, out;
    struct hearth_accel_memory shared_products; // [rows] of the shared expert's router
};

// Whether devices know all of a layer of a model with experts, router and experts with it. They do not know:
// recurrent layers; tables that choose experts by token; scores that are roots of a softplus, which the CPU
// computes in f64; experts whose steps go by neuron, whose gates have limits, that read less than the stream,
// or that lie in bundles of a file that streams; the shared expert with limits, or weighed and normed; what
// replaces neurons that are off; more experts than accel/experts.h says.
bool hearth_offload_knows_experts(const struct hearth_session *s, int layer);

// Weights that such a layer has besides those of a dense one, but for matrices of experts: places in struct
// hearth_layer.
#define HEARTH_OFFLOAD_MOE_ROLES 12
extern const size_t hearth_offload_moe_roles[HEARTH_OFFLOAD_MOE_ROLES];

// Bytes that a layer's experts take of a device's memory, with biases and scales; *largest becomes those of
// the largest piece if that is more. 0: it has none.
uint64_t hearth_offload_experts_bytes(const struct hearth_session *s, int layer, uint64_t *largest);
// Brings them there, to the roles of *l. HEARTH_E_IO, HEARTH_E_MEMORY (of the host).
int hearth_offload_send_experts(struct hearth_offload *o, struct hearth_offload_layer *l, int layer,
                                struct hearth_error *err);

// Of the workspace, buffers of experts with `rows` rows of either class at most, and their bytes.
void hearth_offload_each_moe_buffer(struct hearth_offload *o, uint64_t rows,
                                    void (*fn)(void *arg, struct hearth_accel_memory *m, uint64_t bytes),
                                    void *arg);

#endif
