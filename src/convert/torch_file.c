// SPDX-License-Identifier: MIT
// Reads the table of a file that torch.save() wrote: a zip archive whose files are stored as they are.
// NAME/data.pkl says which tensors there are, NAME/data/KEY has the numbers. Source of the zip format:
// PKWARE's APPNOTE, sections 4.3 and 4.5.3.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "convert/pickle.h"
#include "convert/source_tensor.h"

#define MAX_DIRECTORY ((uint64_t)64 << 20)
#define MAX_PICKLE    ((uint64_t)64 << 20)

struct entry {
    struct hearth_str name; // in the directory
    uint64_t header, size;  // offset of its local header, bytes of its data
};

struct archive {
    struct hearth_file *file;
    const char *path;
    uint8_t *directory;
    struct entry *entries; // by name
    size_t n, cap;
    struct hearth_str prefix; // "NAME/"
    struct hearth_source_list *list;
    struct hearth_error *err;
};

static uint64_t number(const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static int damaged(const struct archive *a, const char *what)
{
    return hearth_fail(a->err, HEARTH_E_FORMAT,
                       "%s: %s: the file is damaged or not complete; download it again", a->path, what);
}

// ---- the directory

struct directory {
    uint64_t offset, size;
};

// The end record of archives with more than 4 GiB, which lies before the ordinary one at `end`.
static int find_large_directory(const struct archive *a, uint64_t end, struct directory *out)
{
    uint8_t locator[20], record[56];
    if (end < sizeof locator)
        return damaged(a, "the archive's directory is missing");
    int rc = hearth_file_read(a->file, locator, sizeof locator, end - sizeof locator, a->err);
    if (rc)
        return rc;
    const uint64_t at = number(locator + 8, 8), size = hearth_file_size(a->file);
    if (number(locator, 4) != 0x07064b50 || at > size || size - at < sizeof record)
        return damaged(a, "the archive's directory is missing");
    rc = hearth_file_read(a->file, record, sizeof record, at, a->err);
    if (rc)
        return rc;
    if (number(record, 4) != 0x06064b50)
        return damaged(a, "the archive's directory is missing");
    *out = (struct directory){number(record + 48, 8), number(record + 40, 8)};
    return HEARTH_OK;
}

static int find_directory(const struct archive *a, struct directory *out)
{
    enum { RECORD = 22, MAX_COMMENT = 65535 };
    const uint64_t size = hearth_file_size(a->file);
    const size_t n = size < RECORD + MAX_COMMENT ? (size_t)size : RECORD + MAX_COMMENT;
    uint8_t *tail = malloc(n + 1);
    if (!tail)
        return hearth_fail(a->err, HEARTH_E_MEMORY, "%s: no memory for the archive's directory", a->path);
    int rc = hearth_file_read(a->file, tail, n, size - n, a->err);
    bool found = false;
    for (size_t i = n; !rc && !found && i-- > 0;) {
        if (n - i < RECORD || number(tail + i, 4) != 0x06054b50)
            continue;
        found = true;
        *out = (struct directory){number(tail + i + 16, 4), number(tail + i + 12, 4)};
        if (out->offset == UINT32_MAX || out->size == UINT32_MAX || number(tail + i + 10, 2) == UINT16_MAX)
            rc = find_large_directory(a, size - n + i, out);
    }
    free(tail);
    if (!rc && !found)
        rc = hearth_fail(
            a->err, HEARTH_E_UNSUPPORTED,
            "%s: no zip archive: this is no file of torch.save(), or one of PyTorch before 1.6, which "
            "a newer PyTorch can load and save again",
            a->path);
    if (!rc && (out->offset > size || out->size > size - out->offset || out->size > MAX_DIRECTORY))
        rc = damaged(a, "the archive's directory is not within it");
    return rc;
}

// Sizes and offsets that need more than 32 bits are in an extra field.
static bool read_large_fields(struct entry *e, const uint8_t *extra, size_t n)
{
    while (n >= 4) {
        const size_t size = (size_t)number(extra + 2, 2);
        if (size > n - 4)
            return false;
        if (number(extra, 2) == 1) {
            const uint8_t *p = extra + 4, *end = p + size;
            // the size before compression, the size (the same), the offset; each only where it is needed
            if (e->size == UINT32_MAX && end - p >= 8) {
                e->size = number(p, 8);
                p += end - p >= 16 ? 16 : 8;
            }
            if (e->header == UINT32_MAX && end - p >= 8)
                e->header = number(p, 8);
        }
        extra += 4 + size;
        n -= 4 + size;
    }
    return true;
}

static int add_entry(struct archive *a, struct entry e)
{
    if (a->n == a->cap) {
        const size_t cap = a->cap ? 2 * a->cap : 64;
        struct entry *entries = hearth_reallocarray(a->entries, cap, sizeof *entries);
        if (!entries)
            return hearth_fail(a->err, HEARTH_E_MEMORY, "%s: no memory for the archive's directory", a->path);
        a->entries = entries;
        a->cap = cap;
    }
    a->entries[a->n++] = e;
    return HEARTH_OK;
}

static int parse_directory(struct archive *a, size_t size)
{
    enum { HEADER = 46 };
    const uint8_t *p = a->directory, *end = p + size;
    int rc = HEARTH_OK;
    while (!rc && end - p >= HEADER && number(p, 4) == 0x02014b50) {
        const size_t n_name = (size_t)number(p + 28, 2), n_extra = (size_t)number(p + 30, 2);
        const size_t total = HEADER + n_name + n_extra + (size_t)number(p + 32, 2);
        if (total > (size_t)(end - p))
            return damaged(a, "the archive's directory is cut off");
        struct entry e = {{(const char *)p + HEADER, n_name}, number(p + 42, 4), number(p + 24, 4)};
        if (number(p + 10, 2) != 0)
            return hearth_fail(a->err, HEARTH_E_UNSUPPORTED,
                               "%s: the archive is compressed, as torch.save() never does", a->path);
        if (!read_large_fields(&e, p + HEADER + n_name, n_extra))
            return damaged(a, "the archive's directory has a broken field");
        rc = add_entry(a, e);
        p += total;
    }
    return rc;
}

static int by_name(const void *a, const void *b)
{
    const struct hearth_str x = ((const struct entry *)a)->name, y = ((const struct entry *)b)->name;
    const int c = memcmp(x.s, y.s, x.n < y.n ? x.n : y.n);
    return c ? c : (x.n > y.n) - (x.n < y.n);
}

static int read_directory(struct archive *a)
{
    struct directory d = {0, 0};
    int rc = find_directory(a, &d);
    if (rc)
        return rc;
    a->directory = malloc((size_t)d.size + 1);
    if (!a->directory)
        return hearth_fail(a->err, HEARTH_E_MEMORY, "%s: no memory for the archive's directory", a->path);
    rc = hearth_file_read(a->file, a->directory, (size_t)d.size, d.offset, a->err);
    if (!rc)
        rc = parse_directory(a, (size_t)d.size);
    if (!rc && a->n)
        qsort(a->entries, a->n, sizeof *a->entries, by_name);
    return rc;
}

// ---- its files

// Sets the offset of an entry's data.
static int find_data(const struct archive *a, const struct entry *e, uint64_t *offset)
{
    uint8_t header[30];
    const uint64_t size = hearth_file_size(a->file);
    if (e->header > size || size - e->header < sizeof header)
        return damaged(a, "a file of the archive is not within it");
    int rc = hearth_file_read(a->file, header, sizeof header, e->header, a->err);
    if (rc)
        return rc;
    *offset = e->header + sizeof header + number(header + 26, 2) + number(header + 28, 2);
    if (number(header, 4) != 0x04034b50 || *offset > size || e->size > size - *offset)
        return damaged(a, "a file of the archive is not within it");
    return HEARTH_OK;
}

static const struct entry *find_pickle(struct archive *a)
{
    static const char name[] = "data.pkl";
    const size_t n = sizeof name - 1;
    for (size_t i = 0; i < a->n; i++) {
        const struct hearth_str s = a->entries[i].name;
        if (s.n < n || memcmp(s.s + s.n - n, name, n) != 0 || (s.n > n && s.s[s.n - n - 1] != '/'))
            continue;
        a->prefix = (struct hearth_str){s.s, s.n - n};
        return &a->entries[i];
    }
    return NULL;
}

static const struct entry *find_storage(const struct archive *a, struct hearth_str key)
{
    char name[512];
    const int n =
        snprintf(name, sizeof name, "%.*sdata/%.*s", (int)a->prefix.n, a->prefix.s, (int)key.n, key.s);
    if (key.n > 100 || a->prefix.n > 300 || n < 0)
        return NULL;
    const struct entry wanted = {.name = {name, (size_t)n}};
    return a->n ? bsearch(&wanted, a->entries, a->n, sizeof wanted, by_name) : NULL;
}

static int add_tensor(void *arg, const struct hearth_pickle_tensor *t, struct hearth_error *err)
{
    const struct archive *a = arg;
    const struct entry *e = find_storage(a, t->key);
    if (!e)
        return hearth_fail(err, HEARTH_E_FORMAT,
                           "%s: the numbers of tensor %.200s are missing: the file is damaged", a->path,
                           t->name);
    uint64_t data = 0, n = 1, first = 0;
    int rc = find_data(a, e, &data);
    if (rc)
        return rc;
    bool fits = !__builtin_mul_overflow(t->first, (uint64_t)t->element_bytes, &first);
    for (uint32_t i = 0; i < t->n_dims; i++)
        fits = fits && !__builtin_mul_overflow(n, t->dims[i], &n);
    fits = fits && !__builtin_mul_overflow(n, (uint64_t)t->element_bytes, &n);
    if (!fits || first > e->size || n > e->size - first)
        return hearth_fail(err, HEARTH_E_FORMAT,
                           "%s: tensor %.200s is larger than its numbers: the file is damaged", a->path,
                           t->name);
    struct hearth_source_tensor s = {
        .type = t->type, .n_dims = t->n_dims, .file = a->file, .offset = data + first, .bytes = n};
    memcpy(s.dims, t->dims, sizeof s.dims);
    snprintf(s.type_name, sizeof s.type_name, "%s", t->type_name);
    return hearth_source_add(a->list, &s, t->name, t->n_name, err);
}

// PyTorch notes the order of bytes since 2.1.
static int check_byte_order(const struct archive *a)
{
    char name[512], text[8] = "";
    const int n = snprintf(name, sizeof name, "%.*sbyteorder", (int)(a->prefix.n > 300 ? 300 : a->prefix.n),
                           a->prefix.s);
    const struct entry wanted = {.name = {name, (size_t)n}};
    const struct entry *e = bsearch(&wanted, a->entries, a->n, sizeof wanted, by_name);
    uint64_t offset = 0;
    int rc = e ? find_data(a, e, &offset) : HEARTH_OK;
    if (e && !rc && e->size < sizeof text)
        rc = hearth_file_read(a->file, text, (size_t)e->size, offset, a->err);
    if (!rc && !strcmp(text, "big"))
        rc = hearth_fail(a->err, HEARTH_E_UNSUPPORTED, "%s: its numbers are big-endian", a->path);
    return rc;
}

static int read_pickle(struct archive *a)
{
    const struct entry *e = find_pickle(a);
    if (!e)
        return hearth_fail(a->err, HEARTH_E_UNSUPPORTED, "%s: this archive was not written by torch.save()",
                           a->path);
    uint64_t offset = 0;
    int rc = find_data(a, e, &offset);
    if (!rc && e->size > MAX_PICKLE)
        rc = damaged(a, "its pickle is too long");
    if (!rc)
        rc = check_byte_order(a);
    if (rc)
        return rc;
    uint8_t *pickle = malloc((size_t)e->size + 1);
    if (!pickle)
        return hearth_fail(a->err, HEARTH_E_MEMORY, "%s: no memory for its pickle", a->path);
    rc = hearth_file_read(a->file, pickle, (size_t)e->size, offset, a->err);
    if (!rc)
        rc = hearth_pickle_read(a->path, pickle, (size_t)e->size, add_tensor, a, a->err);
    free(pickle);
    return rc;
}

int hearth_torch_read(struct hearth_file *f, struct hearth_source_list *list, struct hearth_error *err)
{
    struct archive a = {.file = f, .path = hearth_file_path(f), .list = list, .err = err};
    int rc = read_directory(&a);
    if (!rc)
        rc = read_pickle(&a);
    free(a.directory);
    free(a.entries);
    return rc;
}
