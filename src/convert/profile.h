// SPDX-License-Identifier: MIT
// Profiles: how often each neuron of a model is active, alone and in groups of tokens, gathered by running
// text. docs/formats.md, "Profiles".
#ifndef HEARTH_CONVERT_PROFILE_H
#define HEARTH_CONVERT_PROFILE_H

#include "gguf/gguf.h"
#include "hearth.h"

#define HEARTH_PROFILE_VERSION 1
// Batch sizes that are counted: 1, 2, 4, ... 32.
#define HEARTH_PROFILE_BATCHES 6
#define HEARTH_PROFILE_LANES   32

// ---- making one ----

struct hearth_profile_params {
    int n_ctx;                // tokens of a stretch of text; 0: 512
    int n_threads;            // 0: one per physical core
    float sparsity_threshold; // as in struct hearth_session_params: models outside the ReLU family
    float sparsity_share;     // in place of it: this share (0..1) of each layer's activations is below what
                              // counts; the text goes through the model twice then
    bool (*progress)(void *arg, float share); // called now and then, 0..1; returning false stops. May be NULL
    void *progress_arg;
};

struct hearth_profile_result {
    uint64_t tokens;  // counted
    double active;    // share of the neurons of a visited space that one token makes active
    double active_32; // the same for the union of 32 tokens
};

// Runs the tokens through the model as 32 texts side by side (the text's 32 parts), in steps of one token
// each, and writes to `out` how many steps made each neuron active: for each text alone, and for groups of 2,
// 4, ... 32 of them together. The first token of a stretch is not counted. A neuron is active when what it
// adds to the output is not zero. HEARTH_E_INVALID for fewer than 64 tokens, and for a model in which every
// neuron always is active.
int hearth_profile(const struct hearth_model *model, const hearth_token *tokens, size_t n_tokens,
                   const struct hearth_profile_params *params, const char *out,
                   struct hearth_profile_result *result, struct hearth_error *err);

// ---- reading one ----

struct hearth_profile {
    struct hearth_gguf *g;
    uint32_t n_layer, n_ff, n_expert; // n_ff of one space; n_expert at least 1
    uint32_t n_batches;
    uint32_t batches[16]; // ascending, the first is 1
    uint64_t tokens;
    const struct hearth_gguf_kv *magnitudes; // f32 [n_layer x 101] (HEARTH_MAGNITUDES); NULL: ReLU family
};

// Opens and checks all but the counts themselves.
int hearth_profile_open(struct hearth_profile **out, const char *path, struct hearth_error *err);
void hearth_profile_close(struct hearth_profile **p);

// A layer's counts[n_batches][n_expert][n_ff], groups in which the neuron was active, and
// visits[n_batches][n_expert], groups that used the space. Checked: 0 <= counts <= visits.
int hearth_profile_read(const struct hearth_profile *p, uint32_t layer, int32_t *counts, int32_t *visits,
                        struct hearth_error *err);

#endif
