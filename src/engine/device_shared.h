// SPDX-License-Identifier: MIT
// The expert that all tokens use, on a device that has its layer's attention: it goes on with it while the CPU computes the
// other experts. The CPU adds it to their sum, as ever.
#ifndef HEARTH_ENGINE_DEVICE_SHARED_H
#define HEARTH_ENGINE_DEVICE_SHARED_H

#include "accel/accel.h"

// Of a session, whichever device has the layer.
struct hearth_device_shared {
    struct hearth_accel *a; // that computes it now,
    bool *works;            // and works
    int layer;              // whose it is; -1: none is on its way
    void *events[2];        // of prompts, of steps; NULL: nothing is
    float *got;             // [T x E] where it comes: that device's
    uint64_t rows;          // that were used
};

// Begins to fetch n floats of a class's rows that the device has been told to compute, to `at` floats behind d->got. Class
// 0: prompts; 1: steps.
void hearth_device_shared_fetch(struct hearth_device_shared *d, int class,
                                const struct hearth_accel_memory *from, size_t at, size_t n);
// Waits for n_rows rows of n floats in all, which come to `out`. False: the device has failed.
bool hearth_device_shared_end(struct hearth_device_shared *d, float *out, size_t n_rows, size_t n);

#endif
