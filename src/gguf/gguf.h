// SPDX-License-Identifier: MIT
// The GGUF container: reading (v2, v3, split files, PowerInfer's "PWRI" variant) and writing (v3).
// Format: the GGUF specification of the ggml project. Little-endian only.
#ifndef HEARTH_GGUF_GGUF_H
#define HEARTH_GGUF_GGUF_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/os.h"
#include "quant/quant.h"

enum hearth_gguf_type {
    HEARTH_GGUF_U8,
    HEARTH_GGUF_I8,
    HEARTH_GGUF_U16,
    HEARTH_GGUF_I16,
    HEARTH_GGUF_U32,
    HEARTH_GGUF_I32,
    HEARTH_GGUF_F32,
    HEARTH_GGUF_BOOL,
    HEARTH_GGUF_STRING,
    HEARTH_GGUF_ARRAY,
    HEARTH_GGUF_U64,
    HEARTH_GGUF_I64,
    HEARTH_GGUF_F64
};

// A string of any bytes. Zero-terminated only where the declaration says so.
struct hearth_str {
    const char *s;
    size_t n;
};

static inline bool hearth_str_begins(struct hearth_str s, const char *text)
{
    return s.n >= strlen(text) && !memcmp(s.s, text, strlen(text));
}
static inline bool hearth_str_is(struct hearth_str s, const char *text)
{
    return s.n == strlen(text) && hearth_str_begins(s, text);
}

struct hearth_gguf_kv {
    struct hearth_str key;
    enum hearth_gguf_type type;    // HEARTH_GGUF_ARRAY for arrays
    enum hearth_gguf_type element; // element type of an array (never ARRAY: nested arrays are refused)
    uint64_t count;                // number of elements; 1 for scalars
    const uint8_t *data; // scalars and arrays of numbers: raw little-endian, unaligned; NULL for strings
    const struct hearth_str *strings; // `count` strings
};

struct hearth_gguf_tensor {
    struct hearth_str name; // also zero-terminated at name.s[name.n]
    uint32_t type;          // enum hearth_type; hearth_type_info(type) is never NULL
    uint32_t n_dims;        // 1..4
    uint64_t ne[4];         // ne[0] is the contiguous dimension; unused ones are 1
    uint64_t offset;        // offset in its file
    uint64_t bytes;
    uint32_t shard; // its index in a split model
};

struct hearth_gguf;

// Opens a GGUF: reads and checks header, metadata and tensor table. After success every tensor's bytes are
// within its file, types are known, names are unique, no product overflows. `path` may be any shard of a
// split model; all shards are opened. Errors name the file, the key or tensor and the offset. The result
// never changes, so any number of threads may use it; it is the caller's to close.
int hearth_gguf_open(struct hearth_gguf **out, const char *path, struct hearth_error *err);
void hearth_gguf_close(struct hearth_gguf **g);
uint64_t
hearth_gguf_memory(const struct hearth_gguf *g); // bytes of memory that it takes, given by the file alone

const char *hearth_gguf_path(const struct hearth_gguf *g);
bool hearth_gguf_is_pwri(const struct hearth_gguf *g); // "PWRI" magic: a sparse model of PowerInfer
uint32_t hearth_gguf_version(const struct hearth_gguf *g);
uint32_t hearth_gguf_n_shards(const struct hearth_gguf *g);
struct hearth_file *hearth_gguf_file(const struct hearth_gguf *g, uint32_t shard);
uint64_t hearth_gguf_file_bytes(const struct hearth_gguf *g); // of all shards
// What general.file_type names, "Q4_K - Medium"; NULL: there is none, or a number that is unknown. Static storage.
const char *hearth_gguf_file_type(const struct hearth_gguf *g);

uint64_t hearth_gguf_n_kv(const struct hearth_gguf *g);
const struct hearth_gguf_kv *hearth_gguf_kv_at(const struct hearth_gguf *g, uint64_t i);
const struct hearth_gguf_kv *hearth_gguf_find(const struct hearth_gguf *g, const char *key); // NULL: absent

uint64_t hearth_gguf_n_tensors(const struct hearth_gguf *g);
const struct hearth_gguf_tensor *hearth_gguf_tensor_at(const struct hearth_gguf *g, uint64_t i);
const struct hearth_gguf_tensor *hearth_gguf_tensor(const struct hearth_gguf *g,
                                                    const char *name); // NULL: absent

// Has a key another value than the file's: `text` is "KEY=TYPE:VALUE", with the types int, float, bool and str.
// A key that is there must be a single value of such a type and hold the number; one that is not is added. Before
// anybody else uses g. HEARTH_E_INVALID, HEARTH_E_MEMORY; then nothing has changed.
int hearth_gguf_override(struct hearth_gguf *g, const char *text, struct hearth_error *err);
uint32_t hearth_gguf_overrides_crc(const struct hearth_gguf *g); // of all of them; 0: there are none

// Typed look-ups. Absent key: HEARTH_E_FORMAT if `required`, else 0, and *out keeps its value.
// HEARTH_E_FORMAT too if the key has another type or a number does not fit. u32 and u64 accept
// any integer type, f32 any float or integer.
int hearth_gguf_u32(const struct hearth_gguf *g, const char *key, bool required, uint32_t *out,
                    struct hearth_error *err);
int hearth_gguf_u64(const struct hearth_gguf *g, const char *key, bool required, uint64_t *out,
                    struct hearth_error *err);
// The same as u32 for a key that some files give for each layer: it may also be an array of one number, over
// and over. HEARTH_E_UNSUPPORTED: the numbers differ.
int hearth_gguf_u32_of_layers(const struct hearth_gguf *g, const char *key, bool required, uint32_t *out,
                              struct hearth_error *err);
int hearth_gguf_f32(const struct hearth_gguf *g, const char *key, bool required, float *out,
                    struct hearth_error *err);
int hearth_gguf_bool(const struct hearth_gguf *g, const char *key, bool required, bool *out,
                     struct hearth_error *err);
int hearth_gguf_str(const struct hearth_gguf *g, const char *key, bool required, struct hearth_str *out,
                    struct hearth_error *err);

// Element i of an array of numbers (or a scalar), as double, int64 or uint64. The caller has checked i <
// count. Values out of range become the nearest value of int64. Strings give 0.
double hearth_gguf_kv_f64(const struct hearth_gguf_kv *kv, uint64_t i);
int64_t hearth_gguf_kv_i64(const struct hearth_gguf_kv *kv, uint64_t i);
// Exact for u64; 0 for negative numbers.
uint64_t hearth_gguf_kv_u64(const struct hearth_gguf_kv *kv, uint64_t i);

// Reads bytes [offset, offset + n) of a tensor's data. HEARTH_E_IO. Thread-safe.
int hearth_gguf_read(const struct hearth_gguf *g, const struct hearth_gguf_tensor *t, void *dst,
                     uint64_t offset, size_t n, struct hearth_error *err);

// ---- writing: add all metadata, declare all tensors, then write their data in the same order
struct hearth_gguf_writer;
int hearth_gguf_writer_open(struct hearth_gguf_writer **out, const char *path, struct hearth_error *err);
void hearth_gguf_writer_close(struct hearth_gguf_writer **w); // without finish, nothing appears under `path`
void hearth_gguf_writer_set_pwri(struct hearth_gguf_writer *w); // before tensor data: magic "PWRI"
int hearth_gguf_put_u32(struct hearth_gguf_writer *w, const char *key, uint32_t v, struct hearth_error *err);
int hearth_gguf_put_u64(struct hearth_gguf_writer *w, const char *key, uint64_t v, struct hearth_error *err);
int hearth_gguf_put_f32(struct hearth_gguf_writer *w, const char *key, float v, struct hearth_error *err);
int hearth_gguf_put_bool(struct hearth_gguf_writer *w, const char *key, bool v, struct hearth_error *err);
int hearth_gguf_put_str(struct hearth_gguf_writer *w, const char *key, const char *s, size_t n,
                        struct hearth_error *err);
// element: U8, I8, U32, I32, F32, ... with `count` packed little-endian values.
int hearth_gguf_put_array(struct hearth_gguf_writer *w, const char *key, enum hearth_gguf_type element,
                          const void *data, uint64_t count, struct hearth_error *err);
int hearth_gguf_put_strings(struct hearth_gguf_writer *w, const char *key, const struct hearth_str *s,
                            uint64_t count, struct hearth_error *err);
// Adds a copy of a key that was read.
int hearth_gguf_put_kv(struct hearth_gguf_writer *w, const struct hearth_gguf_kv *kv,
                       struct hearth_error *err);
int hearth_gguf_put_tensor(struct hearth_gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                           const uint64_t *ne, struct hearth_error *err);
// Whether a key describes how a file is laid out (its alignment, its shards), and not the model: another file has its own.
bool hearth_gguf_is_layout_key(struct hearth_str key);
// Declares the last tensor, HEARTH_CHECKSUMS_NAME (gguf/checksums.h). The writer fills it itself.
int hearth_gguf_put_checksums(struct hearth_gguf_writer *w, struct hearth_error *err);
// Writes the next n bytes of tensor data. The writer adds the padding between tensors. After the
// first call the header is fixed.
int hearth_gguf_write(struct hearth_gguf_writer *w, const void *src, size_t n, struct hearth_error *err);
// Writes the data of a tensor that was read from g, in pieces of the buffer's size.
int hearth_gguf_copy(struct hearth_gguf_writer *w, const struct hearth_gguf *g,
                     const struct hearth_gguf_tensor *t, void *buffer, size_t size, struct hearth_error *err);
// Leaves them out: they are zeros, in a hole of the file. Not with checksums.
int hearth_gguf_skip(struct hearth_gguf_writer *w, uint64_t n, struct hearth_error *err);
// Checks that all declared bytes were written, then commits the file under its name. Always
// closes the writer.
int hearth_gguf_finish(struct hearth_gguf_writer **w, struct hearth_error *err);
// The same before any data was written: the file gets zeros in its place, which take no room on the disk, and
// wrong checksums.
int hearth_gguf_finish_hollow(struct hearth_gguf_writer **w, struct hearth_error *err);

#endif
