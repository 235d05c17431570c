// SPDX-License-Identifier: MIT
// Profiles count how often each neuron of a model is active, alone and in groups of tokens, while
// a text runs through the model, layer by layer. docs/formats.md, "Profiles".
#ifndef HEARTH_CONVERT_PROFILE_H
#define HEARTH_CONVERT_PROFILE_H

#include "gguf/gguf.h"
#include "hearth.h"

#define HEARTH_PROFILE_VERSION 1
#define HEARTH_PROFILE_WIDTHS  2 // version of profiles of layers that differ in width
// The batch sizes that are counted: 1, 2, 4, ... 32.
#define HEARTH_PROFILE_BATCHES 6
#define HEARTH_PROFILE_SEQS    32
// Tokens of each space whose active neurons are kept one by one, at most.
#define HEARTH_PROFILE_SAMPLE 512

// ---- making a profile

struct hearth_profile_params {
    int n_ctx;                // tokens of a window of text; 0: 512
    int n_threads;            // 0: one per physical core
    float sparsity_threshold; // as in struct hearth_session_params, for models outside the ReLU family
    // In place of it: this share (0..1) of each layer's activations does not count as active. The
    // text then passes each layer's feed-forward part twice.
    float sparsity_share;
    int n_ubatch;                             // tokens that pass a layer together; 0: 512
    bool (*progress)(void *arg, float share); // called now and then with 0..1; false stops. May be NULL
    void *progress_arg;
};

struct hearth_profile_result {
    uint64_t tokens;  // tokens counted
    double active;    // mean share of a visited space's neurons that one token activates
    double active_32; // the same for the union of 32 tokens
};

// Takes the tokens through the model as 32 texts side by side (the text's 32 parts), as prompts, layer by
// layer: of the weights one layer is in memory at a time where the model has a budget, and what tokens take
// with them is in a scratch file beside `out` then. Counts in how many positions each neuron was active: for
// each text alone, and for groups of 2, 4, ... 32 of them together. Writes the counts to the file `out`. The
// first token of a window is not counted. A neuron is active when its contribution to the output is not zero,
// or where a threshold decides, when its activated gate is not below it. The file does not depend on threads,
// memory or n_ubatch. HEARTH_E_INVALID: fewer than 64 tokens, or a model in which every neuron is always
// active. HEARTH_E_UNSUPPORTED: a model with one position. Errors of files name the path.
int hearth_profile(const struct hearth_model *model, const hearth_token *tokens, size_t n_tokens,
                   const struct hearth_profile_params *params, const char *out,
                   struct hearth_profile_result *result, struct hearth_error *err);

// ---- reading a profile

struct hearth_profile {
    struct hearth_gguf *g;
    uint32_t n_layer, n_ff, n_expert; // n_ff: neurons of the largest space; n_expert at least 1
    bool widths;                      // layers may differ in width
    uint32_t n_batches;
    uint32_t batches[16]; // ascending, the first is 1
    uint64_t tokens;
    float repeats; // 0 to 1: of a token's active neurons, those active at the visit before; 0: unknown
    const struct hearth_gguf_kv *layer_repeats; // f32 [n_layer] `repeats` of each layer; NULL: not known
    const struct hearth_gguf_kv *magnitudes;    // f32 [n_layer x 101] (HEARTH_MAGNITUDES); NULL: ReLU family
};

// Opens a profile and checks everything but the counts. The result is the caller's to close.
int hearth_profile_open(struct hearth_profile **out, const char *path, struct hearth_error *err);
void hearth_profile_close(struct hearth_profile **p);

// Neurons of a space of the layer.
uint32_t hearth_profile_neurons(const struct hearth_profile *p, uint32_t layer);

// Reads a layer's counts[n_batches][n_expert][F], F of the layer, the groups in which each neuron was active, and
// visits[n_batches][n_expert], the groups that used the space. Checks 0 <= counts <= visits.
int hearth_profile_read(const struct hearth_profile *p, uint32_t layer, int32_t *counts, int32_t *visits,
                        struct hearth_error *err);

// What a layer's counts say.
#define HEARTH_PROFILE_COVERAGES 4
struct hearth_profile_layer {
    uint32_t layer;
    bool used; // false: no token used the counted neurons, as the layer has no experts and others have
    double active[HEARTH_PROFILE_BATCHES]; // mean share of a visited space's neurons, by group size
    // Share of the layer's neurons that have 50, 80, 95 and 99 % of all activations, the most active first.
    double coverage[HEARTH_PROFILE_COVERAGES];
    double never;   // share of the neurons that no token activated
    double repeats; // as in struct hearth_profile; 0: not known
    double mean;    // magnitude of an activation; 0: not known
};
// HEARTH_E_MEMORY, and as hearth_profile_read().
int hearth_profile_summarise(const struct hearth_profile *p, uint32_t layer, struct hearth_profile_layer *out,
                             struct hearth_error *err);

#endif
