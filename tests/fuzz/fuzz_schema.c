// SPDX-License-Identifier: MIT
// Fuzz target: a schema, then, behind a zero byte, a text. Converting must end in an error with a message or
// in a grammar that compiles, unless it is too large or a schema is just itself; what it accepts is JSON.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "hearth.h"
#include "schema/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "broken promise: %s\n", #x);                                                     \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *schema = (const char *)data;
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    const size_t n = zero ? (size_t)(zero - data) : size, n_text = zero ? size - n - 1 : 0;
    struct hearth_error err = {0};
    struct hearth_grammar *g;
    char *gbnf;
    if (hearth_schema_to_gbnf(&gbnf, schema, n, &err)) {
        CHECK(!gbnf && err.message[0]);
        return 0;
    }
    if (hearth_grammar_open(&g, NULL, gbnf, strlen(gbnf), &err)) {
        CHECK(strstr(err.message, "left recursion") || strstr(err.message, "too large") ||
              strstr(err.message, "100000") || strstr(err.message, "more ways") ||
              strstr(err.message, "bytes"));
        free(gbnf);
        return 0;
    }
    free(gbnf);
    if (zero && hearth_grammar_matches(g, schema + n + 1, n_text)) {
        json_t *document = json_loadb(schema + n + 1, n_text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        CHECK(document);
        json_decref(document);
    }
    hearth_grammar_close(&g);
    return 0;
}
