// SPDX-License-Identifier: MIT
// Growing text.
#include "serve/out.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hearth_out_free(struct hearth_out *out)
{
    free(out->data);
    *out = (struct hearth_out){0};
}

static bool grow(struct hearth_out *out, size_t n)
{
    if (out->failed || n <= out->cap - out->n)
        return !out->failed;
    size_t cap = out->cap ? out->cap : 256;
    while (cap - out->n < n && cap <= SIZE_MAX / 2)
        cap *= 2;
    char *grown = cap - out->n < n ? NULL : realloc(out->data, cap);
    out->failed = !grown;
    if (grown) {
        out->data = grown;
        out->cap = cap;
    }
    return grown != NULL;
}

void hearth_out_add(struct hearth_out *out, const void *data, size_t n)
{
    if (!n || !grow(out, n))
        return;
    memcpy(out->data + out->n, data, n);
    out->n += n;
}

void hearth_out_text(struct hearth_out *out, const char *text)
{
    hearth_out_add(out, text, strlen(text));
}

void hearth_out_printf(struct hearth_out *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0 || !grow(out, (size_t)n + 1)) {
        out->failed = true;
        return;
    }
    va_start(args, fmt);
    vsnprintf(out->data + out->n, (size_t)n + 1, fmt, args);
    va_end(args);
    out->n += (size_t)n;
}

void hearth_out_drop(struct hearth_out *out, size_t n)
{
    if (n)
        memmove(out->data, out->data + n, out->n - n);
    out->n -= n;
}

int hearth_out_take(const char *data, size_t n, void *out)
{
    hearth_out_add(out, data, n);
    return ((struct hearth_out *)out)->failed ? -1 : 0;
}

static void add_json(struct hearth_out *out, json_t *value, size_t digits)
{
    const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits);
    if (!value || json_dump_callback(value, hearth_out_take, out, flags))
        out->failed = true;
    json_decref(value);
}

void hearth_out_json(struct hearth_out *out, json_t *value)
{
    add_json(out, value, 9);
}

void hearth_out_exact(struct hearth_out *out, json_t *value)
{
    add_json(out, value, 17);
}

void hearth_out_open(struct hearth_out *out, json_t *object)
{
    hearth_out_json(out, object);
    out->n -= !out->failed;
}

void hearth_out_event(struct hearth_out *out, const char *name, json_t *value)
{
    if (name)
        hearth_out_printf(out, "event: %s\n", name);
    hearth_out_text(out, "data: ");
    hearth_out_json(out, value);
    hearth_out_text(out, "\n\n");
}
