// SPDX-License-Identifier: MIT
// Reads the pickles of torch.save(): dictionaries of tensors. A pickle is a program for a stack machine; this
// one builds plain values only. What a pickle could call is a list of names: tensors, storages, ordered
// dictionaries. All others are refused by name, and nothing is ever executed.
#ifndef HEARTH_CONVERT_PICKLE_H
#define HEARTH_CONVERT_PICKLE_H

#include <stdint.h>

#include "base/error.h"
#include "convert/source_tensor.h"
#include "gguf/gguf.h"

struct hearth_pickle_tensor {
    const char *name;       // keys of the dictionaries around it, joined with dots
    size_t n_name;          // its length
    const char *type_name;  // "HalfStorage"
    uint32_t type;          // as in struct hearth_source_tensor
    uint32_t element_bytes; // of the storage
    struct hearth_str key;  // of the storage: the file NAME/data/KEY of the archive
    uint64_t first;         // element of the storage that is the tensor's first
    uint32_t n_dims;
    uint64_t dims[HEARTH_SOURCE_DIMS];
};

// Calls fn for each tensor. What fn returns ends the reading unless it is 0, and is returned. `path` is for
// messages. HEARTH_E_FORMAT, HEARTH_E_UNSUPPORTED (something that is no dictionary of tensors),
// HEARTH_E_MEMORY.
int hearth_pickle_read(const char *path, const uint8_t *data, size_t n,
                       int (*fn)(void *arg, const struct hearth_pickle_tensor *t, struct hearth_error *err),
                       void *arg, struct hearth_error *err);

#endif
