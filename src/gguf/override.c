// SPDX-License-Identifier: MIT
// Metadata that somebody wants otherwise than the file has it: "KEY=TYPE:VALUE", as llama.cpp writes it.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/memory.h"
#include "gguf/internal.h"

struct hearth_gguf_override {
    struct hearth_gguf_override *next;
    uint8_t number[8];
    struct hearth_str string;
    size_t n; // bytes of the text
    char text[];
};

// What a text says; key and value point into it.
struct wish {
    const char *text;
    struct hearth_str key;
    enum hearth_gguf_type type; // I64, F64, BOOL or STRING
    const char *value;
};

static int bad(const struct wish *w, const char *what, struct hearth_error *err)
{
    return hearth_fail_param(
        err, HEARTH_E_INVALID, "overrides",
        "the override %.200s %s: KEY=TYPE:VALUE is wanted, with the types int, float, bool "
        "and str",
        w->text, what);
}

static int take_apart(struct wish *w, struct hearth_error *err)
{
    static const struct {
        const char *name;
        enum hearth_gguf_type type;
    } types[] = {{"int:", HEARTH_GGUF_I64},
                 {"float:", HEARTH_GGUF_F64},
                 {"bool:", HEARTH_GGUF_BOOL},
                 {"str:", HEARTH_GGUF_STRING}};
    const char *equals = strchr(w->text, '=');
    if (!equals || equals == w->text || equals - w->text > HEARTH_GGUF_KEY_MAX)
        return bad(w, "has no key", err);
    w->key = (struct hearth_str){w->text, (size_t)(equals - w->text)};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strncmp(equals + 1, types[i].name, strlen(types[i].name))) {
            w->type = types[i].type;
            w->value = equals + 1 + strlen(types[i].name);
            return HEARTH_OK;
        }
    return bad(w, "has no type", err);
}

// Whether a key of this type takes such a value.
static bool fits(enum hearth_gguf_type has, enum hearth_gguf_type wish)
{
    const bool real = has == HEARTH_GGUF_F32 || has == HEARTH_GGUF_F64;
    if (wish == HEARTH_GGUF_F64 || has == HEARTH_GGUF_STRING || has == HEARTH_GGUF_BOOL ||
        has == HEARTH_GGUF_ARRAY)
        return wish == HEARTH_GGUF_F64 ? real : has == wish;
    return wish == HEARTH_GGUF_I64 && !real;
}

// Bits of a signed or an unsigned integer of so many bytes hold the value.
static bool in_range(int64_t value, enum hearth_gguf_type type)
{
    const unsigned bits = 8 * (unsigned)hearth_gguf_type_size(type);
    const bool is_signed = type == HEARTH_GGUF_I8 || type == HEARTH_GGUF_I16 || type == HEARTH_GGUF_I32 ||
                           type == HEARTH_GGUF_I64;
    if (is_signed)
        return bits == 64 || (value >= -(INT64_C(1) << (bits - 1)) && value < INT64_C(1) << (bits - 1));
    return value >= 0 && (bits == 64 || value < INT64_C(1) << bits);
}

static int read_number(const struct wish *w, enum hearth_gguf_type type, uint8_t *out,
                       struct hearth_error *err)
{
    char *end = NULL;
    errno = 0;
    if (w->type == HEARTH_GGUF_I64) {
        const long long value = strtoll(w->value, &end, 10);
        if (end == w->value || *end || errno || !in_range(value, type))
            return bad(w, "has no integer that the key can hold", err);
        memcpy(out, &value, sizeof value); // little-endian, as files are
    } else if (w->type == HEARTH_GGUF_F64) {
        const double value = strtod(w->value, &end);
        const float narrow = (float)value;
        if (end == w->value || *end || !isfinite(narrow))
            return bad(w, "has no finite number", err);
        if (type == HEARTH_GGUF_F32)
            memcpy(out, &narrow, sizeof narrow);
        else
            memcpy(out, &value, sizeof value);
    } else {
        out[0] = !strcmp(w->value, "true");
        if (!out[0] && strcmp(w->value, "false") != 0)
            return bad(w, "is neither true nor false", err);
    }
    return HEARTH_OK;
}

// A new entry at the end of the list. NULL: no memory.
static struct hearth_gguf_kv *add_entry(struct hearth_gguf *g)
{
    const size_t n = (size_t)g->n_kv + 1;
    struct hearth_gguf_kv *kv = hearth_reallocarray(g->kv, n, sizeof *kv);
    if (!kv)
        return NULL;
    g->kv = kv;
    g->cap_kv = n;
    const struct hearth_gguf_kv **index = hearth_reallocarray(g->kv_index, n, sizeof *index);
    if (!index) { // the entries may have moved
        for (size_t i = 0; i < n - 1; i++)
            g->kv_index[i] = &kv[i];
        hearth_gguf_sort_kv(g->kv_index, n - 1);
        return NULL;
    }
    g->kv_index = index;
    kv[n - 1] = (struct hearth_gguf_kv){.count = 1};
    return &kv[n - 1];
}

static void sort_entries(struct hearth_gguf *g)
{
    for (size_t i = 0; i < (size_t)g->n_kv; i++)
        g->kv_index[i] = &g->kv[i];
    hearth_gguf_sort_kv(g->kv_index, (size_t)g->n_kv);
}

static struct hearth_gguf_kv *entry_of(struct hearth_gguf *g, struct hearth_str key)
{
    for (uint64_t i = 0; i < g->n_kv; i++)
        if (!hearth_str_compare(g->kv[i].key, key))
            return &g->kv[i];
    return NULL;
}

int hearth_gguf_override(struct hearth_gguf *g, const char *text, struct hearth_error *err)
{
    struct wish w = {.text = text};
    int rc = take_apart(&w, err);
    if (rc)
        return rc;
    struct hearth_gguf_kv *kv = entry_of(g, w.key);
    if (kv && !fits(kv->type, w.type))
        return bad(&w, "is of another type than the key in the file", err);
    const size_t n = strlen(text);
    struct hearth_gguf_override *o = malloc(sizeof *o + n + 1);
    if (!o)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for an override of metadata");
    *o = (struct hearth_gguf_override){.next = g->overrides, .n = n};
    memcpy(o->text, text, n + 1);
    const enum hearth_gguf_type type = kv ? kv->type : w.type;
    if (type != HEARTH_GGUF_STRING)
        rc = read_number(&w, type, o->number, err);
    const bool is_new = !kv;
    if (!rc && is_new && !(kv = add_entry(g)))
        rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory for an override of metadata");
    if (rc) {
        free(o);
        return rc;
    }
    g->overrides = o;
    const char *value = o->text + (w.value - text);
    o->string = (struct hearth_str){value, strlen(value)};
    const struct hearth_str key = is_new ? (struct hearth_str){o->text, w.key.n} : kv->key;
    *kv = (struct hearth_gguf_kv){.key = key, .type = type, .element = type, .count = 1};
    if (type == HEARTH_GGUF_STRING)
        kv->strings = &o->string;
    else
        kv->data = o->number;
    g->n_kv += is_new;
    sort_entries(g);
    return HEARTH_OK;
}

uint32_t hearth_gguf_overrides_crc(const struct hearth_gguf *g)
{
    uint32_t crc = 0;
    for (const struct hearth_gguf_override *o = g->overrides; o; o = o->next)
        crc = hearth_crc32c(crc, o->text, o->n);
    return crc;
}

uint64_t hearth_gguf_overrides_memory(const struct hearth_gguf *g)
{
    uint64_t bytes = 0;
    for (const struct hearth_gguf_override *o = g->overrides; o; o = o->next)
        bytes += sizeof *o + o->n + 1;
    return bytes;
}

void hearth_gguf_overrides_close(struct hearth_gguf *g)
{
    while (g->overrides) {
        struct hearth_gguf_override *next = g->overrides->next;
        free(g->overrides);
        g->overrides = next;
    }
}
