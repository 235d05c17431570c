// SPDX-License-Identifier: MIT
// How hearth embed prints embeddings: for people as llama-embedding does, else with digits that give the bits back.
#include "cli/embed_output.h"

#include <math.h>

#include "cli/common.h"

// Numbers of an embedding that are shown where there are several, and at each end of a token's.
#define SHOWN     16
#define TOKEN_END 3

static const float *row_of(const struct hearth_embed_output *o, size_t row)
{
    return o->rows + row * o->width;
}

// ---- likeness

static double cosine(const float *a, const float *b, size_t n)
{
    double dot = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        dot += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    // Of two that are all zeros, as llama.cpp has it.
    return aa > 0 && bb > 0 ? dot / sqrt(aa * bb) : aa == bb ? 1 : 0;
}

// ---- for people

#define HEAD 14 // columns before the first number
#define EACH 10 // columns of a number

// As many numbers as a line of the terminal has room for; where there is none, any.
static size_t numbers_of_line(FILE *to)
{
    const int columns = hearth_terminal_columns(to);
    return !columns ? SIZE_MAX : columns < HEAD + EACH ? 1 : (size_t)(columns - HEAD) / EACH;
}

static void print_numbers(const struct hearth_embed_output *o, const float *x, size_t n, FILE *to)
{
    const size_t most = numbers_of_line(to);
    for (size_t i = 0; i < n; i++) {
        if (i && i % most == 0)
            fprintf(to, "\n%*s", HEAD - 1, "");
        fprintf(to, o->normalize ? " %9.6f" : " %6.0f", (double)x[i]);
    }
}

// At most so many characters of a text, each as one that moves no cursor.
static void print_name(const struct hearth_embed_name *name, int most, FILE *to)
{
    size_t at = 0;
    int n = 0;
    for (; n < most && at < name->n; n++) {
        const size_t size = hearth_cli_character(name->text + at, name->n - at);
        if (size)
            fwrite(name->text + at, 1, size, to);
        else
            fputc(' ', to);
        at += size ? size : 1;
    }
    for (; n < most; n++)
        fputc(' ', to);
}

static void print_matrix(const struct hearth_embed_output *o, FILE *to)
{
    fputs("\ncosine similarity matrix:\n\n", to);
    for (size_t i = 0; i < o->n_rows; i++) {
        print_name(&o->names[i], 6, to);
        fputc(' ', to);
    }
    fputc('\n', to);
    for (size_t i = 0; i < o->n_rows; i++) {
        for (size_t k = 0; k < o->n_rows; k++)
            fprintf(to, "%6.3f ", cosine(row_of(o, i), row_of(o, k), o->width));
        print_name(&o->names[i], 10, to);
        fputc('\n', to);
    }
}

static void print_text(const struct hearth_embed_output *o, FILE *to)
{
    const bool cut = !o->pools && o->width > 2 * TOKEN_END;
    const size_t shown = o->pools && o->n_rows > 1 && o->width > SHOWN ? SHOWN : o->width;
    for (size_t i = 0; i < o->n_rows; i++) {
        fprintf(to, "embedding %zu:", i);
        print_numbers(o, row_of(o, i), cut ? TOKEN_END : shown, to);
        if (cut) {
            fputs("  ...", to);
            print_numbers(o, row_of(o, i) + o->width - TOKEN_END, TOKEN_END, to);
        }
        fputc('\n', to);
    }
    if (o->pools && o->n_rows > 1)
        print_matrix(o, to);
}

// ---- for programs

static void print_number(const struct hearth_embed_output *o, double x, FILE *to)
{
    if (isfinite(x))
        fprintf(to, o->normalize ? "%.9g" : "%.0f", x);
    else
        fputs("null", to);
}

static void print_array(const struct hearth_embed_output *o, size_t row, FILE *to)
{
    for (size_t i = 0; i < o->width; i++) {
        fputc(i ? ',' : '[', to);
        print_number(o, (double)row_of(o, row)[i], to);
    }
    fputc(']', to);
}

static void print_arrays(const struct hearth_embed_output *o, FILE *to)
{
    for (size_t i = 0; i < o->n_rows; i++) {
        fputc(i ? ',' : '[', to);
        print_array(o, i, to);
    }
    fputs("]\n", to);
}

static void print_cosines(const struct hearth_embed_output *o, FILE *to)
{
    fputs(",\n  \"cosineSimilarity\": [\n", to);
    for (size_t i = 0; i < o->n_rows; i++) {
        for (size_t k = 0; k < o->n_rows; k++)
            fprintf(to, "%s%.6f", k ? ", " : "    [", cosine(row_of(o, i), row_of(o, k), o->width));
        fputs(i + 1 < o->n_rows ? "],\n" : "]\n", to);
    }
    fputs("  ]", to);
}

static void print_json(const struct hearth_embed_output *o, FILE *to)
{
    fputs("{\n  \"object\": \"list\",\n  \"data\": [\n", to);
    for (size_t i = 0; i < o->n_rows; i++) {
        fprintf(to, "    {\"object\": \"embedding\", \"index\": %zu, \"embedding\": ", i);
        print_array(o, i, to);
        fputs(i + 1 < o->n_rows ? "},\n" : "}\n", to);
    }
    fputs("  ]", to);
    if (o->format == HEARTH_EMBED_JSON_PLUS && o->n_rows > 1)
        print_cosines(o, to);
    fputs("\n}\n", to);
}

static void print_raw(const struct hearth_embed_output *o, FILE *to)
{
    for (size_t i = 0; i < o->n_rows; i++)
        for (size_t k = 0; k < o->width; k++) {
            print_number(o, (double)row_of(o, i)[k], to);
            fputc(k + 1 < o->width ? ' ' : '\n', to);
        }
}

bool hearth_embed_print(const struct hearth_embed_output *o, FILE *to)
{
    hearth_terminal_message();
    if (o->format == HEARTH_EMBED_TEXT)
        print_text(o, to);
    else if (o->format == HEARTH_EMBED_ARRAY)
        print_arrays(o, to);
    else if (o->format == HEARTH_EMBED_RAW)
        print_raw(o, to);
    else
        print_json(o, to);
    return fflush(to) == 0 && !ferror(to);
}
