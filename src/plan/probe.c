// SPDX-License-Identifier: MIT
// Probes as text: one "key = value" a line, '#' begins a comment.
#include "plan/probe.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/os.h"

#define MOST_BYTES 65536 // of a file that may be a probe

enum field_kind { TEXT, REAL, WHOLE, SIZE, WHOLE32 };

static const struct field {
    const char *key;
    enum field_kind kind;
    size_t at;
    double least, most;
    bool needed;
} fields[] = {
    {"name", TEXT, offsetof(struct hearth_probe, name), 0, 0, true},
    {"device", TEXT, offsetof(struct hearth_probe, device), 0, 0, false},
    {"cores", WHOLE, offsetof(struct hearth_probe, cores), 1, 1024, true},
    {"ram_bytes", SIZE, offsetof(struct hearth_probe, ram), 0, 1e15, false},
    {"memory_gb_s", REAL, offsetof(struct hearth_probe, memory_gb_s), 1e-3, 1e6, true},
    {"core_gb_s", REAL, offsetof(struct hearth_probe, core_gb_s), 1e-3, 1e6, true},
    {"request_us", REAL, offsetof(struct hearth_probe, request_us), 0, 1e7, true},
    {"byte_ns", REAL, offsetof(struct hearth_probe, byte_ns), 0, 1e6, true},
    {"sequential_gb_s", REAL, offsetof(struct hearth_probe, sequential_gb_s), 1e-6, 1e6, true},
    {"request_cpu_us", REAL, offsetof(struct hearth_probe, request_cpu_us), 0, 1e6, false},
    {"depth", WHOLE, offsetof(struct hearth_probe, depth), 1, 65536, false},
    {"align_bytes", WHOLE32, offsetof(struct hearth_probe, align), 1, 65536, false},
    {"cpu_share", REAL, offsetof(struct hearth_probe, cpu_share), 0, 1, false},
    {"measured", SIZE, offsetof(struct hearth_probe, measured), 0, 1e12, false},
};
#define FIELDS (sizeof fields / sizeof *fields)

static const struct {
    const char *key; // behind the format's name
    size_t at;
} speeds[] = {
    {"gb_s", offsetof(struct hearth_probe_kernel, gb_s)},
    {"gmac_s", offsetof(struct hearth_probe_kernel, gmac_s)},
    {"prompt_gmac_s", offsetof(struct hearth_probe_kernel, prompt_gmac_s)},
    {"memory_gb_s", offsetof(struct hearth_probe_kernel, memory_gb_s)},
    {"rows_gb_s", offsetof(struct hearth_probe_kernel, rows_gb_s)},
};
#define SPEEDS (sizeof speeds / sizeof *speeds)

const struct hearth_probe_kernel *hearth_probe_kernel_of(const struct hearth_probe *p, uint32_t type)
{
    return type < HEARTH_TYPE_END && p->kernel[type].gb_s > 0 ? &p->kernel[type] : &p->any;
}

static double *speed_at(struct hearth_probe_kernel *k, size_t i)
{
    return (double *)(void *)((char *)k + speeds[i].at);
}

static double speed_of(const struct hearth_probe_kernel *k, size_t i)
{
    return *(const double *)(const void *)((const char *)k + speeds[i].at);
}

// ---- how good a measurement is

// Of the processors' time: with less, other programs were in the way.
#define ENOUGH 0.8

bool hearth_probe_settled(const struct hearth_probe *p)
{
    return p->cpu_share >= ENOUGH && p->request_us > 0;
}

static void lift(double *x, double other)
{
    *x = other > *x ? other : *x;
}

static double of_read(const struct hearth_probe *p, double bytes)
{
    return p->request_us * 1e3 + p->byte_ns * bytes;
}

void hearth_probe_improve(struct hearth_probe *p, const struct hearth_probe *other)
{
    enum { READ = 65536 }; // request and byte are one line, so they go together
    lift(&p->memory_gb_s, other->memory_gb_s);
    lift(&p->core_gb_s, other->core_gb_s);
    lift(&p->sequential_gb_s, other->sequential_gb_s);
    lift(&p->cpu_share, other->cpu_share);
    for (size_t i = 0; i < SPEEDS; i++) {
        lift(speed_at(&p->any, i), speed_of(&other->any, i));
        for (size_t type = 0; type < HEARTH_TYPE_END; type++)
            lift(speed_at(&p->kernel[type], i), speed_of(&other->kernel[type], i));
    }
    if (other->request_us > 0 && of_read(other, READ) < of_read(p, READ)) {
        p->request_us = other->request_us;
        p->byte_ns = other->byte_ns;
        p->request_cpu_us = other->request_cpu_us;
        p->depth = other->depth;
    }
}

// ---- reading

struct line {
    char key[64], value[HEARTH_PROBE_NAME];
    int number;
};

static int refuse(const struct line *l, const char *what, struct hearth_error *err)
{
    return hearth_fail(err, HEARTH_E_FORMAT, "line %d of the probe: %s %s", l->number, l->key, what);
}

// The text between blanks.
static void trim(const char **text, size_t *n)
{
    while (*n && isspace((unsigned char)(*text)[0]))
        (*text)++, (*n)--;
    while (*n && isspace((unsigned char)(*text)[*n - 1]))
        (*n)--;
}

static bool copy(char *out, size_t size, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    if (n >= size)
        return false;
    memcpy(out, text, n);
    out[n] = '\0';
    return true;
}

static int read_number(const struct line *l, double least, double most, double *out, struct hearth_error *err)
{
    char *end;
    *out = hearth_strtod(l->value, &end);
    if (end == l->value || *end || !(*out >= least && *out <= most))
        return hearth_fail(err, HEARTH_E_FORMAT, "line %d of the probe: %s must be a number from %g to %g",
                           l->number, l->key, least, most);
    return HEARTH_OK;
}

static int read_field(struct hearth_probe *p, const struct field *f, const struct line *l,
                      struct hearth_error *err)
{
    char *at = (char *)p + f->at;
    if (f->kind == TEXT) {
        memcpy(at, l->value, strlen(l->value) + 1);
        return *at ? HEARTH_OK : refuse(l, "is empty", err);
    }
    double value;
    const int rc = read_number(l, f->least, f->most, &value, err);
    if (rc)
        return rc;
    if (f->kind == REAL)
        memcpy(at, &value, sizeof value);
    else if (value != floor(value))
        return refuse(l, "must be a whole number", err);
    else if (f->kind == SIZE)
        *(uint64_t *)(void *)at = (uint64_t)value;
    else if (f->kind == WHOLE)
        *(int *)(void *)at = (int)value;
    else
        *(uint32_t *)(void *)at = (uint32_t)value;
    return HEARTH_OK;
}

// "kernel.Q4_0.gb_s", or "kernel.any.gb_s".
static int read_speed(struct hearth_probe *p, const struct line *l, struct hearth_error *err)
{
    const char *type = l->key + sizeof "kernel." - 1, *dot = strchr(type, '.');
    char name[32];
    if (!dot || !copy(name, sizeof name, type, (size_t)(dot - type)))
        return refuse(l, "is not known", err);
    const int number = hearth_type_by_name(name);
    struct hearth_probe_kernel *k = strcasecmp(name, "any") == 0 ? &p->any : NULL;
    if (number >= 0 && number < HEARTH_TYPE_END)
        k = &p->kernel[number];
    for (size_t i = 0; k && i < SPEEDS; i++)
        if (strcmp(dot + 1, speeds[i].key) == 0)
            return read_number(l, 1e-6, 1e6, speed_at(k, i), err);
    return refuse(l, "is not known", err);
}

static int read_line(struct hearth_probe *p, bool *seen, const struct line *l, struct hearth_error *err)
{
    if (strncmp(l->key, "kernel.", 7) == 0)
        return read_speed(p, l, err);
    for (size_t i = 0; i < FIELDS; i++)
        if (strcmp(l->key, fields[i].key) == 0) {
            if (seen[i])
                return refuse(l, "is there twice", err);
            seen[i] = true;
            return read_field(p, &fields[i], l, err);
        }
    double version;
    if (strcmp(l->key, "hearth.probe.version") != 0)
        return refuse(l, "is not known", err);
    return read_number(l, HEARTH_PROBE_VERSION, HEARTH_PROBE_VERSION, &version, err);
}

// Splits a line; false: there is nothing in it.
static int split(const char *text, size_t n, struct line *l, bool *any, struct hearth_error *err)
{
    const char *hash = memchr(text, '#', n);
    n = hash ? (size_t)(hash - text) : n;
    trim(&text, &n);
    *any = n > 0;
    if (!n)
        return HEARTH_OK;
    const char *equals = memchr(text, '=', n);
    const char *key = text, *value = equals ? equals + 1 : text + n;
    size_t key_n = equals ? (size_t)(equals - text) : n, value_n = (size_t)(text + n - value);
    trim(&key, &key_n);
    trim(&value, &value_n);
    if (!equals || !copy(l->key, sizeof l->key, key, key_n) ||
        !copy(l->value, sizeof l->value, value, value_n))
        return hearth_fail(err, HEARTH_E_FORMAT, "line %d of the probe is not \"key = value\"", l->number);
    return HEARTH_OK;
}

// Whether every format has speeds.
static bool has_speeds(const struct hearth_probe_kernel *k)
{
    return k->gb_s > 0 && k->gmac_s > 0 && k->prompt_gmac_s > 0;
}

static int check(const struct hearth_probe *p, const bool *seen, struct hearth_error *err)
{
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].needed && !seen[i])
            return hearth_fail(err, HEARTH_E_FORMAT, "the probe does not say %s", fields[i].key);
    bool whole = has_speeds(&p->any);
    for (int i = 0; i < HEARTH_TYPE_END; i++)
        whole = whole && (p->kernel[i].gb_s <= 0 || has_speeds(&p->kernel[i]));
    if (!whole)
        return hearth_fail(err, HEARTH_E_FORMAT,
                           "the probe does not say gb_s, gmac_s and prompt_gmac_s of kernel.any and of each "
                           "format that it names");
    return HEARTH_OK;
}

int hearth_probe_parse(struct hearth_probe *out, const char *text, size_t n, struct hearth_error *err)
{
    bool seen[FIELDS] = {false};
    struct line l = {.number = 0};
    *out = (struct hearth_probe){.depth = 64, .align = 512};
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        const size_t length = end ? (size_t)(end - text) - at : n - at;
        bool any;
        l.number++;
        int rc = split(text + at, length, &l, &any, err);
        if (!rc && any)
            rc = read_line(out, seen, &l, err);
        if (rc)
            return rc;
        at += length + 1;
    }
    return check(out, seen, err);
}

// ---- writing

struct printer {
    char *text;
    size_t used;
};

static void put(struct printer *p, const char *fmt, ...) HEARTH_PRINTF(2, 3);

static void put(struct printer *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(p->text + p->used, HEARTH_PROBE_TEXT - p->used, fmt, args);
    va_end(args);
    if (n > 0)
        p->used += (size_t)n < HEARTH_PROBE_TEXT - p->used ? (size_t)n : HEARTH_PROBE_TEXT - 1 - p->used;
}

static void put_real(struct printer *p, const char *key, double value)
{
    char text[40];
    hearth_print_number(text, sizeof text, 'g', 6, value);
    put(p, "%s = %s\n", key, text);
}

static void put_field(struct printer *p, const struct hearth_probe *probe, const struct field *f)
{
    const char *at = (const char *)probe + f->at;
    if (f->kind == TEXT && *at)
        put(p, "%s = %s\n", f->key, at);
    else if (f->kind == REAL)
        put_real(p, f->key, *(const double *)(const void *)at);
    else if (f->kind == WHOLE)
        put(p, "%s = %d\n", f->key, *(const int *)(const void *)at);
    else if (f->kind == WHOLE32)
        put(p, "%s = %u\n", f->key, *(const uint32_t *)(const void *)at);
    else if (f->kind == SIZE)
        put(p, "%s = %llu\n", f->key, (unsigned long long)*(const uint64_t *)(const void *)at);
}

static void put_speeds(struct printer *p, const char *name, const struct hearth_probe_kernel *k)
{
    for (size_t i = 0; i < SPEEDS; i++) {
        if (speed_of(k, i) <= 0)
            continue;
        char key[64];
        snprintf(key, sizeof key, "kernel.%s.%s", name, speeds[i].key);
        put_real(p, key, speed_of(k, i));
    }
}

void hearth_probe_print(const struct hearth_probe *probe, char *text)
{
    struct printer p = {text, 0};
    put(&p, "# What a machine can do: hearth plan --machine reads it (docs/formats.md).\n");
    put(&p, "hearth.probe.version = %d\n", HEARTH_PROBE_VERSION);
    for (size_t i = 0; i < FIELDS; i++)
        put_field(&p, probe, &fields[i]);
    put_speeds(&p, "any", &probe->any);
    for (uint32_t i = 0; i < HEARTH_TYPE_END; i++)
        if (hearth_type_info(i))
            put_speeds(&p, hearth_type_info(i)->name, &probe->kernel[i]);
}

// ---- files

int hearth_probe_load(struct hearth_probe *out, const char *path, struct hearth_error *err)
{
    struct hearth_file *f;
    int rc = hearth_file_open(&f, path, err);
    if (rc)
        return rc;
    const uint64_t size = hearth_file_size(f);
    char *text = size <= MOST_BYTES ? hearth_calloc((size_t)size + 1, 1) : NULL;
    if (!text)
        rc = size > MOST_BYTES ? hearth_fail(err, HEARTH_E_FORMAT, "%s: too large for a probe", path)
                               : hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to read it", path);
    else
        rc = hearth_file_read(f, text, (size_t)size, 0, err);
    struct hearth_error why = {0};
    if (!rc && hearth_probe_parse(out, text, (size_t)size, &why))
        rc = hearth_fail(err, HEARTH_E_FORMAT, "%s: %s", path, why.message);
    free(text);
    hearth_file_close(&f);
    return rc;
}

int hearth_probe_save(const struct hearth_probe *p, const char *path, struct hearth_error *err)
{
    char text[HEARTH_PROBE_TEXT];
    hearth_probe_print(p, text);
    return hearth_outfile_save(path, text, strlen(text), err);
}
