// SPDX-License-Identifier: MIT
// Reads the table of a safetensors file: 8 bytes with the header's length, the header in JSON, then the
// tensors.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "convert/json_file.h"
#include "convert/source_tensor.h"

// The limit of the format's own library.
#define MAX_HEADER ((uint64_t)100000000)
#define MAX_NAME   1024

// ---- lists of tensors

int hearth_source_add(struct hearth_source_list *list, const struct hearth_source_tensor *tensor,
                      const char *name, size_t n_name, struct hearth_error *err)
{
    const char *path = hearth_file_path(tensor->file);
    if (n_name == 0 || n_name > MAX_NAME || memchr(name, 0, n_name))
        return hearth_fail(err, HEARTH_E_FORMAT,
                           "%s: a tensor's name must have 1 to %d bytes, none of them zero", path, MAX_NAME);
    struct hearth_source_tensor t = *tensor;
    t.n_elements = 1;
    bool fits = true;
    for (uint32_t i = 0; i < t.n_dims; i++)
        fits = fits && !__builtin_mul_overflow(t.n_elements, t.dims[i], &t.n_elements);
    const uint64_t size = t.type == HEARTH_TYPE_F32 ? 4 : 2;
    uint64_t bytes = t.bytes;
    if (t.type != HEARTH_TYPE_END)
        fits = fits && !__builtin_mul_overflow(t.n_elements, size, &bytes);
    if (!fits || bytes != t.bytes)
        return hearth_fail(err, HEARTH_E_FORMAT,
                           "%s: tensor %.*s: its shape and type do not fit its %" PRIu64 " bytes", path,
                           (int)n_name, name, t.bytes);
    if (list->n == list->cap) {
        const size_t cap = list->cap ? 2 * list->cap : 64;
        struct hearth_source_tensor *items = hearth_reallocarray(list->items, cap, sizeof *items);
        if (!items)
            return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the list of tensors", path);
        list->items = items;
        list->cap = cap;
    }
    t.name = hearth_strndup(name, n_name);
    if (!t.name)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the list of tensors", path);
    list->items[list->n++] = t;
    return HEARTH_OK;
}

void hearth_source_list_free(struct hearth_source_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->items[i].name);
    free(list->items);
    *list = (struct hearth_source_list){0};
}

// ---- the header

struct header {
    struct hearth_file *file;
    const char *path;
    uint64_t start, size; // of the data section
    struct hearth_error *err;
};

static int damaged(const struct header *h, const char *name, const char *what)
{
    return hearth_fail(h->err, HEARTH_E_FORMAT, "%s: tensor %.200s: %s: the file is damaged", h->path, name,
                       what);
}

static uint32_t type_of(const char *name)
{
    static const struct {
        const char *name;
        uint32_t type;
    } types[] = {{"F32", HEARTH_TYPE_F32}, {"F16", HEARTH_TYPE_F16}, {"BF16", HEARTH_TYPE_BF16}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(types[i].name, name))
            return types[i].type;
    return HEARTH_TYPE_END;
}

static int read_shape(const struct header *h, const char *name, const json_t *shape,
                      struct hearth_source_tensor *t)
{
    if (!json_is_array(shape) || json_array_size(shape) > HEARTH_SOURCE_DIMS)
        return damaged(h, name, "its shape is no list of at most 8 numbers");
    t->n_dims = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < t->n_dims; i++) {
        const json_t *n = json_array_get(shape, i);
        if (!json_is_integer(n) || json_integer_value(n) < 0)
            return damaged(h, name, "its shape is no list of at most 8 numbers");
        t->dims[i] = (uint64_t)json_integer_value(n);
    }
    return HEARTH_OK;
}

static int read_offsets(const struct header *h, const char *name, const json_t *offsets,
                        struct hearth_source_tensor *t)
{
    const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to) ||
        json_integer_value(from) < 0 || json_integer_value(to) < json_integer_value(from) ||
        (uint64_t)json_integer_value(to) > h->size)
        return damaged(h, name, "its place is not within the file");
    t->offset = h->start + (uint64_t)json_integer_value(from);
    t->bytes = (uint64_t)(json_integer_value(to) - json_integer_value(from));
    return HEARTH_OK;
}

static int read_tensor(const struct header *h, const char *name, const json_t *entry,
                       struct hearth_source_list *list)
{
    struct hearth_source_tensor t = {.file = h->file};
    const json_t *dtype = json_object_get(entry, "dtype");
    if (!json_is_string(dtype))
        return damaged(h, name, "it has no number format");
    snprintf(t.type_name, sizeof t.type_name, "%s", json_string_value(dtype));
    t.type = type_of(json_string_value(dtype));
    int rc = read_shape(h, name, json_object_get(entry, "shape"), &t);
    if (!rc)
        rc = read_offsets(h, name, json_object_get(entry, "data_offsets"), &t);
    return rc ? rc : hearth_source_add(list, &t, name, strlen(name), h->err);
}

static int by_offset(const void *a, const void *b)
{
    const struct hearth_source_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

// The format allows neither overlaps nor gaps.
static int check_places(const struct header *h, struct hearth_source_list *list, size_t first)
{
    if (list->n > first)
        qsort(list->items + first, list->n - first, sizeof *list->items, by_offset);
    uint64_t at = h->start;
    for (size_t i = first; i < list->n; i++) {
        const struct hearth_source_tensor *t = &list->items[i];
        if (t->offset != at)
            return damaged(h, t->name,
                           t->offset < at ? "it overlaps another tensor" : "there is a gap before it");
        at += t->bytes;
    }
    if (at != h->start + h->size)
        return hearth_fail(h->err, HEARTH_E_FORMAT,
                           "%s: %" PRIu64 " bytes at its end belong to no tensor: the file is damaged",
                           h->path, h->start + h->size - at);
    return HEARTH_OK;
}

static int read_header(const struct header *h, const char *text, size_t n, struct hearth_source_list *list)
{
    json_t *root, *entry;
    const char *name;
    int rc = hearth_json_parse(&root, h->path, text, n, h->err);
    if (rc)
        return rc;
    const size_t first = list->n;
    json_object_foreach(root, name, entry)
    {
        if (strcmp(name, "__metadata__") != 0)
            rc = read_tensor(h, name, entry, list);
        if (rc)
            break;
    }
    json_decref(root);
    return rc ? rc : check_places(h, list, first);
}

int hearth_safetensors_read(struct hearth_file *f, struct hearth_source_list *list, struct hearth_error *err)
{
    const char *path = hearth_file_path(f);
    uint8_t bytes[8];
    if (hearth_file_size(f) < 8)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: too short for a safetensors file", path);
    int rc = hearth_file_read(f, bytes, sizeof bytes, 0, err);
    uint64_t n = 0;
    for (int i = 0; i < 8; i++)
        n |= (uint64_t)bytes[i] << (8 * i);
    if (rc)
        return rc;
    if (n > hearth_file_size(f) - 8 || n > MAX_HEADER)
        return hearth_fail(err, HEARTH_E_FORMAT,
                           "%s: a header of %" PRIu64
                           " bytes cannot be: this is no safetensors file, or it is "
                           "not complete; download it again",
                           path, n);
    char *text = malloc((size_t)n + 1);
    if (!text)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the header", path);
    const struct header h = {f, path, 8 + n, hearth_file_size(f) - 8 - n, err};
    rc = hearth_file_read(f, text, (size_t)n, 8, err);
    if (!rc)
        rc = read_header(&h, text, (size_t)n, list);
    free(text);
    return rc;
}
