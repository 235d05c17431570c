// SPDX-License-Identifier: MIT
// Weights on their way to a device.
#ifndef HEARTH_ENGINE_OFFLOAD_WEIGHTS_H
#define HEARTH_ENGINE_OFFLOAD_WEIGHTS_H

#include "accel/operations.h"
#include "model/model.h"

// Brings the first n rows of a weight of the model to *to, which the caller closes in any case. now: the same weight
// as the sessions see it. HEARTH_E_IO, HEARTH_E_MEMORY (of the host); the device keeps its own failures.
int hearth_offload_send(struct hearth_accel *a, const struct hearth_model *m, struct hearth_accel_weight *to,
                        const struct hearth_weight *w, const struct hearth_weight *now, size_t n,
                        struct hearth_error *err);

// Rows [first, first + n) of an expert's matrix, of those of all experts in w, to the same rows of matrix number
// `place` of *to. now: as above, where all of it is in memory; NULL: it is read from the file, where it is no part of
// bundles, to `rows`, which has room for them. The same errors.
int hearth_offload_send_expert(struct hearth_accel *a, const struct hearth_model *m,
                               const struct hearth_accel_weight *to, int place, const struct hearth_weight *w,
                               const struct hearth_weight *now, uint8_t *rows, int expert, size_t first,
                               size_t n, struct hearth_error *err);

#endif
