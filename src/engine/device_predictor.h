// SPDX-License-Identifier: MIT
// A layer's predictor on a device.
#ifndef HEARTH_ENGINE_DEVICE_PREDICTOR_H
#define HEARTH_ENGINE_DEVICE_PREDICTOR_H

#include "accel/operations.h"

// Its matrices [R x E] and [F x R], or [F x (E + R)], and workspace for the rows: R, fc2->k and F numbers each; acts:
// hearth_acts_bytes() of E and of fc2->k numbers.
struct hearth_device_predictor {
    const struct hearth_accel_weight *fc1, *fc2;
    const struct hearth_accel_memory *acts, *hidden, *inner, *scores;
};

// scores = those of all neurons, of n rows of `seen`.
void hearth_device_predict(struct hearth_accel *a, const struct hearth_device_predictor *p,
                           const struct hearth_accel_memory *seen, size_t n);

#endif
