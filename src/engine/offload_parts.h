// SPDX-License-Identifier: MIT
// Which weights of a layer are on a device, what they take, and how they come there. o: which part of the
// layers that is (o->attention), and how large a piece of its memory is.
#ifndef HEARTH_ENGINE_OFFLOAD_PARTS_H
#define HEARTH_ENGINE_OFFLOAD_PARTS_H

#include "engine/offload.h"

// Of whole layers of dense models: places in struct hearth_layer.
#define HEARTH_OFFLOAD_ROLES 37
extern const size_t hearth_offload_roles[HEARTH_OFFLOAD_ROLES];

// Whether devices that have a layer's attention have the expert that all tokens use, too: not one that a
// router weighs, nor one without gates or with limits of these.
bool hearth_offload_shares_expert(const struct hearth_session *s);
// Whether a device has nothing of the layer, where attention alone is there.
bool hearth_offload_is_idle(const struct hearth_offload *o, int layer);
// Of a device's memory, with the layer's part of the cache; 0 where it has nothing there. False: devices do
// not know it.
bool hearth_offload_layer_bytes(const struct hearth_offload *o, int layer, uint64_t *bytes);
// Whether each part of the weight is within one piece of the device's memory; the same of all that a layer
// has there.
bool hearth_offload_is_within_piece(const struct hearth_offload *o, const struct hearth_weight *w);
bool hearth_offload_is_layer_within(const struct hearth_offload *o, int layer);

// HEARTH_OK with a device that has failed: its memory is full. Closed in any case. HEARTH_E_IO,
// HEARTH_E_MEMORY (of the host).
int hearth_offload_open_layer(struct hearth_offload *o, struct hearth_offload_layer *l, int layer,
                              struct hearth_error *err);
void hearth_offload_close_layer(struct hearth_offload *o, struct hearth_offload_layer *l);

#endif
