// SPDX-License-Identifier: MIT
// How layers are divided among the devices of a session: each has some that follow one another, the last device the last
// ones. As a batch goes through the devices one after the other, its time is the sum of theirs. So the fastest device
// has as many as there is room for, then the next one; or each has the share that somebody asked for.
#ifndef HEARTH_ENGINE_OFFLOAD_DIVIDE_H
#define HEARTH_ENGINE_OFFLOAD_DIVIDE_H

#include <stdint.h>

#include "hearth.h"

struct hearth_offload_params;

struct hearth_offload_side {
    uint64_t room; // bytes for layers
    double speed;  // of weights, bytes a second; 0: not known
    float share;   // of the layers, relative to those of the others; all 0: by speed and room
};

// What a device must be faster than another, so that this counts: less is chance.
#define HEARTH_OFFLOAD_FASTER 1.25

// Devices take layers from the last one on, side n - 1 first. Of layers [least, n_layer), which take `bytes` each, about,
// those from `end` on have been taken: returns the first layer of those that side i is to take, as far as they fit.
int hearth_offload_from(const struct hearth_offload_side *sides, int n, int i, int least, int n_layer,
                        int end, uint64_t bytes);

// Whether sizes and shares make sense for n devices: HEARTH_E_INVALID.
int hearth_offload_check(const struct hearth_offload_params *p, int n, struct hearth_error *err);

#endif
