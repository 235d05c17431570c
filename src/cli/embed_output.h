// SPDX-License-Identifier: MIT
// How hearth embed prints embeddings.
#ifndef HEARTH_CLI_EMBED_OUTPUT_H
#define HEARTH_CLI_EMBED_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

// The choices of --embd-output-format, in their order.
enum { HEARTH_EMBED_TEXT, HEARTH_EMBED_ARRAY, HEARTH_EMBED_JSON, HEARTH_EMBED_JSON_PLUS, HEARTH_EMBED_RAW };

struct hearth_embed_name { // the beginning of a text
    const char *text;
    size_t n;
};

struct hearth_embed_output {
    int format;
    int normalize;     // as in --embd-normalize: with 0 the numbers are those of integers
    const float *rows; // [n_rows x width]
    size_t n_rows, width;
    bool pools;                            // a row is a text; else a token
    const struct hearth_embed_name *names; // [n_rows] of texts; unused where a row is a token
};

// False: writing failed.
bool hearth_embed_print(const struct hearth_embed_output *o, FILE *to);

#endif
