// SPDX-License-Identifier: MIT
// Tensors of a checkpoint as they lie in its files: plain numbers in row-major order, little-endian.
#ifndef HEARTH_CONVERT_SOURCE_TENSOR_H
#define HEARTH_CONVERT_SOURCE_TENSOR_H

#include "base/os.h"
#include "quant/quant.h"

#define HEARTH_SOURCE_DIMS 8

struct hearth_source_tensor {
    char *name;
    uint32_t type; // HEARTH_TYPE_F32, _F16 or _BF16; HEARTH_TYPE_END: no number format that can be converted
    char type_name[24];                // as the file has it, for messages
    uint32_t n_dims;                   // 0..HEARTH_SOURCE_DIMS
    uint64_t dims[HEARTH_SOURCE_DIMS]; // the outermost first, as in PyTorch; the last is contiguous
    uint64_t n_elements;
    struct hearth_file *file; // borrowed
    uint64_t offset, bytes;   // in the file
};

// A growing list, which owns the names.
struct hearth_source_list {
    struct hearth_source_tensor *items;
    size_t n, cap;
};

// Appends a tensor with a copy of name[0..n_name), as long as that has no zero byte and is not too long. The
// number of elements is computed, and checked against `bytes` where the type is known. HEARTH_E_FORMAT,
// HEARTH_E_MEMORY.
int hearth_source_add(struct hearth_source_list *list, const struct hearth_source_tensor *tensor,
                      const char *name, size_t n_name, struct hearth_error *err);
void hearth_source_list_free(struct hearth_source_list *list);

// Appends the tensors of a safetensors file. Everything is checked: the header's length and JSON, names,
// shapes, offsets, that tensors neither overlap nor leave gaps. HEARTH_E_FORMAT, HEARTH_E_IO,
// HEARTH_E_MEMORY. `f` must outlive the list. Source of the format: the README of huggingface/safetensors.
int hearth_safetensors_read(struct hearth_file *f, struct hearth_source_list *list, struct hearth_error *err);

// Appends the tensors of a file that torch.save() wrote (PyTorch 1.6 and later: a zip archive with a pickle):
// a dictionary of names and tensors, perhaps within other dictionaries, whose names are joined with dots.
// Nothing is executed: a pickle that names anything but tensors, their storages and dictionaries is refused.
// HEARTH_E_FORMAT, HEARTH_E_UNSUPPORTED, HEARTH_E_IO, HEARTH_E_MEMORY. `f` must outlive the list.
int hearth_torch_read(struct hearth_file *f, struct hearth_source_list *list, struct hearth_error *err);

#endif
