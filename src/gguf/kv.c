// SPDX-License-Identifier: MIT
// Look-ups in an open GGUF: keys, typed values, tensors by name.
#include <stdlib.h>
#include <string.h>

#include "gguf/internal.h"

size_t hearth_gguf_type_size(enum hearth_gguf_type type)
{
    switch (type) {
    case HEARTH_GGUF_U8:
    case HEARTH_GGUF_I8:
    case HEARTH_GGUF_BOOL:
        return 1;
    case HEARTH_GGUF_U16:
    case HEARTH_GGUF_I16:
        return 2;
    case HEARTH_GGUF_U32:
    case HEARTH_GGUF_I32:
    case HEARTH_GGUF_F32:
        return 4;
    case HEARTH_GGUF_U64:
    case HEARTH_GGUF_I64:
    case HEARTH_GGUF_F64:
        return 8;
    case HEARTH_GGUF_STRING:
    case HEARTH_GGUF_ARRAY:
        break;
    }
    return 0;
}

// ---- names

int hearth_str_compare(struct hearth_str a, struct hearth_str b)
{
    int order = memcmp(a.s, b.s, a.n < b.n ? a.n : b.n);
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

const char *hearth_str_show(struct hearth_str s, struct hearth_shown *buf)
{
    size_t room = sizeof buf->text - 4, n = s.n < room ? s.n : room;
    for (size_t i = 0; i < n; i++)
        buf->text[i] = s.s[i] >= ' ' && s.s[i] <= '~' ? s.s[i] : '?';
    strcpy(buf->text + n, n < s.n ? "..." : "");
    return buf->text;
}

static int compare_kv(const void *a, const void *b)
{
    const struct hearth_gguf_kv *const *x = a, *const *y = b;
    return hearth_str_compare((*x)->key, (*y)->key);
}

static int compare_tensors(const void *a, const void *b)
{
    const struct hearth_gguf_tensor *const *x = a, *const *y = b;
    return hearth_str_compare((*x)->name, (*y)->name);
}

const struct hearth_gguf_kv *hearth_gguf_sort_kv(const struct hearth_gguf_kv **index, size_t n)
{
    if (n > 0)
        qsort(index, n, sizeof *index, compare_kv);
    for (size_t i = 1; i < n; i++)
        if (hearth_str_compare(index[i - 1]->key, index[i]->key) == 0)
            return index[i];
    return NULL;
}

const struct hearth_gguf_tensor *hearth_gguf_sort_tensors(const struct hearth_gguf_tensor **index, size_t n)
{
    if (n > 0)
        qsort(index, n, sizeof *index, compare_tensors);
    for (size_t i = 1; i < n; i++)
        if (hearth_str_compare(index[i - 1]->name, index[i]->name) == 0)
            return index[i];
    return NULL;
}

const struct hearth_gguf_kv *hearth_gguf_find(const struct hearth_gguf *g, const char *key)
{
    const struct hearth_str wanted = {key, strlen(key)};
    size_t low = 0, high = (size_t)g->n_kv;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = hearth_str_compare(g->kv_index[middle]->key, wanted);
        if (order == 0)
            return g->kv_index[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct hearth_gguf_tensor *hearth_gguf_tensor(const struct hearth_gguf *g, const char *name)
{
    const struct hearth_str wanted = {name, strlen(name)};
    size_t low = 0, high = (size_t)g->n_tensors;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = hearth_str_compare(g->tensor_index[middle]->name, wanted);
        if (order == 0)
            return g->tensor_index[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

// ---- numbers

static uint64_t load(const struct hearth_gguf_kv *kv, uint64_t i)
{
    size_t size = hearth_gguf_type_size(kv->element);
    const uint8_t *p = kv->data + i * size;
    uint64_t v = 0;
    for (size_t b = 0; b < size; b++)
        v |= (uint64_t)p[b] << (8 * b);
    return v;
}

static double load_float(const struct hearth_gguf_kv *kv, uint64_t i)
{
    uint64_t bits = load(kv, i);
    if (kv->element == HEARTH_GGUF_F64) {
        double v;
        memcpy(&v, &bits, sizeof v);
        return v;
    }
    uint32_t bits32 = (uint32_t)bits;
    float v;
    memcpy(&v, &bits32, sizeof v);
    return (double)v;
}

static bool is_float(const struct hearth_gguf_kv *kv)
{
    return kv->element == HEARTH_GGUF_F32 || kv->element == HEARTH_GGUF_F64;
}

// The sign of an integer; -1: below zero.
static int sign(const struct hearth_gguf_kv *kv, uint64_t i)
{
    uint64_t v = load(kv, i);
    switch (kv->element) {
    case HEARTH_GGUF_I8:
        return (v & 0x80) ? -1 : 1;
    case HEARTH_GGUF_I16:
        return (v & 0x8000) ? -1 : 1;
    case HEARTH_GGUF_I32:
        return (v & 0x80000000u) ? -1 : 1;
    case HEARTH_GGUF_I64:
        return v >> 63 ? -1 : 1;
    default:
        return 1;
    }
}

int64_t hearth_gguf_kv_i64(const struct hearth_gguf_kv *kv, uint64_t i)
{
    if (!kv->data)
        return 0;
    if (is_float(kv)) {
        double v = load_float(kv, i);
        if (!(v > -0x1p63))
            return v != v ? 0 : INT64_MIN;
        return v < 0x1p63 ? (int64_t)v : INT64_MAX;
    }
    uint64_t v = load(kv, i);
    if (sign(kv, i) > 0)
        return v > INT64_MAX ? INT64_MAX : (int64_t)v;
    // Extends the sign of the number into the bits above it.
    unsigned unused = 64 - 8 * (unsigned)hearth_gguf_type_size(kv->element);
    uint64_t magnitude = ~(v | (unused ? ~UINT64_C(0) << (64 - unused) : 0));
    return -(int64_t)magnitude - 1;
}

uint64_t hearth_gguf_kv_u64(const struct hearth_gguf_kv *kv, uint64_t i)
{
    int64_t v = hearth_gguf_kv_i64(kv, i);
    if (kv->data && kv->element == HEARTH_GGUF_U64)
        return load(kv, i);
    return v > 0 ? (uint64_t)v : 0;
}

double hearth_gguf_kv_f64(const struct hearth_gguf_kv *kv, uint64_t i)
{
    if (!kv->data)
        return 0;
    if (is_float(kv))
        return load_float(kv, i);
    return sign(kv, i) > 0 ? (double)load(kv, i) : (double)hearth_gguf_kv_i64(kv, i);
}

// ---- typed look-ups

static const char *type_name(enum hearth_gguf_type type)
{
    static const char *const names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
    return (size_t)type < sizeof names / sizeof *names ? names[type] : "unknown";
}

// *out stays NULL when the key is absent and not required.
static int look_up(const struct hearth_gguf *g, const char *key, bool required,
                   const struct hearth_gguf_kv **out, struct hearth_error *err)
{
    *out = hearth_gguf_find(g, key);
    if (!*out && required)
        return hearth_fail(err, HEARTH_E_FORMAT,
                           "%s: the key %s is missing: the file is incomplete or not a model", g->path, key);
    return HEARTH_OK;
}

static int fail_type(const struct hearth_gguf *g, const struct hearth_gguf_kv *kv, const char *wanted,
                     struct hearth_error *err)
{
    struct hearth_shown shown;
    return hearth_fail(err, HEARTH_E_FORMAT, "%s: the key %s is of type %s where %s is expected", g->path,
                       hearth_str_show(kv->key, &shown), type_name(kv->type), wanted);
}

static int look_up_integer(const struct hearth_gguf *g, const char *key, bool required, uint64_t max,
                           uint64_t *out, bool *found, struct hearth_error *err)
{
    const struct hearth_gguf_kv *kv;
    int rc = look_up(g, key, required, &kv, err);
    *found = kv != NULL;
    if (rc || !kv)
        return rc;
    if (!kv->data || kv->type == HEARTH_GGUF_ARRAY || is_float(kv) || kv->type == HEARTH_GGUF_BOOL)
        return fail_type(g, kv, "an integer", err);
    uint64_t v = load(kv, 0);
    if (sign(kv, 0) < 0 || v > max)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: the key %s is %.0f, which is out of range", g->path,
                           key, hearth_gguf_kv_f64(kv, 0));
    *out = v;
    return HEARTH_OK;
}

int hearth_gguf_u32(const struct hearth_gguf *g, const char *key, bool required, uint32_t *out,
                    struct hearth_error *err)
{
    uint64_t v = 0;
    bool found;
    int rc = look_up_integer(g, key, required, UINT32_MAX, &v, &found, err);
    if (!rc && found)
        *out = (uint32_t)v;
    return rc;
}

int hearth_gguf_u32_of_layers(const struct hearth_gguf *g, const char *key, bool required, uint32_t *out,
                              struct hearth_error *err)
{
    const struct hearth_gguf_kv *kv = hearth_gguf_find(g, key);
    if (!kv || kv->type != HEARTH_GGUF_ARRAY || !kv->data || !kv->count || kv->element == HEARTH_GGUF_BOOL ||
        kv->element == HEARTH_GGUF_F32 || kv->element == HEARTH_GGUF_F64)
        return hearth_gguf_u32(g, key, required, out, err);
    const int64_t first = hearth_gguf_kv_i64(kv, 0);
    for (uint64_t i = 1; i < kv->count; i++)
        if (hearth_gguf_kv_i64(kv, i) != first)
            return hearth_fail(
                err, HEARTH_E_UNSUPPORTED,
                "%s: %s differs by layer (%lld in the first, %lld in layer %llu), which is not supported",
                g->path, key, (long long)first, (long long)hearth_gguf_kv_i64(kv, i), (unsigned long long)i);
    if (first < 0 || first > UINT32_MAX)
        return fail_type(g, kv, "an array of numbers from 0 to 4294967295", err);
    *out = (uint32_t)first;
    return HEARTH_OK;
}

int hearth_gguf_u64(const struct hearth_gguf *g, const char *key, bool required, uint64_t *out,
                    struct hearth_error *err)
{
    uint64_t v = 0;
    bool found;
    int rc = look_up_integer(g, key, required, UINT64_MAX, &v, &found, err);
    if (!rc && found)
        *out = v;
    return rc;
}

int hearth_gguf_f32(const struct hearth_gguf *g, const char *key, bool required, float *out,
                    struct hearth_error *err)
{
    const struct hearth_gguf_kv *kv;
    int rc = look_up(g, key, required, &kv, err);
    if (rc || !kv)
        return rc;
    if (!kv->data || kv->type == HEARTH_GGUF_ARRAY || kv->type == HEARTH_GGUF_BOOL)
        return fail_type(g, kv, "a number", err);
    *out = (float)hearth_gguf_kv_f64(kv, 0);
    return HEARTH_OK;
}

int hearth_gguf_bool(const struct hearth_gguf *g, const char *key, bool required, bool *out,
                     struct hearth_error *err)
{
    const struct hearth_gguf_kv *kv;
    int rc = look_up(g, key, required, &kv, err);
    if (rc || !kv)
        return rc;
    if (kv->type != HEARTH_GGUF_BOOL)
        return fail_type(g, kv, "bool", err);
    *out = kv->data[0] != 0;
    return HEARTH_OK;
}

int hearth_gguf_str(const struct hearth_gguf *g, const char *key, bool required, struct hearth_str *out,
                    struct hearth_error *err)
{
    const struct hearth_gguf_kv *kv;
    int rc = look_up(g, key, required, &kv, err);
    if (rc || !kv)
        return rc;
    if (kv->type != HEARTH_GGUF_STRING)
        return fail_type(g, kv, "a string", err);
    *out = kv->strings[0];
    return HEARTH_OK;
}
