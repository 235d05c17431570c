// SPDX-License-Identifier: MIT
// The predictor of a space: trained on samples, as small as it may be for what it has to find.
#ifndef HEARTH_CONVERT_PREDICTOR_H
#define HEARTH_CONVERT_PREDICTOR_H

#include "convert/net.h"
#include "convert/row_store.h"
#include "quant/quant.h"

// Shapes that are tried, at most.
#define HEARTH_PREDICTOR_SHAPES 8

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

// Predictors are narrow or wide (net.h). A wide one has few inner units; fc2 has the signs of as many numbers as the gate.
struct hearth_predictor_shape {
    size_t rank;
    bool wide;
};

struct hearth_predictor_params {
    float recall;   // of the magnitudes of active neurons that are to be found
    uint64_t steps; // of training
    uint64_t seed;
    double neuron_bytes; // of a neuron's weights
    // What is tried: ascending, while it pays, first narrow ones and then wide ones.
    struct hearth_predictor_shape shapes[HEARTH_PREDICTOR_SHAPES];
    int n_shapes;
    // Row `neuron` [E] of the space's gate, or of up where there is none: wide ones begin with its signs. HEARTH_E_IO.
    int (*gate)(void *arg, size_t neuron, float *row, struct hearth_error *err);
    void *gate_arg;
    // Called after each step; false stops. NULL.
    bool (*progress)(void *arg);
    void *progress_arg;
};

// A predictor, or what is known of the best one so far. A neuron is computed where its output is at least 1.
struct hearth_predictor {
    struct hearth_predictor_shape shape;
    void *fc1, *fc2;      // [rank x E], [F x rank] or [F x (E + rank)]; in memory for the largest one
    float recall;         // of samples held out: share of the magnitudes found,
    float active, chosen; // share of neurons that are active, and that it names
    double cost;          // bytes that a token reads
};

// The number formats of predictors (enum hearth_type): of all but fc2 of wide ones, and of that. Networks are trained for
// them, so that they cost next to nothing, and twice the rank gives more than twice the bits.
#define HEARTH_PREDICTOR_TYPE      HEARTH_TYPE_Q4_0
#define HEARTH_PREDICTOR_SIGN_TYPE HEARTH_TYPE_Q1_0
static inline uint32_t hearth_predictor_type(struct hearth_predictor_shape shape, int matrix)
{
    return shape.wide && matrix == 2 ? HEARTH_PREDICTOR_SIGN_TYPE : HEARTH_PREDICTOR_TYPE;
}
// Elements of a row of fc1 or fc2, and rows of it.
static inline size_t hearth_predictor_k(struct hearth_predictor_shape shape, int matrix, size_t e)
{
    return matrix == 1 ? e : shape.rank + (shape.wide ? e : 0);
}
static inline size_t hearth_predictor_n(struct hearth_predictor_shape shape, int matrix, size_t f)
{
    return matrix == 1 ? shape.rank : f;
}
// Whether a tensor of this name is fc1 or fc2, of a dense part or of experts.
bool hearth_predictor_is_name(const char *name);
// Bytes of fc1 or fc2, and of both; of both of the largest of some shapes.
size_t hearth_predictor_matrix_bytes(struct hearth_predictor_shape shape, int matrix, size_t e, size_t f);
size_t hearth_predictor_bytes(struct hearth_predictor_shape shape, size_t e, size_t f);
size_t hearth_predictor_most_bytes(const struct hearth_predictor_shape *shapes, int n, size_t e, size_t f);
// Whether rows of e numbers can have the format.
bool hearth_predictor_can(size_t e);
// The shapes of one form or both to try where predictors may have `most` bytes, to shapes[HEARTH_PREDICTOR_SHAPES]. Returns
// how many. Where nothing is as small, it is the smallest narrow one; or the smallest wide one, if only these are wanted.
int hearth_predictor_list(size_t e, size_t f, double most, bool narrow, bool wide,
                          struct hearth_predictor_shape *shapes);
// Sets the net's largest shapes.
void hearth_predictor_size_net(struct hearth_net *net, const struct hearth_predictor_shape *shapes, int n);

// Tries the shapes with the net's memory, which is for the largest, and fills *out: with that which needs the
// fewest bytes for a token, itself included, among those that find enough, or else with the one that finds
// most. The same samples and params give the same bytes. HEARTH_E_INTERRUPTED, HEARTH_E_IO.
int hearth_predictor_fit(struct hearth_net *net, const struct hearth_samples *samples,
                         const struct hearth_predictor_params *params, struct hearth_predictor *out,
                         struct hearth_error *err);

// Fills *out, whose shape (of an even rank) is given, with a predictor that names all of f neurons, for a space of
// which nothing could be learned: whatever the e inputs, unless they are nothing, for which neurons without
// biases give nothing. HEARTH_E_MEMORY.
int hearth_predictor_name_all(struct hearth_predictor *out, size_t e, size_t f, struct hearth_error *err);

#endif
