// SPDX-License-Identifier: MIT
// Binding the tensors of a GGUF to the roles of an architecture, and bringing their bytes into memory.
#ifndef HEARTH_MODEL_LOAD_H
#define HEARTH_MODEL_LOAD_H

#include "model/arch.h"
#include "model/pack.h"

// Places in the image keep the phase of file offsets within this, so that direct reads need no copy.
#define HEARTH_IMAGE_PAGE 4096

// A tensor that a model needs.
struct hearth_item {
    const struct hearth_gguf_tensor *tensor;
    int layer;            // -1: of the model as a whole
    size_t offset, bytes; // in the image; of bundles 0
    bool vector;          // a norm or a bias
    bool to_f32;          // a vector that the file has in another format
    bool of_experts;      // gate, up or down: of all of the layer's experts, or of one in a tensor of its own
    // A pack's bundles become matrices, which begin at these places of the image; NULL: something else.
    const struct hearth_bundle *bundle;
    size_t parts[HEARTH_PARTS];
};

// Finds the tensors of m (m->arch, m->hp without n_vocab, m->gguf and m->kernels are set): fills m->weights,
// m->items, and what packs say of spaces. Checks shapes, types and that no tensor is missing or unknown;
// reads no weights. On failure the caller closes the model.
int hearth_model_bind(struct hearth_model *m, struct hearth_error *err);

// Threads that load.
int hearth_load_threads(const struct hearth_model *m);
// Bytes that hearth_image_load() takes beside the image, at most.
uint64_t hearth_image_load_bytes(const struct hearth_model *m);
// Reads all weights into memory and points `weights`, a copy of m->weights or itself, there. The region
// is the caller's to close, whatever is returned. Thread-safe on a bound model.
int hearth_image_load(const struct hearth_model *m, struct hearth_region *image,
                      struct hearth_weights *weights, struct hearth_error *err);

// The item that holds a weight that the model has; of single experts in tensors of their own, the first.
const struct hearth_item *hearth_item_of(const struct hearth_model *m, const struct hearth_weight *w);

// An item and where its bytes are to go.
struct hearth_target {
    const struct hearth_item *item;
    uint8_t *to;    // its first byte; of bundles not used:
    uint8_t *image; // their parts go to `parts` of it
};

// Reads items with several threads, with the model's load options. Thread-safe on a bound model.
int hearth_targets_read(const struct hearth_model *m, const struct hearth_target *targets, size_t n_targets,
                        struct hearth_error *err);

// Copies n bundles, side by side, to rows of matrices; to[part] is where the first row of the part goes.
void hearth_bundles_take_apart(const struct hearth_bundle *b, const uint8_t *bundles, size_t n,
                               uint8_t *const to[HEARTH_PARTS]);

#endif
