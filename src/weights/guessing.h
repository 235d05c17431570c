// SPDX-License-Identifier: MIT
// When steps guess what a layer will want. A guess that is made early hides more of the reading, a late one
// comes true more often; and all of them take computing, read what nobody needs, and part neighbours that one
// read would bring. What is fastest depends on the model, the storage and the memory. So the ways are tried in
// turn, a step each, until one is left, and again after many steps. What is computed never depends on it.
#ifndef HEARTH_WEIGHTS_GUESSING_H
#define HEARTH_WEIGHTS_GUESSING_H

#include <stdbool.h>
#include <stdint.h>

#include "weights/source.h"

#define HEARTH_GUESSING_WAYS   3  // the values of hearth_guess_when
#define HEARTH_GUESSING_ROUNDS 12 // of a trial, at most

struct hearth_guessing {
    enum hearth_guess_when when; // of the step of now
    bool can[HEARTH_GUESSING_WAYS],
        tried[HEARTH_GUESSING_WAYS];      // ways that there are; that may be the fastest
    uint64_t steps[HEARTH_GUESSING_WAYS]; // so far

    // The trial: ns of a step, from its first layer's request to its last one's.
    uint64_t took[HEARTH_GUESSING_WAYS][HEARTH_GUESSING_ROUNDS];
    int rounds, n_tokens; // done; of its steps
    uint64_t since;       // steps that it does not count

    uint64_t began;        // the step of now: ns of its first request,
    int n_now;             // its tokens,
    bool alone;            // and that no prompt is evaluated with it
    int layer, last_layer; // of the latest request; the highest so far
};

// Which ways there are: one at least.
void hearth_guessing_begin(struct hearth_guessing *g, bool early, bool late, bool never);
// A step's layer asks for neurons, at the time now_ns. The layers of a step come in ascending order, each once or several
// times.
void hearth_guessing_request(struct hearth_guessing *g, int layer, int n_tokens, bool alone, uint64_t now_ns);

#endif
