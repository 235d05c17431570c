// SPDX-License-Identifier: MIT
// What adapters change of weights that a device has (struct hearth_change): A and B go there with the weight, and layers
// add their products to its own, as adapt.c does on the CPU.
#ifndef HEARTH_ENGINE_OFFLOAD_CHANGES_H
#define HEARTH_ENGINE_OFFLOAD_CHANGES_H

#include "accel/operations.h"
#include "model/model.h"

// Bytes of a device's memory for all changes of a weight, *largest becoming those of the largest part if that is more. 0:
// there are none. False: devices do not know one of them.
bool hearth_offload_changes_bytes(const struct hearth_weight *w, uint64_t *bytes, uint64_t *largest);
// Brings them there, to->change. HEARTH_OK with a device that has failed: its memory is full. HEARTH_E_MEMORY (of the
// host). close() follows in any case.
int hearth_offload_changes_send(struct hearth_accel *a, struct hearth_accel_weight *to,
                                const struct hearth_weight *w, struct hearth_error *err);
void hearth_offload_changes_close(struct hearth_accel *a, struct hearth_accel_weight *w);

// The most rows of A, and of B, of changes of all layers' weights; 0: there are none.
void hearth_offload_changes_rows(const struct hearth_model *m, uint64_t *low, uint64_t *high);

#endif
