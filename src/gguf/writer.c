// SPDX-License-Identifier: MIT
// Writes a GGUF (version 3). Metadata and tensor table are collected in memory. With the first byte of tensor
// data they go to the file; everything after that is streamed.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/memory.h"
#include "gguf/checksums.h"
#include "gguf/internal.h"

// The longest name that other readers accept; ours accepts longer ones.
#define NAME_MAX_WRITTEN 63

struct buffer {
    uint8_t *bytes;
    size_t used, size;
};

// One key or tensor, to find duplicates: its name starts at `name` in `buffer`.
struct entry {
    size_t name, length;
    uint64_t bytes; // bytes of a tensor's data
};

struct list {
    struct entry *entries;
    size_t n, cap;
};

struct hearth_gguf_writer {
    struct hearth_outfile *file;
    char *path;
    struct buffer kv_bytes, tensor_bytes;
    struct list keys, tensors;
    uint64_t alignment, data_size; // size of the data section, as far as declared
    bool pwri;                     // the magic number is PowerInfer's
    bool frozen;                   // the header has been written
    size_t current;                // the tensor being written
    uint64_t left;                 // bytes of its data still to come
    bool checked;                  // the last tensor is HEARTH_CHECKSUMS_NAME
    size_t n_sums;                 // number of complete checksums
    uint8_t *sums;                 // checksums, as in the file
    uint32_t crc;                  // checksum of the current block, or of the header
    size_t crc_bytes;              // bytes of the current block
};

static int fail_memory(struct hearth_gguf_writer *w, struct hearth_error *err)
{
    return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the file's metadata", w->path);
}

// ---- the header in memory

static bool reserve(struct buffer *b, size_t n)
{
    size_t wanted;
    if (!hearth_add_size(b->used, n, &wanted))
        return false;
    if (wanted <= b->size)
        return true;
    size_t size = b->size ? b->size : 4096;
    while (size < wanted)
        size = size > SIZE_MAX / 2 ? wanted : 2 * size;
    uint8_t *bytes = hearth_reallocarray(b->bytes, size, 1);
    if (!bytes)
        return false;
    b->bytes = bytes;
    b->size = size;
    return true;
}

// The append functions follow a reserve() that covers them.
static void append(struct buffer *b, const void *src, size_t n)
{
    assert(b->size - b->used >= n);
    if (n > 0)
        memcpy(b->bytes + b->used, src, n);
    b->used += n;
}

static void append_number(struct buffer *b, uint64_t v, size_t size)
{
    assert(b->size - b->used >= size);
    for (size_t i = 0; i < size; i++)
        b->bytes[b->used++] = (uint8_t)(v >> (8 * i));
}

static void append_string(struct buffer *b, struct hearth_str s)
{
    append_number(b, s.n, 8);
    append(b, s.s, s.n);
}

static bool add_entry(struct list *list, struct entry e)
{
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 64;
        struct entry *entries = hearth_reallocarray(list->entries, cap, sizeof *entries);
        if (!entries)
            return false;
        list->entries = entries;
        list->cap = cap;
    }
    list->entries[list->n++] = e;
    return true;
}

static int check_open(struct hearth_gguf_writer *w, const char *kind, struct hearth_str name, size_t max,
                      struct hearth_error *err)
{
    struct hearth_shown shown;
    if (w->frozen)
        return hearth_fail(err, HEARTH_E_INVALID, "%s: %s %s comes after tensor data", w->path, kind,
                           hearth_str_show(name, &shown));
    if (name.n == 0 || name.n > max || memchr(name.s, 0, name.n))
        return hearth_fail(err, HEARTH_E_INVALID, "%s: %s %s: a name needs 1 to %zu bytes", w->path, kind,
                           hearth_str_show(name, &shown), max);
    return HEARTH_OK;
}

// Starts a key. After this, value_size bytes may be appended to kv_bytes.
static int begin_kv(struct hearth_gguf_writer *w, struct hearth_str key, enum hearth_gguf_type type,
                    size_t value_size, struct hearth_error *err)
{
    int rc = check_open(w, "key", key, HEARTH_GGUF_KEY_MAX, err);
    if (rc)
        return rc;
    size_t total;
    struct entry e = {.name = w->kv_bytes.used + 8, .length = key.n};
    if (!hearth_add_size(value_size, key.n + 12, &total) || !reserve(&w->kv_bytes, total) ||
        !add_entry(&w->keys, e))
        return fail_memory(w, err);
    append_string(&w->kv_bytes, key);
    append_number(&w->kv_bytes, (uint64_t)type, 4);
    return HEARTH_OK;
}

static int put_number(struct hearth_gguf_writer *w, const char *key, enum hearth_gguf_type type,
                      uint64_t bits, struct hearth_error *err)
{
    size_t size = hearth_gguf_type_size(type);
    int rc = begin_kv(w, (struct hearth_str){key, strlen(key)}, type, size, err);
    if (!rc)
        append_number(&w->kv_bytes, bits, size);
    return rc;
}

static int check_alignment(struct hearth_gguf_writer *w, uint64_t v, struct hearth_error *err)
{
    // The format asks for a multiple of 8; Hearth writes powers of two only.
    if (v < 8 || v > (UINT64_C(1) << 30) || (v & (v - 1)) != 0)
        return hearth_fail(err, HEARTH_E_INVALID,
                           "%s: general.alignment %llu must be a power of two from 8 on", w->path,
                           (unsigned long long)v);
    if (w->tensors.n > 0)
        return hearth_fail(err, HEARTH_E_INVALID, "%s: general.alignment must come before the tensors",
                           w->path);
    return HEARTH_OK;
}

int hearth_gguf_put_u32(struct hearth_gguf_writer *w, const char *key, uint32_t v, struct hearth_error *err)
{
    bool alignment = strcmp(key, "general.alignment") == 0;
    int rc = alignment ? check_alignment(w, v, err) : HEARTH_OK;
    if (!rc)
        rc = put_number(w, key, HEARTH_GGUF_U32, v, err);
    if (!rc && alignment)
        w->alignment = v;
    return rc;
}

int hearth_gguf_put_u64(struct hearth_gguf_writer *w, const char *key, uint64_t v, struct hearth_error *err)
{
    return put_number(w, key, HEARTH_GGUF_U64, v, err);
}

int hearth_gguf_put_f32(struct hearth_gguf_writer *w, const char *key, float v, struct hearth_error *err)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return put_number(w, key, HEARTH_GGUF_F32, bits, err);
}

int hearth_gguf_put_bool(struct hearth_gguf_writer *w, const char *key, bool v, struct hearth_error *err)
{
    return put_number(w, key, HEARTH_GGUF_BOOL, v, err);
}

int hearth_gguf_put_str(struct hearth_gguf_writer *w, const char *key, const char *s, size_t n,
                        struct hearth_error *err)
{
    size_t size;
    if (!hearth_add_size(n, 8, &size))
        return fail_memory(w, err);
    int rc = begin_kv(w, (struct hearth_str){key, strlen(key)}, HEARTH_GGUF_STRING, size, err);
    if (!rc)
        append_string(&w->kv_bytes, (struct hearth_str){s, n});
    return rc;
}

static int put_numbers(struct hearth_gguf_writer *w, struct hearth_str key, enum hearth_gguf_type element,
                       const void *data, uint64_t count, struct hearth_error *err)
{
    size_t size = hearth_gguf_type_size(element), bytes, total;
    if (size == 0)
        return hearth_fail(err, HEARTH_E_INVALID, "%s: an array cannot hold values of type %d", w->path,
                           (int)element);
    if (count > SIZE_MAX || !hearth_mul_size((size_t)count, size, &bytes) ||
        !hearth_add_size(bytes, 12, &total))
        return fail_memory(w, err);
    int rc = begin_kv(w, key, HEARTH_GGUF_ARRAY, total, err);
    if (rc)
        return rc;
    append_number(&w->kv_bytes, (uint64_t)element, 4);
    append_number(&w->kv_bytes, count, 8);
    append(&w->kv_bytes, data, bytes);
    return HEARTH_OK;
}

int hearth_gguf_put_array(struct hearth_gguf_writer *w, const char *key, enum hearth_gguf_type element,
                          const void *data, uint64_t count, struct hearth_error *err)
{
    return put_numbers(w, (struct hearth_str){key, strlen(key)}, element, data, count, err);
}

static int put_strings(struct hearth_gguf_writer *w, struct hearth_str key, const struct hearth_str *s,
                       uint64_t count, struct hearth_error *err)
{
    size_t total = 12;
    for (uint64_t i = 0; i < count; i++)
        if (!hearth_add_size(total, 8, &total) || !hearth_add_size(total, s[i].n, &total))
            return fail_memory(w, err);
    int rc = begin_kv(w, key, HEARTH_GGUF_ARRAY, total, err);
    if (rc)
        return rc;
    append_number(&w->kv_bytes, HEARTH_GGUF_STRING, 4);
    append_number(&w->kv_bytes, count, 8);
    for (uint64_t i = 0; i < count; i++)
        append_string(&w->kv_bytes, s[i]);
    return HEARTH_OK;
}

int hearth_gguf_put_strings(struct hearth_gguf_writer *w, const char *key, const struct hearth_str *s,
                            uint64_t count, struct hearth_error *err)
{
    return put_strings(w, (struct hearth_str){key, strlen(key)}, s, count, err);
}

static int put_scalar_copy(struct hearth_gguf_writer *w, const struct hearth_gguf_kv *kv,
                           struct hearth_error *err)
{
    if (kv->type == HEARTH_GGUF_STRING) {
        size_t size;
        if (!hearth_add_size(kv->strings[0].n, 8, &size))
            return fail_memory(w, err);
        int rc = begin_kv(w, kv->key, kv->type, size, err);
        if (!rc)
            append_string(&w->kv_bytes, kv->strings[0]);
        return rc;
    }
    size_t size = hearth_gguf_type_size(kv->type);
    int rc = begin_kv(w, kv->key, kv->type, size, err);
    if (!rc)
        append(&w->kv_bytes, kv->data, size);
    return rc;
}

bool hearth_gguf_is_layout_key(struct hearth_str key)
{
    return hearth_str_is(key, "general.alignment") || hearth_str_begins(key, "split.");
}

int hearth_gguf_put_kv(struct hearth_gguf_writer *w, const struct hearth_gguf_kv *kv,
                       struct hearth_error *err)
{
    // Keys read from a file are zero-terminated, but those of other callers may not be.
    static const char alignment[] = "general.alignment";
    if (hearth_str_is(kv->key, alignment)) {
        if (kv->type == HEARTH_GGUF_ARRAY || !kv->data)
            return hearth_fail(err, HEARTH_E_INVALID, "%s: general.alignment must be a number", w->path);
        int64_t v = hearth_gguf_kv_i64(kv, 0);
        return hearth_gguf_put_u32(w, alignment, v > 0 && v <= UINT32_MAX ? (uint32_t)v : 0, err);
    }
    if (kv->type != HEARTH_GGUF_ARRAY)
        return put_scalar_copy(w, kv, err);
    if (kv->element == HEARTH_GGUF_STRING)
        return put_strings(w, kv->key, kv->strings, kv->count, err);
    return put_numbers(w, kv->key, kv->element, kv->data, kv->count, err);
}

void hearth_gguf_writer_set_pwri(struct hearth_gguf_writer *w)
{
    w->pwri = true;
}

// ---- tensors

static int check_shape(struct hearth_gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                       const uint64_t *ne, uint64_t *bytes, struct hearth_error *err)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    uint64_t n = 1;
    bool ok = info && n_dims >= 1 && n_dims <= 4;
    for (uint32_t i = 0; ok && i < n_dims; i++)
        ok = ne[i] > 0 && !__builtin_mul_overflow(n, ne[i], &n);
    ok = ok && ne[0] % info->block_elems == 0;
    *bytes = ok ? hearth_type_bytes(type, n) : 0;
    if (ok && *bytes <= INT64_MAX / 2)
        return HEARTH_OK;
    return hearth_fail(err, HEARTH_E_INVALID, "%s: tensor %s cannot have this shape in the format %s",
                       w->path, name, info ? info->name : "(unknown)");
}

int hearth_gguf_put_tensor(struct hearth_gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                           const uint64_t *ne, struct hearth_error *err)
{
    struct hearth_str s = {name, strlen(name)};
    uint64_t bytes;
    int rc = check_open(w, "tensor", s, NAME_MAX_WRITTEN, err);
    if (!rc && w->checked)
        rc = hearth_fail(err, HEARTH_E_INVALID, "%s: tensor %s comes after the checksums", w->path, name);
    if (!rc)
        rc = check_shape(w, name, type, n_dims, ne, &bytes, err);
    if (rc)
        return rc;
    if (w->data_size > INT64_MAX / 2)
        return hearth_fail(err, HEARTH_E_INVALID, "%s: the tensors are too large for one file", w->path);
    struct buffer *b = &w->tensor_bytes;
    struct entry e = {.name = b->used + 8, .length = s.n, .bytes = bytes};
    if (!reserve(b, s.n + 8 + 4 + 32 + 4 + 8) || !add_entry(&w->tensors, e))
        return fail_memory(w, err);
    append_string(b, s);
    append_number(b, n_dims, 4);
    for (uint32_t i = 0; i < n_dims; i++)
        append_number(b, ne[i], 8);
    append_number(b, type, 4);
    append_number(b, w->data_size, 8);
    w->data_size += (bytes + w->alignment - 1) & ~(w->alignment - 1);
    return HEARTH_OK;
}

int hearth_gguf_put_checksums(struct hearth_gguf_writer *w, struct hearth_error *err)
{
    const uint64_t n = 1 + (w->data_size + HEARTH_CHECKSUMS_BLOCK - 1) / HEARTH_CHECKSUMS_BLOCK;
    int rc = hearth_gguf_put_tensor(w, HEARTH_CHECKSUMS_NAME, HEARTH_TYPE_I32, 1, &n, err);
    if (rc)
        return rc;
    w->checked = true;
    w->sums = hearth_calloc((size_t)n, 4);
    return w->sums ? HEARTH_OK : fail_memory(w, err);
}

// ---- the file

static int check_names(struct hearth_gguf_writer *w, const struct list *list, const struct buffer *b,
                       const char *kind, struct hearth_error *err)
{
    struct hearth_gguf_tensor *names = hearth_calloc(list->n, sizeof *names);
    const struct hearth_gguf_tensor **index = hearth_calloc(list->n, sizeof *index);
    int rc = names && index ? HEARTH_OK : fail_memory(w, err);
    if (!rc) {
        for (size_t i = 0; i < list->n; i++) {
            const struct entry *e = &list->entries[i];
            names[i].name = (struct hearth_str){(const char *)b->bytes + e->name, e->length};
            index[i] = &names[i];
        }
        const struct hearth_gguf_tensor *twin = hearth_gguf_sort_tensors(index, list->n);
        struct hearth_shown shown;
        if (twin)
            rc = hearth_fail(err, HEARTH_E_INVALID, "%s: the %s %s was given twice", w->path, kind,
                             hearth_str_show(twin->name, &shown));
    }
    free(names);
    free(index);
    return rc;
}

static void end_block(struct hearth_gguf_writer *w)
{
    struct buffer b = {.bytes = w->sums, .used = 4 * w->n_sums, .size = 4 * (w->n_sums + 1)};
    w->n_sums++;
    append_number(&b, w->crc, 4);
    w->crc = 0;
    w->crc_bytes = 0;
}

static void add_to_block(struct hearth_gguf_writer *w, const uint8_t *src, size_t n)
{
    while (n > 0) {
        const size_t room = HEARTH_CHECKSUMS_BLOCK - w->crc_bytes, part = n < room ? n : room;
        w->crc = hearth_crc32c(w->crc, src, part);
        w->crc_bytes += part;
        src += part;
        n -= part;
        if (w->crc_bytes == HEARTH_CHECKSUMS_BLOCK)
            end_block(w);
    }
}

// Writes bytes of header or data; all of them pass through here.
static int put_bytes(struct hearth_gguf_writer *w, const void *src, size_t n, struct hearth_error *err)
{
    if (w->checked && !w->frozen)
        w->crc = hearth_crc32c(w->crc, src, n);
    else if (w->checked && w->current + 1 < w->tensors.n)
        add_to_block(w, src, n);
    return hearth_outfile_write(w->file, src, n, err);
}

// The next n bytes of tensor data stay zeros.
static int skip_bytes(struct hearth_gguf_writer *w, uint64_t n, struct hearth_error *err)
{
    return w->checked
               ? hearth_fail(err, HEARTH_E_INVALID, "%s: bytes that are left out have no checksums", w->path)
               : hearth_outfile_skip(w->file, n, err);
}

static int pad(struct hearth_gguf_writer *w, struct hearth_error *err)
{
    static const uint8_t zeros[512];
    uint64_t n = -hearth_outfile_offset(w->file) & (w->alignment - 1);
    int rc = HEARTH_OK;
    for (; n > 0 && !rc; n -= n < sizeof zeros ? n : sizeof zeros)
        rc = put_bytes(w, zeros, n < sizeof zeros ? (size_t)n : sizeof zeros, err);
    return rc;
}

static int freeze(struct hearth_gguf_writer *w, struct hearth_error *err)
{
    if (w->frozen)
        return HEARTH_OK;
    int rc = check_names(w, &w->keys, &w->kv_bytes, "key", err);
    if (!rc)
        rc = check_names(w, &w->tensors, &w->tensor_bytes, "tensor", err);
    if (rc)
        return rc;
    uint8_t bytes[24];
    struct buffer start = {.bytes = bytes, .size = sizeof bytes};
    append(&start, w->pwri ? "PWRI" : "GGUF", 4);
    append_number(&start, 3, 4);
    append_number(&start, w->tensors.n, 8);
    append_number(&start, w->keys.n, 8);
    rc = put_bytes(w, bytes, sizeof bytes, err);
    if (!rc)
        rc = put_bytes(w, w->kv_bytes.bytes, w->kv_bytes.used, err);
    if (!rc)
        rc = put_bytes(w, w->tensor_bytes.bytes, w->tensor_bytes.used, err);
    if (!rc && w->tensors.n > 0)
        rc = pad(w, err);
    if (w->checked)
        end_block(w);
    w->frozen = true;
    w->left = w->tensors.n > 0 ? w->tensors.entries[0].bytes : 0;
    return rc;
}

// src NULL: the bytes are left out.
static int write_data(struct hearth_gguf_writer *w, const void *src, uint64_t n, size_t n_tensors,
                      struct hearth_error *err)
{
    int rc = freeze(w, err);
    const uint8_t *from = src;
    while (!rc && n > 0) {
        if (w->current == n_tensors)
            return hearth_fail(err, HEARTH_E_INVALID, "%s: %llu bytes more than the tensors have", w->path,
                               (unsigned long long)n);
        const uint64_t part = n < w->left ? n : w->left;
        rc = from ? put_bytes(w, from, (size_t)part, err) : skip_bytes(w, part, err);
        from = from ? from + part : NULL;
        n -= part;
        w->left -= part;
        if (rc || w->left > 0)
            continue;
        rc = pad(w, err);
        w->current++;
        w->left = w->current < w->tensors.n ? w->tensors.entries[w->current].bytes : 0;
    }
    return rc;
}

int hearth_gguf_write(struct hearth_gguf_writer *w, const void *src, size_t n, struct hearth_error *err)
{
    return write_data(w, src, n, w->tensors.n - (w->checked ? 1 : 0), err);
}

int hearth_gguf_copy(struct hearth_gguf_writer *w, const struct hearth_gguf *g,
                     const struct hearth_gguf_tensor *t, void *buffer, size_t size, struct hearth_error *err)
{
    int rc = HEARTH_OK;
    for (uint64_t at = 0; at < t->bytes && !rc; at += size) {
        const size_t n = t->bytes - at < size ? (size_t)(t->bytes - at) : size;
        rc = hearth_gguf_read(g, t, buffer, at, n, err);
        if (!rc)
            rc = hearth_gguf_write(w, buffer, n, err);
    }
    return rc;
}

int hearth_gguf_skip(struct hearth_gguf_writer *w, uint64_t n, struct hearth_error *err)
{
    return write_data(w, NULL, n, w->tensors.n, err);
}

static int write_checksums(struct hearth_gguf_writer *w, struct hearth_error *err)
{
    if (!w->checked || w->current + 1 != w->tensors.n)
        return HEARTH_OK;
    if (w->crc_bytes > 0)
        end_block(w);
    return write_data(w, w->sums, 4 * w->n_sums, w->tensors.n, err);
}

int hearth_gguf_writer_open(struct hearth_gguf_writer **out, const char *path, struct hearth_error *err)
{
    *out = NULL;
    struct hearth_gguf_writer *w = hearth_calloc(1, sizeof *w);
    if (w)
        w->path = hearth_strndup(path, strlen(path));
    if (!w || !w->path) {
        free(w);
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to write the file", path);
    }
    w->alignment = HEARTH_GGUF_ALIGNMENT;
    int rc = hearth_outfile_open(&w->file, path, err);
    if (rc)
        hearth_gguf_writer_close(&w);
    *out = w;
    return rc;
}

void hearth_gguf_writer_close(struct hearth_gguf_writer **writer)
{
    struct hearth_gguf_writer *w = *writer;
    if (!w)
        return;
    hearth_outfile_close(&w->file);
    free(w->sums);
    free(w->kv_bytes.bytes);
    free(w->tensor_bytes.bytes);
    free(w->keys.entries);
    free(w->tensors.entries);
    free(w->path);
    free(w);
    *writer = NULL;
}

int hearth_gguf_finish(struct hearth_gguf_writer **writer, struct hearth_error *err)
{
    struct hearth_gguf_writer *w = *writer;
    int rc = freeze(w, err);
    if (!rc)
        rc = write_checksums(w, err);
    if (!rc && w->current < w->tensors.n) {
        const struct entry *e = &w->tensors.entries[w->current];
        rc = hearth_fail(err, HEARTH_E_INVALID, "%s: %llu bytes of tensor %.*s were not written", w->path,
                         (unsigned long long)w->left, (int)e->length,
                         (const char *)w->tensor_bytes.bytes + e->name);
    }
    if (!rc)
        rc = hearth_outfile_commit(&w->file, err);
    hearth_gguf_writer_close(writer);
    return rc;
}

int hearth_gguf_finish_hollow(struct hearth_gguf_writer **writer, struct hearth_error *err)
{
    struct hearth_gguf_writer *w = *writer;
    int rc = w->frozen ? hearth_fail(err, HEARTH_E_INVALID, "%s: has data already", w->path) : freeze(w, err);
    if (!rc)
        rc = hearth_outfile_skip(w->file, w->data_size, err);
    if (!rc)
        rc = hearth_outfile_commit(&w->file, err);
    hearth_gguf_writer_close(writer);
    return rc;
}
