// SPDX-License-Identifier: MIT
// JSON files of a checkpoint, read with jansson. They come from outside: sizes, depth and duplicate keys are
// checked, and look-ups name the file and the key.
#ifndef HEARTH_CONVERT_JSON_FILE_H
#define HEARTH_CONVERT_JSON_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "gguf/gguf.h"

// A JSON object and the path that messages name.
struct hearth_json_file {
    char path[4096];
    json_t *root; // an object; NULL: there is no such file
};

// Reads folder/name. An absent file is an error only if `required`; then and after errors root is NULL.
// HEARTH_E_FORMAT: not a JSON object, a key twice, too deep, longer than 256 MiB. HEARTH_E_IO,
// HEARTH_E_MEMORY.
int hearth_json_file_open(struct hearth_json_file *out, const char *folder, const char *name, bool required,
                          struct hearth_error *err);
void hearth_json_file_close(struct hearth_json_file *file);

// The same from memory; `path` is for messages.
int hearth_json_parse(json_t **out, const char *path, const char *text, size_t n, struct hearth_error *err);

// Look-ups in an object (NULL: nothing is there). A key that is absent or null leaves *out as it is and is an
// error only if `required`. HEARTH_E_FORMAT: it has another type or does not fit.
int hearth_json_u32(const struct hearth_json_file *file, const json_t *object, const char *key, bool required,
                    uint32_t *out, struct hearth_error *err);
int hearth_json_f64(const struct hearth_json_file *file, const json_t *object, const char *key, bool required,
                    double *out, struct hearth_error *err);
int hearth_json_bool(const struct hearth_json_file *file, const json_t *object, const char *key, bool *out,
                     struct hearth_error *err);
// The text lives as long as the object.
int hearth_json_str(const struct hearth_json_file *file, const json_t *object, const char *key, bool required,
                    const char **out, struct hearth_error *err);

// Whether the value is this text.
bool hearth_json_is(const json_t *value, const char *text);
// The bytes of a text value.
struct hearth_str hearth_json_bytes(const json_t *text);

#endif
