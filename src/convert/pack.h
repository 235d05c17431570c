// SPDX-License-Identifier: MIT
// Writes packs: models rewritten for streaming by neuron (src/model/pack.h, docs/formats.md "Packs").
#ifndef HEARTH_CONVERT_PACK_H
#define HEARTH_CONVERT_PACK_H

#include "model/model.h"
#include "model/pack.h"

// What tells the source from others.
struct hearth_pack_source {
    uint64_t fingerprint; // hearth_model_fingerprint()
    uint64_t bytes;       // of all its files
};

struct hearth_pack_params {
    // Path of a profile that hearth_profile() made, from any number format of the same model, or of PowerInfer's
    // GPU index of it (gpu_index.h); NULL: neurons keep their order.
    const char *profile;
    // Name of the number format of down ("Q4_0"), where the source has it the usual way round; NULL: plain
    // numbers stay as they are, blocks become Q8_0.
    const char *down;
    // Gates become matrices of their own: for steps without predictors. HEARTH_E_UNSUPPORTED for models with
    // experts, without gates, or whose gate and up are one matrix.
    bool gates_apart;
    size_t memory;                            // bytes of bundles that are made at a time; 0: 256 MiB
    int n_threads;                            // 0: one per physical core
    bool (*progress)(void *arg, float share); // called now and then with 0..1; false stops. May be NULL
    void *progress_arg;
    // Recorded in the pack, for who looks for a pack of this model; NULL: the pack's bytes follow from the
    // model's alone.
    const struct hearth_pack_source *source;
    // Only the header is written, and zeros in place of the weights, which take no room on the disk: enough
    // to ask hearth_model_fit() what the pack would be worth.
    bool hollow;
};

// Of the neurons: predictors that name more than this of them for a token are of little or no use.
#define HEARTH_NEARLY_ALL 0.8
// What trained predictors name of the neurons, in the mean of all layers; 0: the file does not tell.
double hearth_pack_share_named(const struct hearth_gguf *g);

struct hearth_pack_result {
    uint64_t bytes_in, bytes_out; // bytes of tensor data
    uint64_t n_spaces, n_neurons; // neurons over all spaces
    uint32_t n_transposed;        // layers whose down was stored the usual way and transposed
    uint32_t n_requantised;       // layers of these whose down has another format now: `down`
    uint32_t down;                // the last one's format
    bool ordered;                 // neurons are in the order of a profile, or
    bool indexed;                 // those of an index come first
    bool no_shares;               // thresholds are for this model, but the pack takes no shares: no profile
    bool shares;                  // it takes them, and nothing else leaves neurons out
};

// Reads the GGUF at `in` (any architecture and container that Hearth runs, all shards of a split model) and
// writes the pack `out`. `out` appears only when it is complete; a failure leaves nothing behind. Rows of
// gate and up keep their bits, and those of down if the source stores down by neuron (then params->down is
// refused). Memory use is params->memory and some MiB, whatever the size of the model. *result may be NULL.
// HEARTH_E_INTERRUPTED if progress returns false. HEARTH_E_IO also, before anything is written, if the disk
// has no room for it. Errors name the file.
int hearth_pack_write(const char *in, const char *out, const struct hearth_pack_params *params,
                      struct hearth_pack_result *result, struct hearth_error *err);
// What tells an open model from others; reads some KiB of each tensor.
int hearth_pack_source_of(const struct hearth_model *m, struct hearth_pack_source *out,
                          struct hearth_error *err);
// Whether this pack was made of this source, and says so.
bool hearth_pack_is_of(const struct hearth_gguf *pack, const struct hearth_pack_source *source);

// ---- parts, for callers that make a pack without a source
// || They write, in this order: ordinary keys, hearth_pack_put_keys(), the tensors, among them
// hearth_pack_put_bundles() for each layer, hearth_gguf_put_checksums(), then the data: bundle
// after bundle, expert after expert.

struct hearth_pack_facts {
    uint32_t n_layer, n_expert;         // n_expert at least 1
    const struct hearth_bundle *layers; // [n_layer], laid out, with their numbers of neurons
    bool gates_apart;                   // as in struct hearth_pack
    const uint32_t *down_from;          // [n_layer], or NULL: see struct hearth_pack
    const uint32_t *always;             // [n_layer * n_expert] number of leading neurons that are always
                                        // computed; NULL: 0
    // When at least this share of a cluster's neurons is wanted, dense products are used; 0:
    // HEARTH_PACK_CROSSOVER.
    float crossover;
    const char *predictor_input; // "normed", "stream", "layer" or "previous"; NULL: no predictors
    float sparse_threshold;      // threshold of the predictors
};

#define HEARTH_PACK_CROSSOVER 0.6f

// Adds general.alignment and the keys under "hearth.pack." that the facts cover.
int hearth_pack_put_keys(struct hearth_gguf_writer *w, const struct hearth_pack_facts *f,
                         struct hearth_error *err);
// Declares the bundles of a layer, b->n neurons in each of n_expert spaces.
int hearth_pack_put_bundles(struct hearth_gguf_writer *w, uint32_t layer, const struct hearth_bundle *b,
                            uint32_t n_expert, struct hearth_error *err);

#endif
