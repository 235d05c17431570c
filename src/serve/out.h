// SPDX-License-Identifier: MIT
// Growing text: what is read from clients and written to them.
#ifndef HEARTH_SERVE_OUT_H
#define HEARTH_SERVE_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

// Zeros at first. When memory runs out, `failed` stays set and nothing more is added.
struct hearth_out {
    char *data;
    size_t n, cap;
    bool failed;
};

void hearth_out_free(struct hearth_out *out);
void hearth_out_add(struct hearth_out *out, const void *data, size_t n);
void hearth_out_text(struct hearth_out *out, const char *text); // up to its zero
void hearth_out_printf(struct hearth_out *out, const char *fmt, ...) HEARTH_PRINTF(2, 3);
// Forgets the first n bytes.
void hearth_out_drop(struct hearth_out *out, size_t n);

// The same as hearth_out_add(), for json_dump_callback().
int hearth_out_take(const char *data, size_t n, void *out);

// Adds a value on one line, and releases it; NULL, when building it failed, makes `out` fail.
void hearth_out_json(struct hearth_out *out, json_t *value);
// The same with all digits of real numbers; hearth_out_json() has those of floats.
void hearth_out_exact(struct hearth_out *out, json_t *value);
// Adds an object but its last brace, so that more members may follow.
void hearth_out_open(struct hearth_out *out, json_t *object);
// The same as hearth_out_json() as a server-sent event, with its name, or none (NULL).
void hearth_out_event(struct hearth_out *out, const char *name, json_t *value);

#endif
