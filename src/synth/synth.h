// SPDX-License-Identifier: MIT
// Synthetic models: files with the exact shape of known ones, to measure speed and memory without the real
// weights. The weights are random, except that planted statistics decide which neurons and experts a token
// uses. So the model behaves like the known one when it runs (docs/synth.md).
#ifndef HEARTH_SYNTH_SYNTH_H
#define HEARTH_SYNTH_SYNTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct hearth_synth_params {
    uint64_t seed; // the same seed gives the same bytes
    int n_threads; // 0: one per physical core. Changes no byte
    // Only what a plan needs: the file has its full size, but its weights are holes, which take no room on
    // disk. Models with planted neurons become packs, with the counts that such neurons would have on
    // average.
    bool shape;
    // Predictors see the feed-forward input of the layer before: hearth.pack.predictor_input is "previous".
    bool early_predictors;
    // The stream changes from layer to layer and neighbouring tokens share fewer neurons, as in trained
    // models. Only for models with planted neurons.
    bool drift;
    // Called now and then with bytes written, and to be written in all; false stops. May be NULL.
    bool (*progress)(void *arg, uint64_t done, uint64_t total);
    void *progress_arg;
};

// The name of preset i; NULL after the last. *what (may be NULL) becomes a line that describes it.
const char *hearth_synth_preset(int i, const char **what);

// Writes the preset `name` to `out`, which appears only when it is complete. Activations keep
// their size from layer to layer, so arithmetic meets ordinary numbers. The vocabulary is
// SentencePiece-like with made-up words; every GGUF program accepts it. Memory use is one layer's
// feed-forward part if neurons are planted, else a few MiB. Errors name the file.
int hearth_synth(const char *name, const char *out, const struct hearth_synth_params *params,
                 struct hearth_error *err);

#endif
