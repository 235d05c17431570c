// SPDX-License-Identifier: MIT
// Opens the weights of a Hugging Face folder.
#include "convert/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "convert/json_file.h"

#define MAX_PATH 4096

struct hearth_checkpoint {
    char *folder;
    struct hearth_file **files;
    size_t n_files, cap_files;
    struct hearth_source_list list; // by name
};

typedef int (*read_fn)(struct hearth_file *f, struct hearth_source_list *list, struct hearth_error *err);

// The forms in which a folder may have its weights, the better one first.
static const struct form {
    const char *file, *index;
    read_fn read;
} forms[] = {
    {"model.safetensors", "model.safetensors.index.json", hearth_safetensors_read},
    {"pytorch_model.bin", "pytorch_model.bin.index.json", hearth_torch_read},
};

static bool join(char path[MAX_PATH], const char *folder, const char *name)
{
    const int n = snprintf(path, MAX_PATH, "%s/%s", folder, name);
    return n > 0 && n < MAX_PATH;
}

static int too_long(const char *folder, struct hearth_error *err)
{
    return hearth_fail(err, HEARTH_E_INVALID, "%.200s...: the path is too long", folder);
}

static int add_file(struct hearth_checkpoint *c, const char *path, read_fn read, struct hearth_error *err)
{
    if (c->n_files == c->cap_files) {
        const size_t cap = c->cap_files ? 2 * c->cap_files : 16;
        struct hearth_file **files = hearth_reallocarray(c->files, cap, sizeof *files);
        if (!files)
            return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the list of files", path);
        c->files = files;
        c->cap_files = cap;
    }
    struct hearth_file *f;
    const int rc = hearth_file_open(&f, path, err);
    if (rc)
        return rc;
    c->files[c->n_files++] = f;
    return read(f, &c->list, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct hearth_source_tensor *)a)->name,
                  ((const struct hearth_source_tensor *)b)->name);
}

static int sort(struct hearth_checkpoint *c, struct hearth_error *err)
{
    if (c->list.n)
        qsort(c->list.items, c->list.n, sizeof *c->list.items, by_name);
    for (size_t i = 1; i < c->list.n; i++) {
        const struct hearth_source_tensor *a = &c->list.items[i - 1], *b = &c->list.items[i];
        if (!strcmp(a->name, b->name))
            return hearth_fail(err, HEARTH_E_FORMAT, "%s: tensor %.200s is also in %s",
                               hearth_file_path(b->file), b->name, hearth_file_path(a->file));
    }
    return HEARTH_OK;
}

// ---- shards

// A shard's name as the index has it: a plain file name, which on no system can lead out of the folder.
static bool is_plain_name(const json_t *name)
{
    const char *s = json_string_value(name);
    return s && s[0] && strlen(s) == json_string_length(name) && !strpbrk(s, "/\\:") &&
           strcmp(s, "..") != 0 && strcmp(s, ".") != 0;
}

static bool is_open(const struct hearth_checkpoint *c, const char *path)
{
    for (size_t i = c->n_files; i-- > 0;) // the last one first: entries of a shard follow each other
        if (!strcmp(hearth_file_path(c->files[i]), path))
            return true;
    return false;
}

static int open_shards(struct hearth_checkpoint *c, const struct hearth_json_file *index, const json_t *map,
                       const struct form *form, struct hearth_error *err)
{
    const char *name;
    json_t *shard;
    char path[MAX_PATH];
    json_object_foreach((json_t *)map, name, shard)
    {
        if (!is_plain_name(shard))
            return hearth_fail(err, HEARTH_E_FORMAT,
                               "%s: the file of tensor %.200s is no name of a file here", index->path, name);
        if (!join(path, c->folder, json_string_value(shard)))
            return too_long(c->folder, err);
        if (is_open(c, path))
            continue;
        if (!hearth_file_exists(path))
            return hearth_fail(err, HEARTH_E_IO, "%s is missing: the download is not complete", path);
        const int rc = add_file(c, path, form->read, err);
        if (rc)
            return rc;
    }
    return HEARTH_OK;
}

static int check_index(const struct hearth_checkpoint *c, const struct hearth_json_file *index,
                       const json_t *map, struct hearth_error *err)
{
    const char *name;
    json_t *shard;
    json_object_foreach((json_t *)map, name, shard)
    {
        if (!hearth_checkpoint_find(c, name))
            return hearth_fail(err, HEARTH_E_FORMAT,
                               "%s: tensor %.200s is not in %.200s: files of different downloads",
                               index->path, name, json_string_value(shard));
    }
    return HEARTH_OK;
}

static int open_index(struct hearth_checkpoint *c, const struct form *form, struct hearth_error *err)
{
    struct hearth_json_file index;
    int rc = hearth_json_file_open(&index, c->folder, form->index, true, err);
    if (rc)
        return rc;
    const json_t *map = json_object_get(index.root, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0)
        rc = hearth_fail(err, HEARTH_E_FORMAT, "%s: \"weight_map\" is missing", index.path);
    if (!rc)
        rc = open_shards(c, &index, map, form, err);
    if (!rc)
        rc = sort(c, err);
    if (!rc)
        rc = check_index(c, &index, map, err);
    hearth_json_file_close(&index);
    return rc;
}

static int open_files(struct hearth_checkpoint *c, struct hearth_error *err)
{
    char path[MAX_PATH];
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (!join(path, c->folder, forms[i].index))
            return too_long(c->folder, err);
        if (hearth_file_exists(path))
            return open_index(c, &forms[i], err);
        if (!join(path, c->folder, forms[i].file))
            return too_long(c->folder, err);
        if (!hearth_file_exists(path))
            continue;
        const int rc = add_file(c, path, forms[i].read, err);
        return rc ? rc : sort(c, err);
    }
    return hearth_fail(
        err, HEARTH_E_INVALID,
        "%s: no weights here: neither model.safetensors nor pytorch_model.bin, nor an index of "
        "their parts (files of other names, such as consolidated.00.pth, are not read)",
        c->folder);
}

int hearth_checkpoint_open(struct hearth_checkpoint **out, const char *folder, struct hearth_error *err)
{
    struct hearth_checkpoint *c = hearth_calloc(1, sizeof *c);
    if (c)
        c->folder = hearth_strndup(folder, strlen(folder));
    int rc = c && c->folder ? open_files(c, err)
                            : hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to open the folder", folder);
    if (rc)
        hearth_checkpoint_close(&c);
    *out = c;
    return rc;
}

// ---- predictors

static int rename_predictors(struct hearth_checkpoint *c, size_t first, uint32_t layer,
                             struct hearth_error *err)
{
    for (size_t i = first; i < c->list.n; i++) {
        struct hearth_source_tensor *t = &c->list.items[i];
        const size_t size = strlen(t->name) + 32;
        char *name = malloc(size);
        if (!name)
            return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the list of tensors", c->folder);
        snprintf(name, size, "predictor.%u.%s", layer, t->name);
        free(t->name);
        t->name = name;
    }
    return HEARTH_OK;
}

int hearth_checkpoint_add_predictors(struct hearth_checkpoint *c, const char *folder, uint32_t n_layers,
                                     struct hearth_error *err)
{
    char path[MAX_PATH], name[32];
    int rc = HEARTH_OK;
    for (uint32_t i = 0; i < n_layers && !rc; i++) {
        const size_t first = c->list.n;
        snprintf(name, sizeof name, "model_%u.pt", i);
        if (!join(path, folder, name))
            return too_long(folder, err);
        if (!hearth_file_exists(path))
            return hearth_fail(err, HEARTH_E_IO,
                               "%s is missing: predictors are model_0.pt to model_%u.pt, one a layer", path,
                               n_layers - 1);
        rc = add_file(c, path, hearth_torch_read, err);
        if (!rc)
            rc = rename_predictors(c, first, i, err);
    }
    return rc ? rc : sort(c, err);
}

void hearth_checkpoint_close(struct hearth_checkpoint **checkpoint)
{
    struct hearth_checkpoint *c = *checkpoint;
    if (!c)
        return;
    hearth_source_list_free(&c->list);
    for (size_t i = 0; i < c->n_files; i++)
        hearth_file_close(&c->files[i]);
    free(c->files);
    free(c->folder);
    free(c);
    *checkpoint = NULL;
}

// ---- look-ups

size_t hearth_checkpoint_n_tensors(const struct hearth_checkpoint *c)
{
    return c->list.n;
}

const struct hearth_source_tensor *hearth_checkpoint_at(const struct hearth_checkpoint *c, size_t i)
{
    return &c->list.items[i];
}

const struct hearth_source_tensor *hearth_checkpoint_find(const struct hearth_checkpoint *c, const char *name)
{
    size_t low = 0, high = c->list.n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        const int order = strcmp(c->list.items[mid].name, name);
        if (!order)
            return &c->list.items[mid];
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

size_t hearth_checkpoint_index(const struct hearth_checkpoint *c, const struct hearth_source_tensor *t)
{
    return (size_t)(t - c->list.items);
}
