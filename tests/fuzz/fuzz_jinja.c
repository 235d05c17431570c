// SPDX-License-Identifier: MIT
// Fuzz target: a chat template is read and rendered. Input: the template, a zero, a JSON text of its variables. Either
// ends in an error with a message, or in a text each byte of which has an origin; templates that read no data give a
// text that has none.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "broken promise: %s\n", #x);                                                     \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

struct input {
    const char *json;
    size_t n;
};

static void fill(struct jinja *j, struct jinja_dict *variables, void *arg)
{
    const struct input *in = arg;
    if (!in->n)
        return;
    const struct jinja_value v = hearth_jinja_read_json(j, in->json, in->n, "variables", JINJA_DATA);
    if (v.type == JINJA_DICT)
        *variables = *v.u.dict;
}

static void render(const struct hearth_jinja *t, struct input in)
{
    struct jinja j = {.limit = (size_t)2 << 20, .max_steps = 100000};
    struct hearth_error err = {0};
    const struct jinja_string *out;
    const int rc = hearth_jinja_render(&j, t, fill, &in, &out, &err);
    CHECK(rc == 0 ? out != NULL : err.code == rc && err.message[0]);
    for (size_t i = 0; !rc && i < out->n; i++) {
        const uint8_t origin = out->marks ? out->marks[i] : out->origin;
        CHECK(origin == JINJA_TEMPLATE || (origin == JINJA_DATA && in.n));
    }
    hearth_jinja_free(&j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *zero = size ? memchr(text, '\0', size) : NULL;
    const size_t n = zero ? (size_t)(zero - text) : size;
    const struct input in = {zero ? zero + 1 : "", zero ? size - n - 1 : 0};
    struct hearth_error err = {0};
    struct hearth_jinja *t;
    const int rc = hearth_jinja_open(&t, text, n, &err);
    CHECK(rc == 0 ? t != NULL : !t && err.code == rc && err.message[0]);
    if (rc)
        return 0;
    render(t, in);
    render(t, (struct input){"", 0});
    hearth_jinja_close(&t);
    return 0;
}
