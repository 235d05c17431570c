// SPDX-License-Identifier: MIT
// A profile being made: for profile.c and profile_write.c alone.
#ifndef HEARTH_CONVERT_PROFILER_H
#define HEARTH_CONVERT_PROFILER_H

#include "convert/profile.h"
#include "convert/walk.h"
#include "model/model.h"

// L layers, X experts (1 of a dense part), F neurons of the largest space, U experts of a token, T tokens of a window.
struct hearth_profiler {
    const struct hearth_model *model;
    const struct hearth_profile_params *params;
    struct hearth_walk walk;
    struct hearth_window *windows;                   // 32 side by side, stretch after stretch
    size_t n_layer, n_expert, n_ff, n_used, n_words; // words of 64 neurons
    bool by_gates;                                   // a threshold decides, outside the ReLU family
    struct hearth_error *err;

    // The layer that is being passed.
    size_t layer, width; // its neurons
    bool sizing;         // only magnitudes are collected
    float least;         // magnitude of an active gate
    size_t stretch;      // its first window
    uint64_t *active;    // [T x 32 x U x words] of this stretch
    int32_t *experts;    // [T x 32 x U] whose they are
    uint8_t *n_spaces;   // [T x 32] of the token
    uint32_t *masks;     // [X x F] of one position, bit i: active in part i
    uint32_t *visited;   // [X] bit i: used by part i
    // What a part had active when it last used a space, and which parts have used it in this stretch.
    uint32_t *before;         // [X x F]
    uint32_t *seen;           // [X]
    uint64_t again, compared; // active neurons of parts that were seen: active then, too; and all
    uint64_t *sizes;          // [BINS] activated gates by magnitude
    double *sums;             // [X x F] of magnitudes of active neurons
    uint64_t *uses;           // [X] tokens that used the space
    uint8_t *sample;          // [X x SAMPLE x sample_bytes]
    size_t sample_bytes;      // of a token: bits of F neurons

    // All layers.
    uint64_t counted, all_again, all_compared;
    int32_t *counts;                 // [L x BATCHES x X x F] groups in which the neuron was active
    int32_t *visits;                 // [L x BATCHES x X] groups that used the space
    float *means;                    // [L x X x F] magnitude of an activation
    float *repeats;                  // [L]
    float *magnitudes;               // [L x HEARTH_MAGNITUDES], outside the ReLU family
    struct hearth_row_store samples; // [L x X x SAMPLE] rows
};

int hearth_profiler_write(struct hearth_profiler *p, const char *out);

#endif
