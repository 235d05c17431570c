// SPDX-License-Identifier: MIT
// What a device gets of a session.
#ifndef HEARTH_ENGINE_PLACEMENT_H
#define HEARTH_ENGINE_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "hearth.h"

struct hearth_placement {
    char device[128]; // its name; empty: there is none
    uint64_t vram;    // bytes of its memory that may be used, and of these those that
    uint64_t bytes;   // layers, the head, a prompt's stages and the workspace take
    int layers;       // the last ones,
    int attention;    // or so many layers' attention alone
    bool head;
    bool through;     // prompts may pass through it with the other layers, or experts
    uint64_t neurons; // hot ones of layers that are not whole there
    bool hot;         // the rest of its memory is for hot neurons and experts
};

// What a device would get of a session with these parameters, by what its driver says of it; no device is opened, and
// there is none in *out where the driver knows none. Reads no weights. The errors of hearth_session_open().
int hearth_session_foresee(struct hearth_placement *out, const struct hearth_model *model,
                           const struct hearth_session_params *params, struct hearth_error *err);

#endif
