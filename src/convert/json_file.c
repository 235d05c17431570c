// SPDX-License-Identifier: MIT
// JSON files of a checkpoint.
#include "convert/json_file.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"

#define MAX_BYTES ((uint64_t)256 << 20)

int hearth_json_parse(json_t **out, const char *path, const char *text, size_t n, struct hearth_error *err)
{
    json_error_t e;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (!*out)
        return json_error_code(&e) == json_error_out_of_memory
                   ? hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for %zu bytes of JSON", path, n)
                   : hearth_fail(err, HEARTH_E_FORMAT, "%s: not valid JSON: line %d: %s", path, e.line,
                                 e.text);
    if (json_is_object(*out))
        return HEARTH_OK;
    json_decref(*out);
    *out = NULL;
    return hearth_fail(err, HEARTH_E_FORMAT, "%s: a JSON object was expected", path);
}

static int load(struct hearth_json_file *out, struct hearth_file *f, struct hearth_error *err)
{
    const uint64_t n = hearth_file_size(f);
    if (n > MAX_BYTES)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: %llu bytes are too many for this JSON file", out->path,
                           (unsigned long long)n);
    char *text = malloc((size_t)n + 1);
    if (!text)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the file", out->path);
    int rc = hearth_file_read(f, text, (size_t)n, 0, err);
    if (!rc)
        rc = hearth_json_parse(&out->root, out->path, text, (size_t)n, err);
    free(text);
    return rc;
}

int hearth_json_file_open(struct hearth_json_file *out, const char *folder, const char *name, bool required,
                          struct hearth_error *err)
{
    out->root = NULL;
    const int n = snprintf(out->path, sizeof out->path, "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= sizeof out->path)
        return hearth_fail(err, HEARTH_E_INVALID, "%.200s...: the path is too long", folder);
    if (!required && !hearth_file_exists(out->path))
        return HEARTH_OK;
    struct hearth_file *f;
    int rc = hearth_file_open(&f, out->path, err);
    if (rc)
        return rc;
    rc = load(out, f, err);
    hearth_file_close(&f);
    return rc;
}

void hearth_json_file_close(struct hearth_json_file *file)
{
    json_decref(file->root);
    file->root = NULL;
}

// ---- look-ups

static int wrong(const struct hearth_json_file *file, const char *key, const char *what,
                 struct hearth_error *err)
{
    return hearth_fail(err, HEARTH_E_FORMAT, "%s: \"%s\" should be %s", file->path, key, what);
}

// The value, or NULL if it is absent or null; *rc says whether it should be there.
static const json_t *find(const struct hearth_json_file *file, const json_t *object, const char *key,
                          bool required, int *rc, struct hearth_error *err)
{
    const json_t *value = json_object_get(object, key);
    *rc = HEARTH_OK;
    if (value && !json_is_null(value))
        return value;
    if (required)
        *rc = hearth_fail(err, HEARTH_E_FORMAT, "%s: \"%s\" is missing", file->path, key);
    return NULL;
}

int hearth_json_u32(const struct hearth_json_file *file, const json_t *object, const char *key, bool required,
                    uint32_t *out, struct hearth_error *err)
{
    int rc;
    const json_t *value = find(file, object, key, required, &rc, err);
    if (!value)
        return rc;
    const json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0 || n > INT_MAX)
        return wrong(file, key, "a whole number from 0 to 2147483647", err);
    *out = (uint32_t)n;
    return HEARTH_OK;
}

int hearth_json_f64(const struct hearth_json_file *file, const json_t *object, const char *key, bool required,
                    double *out, struct hearth_error *err)
{
    int rc;
    const json_t *value = find(file, object, key, required, &rc, err);
    if (!value)
        return rc;
    if (!json_is_number(value))
        return wrong(file, key, "a number", err);
    *out = json_number_value(value);
    return HEARTH_OK;
}

int hearth_json_bool(const struct hearth_json_file *file, const json_t *object, const char *key, bool *out,
                     struct hearth_error *err)
{
    int rc;
    const json_t *value = find(file, object, key, false, &rc, err);
    if (!value)
        return rc;
    if (!json_is_boolean(value))
        return wrong(file, key, "true or false", err);
    *out = json_is_true(value);
    return HEARTH_OK;
}

int hearth_json_str(const struct hearth_json_file *file, const json_t *object, const char *key, bool required,
                    const char **out, struct hearth_error *err)
{
    int rc;
    const json_t *value = find(file, object, key, required, &rc, err);
    if (!value)
        return rc;
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
        return wrong(file, key, "a text without zero bytes", err);
    *out = json_string_value(value);
    return HEARTH_OK;
}

bool hearth_json_is(const json_t *value, const char *text)
{
    return json_is_string(value) && json_string_length(value) == strlen(text) &&
           !memcmp(json_string_value(value), text, strlen(text));
}

struct hearth_str hearth_json_bytes(const json_t *text)
{
    return (struct hearth_str){json_string_value(text), json_string_length(text)};
}
