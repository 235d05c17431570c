// SPDX-License-Identifier: MIT
// Internals of this room: reader.c fills these structures, kv.c looks things up in them.
#ifndef HEARTH_GGUF_INTERNAL_H
#define HEARTH_GGUF_INTERNAL_H

#include <stddef.h>

#include "gguf/gguf.h"

#define HEARTH_GGUF_ALIGNMENT 32
// The format's limits are 65,535 bytes for keys and 63 for tensor names, but files with longer names exist.
#define HEARTH_GGUF_KEY_MAX  65535
#define HEARTH_GGUF_NAME_MAX 255

struct hearth_gguf_shard {
    struct hearth_file *file;
    uint64_t data_start; // offset of the tensor data in this file
};

struct hearth_gguf {
    char *path;
    bool pwri;
    uint32_t version;
    uint32_t n_shards;
    struct hearth_gguf_shard *shards; // [n_shards]

    uint64_t n_kv, cap_kv;
    struct hearth_gguf_kv *kv;              // of the first shard, in file order
    const struct hearth_gguf_kv **kv_index; // by key

    uint64_t n_tensors, cap_tensors;
    struct hearth_gguf_tensor *tensors;             // of all shards, in file order
    const struct hearth_gguf_tensor **tensor_index; // by name

    struct heap_block *heap;                // memory behind keys, values and names
    struct hearth_gguf_override *overrides; // what others want in place of the file's, the last one first
};

// Bytes of one number; 0 for strings, arrays and unknown types.
size_t hearth_gguf_type_size(enum hearth_gguf_type type);

// Compares bytes; a shorter string comes first.
int hearth_str_compare(struct hearth_str a, struct hearth_str b);

// A name from a file, made fit for messages: shortened, and with bytes replaced that are not
// printable ASCII. Returns buf.
struct hearth_shown {
    char text[80];
};
const char *hearth_str_show(struct hearth_str s, struct hearth_shown *buf);

// Of overrides (override.c): bytes of memory, and its end.
uint64_t hearth_gguf_overrides_memory(const struct hearth_gguf *g);
void hearth_gguf_overrides_close(struct hearth_gguf *g);

// Sort `index`, which holds pointers to the entries. Return the first entry whose name occurs twice, or NULL.
const struct hearth_gguf_kv *hearth_gguf_sort_kv(const struct hearth_gguf_kv **index, size_t n);
const struct hearth_gguf_tensor *hearth_gguf_sort_tensors(const struct hearth_gguf_tensor **index, size_t n);

#endif
