// SPDX-License-Identifier: MIT
// Writing packs: models rewritten for streaming by neuron (src/model/pack.h, docs/formats.md "Packs").
#ifndef HEARTH_CONVERT_PACK_H
#define HEARTH_CONVERT_PACK_H

#include "model/pack.h"

struct hearth_pack_params {
    const char *profile; // of hearth_profile(), on any number format of the same model; NULL: neurons keep
                         // their order
    size_t memory;       // bytes of bundles made at a time; 0: 256 MiB
    int n_threads;       // 0: one per physical core
    bool (*progress)(void *arg, float share); // called now and then, 0..1; returning false stops. May be NULL
    void *progress_arg;
};

struct hearth_pack_result {
    uint64_t bytes_in, bytes_out; // of tensor data
    uint64_t n_spaces, n_neurons; // neurons of all spaces together
    uint32_t n_transposed;        // layers whose down was stored the other way,
    uint32_t n_requantised;       // of which these were quantised and had to be again
    bool ordered;                 // by a profile
};

// Reads the GGUF at `in` (any architecture and container that Hearth runs, all parts of a split one) and
// writes the pack `out`, which appears only when it is complete; whatever stops it leaves nothing behind.
// Rows of gate and up, and of down where the source has it by neuron, keep their bits. Memory use is
// params->memory and some MiB, whatever the size of the model. *result may be NULL.
int hearth_pack_write(const char *in, const char *out, const struct hearth_pack_params *params,
                      struct hearth_pack_result *result, struct hearth_error *err);

// ---- pieces, for who makes a pack without a source: ordinary keys, hearth_pack_put_keys(), then tensors,
// among them hearth_pack_put_bundles() for each layer, hearth_gguf_put_checksums(), then the data: bundle
// after bundle, expert after expert

struct hearth_pack_facts {
    uint32_t n_layer, n_expert;         // n_expert at least 1
    const struct hearth_bundle *layers; // [n_layer], laid out
    const uint32_t *down_from;          // [n_layer], or NULL: see struct hearth_pack
    const uint32_t *always; // [n_layer * n_expert] neurons computed without asking the predictor; NULL: 0
    float crossover;        // share of a cluster's neurons from which dense products are used; 0:
                            // HEARTH_PACK_CROSSOVER
    const char *predictor_input; // "normed", "stream", "layer"; NULL: there are no predictors
    float sparse_threshold;      // of the predictors
};

#define HEARTH_PACK_CROSSOVER 0.6f

// General.alignment and everything under "hearth.pack." that the facts cover.
int hearth_pack_put_keys(struct hearth_gguf_writer *w, const struct hearth_pack_facts *f,
                         struct hearth_error *err);
int hearth_pack_put_bundles(struct hearth_gguf_writer *w, uint32_t layer, const struct hearth_bundle *b,
                            uint32_t n_ff, uint32_t n_expert, struct hearth_error *err);

#endif
