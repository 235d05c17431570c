// SPDX-License-Identifier: MIT
// What an architecture is: a name, a reader for its hyper-parameters, and tables of the tensors it owns.
#ifndef HEARTH_MODEL_ARCH_H
#define HEARTH_MODEL_ARCH_H

#include "model/model.h"

// Symbolic dimensions, so that the binder can check every shape.
enum hearth_dim {
    HEARTH_DIM_NONE, // no second dimension: a vector, kept as f32
    HEARTH_DIM_EMBD,
    HEARTH_DIM_FF,
    HEARTH_DIM_Q,
    HEARTH_DIM_KV,
    HEARTH_DIM_VOCAB,
    HEARTH_DIM_ROT2
};

struct hearth_binding {
    const char *name;  // "attn_q.weight", without the "blk.N." of a layer's tensors
    size_t field;      // offset of the struct hearth_weight in struct hearth_model or struct hearth_layer
    enum hearth_dim k; // ne[0]
    enum hearth_dim n; // ne[1]
    bool optional;
};

struct hearth_arch {
    const char *name; // general.architecture
    int (*read_hparams)(struct hearth_hparams *hp, const struct hearth_gguf *g, struct hearth_error *err);
    const struct hearth_binding *globals, *layer; // each ends with a NULL name
};

extern const struct hearth_arch hearth_arch_llama;

// NULL when unknown; *known then lists what is supported, for the error message.
const struct hearth_arch *hearth_arch_find(struct hearth_str name, const char **known);

// Shared by architectures: the hyper-parameters that all of them store the same way under "<arch>.".
int hearth_hparams_read_common(struct hearth_hparams *hp, const struct hearth_gguf *g, const char *arch,
                               struct hearth_error *err);

#endif
