// SPDX-License-Identifier: MIT
// --lora FILE,..., --lora-scaled FILE:SCALE,... and --override-kv KEY=TYPE:VALUE,...: as llama.cpp has them, any
// number of times.
#include "cli/adapters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/common.h"

// Bytes of all values, and how many adapters they name.
static size_t measure(const struct hearth_string_list *values, size_t *n)
{
    size_t bytes = 0;
    for (int i = 0; i < values->n; i++) {
        bytes += strlen(values->values[i]) + 1;
        ++*n;
        for (const char *c = values->values[i]; *c; c++)
            *n += *c == ',';
    }
    return bytes;
}

// Takes ":SCALE" off a name. False: there is no finite number.
static bool cut_scale(char *name, float *scale)
{
    char *colon = strrchr(name, ':'), *end = NULL;
    if (!colon || !colon[1] || colon == name)
        return false;
    const double value = strtod(colon + 1, &end);
    *colon = '\0';
    *scale = (float)value;
    return !*end && isfinite(*scale);
}

// Appends the adapters of a value, which is copied to *text.
static int take(struct hearth_cli_adapters *a, char **text, const char *value, bool scaled)
{
    char *names = *text, *next;
    const size_t n = strlen(value) + 1;
    memcpy(names, value, n);
    *text += n;
    for (; names; names = next) {
        next = strchr(names, ',');
        if (next)
            *next++ = '\0';
        float scale = 1.0f;
        if (scaled && !cut_scale(names, &scale))
            return hearth_cli_usage(NULL, "--lora-scaled %s: must be FILE:SCALE, with a finite number",
                                    value);
        if (!*names)
            return hearth_cli_usage(NULL, "--lora%s %s: must be names of files with commas between them",
                                    scaled ? "-scaled" : "", value);
        a->list[a->n++] = (struct hearth_adapter){names, scale};
    }
    return HEARTH_EXIT_OK;
}

int hearth_cli_adapters_read(struct hearth_cli_adapters *a, const struct hearth_options *o)
{
    size_t n = 0;
    const size_t bytes = measure(&o->lora, &n) + measure(&o->lora_scaled, &n);
    *a = (struct hearth_cli_adapters){0};
    if (!n)
        return HEARTH_EXIT_OK;
    a->list = hearth_calloc(n, sizeof *a->list);
    a->text = malloc(bytes);
    if (!a->list || !a->text)
        return hearth_cli_error("no memory for the names of adapters");
    char *text = a->text;
    int status = HEARTH_EXIT_OK;
    for (int i = 0; i < o->lora.n && !status; i++)
        status = take(a, &text, o->lora.values[i], false);
    for (int i = 0; i < o->lora_scaled.n && !status; i++)
        status = take(a, &text, o->lora_scaled.values[i], true);
    return status;
}

void hearth_cli_adapters_close(struct hearth_cli_adapters *a)
{
    free(a->list);
    free(a->text);
    *a = (struct hearth_cli_adapters){0};
}

// ---- metadata

// Whether a text begins with KEY=TYPE: where a comma stands before it, it is an override of its own, and else a part
// of the one before.
static bool begins_override(const char *text)
{
    static const char *const types[] = {"int:", "float:", "bool:", "str:"};
    const size_t n = strcspn(text, "=,");
    for (size_t i = 0; text[n] == '=' && i < sizeof types / sizeof *types; i++)
        if (n && !strncmp(text + n + 1, types[i], strlen(types[i])))
            return true;
    return false;
}

int hearth_cli_overrides_read(struct hearth_cli_overrides *v, const struct hearth_options *o)
{
    size_t n = 0;
    const size_t bytes = measure(&o->override_kv, &n);
    *v = (struct hearth_cli_overrides){0};
    if (!n)
        return HEARTH_EXIT_OK;
    v->list = hearth_calloc(n, sizeof *v->list);
    v->text = malloc(bytes);
    if (!v->list || !v->text)
        return hearth_cli_error("no memory for --override-kv");
    char *text = v->text;
    for (int i = 0; i < o->override_kv.n; i++) {
        const size_t length = strlen(o->override_kv.values[i]) + 1;
        memcpy(text, o->override_kv.values[i], length);
        v->list[v->n++] = text;
        for (char *c = text; *c; c++)
            if (*c == ',' && begins_override(c + 1)) {
                *c = '\0';
                v->list[v->n++] = c + 1;
            }
        text += length;
    }
    return HEARTH_EXIT_OK;
}

void hearth_cli_overrides_close(struct hearth_cli_overrides *v)
{
    free(v->list);
    free(v->text);
    *v = (struct hearth_cli_overrides){0};
}
