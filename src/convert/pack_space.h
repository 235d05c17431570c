// SPDX-License-Identifier: MIT
// Inside pack.c: the rows of one space brought from where the source has them into bundles.
#ifndef HEARTH_CONVERT_PACK_SPACE_H
#define HEARTH_CONVERT_PACK_SPACE_H

#include "base/threads.h"
#include "model/pack.h"

// One matrix of the source: n rows of k elements.
struct hearth_pack_matrix {
    const struct hearth_gguf_tensor *tensor; // NULL: the model has none
    uint64_t offset;                         // of the first row in the tensor's data
    size_t row_bytes;
    uint64_t k, n;
};

// Buffers for one model; zeros to start with.
struct hearth_pack_scratch {
    const struct hearth_gguf *g;
    struct hearth_pool *pool;
    uint8_t *bytes; // rows as in the file
    size_t size;
    uint8_t *tile; // decoded rows of a matrix that is being transposed
    size_t tile_size;
};

// A stretch of a space's stored neurons: slots [first, first + n), slot s at rows + (s - first) * stride.
struct hearth_pack_stretch {
    uint8_t *rows;
    size_t stride;
    uint32_t first, n;
    // [F] number in the source -> slot; NULL: the same. By this way round the source is read in ascending
    // order, whatever the order of the slots.
    const uint32_t *slots;
};

// Copies rows of m, one for each neuron, to `at` of the stretch's rows.
int hearth_pack_gather(struct hearth_pack_scratch *s, const struct hearth_pack_matrix *m,
                       const struct hearth_pack_stretch *to, size_t at, struct hearth_error *err);

// The same for columns of m (n rows of F elements; neuron j's is column j), which become rows of n elements
// of `type`: bit for bit where m has that type (which then is plain), else decoded and encoded.
int hearth_pack_transpose(struct hearth_pack_scratch *s, const struct hearth_pack_matrix *m, uint32_t type,
                          const struct hearth_pack_stretch *to, size_t at, struct hearth_error *err);

void hearth_pack_scratch_free(struct hearth_pack_scratch *s);

#endif
