// SPDX-License-Identifier: MIT
// For the command-line tests: prints one value of a JSON file. json_get FILE PATH, where PATH is made of keys
// and indices joined by "/"; "." is the whole value. Containers print their size. Exit status 1: not JSON, or
// no such value.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *child(const json_t *value, const char *step)
{
    if (json_is_array(value))
        return json_array_get(value, strtoul(step, NULL, 10));
    return json_object_get(value, step);
}

static int print_value(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        printf("%zu\n", json_object_size(value));
        break;
    case JSON_ARRAY:
        printf("%zu\n", json_array_size(value));
        break;
    case JSON_STRING:
        printf("%s\n", json_string_value(value));
        break;
    default: {
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        if (!text)
            return 1;
        printf("%s\n", text);
        free(text);
    }
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    json_error_t error;
    json_t *root = json_load_file(argv[1], JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    if (!root) {
        fprintf(stderr, "%s:%d: %s\n", argv[1], error.line, error.text);
        return 1;
    }
    const json_t *value = root;
    if (strcmp(argv[2], ".") != 0)
        for (char *step = strtok(argv[2], "/"); step && value; step = strtok(NULL, "/"))
            value = child(value, step);
    int rc = value ? print_value(value) : 1;
    json_decref(root);
    return rc;
}
