// SPDX-License-Identifier: MIT
// Synthetic models: files with the exact shape of known ones, for measuring speed and memory where the real
// weights cannot be had. Weights are random, but for what decides which neurons and experts a token uses:
// that is planted, so that running the model shows the statistics of such models (docs/synth.md).
#ifndef HEARTH_SYNTH_SYNTH_H
#define HEARTH_SYNTH_SYNTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct hearth_synth_params {
    uint64_t seed;                            // the same seed gives the same bytes
    int n_threads;                            // 0: one per physical core. Changes no byte
    bool (*progress)(void *arg, float share); // called now and then, 0..1; returning false stops. May be NULL
    void *progress_arg;
};

// Names of the presets, in order; NULL beyond the last. *what (may be NULL) gets a line that describes it.
const char *hearth_synth_preset(int i, const char **what);

// Writes the preset `name` to `out`, which appears only when it is complete. Activations keep their size from
// layer to layer, so arithmetic meets ordinary numbers. The vocabulary is SentencePiece-like with made-up
// words, accepted by every GGUF program. Memory use is a layer's feed-forward part where neurons are planted,
// else a few MiB.
int hearth_synth(const char *name, const char *out, const struct hearth_synth_params *params,
                 struct hearth_error *err);

#endif
