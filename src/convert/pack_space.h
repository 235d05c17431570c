// SPDX-License-Identifier: MIT
// Internals of pack.c: moves the rows of one space from the source into bundles.
#ifndef HEARTH_CONVERT_PACK_SPACE_H
#define HEARTH_CONVERT_PACK_SPACE_H

#include "base/threads.h"
#include "model/pack.h"

// One matrix of the source: n rows of k elements.
struct hearth_pack_matrix {
    const struct hearth_gguf_tensor *tensor; // NULL: the model has none
    uint64_t offset;                         // offset of the first row in the tensor's data
    size_t row_bytes;
    uint64_t k, n;
};

// Buffers for one model; zeros at first.
struct hearth_pack_scratch {
    const struct hearth_gguf *g;
    struct hearth_pool *pool;
    uint8_t *bytes; // rows, as in the file
    size_t size;
    uint8_t *tile; // decoded rows of a matrix that is being transposed
    size_t tile_size;
};

// Consecutive stored neurons of a space: slots [first, first + n). Slot s is at rows + (s - first) * stride.
struct hearth_pack_stretch {
    uint8_t *rows;
    size_t stride;
    uint32_t first, n;
    // [F] slot of each source neuron; NULL: the same number. Indexed by source neuron, so the
    // source is read in ascending order, whatever the order of the slots.
    const uint32_t *slots;
};

// Copies rows of m, one per neuron, to offset `at` of the neurons' bundles. HEARTH_E_IO, HEARTH_E_MEMORY.
int hearth_pack_gather(struct hearth_pack_scratch *s, const struct hearth_pack_matrix *m,
                       const struct hearth_pack_stretch *to, size_t at, struct hearth_error *err);

// The same for columns of m (n rows of F elements; neuron j has column j). They become rows of n elements of
// `type`: bit for bit if m has that type (which is then plain), else decoded and encoded.
int hearth_pack_transpose(struct hearth_pack_scratch *s, const struct hearth_pack_matrix *m, uint32_t type,
                          const struct hearth_pack_stretch *to, size_t at, struct hearth_error *err);

void hearth_pack_scratch_free(struct hearth_pack_scratch *s);

#endif
