// SPDX-License-Identifier: MIT
// Test support: Hugging Face folders of golden models, as they are or with changes, converted.
#ifndef HEARTH_TESTS_HF_SUPPORT_H
#define HEARTH_TESTS_HF_SUPPORT_H

#include "check.h"

#include <jansson.h>
#include <sys/stat.h>

#include "convert/convert.h"

#define HF HEARTH_SOURCE_DIR "/tests/golden/hf/"

// ---- folders: a model's files and its tokenizer's, by links

static inline void link_files(const char *from, const char *to)
{
    DIR *d = opendir(from);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char source[1024], target[1024];
        snprintf(source, sizeof source, "%s/%s", from, e->d_name);
        snprintf(target, sizeof target, "%s/%s", to, e->d_name);
        if (e->d_name[0] != '.')
            assert_int_equal(symlink(source, target), 0);
    }
    closedir(d);
}

static inline void read_line(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(out, (int)size, f));
    out[strcspn(out, "\n")] = '\0';
    fclose(f);
}

static char hf_folder[300];

static inline void empty_hf_folder(void)
{
    DIR *d = opendir(hf_folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(hf_folder);
}

// The folder of a golden model.
static inline const char *make_hf(const char *name)
{
    char path[700], kind[64];
    snprintf(hf_folder, sizeof hf_folder, "%s-hf", folder);
    empty_hf_folder();
    assert_int_equal(mkdir(hf_folder, 0700), 0);
    snprintf(path, sizeof path, HF "%s", name);
    link_files(path, hf_folder);
    snprintf(path, sizeof path, HF "%s/tokenizer", name);
    read_line(path, kind, sizeof kind);
    snprintf(path, sizeof path, HF "tokenizers/%s", kind);
    link_files(path, hf_folder);
    return hf_folder;
}

static inline int convert(const char *name, const char *type, const char *out, struct hearth_error *err)
{
    char predictors[700];
    snprintf(predictors, sizeof predictors, HF "%s/predictors", name);
    const struct hearth_convert_params params = {.recipe = hearth_recipe_by_name(type),
                                                 .predictors = access(predictors, F_OK) ? NULL : predictors,
                                                 .n_threads = 2};
    return hearth_convert(make_hf(name), out, &params, NULL, err);
}

// ---- folders that are changed

// Replaces a text in a file of the folder.
static inline void change(const char *file, const char *from, const char *to)
{
    char path[700], text[65536];
    snprintf(path, sizeof path, "%s/%s", hf_folder, file);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    char *at = strstr(text, from);
    if (!at)
        fail_msg("%s does not have %s", path, from);
    unlink(path); // a link
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(f);
}

static inline char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*n);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *n, f), *n);
    fclose(f);
    return data;
}

// Gives the last bytes of a file of the folder other values.
static inline void change_end(const char *file, const uint8_t *bytes, size_t n)
{
    char path[700];
    size_t size;
    snprintf(path, sizeof path, "%s/%s", hf_folder, file);
    uint8_t *all = (uint8_t *)read_all(path, &size);
    memcpy(all + size - n, bytes, n);
    unlink(path); // a link
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(all, 1, size, f), size);
    fclose(f);
    free(all);
}

// Gives the bytes at the first place of a text in a file of the folder, which may be no text, other values.
static inline void change_bytes(const char *file, const char *from, const char *to, size_t n)
{
    char path[700];
    size_t size, at = 0;
    snprintf(path, sizeof path, "%s/%s", hf_folder, file);
    char *all = read_all(path, &size);
    while (at + n < size && memcmp(all + at, from, n) != 0)
        at++;
    assert_true(at + n < size);
    memcpy(all + at, to, n);
    unlink(path); // a link
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(all, 1, size, f), size);
    fclose(f);
    free(all);
}

// Gives the folder's weights other sizes, each other_size() of what it was, and zeros.
static inline void resize_weights(json_int_t (*other_size)(json_int_t))
{
    char path[700];
    size_t size, n_header = 0;
    uint64_t n;
    json_int_t end = 0;
    const char *name;
    json_t *entry;
    snprintf(path, sizeof path, "%s/model.safetensors", hf_folder);
    char *all = read_all(path, &size);
    memcpy(&n, all, sizeof n);
    json_t *header = json_loadb(all + sizeof n, (size_t)n, 0, NULL);
    assert_non_null(header);
    json_object_foreach(header, name, entry)
    {
        json_t *shape = json_object_get(entry, "shape");
        json_int_t bytes = 2; // of one number
        for (size_t i = 0; i < json_array_size(shape); i++) {
            const json_int_t other = other_size(json_integer_value(json_array_get(shape, i)));
            json_array_set_new(shape, i, json_integer(other));
            bytes *= other;
        }
        if (shape)
            json_object_set_new(entry, "data_offsets", json_pack("[II]", end, end + bytes));
        end += shape ? bytes : 0;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    n = n_header = strlen(text);
    unlink(path); // a link
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(&n, 1, sizeof n, f), sizeof n);
    assert_int_equal(fwrite(text, 1, n_header, f), n_header);
    fclose(f);
    assert_int_equal(truncate(path, (off_t)(sizeof n + n_header) + end), 0);
    free(text);
    free(all);
    json_decref(header);
}

static inline void drop(const char *file)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", hf_folder, file);
    assert_int_equal(unlink(path), 0);
}

static inline int convert_changed(const struct hearth_convert_params *given, struct hearth_error *err)
{
    struct hearth_convert_params params = *given;
    params.recipe = hearth_recipe_by_name("F16");
    params.n_threads = 1;
    return hearth_convert(hf_folder, in_folder("out.gguf"), &params, NULL, err);
}

#define REFUSED_CHANGE(model, file, from, to, code, words)                                                   \
    do {                                                                                                     \
        make_hf(model);                                                                                      \
        change(file, from, to);                                                                              \
        REFUSED(convert_changed(&(struct hearth_convert_params){0}, &check_error), code, words);             \
        assert_int_equal(count_files(), 0);                                                                  \
    } while (0)

static inline int remove_hf_folders(void **state)
{
    empty_hf_folder();
    return remove_folder(state);
}

#endif
