// SPDX-License-Identifier: MIT
#include "calls/fields.h"

#include <stdlib.h>
#include <string.h>

#include "calls/scan.h"
#include "schema/text.h"

const json_t *hearth_call_function(const json_t *tool)
{
    const json_t *function = json_object_get(tool, "function");
    const json_t *found = function ? function : tool;
    return json_is_string(json_object_get(found, "name")) ? found : NULL;
}

const json_t *hearth_call_parameters(const json_t *tools, const char *name, size_t n)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = hearth_call_function(json_array_get(tools, i));
        const char *is = json_string_value(json_object_get(function, "name"));
        if (is && strlen(is) == n && !memcmp(is, name, n))
            return json_object_get(function, "parameters");
    }
    return NULL;
}

bool hearth_call_is_text(const json_t *schema)
{
    const char *type = json_string_value(json_object_get(schema, "type"));
    const json_t *values = json_object_get(schema, "enum");
    bool texts = json_array_size(values) > 0;
    for (size_t i = 0; i < json_array_size(values); i++)
        texts &= json_is_string(json_array_get(values, i));
    return type ? !strcmp(type, "string") : texts;
}

void hearth_call_add_json(struct hearth_text *t, const json_t *value)
{
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    if (text)
        hearth_text_add(t, text);
    else
        t->failed = true;
    free(text);
}

static void add_and_release(struct hearth_text *t, json_t *value)
{
    hearth_call_add_json(t, value);
    json_decref(value);
}

// A text is cut at what is no UTF-8, which JSON cannot hold.
static json_t *text_value(const char *s, size_t n)
{
    json_t *value = json_stringn(s, n);
    while (!value && n)
        value = json_stringn(s, --n);
    return value;
}

char *hearth_call_member(const json_t *parameters, const char *name, size_t n_name, const char *value,
                         size_t n_value)
{
    struct hearth_text t = {0};
    const json_t *properties = json_object_get(parameters, "properties");
    char *key = strndup(name, n_name);
    const json_t *schema = key ? json_object_get(properties, key) : NULL;
    json_t *read = hearth_call_is_text(schema)
                       ? NULL
                       : json_loadb(value, n_value, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    free(key);
    add_and_release(&t, text_value(name, n_name));
    hearth_text_add(&t, ": ");
    const size_t blank = hearth_call_skip(value, n_value, 0);
    if (read) // as it was written: numbers keep their digits
        hearth_text_add_n(&t, value + blank, n_value - blank);
    else
        add_and_release(&t, text_value(value, n_value));
    json_decref(read);
    if (!t.failed)
        return t.s;
    hearth_text_free(&t);
    return NULL;
}
