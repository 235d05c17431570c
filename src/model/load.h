// SPDX-License-Identifier: MIT
// Binds the tensors of a GGUF to the roles of an architecture, and reads their bytes into memory.
#ifndef HEARTH_MODEL_LOAD_H
#define HEARTH_MODEL_LOAD_H

#include "model/arch.h"
#include "model/pack.h"

// Offsets in the image and in the file are equal modulo this, so that direct reads need no copy.
#define HEARTH_IMAGE_PAGE 4096

// A tensor that a model needs.
struct hearth_item {
    const struct hearth_gguf_tensor *tensor;
    int layer;            // -1: the tensor belongs to no layer
    size_t offset, bytes; // its range in the image; 0 for bundles
    bool vector;          // a norm or a bias
    bool to_f32;          // a vector that has another format in the file
    bool of_experts;      // gate, up or down: of all experts of the layer, or of one
    // Bundles of a pack become matrices, which begin at these offsets in the image. NULL: an ordinary tensor.
    const struct hearth_bundle *bundle;
    size_t parts[HEARTH_PARTS];
};

// Finds the tensors of m, in which arch, hp (without n_vocab), gguf and kernels are set. Fills m->weights,
// m->items, and the facts of a pack about its spaces. Checks shapes and types, and that no tensor is missing
// or unknown. Reads no weights. On failure the caller closes the model.
int hearth_model_bind(struct hearth_model *m, struct hearth_error *err);

// Threads that load.
int hearth_load_threads(const struct hearth_model *m);
// Bytes that hearth_image_load() takes beside the image, at most.
uint64_t hearth_image_load_bytes(const struct hearth_model *m);
// Reads all weights into memory and lets `weights` point there: m->weights itself, or a copy of it. The
// region is the caller's to close, after a failure too. Thread-safe on a bound model.
int hearth_image_load(const struct hearth_model *m, struct hearth_region *image,
                      struct hearth_weights *weights, struct hearth_error *err);

// The item that holds a weight, which the model must have. If each expert has a tensor of its own: that of
// the first expert.
const struct hearth_item *hearth_item_of(const struct hearth_model *m, const struct hearth_weight *w);

// Reads rows [first, first + n) of a matrix that is no part of bundles, of an expert's (0 in a dense part) of those of all
// experts in w, as they are in the file. HEARTH_E_IO. Thread-safe.
int hearth_expert_rows_read(const struct hearth_model *m, const struct hearth_weight *w, int expert,
                            size_t first, size_t n, void *rows, struct hearth_error *err);

// An item and the destination of its bytes.
struct hearth_target {
    const struct hearth_item *item;
    uint8_t *to;    // destination of a tensor; unused for bundles:
    uint8_t *image; // their matrices go to image + item->parts
};

// Reads items with several threads, by the model's load options. Thread-safe on a bound model.
int hearth_targets_read(const struct hearth_model *m, const struct hearth_target *targets, size_t n_targets,
                        struct hearth_error *err);

// Copies the rows of n consecutive bundles to rows of matrices. to[part]: destination of the first one.
void hearth_bundles_unpack(const struct hearth_bundle *b, const uint8_t *bundles, size_t n,
                           uint8_t *const to[HEARTH_PARTS]);

#endif
