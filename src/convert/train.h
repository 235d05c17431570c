// SPDX-License-Identifier: MIT
// Trains predictors for a model: docs/train.md.
#ifndef HEARTH_CONVERT_TRAIN_H
#define HEARTH_CONVERT_TRAIN_H

#include "hearth.h"

// What became of a layer.
struct hearth_train_layer {
    int layer;
    bool kept;              // from a run before
    uint32_t rank;          // of its predictors
    bool wide;              // they see their input besides
    uint32_t untrained;     // experts with too few samples, whose predictors name all neurons
    float recall;           // mean over its spaces, of text held out: share of the magnitudes found,
    float active, chosen;   // share of neurons that are active (without those), and that predictors name
    float bytes;            // of the predictors, as a share of the feed-forward part's
    double walk_s, train_s; // seconds
};

// Which predictors are tried (docs/train.md).
enum hearth_predictor_form { HEARTH_PREDICTOR_AUTO, HEARTH_PREDICTOR_NARROW, HEARTH_PREDICTOR_WIDE };

struct hearth_train_params {
    int n_ctx;               // tokens of a window of text; 0: 512
    int n_threads, n_ubatch; // 0: one per physical core; 512
    float recall;            // share of the magnitudes to find, 0..1; 0: 0.98
    float share;             // of the feed-forward parts' bytes that predictors may have; 0: 0.1
    int steps;               // of training a predictor; 0: 1000
    uint64_t seed;
    enum hearth_predictor_form form;
    bool early; // predictors look at the input of the layer before ("previous", docs/sparse.md)
    // For models outside the ReLU family: which neurons count as active, as in struct hearth_profile_params.
    float sparsity_threshold, sparsity_share;
    bool (*progress)(void *arg, float share); // 0..1; false stops. May be NULL
    void *progress_arg;
    void (*on_layer)(void *arg, const struct hearth_train_layer *layer); // each that is finished. May be NULL
    void *on_layer_arg;
};

// A text of fewer windows is refused.
#define HEARTH_TRAIN_LEAST_WINDOWS 20

// Into how many windows a text is cut; n_ctx as in the params.
size_t hearth_train_windows(const struct hearth_model *model, int n_ctx, size_t n_tokens);

// Takes the text through the model, layer by layer, as hearth_profile() does, trains the predictors of each
// layer with what passes it, and writes the model with them to the file `out`. Every tenth window of the text
// is held out: on these, each predictor is made to find `recall` of the magnitudes of active neurons, with the
// fewest bytes. Finished layers are kept in the folder OUT.layers until `out` is written; a later call with
// the same model, text and params goes on there. The same call gives the same bytes, whatever the number of
// threads, the memory and the CPU. HEARTH_E_INVALID: a text of too few windows or a model whose neurons
// are all active; HEARTH_E_UNSUPPORTED: a width that is no multiple of 32, one position, an architecture whose models
// cannot have predictors or be packed; others of files and sessions.
int hearth_train_predictors(const struct hearth_model *model, const hearth_token *tokens, size_t n_tokens,
                            const struct hearth_train_params *params, const char *out,
                            struct hearth_error *err);

#endif
