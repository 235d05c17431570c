// SPDX-License-Identifier: MIT
// Packs: models rewritten for streaming by neuron. A pack is a GGUF in which the rows of a neuron's gate, up
// and down lie side by side, in a bundle. Bundles are ordered by how often their neurons are active.
// docs/formats.md, "Packs". This file reads and checks the facts of a pack; load.c reads its weights into
// memory; src/convert/pack.c writes packs.
#ifndef HEARTH_MODEL_PACK_H
#define HEARTH_MODEL_PACK_H

#include "gguf/gguf.h"

// Versions: 1, plus 1 where gates are apart from the bundles, plus 2 where layers differ in width.
#define HEARTH_PACK_VERSION   1
#define HEARTH_PACK_GATES     2
#define HEARTH_PACK_WIDTHS    3
#define HEARTH_PACK_VERSIONS  4
#define HEARTH_PACK_ALIGNMENT 4096 // general.alignment, of every tensor in the file
#define HEARTH_BUNDLE_ALIGN   512  // alignment of every bundle in its tensor
#define HEARTH_PACK_BATCHES   16   // most batch sizes with counts

enum hearth_part { HEARTH_PART_GATE, HEARTH_PART_UP, HEARTH_PART_DOWN, HEARTH_PARTS };

// The layout of one layer's bundles; the same for all of its experts.
struct hearth_bundle {
    uint32_t type[HEARTH_PARTS]; // enum hearth_type; HEARTH_TYPE_END: there is no gate in it
    size_t bytes[HEARTH_PARTS];  // bytes of the row (E elements of the type); 0 without a gate
    size_t at[HEARTH_PARTS];     // offset of the row in the bundle
    size_t stride; // bytes from bundle to bundle: a multiple of HEARTH_BUNDLE_ALIGN that holds all rows
    uint32_t n;    // F, neurons of one space
    const struct hearth_gguf_tensor *tensor; // I8 {stride, F, X}; NULL while writing
};

// Fills all but `n` and `tensor` for rows of n_embd elements. HEARTH_E_INVALID when a type cannot hold such rows.
int hearth_bundle_lay_out(struct hearth_bundle *b, uint64_t n_embd, uint32_t gate, uint32_t up, uint32_t down,
                          struct hearth_error *err);

struct hearth_pack {
    const struct hearth_gguf *g;
    struct hearth_bundle *layers;             // [n_layer]
    uint32_t n_layer, n_embd, n_ff, n_expert; // n_ff: neurons of the largest space; n_expert at least 1
    bool gated;                               // gates are in the bundles
    bool widths;                              // layers may differ in width
    bool gates_apart;    // gates are matrices of their own, and say in steps which bundles are needed
    uint32_t *down_from; // [n_layer] type of down in the source, before it was transposed; NULL: it was
                         // stored by neuron already, and its bits are kept
    uint32_t n_batches;  // 0: not profiled
    uint32_t batches[HEARTH_PACK_BATCHES];
    float
        repeats; // of a token's active neurons, the share that was active at the space's visit before; 0: unknown
};

// Whether the file declares itself a pack.
bool hearth_gguf_is_pack(const struct hearth_gguf *g);

// Reads and checks keys, shapes and layouts, and that no tensor of a pack is missing. Reads no tensor data.
// `g` must outlive *out.
int hearth_pack_open(struct hearth_pack **out, const struct hearth_gguf *g, struct hearth_error *err);
void hearth_pack_close(struct hearth_pack **pack);

// The tensor "blk.<layer>.<name>"; NULL: absent. Its shape was checked when the pack was opened.
const struct hearth_gguf_tensor *hearth_pack_tensor(const struct hearth_pack *p, uint32_t layer,
                                                    const char *name);

// Whether only packs have this tensor, and models do not bind it: order, counts, visits, bundles.
bool hearth_pack_owns(const struct hearth_gguf_tensor *t);

// The number of weights in a tensor: of elements in the rows for bundles, 0 for a pack's other tables, else
// of its elements. p may be NULL: not a pack.
uint64_t hearth_pack_elements(const struct hearth_pack *p, const struct hearth_gguf_tensor *t);

// Reads the order of one space's neurons, order[F]: number in the pack -> number in the source. It is the
// identity if the pack stores no order. HEARTH_E_FORMAT: it is not a permutation.
int hearth_pack_order(const struct hearth_pack *p, uint32_t layer, uint32_t expert, int32_t *order,
                      struct hearth_error *err);

#endif
