// SPDX-License-Identifier: MIT
// The predictor of a space: trained on samples, as small as it may be for what it has to find.
#ifndef HEARTH_CONVERT_PREDICTOR_H
#define HEARTH_CONVERT_PREDICTOR_H

#include "convert/net.h"
#include "convert/row_store.h"
#include "quant/quant.h"

// A token that used the space: rows of the stores below.
struct hearth_sample {
    uint32_t input, target;
};

// Samples of a space; E inputs, F neurons.
struct hearth_samples {
    struct hearth_row_store *inputs;  // rows of E floats
    struct hearth_row_store *targets; // rows of F codes (net.h)
    const struct hearth_sample *train, *held;
    size_t n_train, n_held;
};

struct hearth_predictor_params {
    float recall;   // of the magnitudes of active neurons that are to be found
    uint64_t steps; // of training
    uint64_t seed;
    double neuron_bytes; // of a neuron's weights
    size_t ranks[8];     // that are tried, ascending, while they pay
    int n_ranks;
    // Called after each step; false stops. NULL.
    bool (*progress)(void *arg);
    void *progress_arg;
};

// A predictor, or what is known of the best one so far. A neuron is computed where its output is at least 1.
struct hearth_predictor {
    size_t rank;
    void *fc1, *fc2;      // [rank x E], [F x rank] in HEARTH_PREDICTOR_TYPE; in memory for the largest one
    float recall;         // of samples held out: share of the magnitudes found,
    float active, chosen; // share of neurons that are active, and that it names
    double cost;          // bytes that a token reads
};

// The number format of predictors (enum hearth_type). Networks are trained for it, so that it costs next to nothing,
// and twice the rank gives more than twice the bits.
#define HEARTH_PREDICTOR_TYPE HEARTH_TYPE_Q4_0
// Bytes of a predictor.
size_t hearth_predictor_bytes(size_t e, size_t rank, size_t f);
// Whether rows of e numbers can have the format.
bool hearth_predictor_can(size_t e);

// Tries the ranks with the net's memory, which is for the largest, and fills *out: with that which needs the
// fewest bytes for a token, itself included, among those that find enough, or else with the one that finds
// most. The same samples and params give the same bytes. HEARTH_E_INTERRUPTED, HEARTH_E_IO.
int hearth_predictor_fit(struct hearth_net *net, const struct hearth_samples *samples,
                         const struct hearth_predictor_params *params, struct hearth_predictor *out,
                         struct hearth_error *err);

// Fills *out, whose rank (even) is given, with a predictor that names all of f neurons, for a space of
// which nothing could be learned: whatever the e inputs, unless they are nothing, for which neurons without
// biases give nothing. HEARTH_E_MEMORY.
int hearth_predictor_name_all(struct hearth_predictor *out, size_t e, size_t f, struct hearth_error *err);

#endif
