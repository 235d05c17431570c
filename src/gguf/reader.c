// SPDX-License-Identifier: MIT
// Opening a GGUF. The file is not trusted: every count and length is checked against the
// remaining bytes before anything is allocated for it, so memory stays in proportion to the file.
// The header is read through a window, never mapped. So if the file shrinks or a read fails, the
// result is an error message, not a signal.
#include <assert.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "gguf/internal.h"

#define WINDOW ((size_t)256 << 10)
#define CHUNK  ((size_t)64 << 10)
// Most bytes of metadata and tensor table of one file. The largest known ones have some 30 MiB.
#define HEADER_MAX ((uint64_t)1 << 30)
// Fewest bytes of a key with its value, and of a tensor's entry.
#define KV_MIN     14
#define TENSOR_MIN 25

// ---- memory for keys, values and names

struct heap_block {
    struct heap_block *next;
    size_t size, used;
    _Alignas(16) uint8_t bytes[];
};

static void *take(struct hearth_gguf *g, size_t n)
{
    if (n > SIZE_MAX / 2)
        return NULL;
    n = hearth_round_up(n, 8);
    struct heap_block *first = g->heap;
    if (first && n <= first->size - first->used) {
        void *p = first->bytes + first->used;
        first->used += n;
        return p;
    }
    size_t size = n > CHUNK ? n : CHUNK;
    struct heap_block *c = malloc(sizeof *c + size);
    if (!c)
        return NULL;
    c->size = size;
    c->used = n;
    // A large value gets a block of its own; the current block stays in use.
    if (first && n > CHUNK) {
        c->next = first->next;
        first->next = c;
    } else {
        c->next = first;
        g->heap = c;
    }
    return c->bytes;
}

// ---- a cursor over the header

struct cursor {
    struct hearth_gguf *g;
    struct hearth_file *file;
    struct hearth_error *err;
    uint64_t limit;  // the header ends here at the latest
    uint64_t offset; // of the next byte
    size_t at, end;  // unread bytes of the window
    uint8_t *window; // [WINDOW]
    // The item being read, for messages: "key" and its name.
    const char *kind;
    struct hearth_shown name;
};

static const char *path_of(const struct cursor *c)
{
    return hearth_file_path(c->file);
}

static int fail_memory(struct cursor *c)
{
    return hearth_fail(c->err, HEARTH_E_MEMORY, "%s: no memory for the file's metadata", path_of(c));
}

static int fail_here(struct cursor *c, const char *problem)
{
    return hearth_fail(c->err, HEARTH_E_FORMAT, "%s: %s %s, before byte %llu: %s; the file is damaged",
                       path_of(c), c->kind, c->name.text, (unsigned long long)c->offset, problem);
}

static void set_subject(struct cursor *c, const char *kind, struct hearth_str name)
{
    c->kind = kind;
    hearth_str_show(name, &c->name);
}

// Checks that n more bytes are there.
static int need(struct cursor *c, uint64_t n)
{
    if (n <= c->limit - c->offset)
        return HEARTH_OK;
    if (c->limit < hearth_file_size(c->file))
        return hearth_fail(c->err, HEARTH_E_UNSUPPORTED,
                           "%s: more than %llu MiB of metadata (%s %s): the file is damaged or not a model",
                           path_of(c), (unsigned long long)(HEADER_MAX >> 20), c->kind, c->name.text);
    return hearth_fail(
        c->err, HEARTH_E_FORMAT,
        "%s: %s %s needs %llu bytes at %llu, the file has %llu: it is truncated or damaged; download it "
        "again",
        path_of(c), c->kind, c->name.text, (unsigned long long)n, (unsigned long long)c->offset,
        (unsigned long long)hearth_file_size(c->file));
}

// Reads the next n bytes of the header.
static int fetch(struct cursor *c, void *dst, size_t n)
{
    assert(c->offset <= c->limit && c->at <= c->end && c->end <= WINDOW);
    int rc = need(c, n);
    uint8_t *to = dst;
    while (!rc && n > 0) {
        if (c->at == c->end && n >= WINDOW) {
            rc = hearth_file_read(c->file, to, n, c->offset, c->err);
            c->offset += n;
            return rc;
        }
        if (c->at == c->end) {
            uint64_t left = c->limit - c->offset;
            c->at = 0;
            c->end = left < WINDOW ? (size_t)left : WINDOW;
            rc = hearth_file_read(c->file, c->window, c->end, c->offset, c->err);
            if (rc) {
                c->end = 0;
                return rc;
            }
        }
        size_t have = c->end - c->at, part = n < have ? n : have;
        memcpy(to, c->window + c->at, part);
        c->at += part;
        c->offset += part;
        to += part;
        n -= part;
    }
    return rc;
}

static int fetch_u32(struct cursor *c, uint32_t *out)
{
    uint8_t b[4];
    int rc = fetch(c, b, sizeof b);
    if (!rc)
        *out = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    return rc;
}

static int fetch_u64(struct cursor *c, uint64_t *out)
{
    uint32_t low, high;
    int rc = fetch_u32(c, &low);
    if (!rc)
        rc = fetch_u32(c, &high);
    if (!rc)
        *out = (uint64_t)high << 32 | low;
    return rc;
}

// A string of any bytes, zero-terminated in memory.
static int fetch_string(struct cursor *c, struct hearth_str *out)
{
    uint64_t n;
    int rc = fetch_u64(c, &n);
    if (!rc)
        rc = need(c, n);
    if (rc)
        return rc;
    char *s = take(c->g, (size_t)n + 1);
    if (!s)
        return fail_memory(c);
    rc = fetch(c, s, (size_t)n);
    s[n] = '\0';
    *out = (struct hearth_str){s, (size_t)n};
    return rc;
}

// A key or tensor name: not empty, not too long, no zero bytes (names are used as C strings).
static int fetch_name(struct cursor *c, const char *kind, uint64_t number, size_t max, struct hearth_str *out)
{
    c->kind = kind;
    snprintf(c->name.text, sizeof c->name.text, "number %llu", (unsigned long long)number);
    int rc = fetch_string(c, out);
    if (rc)
        return rc;
    if (out->n == 0 || out->n > max || memchr(out->s, 0, out->n))
        return fail_here(c, out->n == 0 ? "its name is empty" : "its name is too long or holds zero bytes");
    set_subject(c, kind, *out);
    return HEARTH_OK;
}

// ---- keys and values

// Makes room for one more entry. Grows with the entries that were read, not with the number that
// the file claims.
static void *grow(void *array, uint64_t n, uint64_t *cap, size_t size)
{
    if (n < *cap)
        return array;
    uint64_t more = *cap ? 2 * *cap : 64;
    void *grown = hearth_reallocarray(array, (size_t)more, size);
    if (grown)
        *cap = more;
    return grown;
}

static int fetch_strings(struct cursor *c, struct hearth_gguf_kv *kv)
{
    if (kv->count > (c->limit - c->offset) / 8) // a string takes at least its length field
        return need(c, kv->count > UINT64_MAX / 8 ? UINT64_MAX : kv->count * 8);
    struct hearth_str *strings = take(c->g, (size_t)kv->count * sizeof *strings);
    if (!strings)
        return fail_memory(c);
    int rc = HEARTH_OK;
    for (uint64_t i = 0; i < kv->count && !rc; i++)
        rc = fetch_string(c, &strings[i]);
    kv->strings = strings;
    return rc;
}

static int fetch_numbers(struct cursor *c, struct hearth_gguf_kv *kv)
{
    size_t size = hearth_gguf_type_size(kv->element);
    uint64_t bytes = kv->count > UINT64_MAX / size ? UINT64_MAX : kv->count * size;
    int rc = need(c, bytes);
    if (rc)
        return rc;
    uint8_t *data = take(c->g, (size_t)bytes);
    if (!data)
        return fail_memory(c);
    kv->data = data;
    return fetch(c, data, (size_t)bytes);
}

static int fetch_kv(struct cursor *c, uint64_t number, struct hearth_gguf_kv *kv)
{
    *kv = (struct hearth_gguf_kv){.count = 1};
    uint32_t type = 0, element = 0;
    int rc = fetch_name(c, "key", number, HEARTH_GGUF_KEY_MAX, &kv->key);
    if (!rc)
        rc = fetch_u32(c, &type);
    if (rc)
        return rc;
    if (type > HEARTH_GGUF_F64)
        return fail_here(c, "unknown type of value");
    element = type;
    if (type == HEARTH_GGUF_ARRAY) {
        rc = fetch_u32(c, &element);
        if (!rc)
            rc = fetch_u64(c, &kv->count);
        if (rc)
            return rc;
        if (element > HEARTH_GGUF_F64)
            return fail_here(c, "unknown type of array elements");
        if (element == HEARTH_GGUF_ARRAY)
            return hearth_fail(c->err, HEARTH_E_UNSUPPORTED,
                               "%s: key %s is an array of arrays, which is not supported", path_of(c),
                               c->name.text);
    }
    kv->type = (enum hearth_gguf_type)type;
    kv->element = (enum hearth_gguf_type)element;
    return kv->element == HEARTH_GGUF_STRING ? fetch_strings(c, kv) : fetch_numbers(c, kv);
}

// ---- the tensor table

// Q4_2, Q4_3, and Q4_0 and IQ4_NL in orders of single processors.
static bool was_removed(uint32_t type)
{
    return type == 4 || type == 5 || (type >= 31 && type <= 33) || (type >= 36 && type <= 38);
}

static int check_shape(struct cursor *c, struct hearth_gguf_tensor *t)
{
    const struct hearth_type_info *info = hearth_type_info(t->type);
    if (!info && was_removed(t->type))
        return hearth_fail(
            c->err, HEARTH_E_UNSUPPORTED,
            "%s: tensor %s has number format %u, which GGUF had until 2024 and has no more: download a "
            "newer file of this model",
            path_of(c), c->name.text, t->type);
    if (!info)
        return hearth_fail(
            c->err, HEARTH_E_UNSUPPORTED,
            "%s: tensor %s has number format %u, which is unknown here: the file is damaged, or made "
            "for a newer version of Hearth",
            path_of(c), c->name.text, t->type);
    uint64_t n = 1;
    for (int i = 0; i < 4; i++)
        if (t->ne[i] == 0 || __builtin_mul_overflow(n, t->ne[i], &n))
            return fail_here(c, "its dimensions are impossible");
    if (t->ne[0] % info->block_elems != 0)
        return hearth_fail(
            c->err, HEARTH_E_FORMAT,
            "%s: tensor %s has rows of %llu elements, which is not a multiple of the %u in a block of "
            "%s; the file is damaged",
            path_of(c), c->name.text, (unsigned long long)t->ne[0], info->block_elems, info->name);
    size_t bytes = hearth_type_bytes(t->type, n);
    if (n > INT64_MAX || bytes > (size_t)INT64_MAX)
        return fail_here(c, "its dimensions are impossible");
    t->bytes = bytes;
    return HEARTH_OK;
}

// t->offset is still relative to the file's data section.
static int fetch_tensor(struct cursor *c, uint64_t number, struct hearth_gguf_tensor *t)
{
    *t = (struct hearth_gguf_tensor){.ne = {1, 1, 1, 1}, .shard = c->g->n_shards - 1};
    int rc = fetch_name(c, "tensor", number, HEARTH_GGUF_NAME_MAX, &t->name);
    if (!rc)
        rc = fetch_u32(c, &t->n_dims);
    if (rc)
        return rc;
    if (t->n_dims > 4)
        return fail_here(c, "it has more than 4 dimensions");
    for (uint32_t i = 0; i < t->n_dims && !rc; i++)
        rc = fetch_u64(c, &t->ne[i]);
    if (!rc)
        rc = fetch_u32(c, &t->type);
    if (!rc)
        rc = fetch_u64(c, &t->offset);
    if (rc)
        return rc;
    if (t->n_dims == 0) // a single number; treated as a vector of one
        t->n_dims = 1;
    return check_shape(c, t);
}

static int by_place(const void *a, const void *b)
{
    const struct hearth_gguf_tensor *const *x = a, *const *y = b;
    return ((*x)->offset > (*y)->offset) - ((*x)->offset < (*y)->offset);
}

static int check_pair(struct cursor *c, const struct hearth_gguf_tensor *t,
                      const struct hearth_gguf_tensor *next)
{
    struct hearth_shown other;
    if (next->offset - t->offset >= t->bytes)
        return HEARTH_OK;
    set_subject(c, "tensor", t->name);
    return hearth_fail(c->err, HEARTH_E_FORMAT,
                       "%s: tensors %s and %s share bytes, from %llu on; the file is damaged", path_of(c),
                       c->name.text, hearth_str_show(next->name, &other), (unsigned long long)next->offset);
}

// Checks that tensors first..n_tensors-1 share no bytes. Nearly all files have them in the order of their places.
static int check_apart(struct cursor *c, uint64_t first)
{
    const struct hearth_gguf_tensor *t = c->g->tensors;
    const uint64_t end = c->g->n_tensors;
    uint64_t i = first + 1;
    int rc = HEARTH_OK;
    for (; i < end && t[i - 1].offset <= t[i].offset && !rc; i++)
        rc = check_pair(c, &t[i - 1], &t[i]);
    if (rc || i >= end)
        return rc;
    const struct hearth_gguf_tensor **sorted = hearth_calloc((size_t)(end - first), sizeof *sorted);
    if (!sorted)
        return fail_memory(c);
    for (i = first; i < end; i++)
        sorted[i - first] = &t[i];
    qsort(sorted, (size_t)(end - first), sizeof *sorted, by_place);
    for (i = 1; i < end - first && !rc; i++)
        rc = check_pair(c, sorted[i - 1], sorted[i]);
    free(sorted);
    return rc;
}

// Turns the offsets of tensors first..n_tensors-1 into offsets in the file, and checks that their
// bytes are there, of each its own.
static int place_tensors(struct cursor *c, uint64_t first, uint64_t alignment)
{
    struct hearth_gguf *g = c->g;
    uint64_t size = hearth_file_size(c->file);
    // The header is in the file and alignment below 2^32: no overflow.
    uint64_t start = (c->offset + alignment - 1) & ~(alignment - 1);
    g->shards[g->n_shards - 1].data_start = start;
    for (uint64_t i = first; i < g->n_tensors; i++) {
        struct hearth_gguf_tensor *t = &g->tensors[i];
        set_subject(c, "tensor", t->name);
        if (t->offset % alignment != 0)
            return fail_here(c, "its offset is not aligned");
        uint64_t end;
        bool fits = !__builtin_add_overflow(t->offset, start, &t->offset) &&
                    !__builtin_add_overflow(t->offset, t->bytes, &end) && end <= size;
        if (!fits)
            return hearth_fail(
                c->err, HEARTH_E_FORMAT,
                "%s: the file is truncated: tensor %s needs %llu bytes at %llu, the file has %llu; "
                "download it again",
                path_of(c), c->name.text, (unsigned long long)t->bytes, (unsigned long long)t->offset,
                (unsigned long long)size);
    }
    return check_apart(c, first);
}

// ---- one file

// The metadata of one shard.
struct header {
    struct hearth_gguf_kv *kv;
    const struct hearth_gguf_kv **index;
    uint64_t n, cap;
};

static void free_header(struct header *h)
{
    free(h->kv);
    free(h->index);
    *h = (struct header){0};
}

// Safetensors begin with the length of a text in braces.
static bool is_safetensors(const struct cursor *c)
{
    uint8_t start[10];
    struct hearth_error err;
    return hearth_file_size(c->file) > sizeof start &&
           !hearth_file_read(c->file, start, sizeof start, 0, &err) && start[5] == 0 && start[6] == 0 &&
           start[7] == 0 && start[8] == '{' && start[9] == '"';
}

// Recognises by first bytes what people mistake for a GGUF.
static const char *what_else(const struct cursor *c, const uint8_t *magic)
{
    static const struct {
        char magic[5];
        const char *meaning;
    } known[] = {
        {"vers", "it looks like a Git LFS pointer: fetch the real file with git lfs pull"},
        {"<!DO", "it is a web page: the download went wrong"},
        {"<htm", "it is a web page: the download went wrong"},
        {"PK\3\4", "it is a ZIP archive, perhaps a PyTorch model: convert it to GGUF first"},
        {"ggjt", "it is in the GGJT format of 2023: download a GGUF of this model"},
        {"tjgg", "it is in the GGJT format of 2023: download a GGUF of this model"},
        {"fmgg", "it is in the GGMF format of 2023: download a GGUF of this model"},
        {"lmgg", "it is in the GGML format of 2023: download a GGUF of this model"},
        {"\0\0\0\0", "it begins with zeros: the download is incomplete"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (memcmp(magic, known[i].magic, 4) == 0)
            return known[i].meaning;
    if (is_safetensors(c))
        return "it is in the safetensors format: hearth convert makes a GGUF of its folder";
    const char *end = strrchr(path_of(c), '.');
    return end && !strcmp(end, ".gguf")
               ? "its first bytes are something else, whatever its name says"
               : "its first bytes are something else; give a file that ends in .gguf";
}

static int fetch_magic(struct cursor *c, bool *pwri, uint32_t *version)
{
    uint8_t magic[4];
    c->kind = "the";
    snprintf(c->name.text, sizeof c->name.text, "header");
    int rc = fetch(c, magic, sizeof magic);
    if (rc)
        return rc;
    *pwri = memcmp(magic, "PWRI", 4) == 0;
    if (!*pwri && memcmp(magic, "GGUF", 4) != 0)
        return hearth_fail(c->err, HEARTH_E_FORMAT, "%s: not a GGUF file: %s", path_of(c),
                           what_else(c, magic));
    rc = fetch_u32(c, version);
    if (rc || *version == 2 || *version == 3)
        return rc;
    if ((*version & 0xffff) == 0 && *version != 0)
        return hearth_fail(c->err, HEARTH_E_UNSUPPORTED,
                           "%s: a big-endian GGUF: download the little-endian file", path_of(c));
    if (*version < 2)
        return hearth_fail(
            c->err, HEARTH_E_UNSUPPORTED,
            "%s: GGUF version %u, which was replaced in 2023: download a newer file of this model",
            path_of(c), *version);
    return hearth_fail(c->err, HEARTH_E_UNSUPPORTED,
                       "%s: GGUF version %u, newer than this version of Hearth knows", path_of(c), *version);
}

static int fetch_metadata(struct cursor *c, uint64_t n, struct header *h)
{
    for (; h->n < n; h->n++) {
        struct hearth_gguf_kv *kv = grow(h->kv, h->n, &h->cap, sizeof *kv);
        if (!kv)
            return fail_memory(c);
        h->kv = kv;
        int rc = fetch_kv(c, h->n, &kv[h->n]);
        if (rc)
            return rc;
    }
    h->index = hearth_calloc((size_t)h->n, sizeof *h->index);
    if (!h->index)
        return fail_memory(c);
    for (uint64_t i = 0; i < h->n; i++)
        h->index[i] = &h->kv[i];
    const struct hearth_gguf_kv *twin = hearth_gguf_sort_kv(h->index, (size_t)h->n);
    if (!twin)
        return HEARTH_OK;
    set_subject(c, "key", twin->key);
    return fail_here(c, "it is there twice");
}

static int fetch_tensors(struct cursor *c, uint64_t n)
{
    struct hearth_gguf *g = c->g;
    for (uint64_t i = 0; i < n; i++) {
        struct hearth_gguf_tensor *tensors = grow(g->tensors, g->n_tensors, &g->cap_tensors, sizeof *tensors);
        if (!tensors)
            return fail_memory(c);
        g->tensors = tensors;
        int rc = fetch_tensor(c, i, &tensors[g->n_tensors]);
        if (rc)
            return rc;
        g->n_tensors++;
    }
    return HEARTH_OK;
}

// A view for the typed look-ups of kv.c, so that their messages name the right file.
static struct hearth_gguf view_of(const struct header *h, const char *path)
{
    return (struct hearth_gguf){
        .path = (char *)(uintptr_t)path, .kv = h->kv, .kv_index = h->index, .n_kv = h->n};
}

static int fetch_header(struct cursor *c, struct header *h)
{
    struct hearth_gguf *g = c->g;
    uint64_t n_tensors = 0, n_kv = 0, first = g->n_tensors;
    bool pwri = false;
    uint32_t version = 0, alignment = HEARTH_GGUF_ALIGNMENT;
    int rc = fetch_magic(c, &pwri, &version);
    if (!rc)
        rc = fetch_u64(c, &n_tensors);
    if (!rc)
        rc = fetch_u64(c, &n_kv);
    if (rc)
        return rc;
    uint64_t left = c->limit - c->offset;
    if (n_kv > left / KV_MIN || n_tensors > left / TENSOR_MIN)
        return hearth_fail(
            c->err, HEARTH_E_FORMAT,
            "%s: %llu keys and %llu tensors are announced, for which %llu bytes are too few: it is "
            "truncated or damaged; download it again",
            path_of(c), (unsigned long long)n_kv, (unsigned long long)n_tensors, (unsigned long long)left);
    if (g->n_shards == 1) {
        g->pwri = pwri;
        g->version = version;
    }
    rc = fetch_metadata(c, n_kv, h);
    if (rc)
        return rc;
    struct hearth_gguf view = view_of(h, path_of(c));
    rc = hearth_gguf_u32(&view, "general.alignment", false, &alignment, c->err);
    if (rc)
        return rc;
    if (alignment == 0 || (alignment & (alignment - 1)) != 0)
        return hearth_fail(
            c->err, HEARTH_E_FORMAT,
            "%s: the key general.alignment is %u, which is not a power of two; the file is damaged",
            path_of(c), alignment);
    rc = fetch_tensors(c, n_tensors);
    return rc ? rc : place_tensors(c, first, alignment);
}

// Opens one more shard of g. On failure the caller closes g.
static int read_shard(struct hearth_gguf *g, const char *path, struct header *h, struct hearth_error *err)
{
    struct hearth_gguf_shard *shards =
        hearth_reallocarray(g->shards, (size_t)g->n_shards + 1, sizeof *shards);
    struct cursor c = {.g = g, .err = err};
    if (shards)
        g->shards = shards;
    c.window = malloc(WINDOW);
    if (!shards || !c.window) {
        free(c.window);
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to open the file", path);
    }
    int rc = hearth_file_open(&c.file, path, err);
    if (!rc) {
        shards[g->n_shards++] = (struct hearth_gguf_shard){.file = c.file};
        uint64_t size = hearth_file_size(c.file);
        c.limit = size < HEADER_MAX ? size : HEADER_MAX;
        rc = fetch_header(&c, h);
    }
    free(c.window);
    return rc;
}

// ---- split models

struct split {
    uint32_t no, count; // number from 0; count: 1, or 0 if the model is not split
};

static int read_split(const struct hearth_gguf *g, const struct header *h, struct split *out,
                      struct hearth_error *err)
{
    const char *path = hearth_file_path(g->shards[g->n_shards - 1].file);
    struct hearth_gguf view = view_of(h, path);
    *out = (struct split){0};
    int rc = hearth_gguf_u32(&view, "split.count", false, &out->count, err);
    if (!rc && out->count > 1)
        rc = hearth_gguf_u32(&view, "split.no", true, &out->no, err);
    if (!rc && (out->count > 65535 || (out->count > 1 && out->no >= out->count)))
        rc = hearth_fail(err, HEARTH_E_FORMAT, "%s: says it is shard %u of %u; the file is damaged", path,
                         out->no + 1, out->count);
    return rc;
}

// "model-00002-of-00003.gguf" names shard 1 of 3. *out becomes the name of shard `other`; the
// caller frees it.
static int shard_path(const char *path, struct split s, uint32_t other, char **out, struct hearth_error *err)
{
    char suffix[40];
    size_t n = strlen(path);
    size_t m = (size_t)snprintf(suffix, sizeof suffix, "-%05u-of-%05u.gguf", s.no + 1, s.count);
    if (n < m || strcmp(path + n - m, suffix) != 0)
        return hearth_fail(
            err, HEARTH_E_FORMAT,
            "%s: this is shard %u of %u of a split model, but its name does not end in %s: give it its "
            "original name again",
            path, s.no + 1, s.count, suffix);
    *out = hearth_strndup(path, n);
    if (!*out)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to open the file", path);
    // Same length as the other suffix: counts have at most five digits.
    snprintf(*out + n - m, m + 1, "-%05u-of-%05u.gguf", other + 1, s.count);
    return HEARTH_OK;
}

static void drop(struct hearth_gguf *g)
{
    for (uint32_t i = 0; i < g->n_shards; i++)
        hearth_file_close(&g->shards[i].file);
    g->n_shards = 0;
    g->n_tensors = 0;
    while (g->heap) {
        struct heap_block *next = g->heap->next;
        free(g->heap);
        g->heap = next;
    }
}

// Reads shard `no`, whose name follows from that of shard `given`, and checks that it is what its name says.
static int read_sibling(struct hearth_gguf *g, struct split given, uint32_t no, struct header *h,
                        struct hearth_error *err)
{
    char *path = NULL;
    int rc = shard_path(g->path, given, no, &path, err);
    if (rc)
        return rc;
    struct hearth_error inner = {0};
    struct split s = {0};
    rc = read_shard(g, path, h, &inner);
    if (!rc)
        rc = read_split(g, h, &s, &inner);
    if (rc)
        hearth_fail(err, rc, "%s (shard %u of %u of a split model; all shards must be in one folder)",
                    inner.message, no + 1, given.count);
    else if (s.no != no || s.count != given.count)
        rc = hearth_fail(err, HEARTH_E_FORMAT,
                         "%s: says it is shard %u of %u; the shards were mixed up: download it again", path,
                         s.no + 1, s.count);
    free(path);
    return rc;
}

static int read_other_shards(struct hearth_gguf *g, struct split given, struct hearth_error *err)
{
    int rc = HEARTH_OK;
    for (uint32_t no = 1; no < given.count && !rc; no++) {
        struct header h = {0};
        rc = read_sibling(g, given, no, &h, err);
        free_header(&h);
    }
    return rc;
}

// ---- opening

static int index_tensors(struct hearth_gguf *g, struct hearth_error *err)
{
    g->tensor_index = hearth_calloc((size_t)g->n_tensors, sizeof *g->tensor_index);
    if (!g->tensor_index)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the file's metadata", g->path);
    for (uint64_t i = 0; i < g->n_tensors; i++)
        g->tensor_index[i] = &g->tensors[i];
    const struct hearth_gguf_tensor *twin = hearth_gguf_sort_tensors(g->tensor_index, (size_t)g->n_tensors);
    if (twin) {
        struct hearth_shown shown;
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: tensor %s is there twice; the file is damaged",
                           hearth_file_path(g->shards[twin->shard].file),
                           hearth_str_show(twin->name, &shown));
    }
    uint64_t announced = g->n_tensors;
    int rc = hearth_gguf_u64(g, "split.tensors.count", false, &announced, err);
    if (!rc && g->n_shards > 1 && announced != g->n_tensors)
        rc = hearth_fail(
            err, HEARTH_E_FORMAT,
            "%s: all shards together have %llu tensors where %llu are announced: download them again",
            g->path, (unsigned long long)g->n_tensors, (unsigned long long)announced);
    return rc;
}

static int read_all(struct hearth_gguf *g, struct hearth_error *err)
{
    struct header h = {0};
    struct split s = {0};
    int rc = read_shard(g, g->path, &h, err);
    if (!rc)
        rc = read_split(g, &h, &s, err);
    if (!rc && s.count > 1 && s.no != 0) {
        // A later shard was given: begin again with the first, which has the metadata.
        drop(g);
        free_header(&h);
        rc = read_sibling(g, s, 0, &h, err);
    }
    g->kv = h.kv;
    g->kv_index = h.index;
    g->n_kv = h.n;
    if (!rc && s.count > 1)
        rc = read_other_shards(g, s, err);
    return rc ? rc : index_tensors(g, err);
}

int hearth_gguf_open(struct hearth_gguf **out, const char *path, struct hearth_error *err)
{
    *out = NULL;
    struct hearth_gguf *g = hearth_calloc(1, sizeof *g);
    if (g)
        g->path = hearth_strndup(path, strlen(path));
    if (!g || !g->path) {
        free(g);
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to open the file", path);
    }
    int rc = read_all(g, err);
    if (rc)
        hearth_gguf_close(&g);
    *out = g;
    return rc;
}

uint64_t hearth_gguf_memory(const struct hearth_gguf *g)
{
    uint64_t bytes = sizeof *g + g->n_shards * sizeof *g->shards + g->cap_kv * sizeof *g->kv +
                     g->n_kv * sizeof *g->kv_index + g->cap_tensors * sizeof *g->tensors +
                     g->n_tensors * sizeof *g->tensor_index;
    for (const struct heap_block *c = g->heap; c; c = c->next)
        bytes += sizeof *c + c->size;
    return bytes + hearth_gguf_overrides_memory(g);
}

void hearth_gguf_close(struct hearth_gguf **gguf)
{
    struct hearth_gguf *g = *gguf;
    if (!g)
        return;
    drop(g);
    hearth_gguf_overrides_close(g);
    free(g->shards);
    free(g->kv);
    free(g->kv_index);
    free(g->tensors);
    free(g->tensor_index);
    free(g->path);
    free(g);
    *gguf = NULL;
}

int hearth_gguf_read(const struct hearth_gguf *g, const struct hearth_gguf_tensor *t, void *dst,
                     uint64_t offset, size_t n, struct hearth_error *err)
{
    if (offset > t->bytes || n > t->bytes - offset)
        return hearth_fail(err, HEARTH_E_INVALID, "%s: %zu bytes at %llu of tensor %s, which has %llu",
                           g->path, n, (unsigned long long)offset, t->name.s, (unsigned long long)t->bytes);
    return hearth_file_read(g->shards[t->shard].file, dst, n, t->offset + offset, err);
}

const char *hearth_gguf_path(const struct hearth_gguf *g)
{
    return g->path;
}

bool hearth_gguf_is_pwri(const struct hearth_gguf *g)
{
    return g->pwri;
}

uint32_t hearth_gguf_version(const struct hearth_gguf *g)
{
    return g->version;
}

uint32_t hearth_gguf_n_shards(const struct hearth_gguf *g)
{
    return g->n_shards;
}

struct hearth_file *hearth_gguf_file(const struct hearth_gguf *g, uint32_t shard)
{
    return shard < g->n_shards ? g->shards[shard].file : NULL;
}

uint64_t hearth_gguf_file_bytes(const struct hearth_gguf *g)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < g->n_shards; i++)
        bytes += hearth_file_size(g->shards[i].file);
    return bytes;
}

uint64_t hearth_gguf_n_kv(const struct hearth_gguf *g)
{
    return g->n_kv;
}

const struct hearth_gguf_kv *hearth_gguf_kv_at(const struct hearth_gguf *g, uint64_t i)
{
    return i < g->n_kv ? &g->kv[i] : NULL;
}

uint64_t hearth_gguf_n_tensors(const struct hearth_gguf *g)
{
    return g->n_tensors;
}

const struct hearth_gguf_tensor *hearth_gguf_tensor_at(const struct hearth_gguf *g, uint64_t i)
{
    return i < g->n_tensors ? &g->tensors[i] : NULL;
}
