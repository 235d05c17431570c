// SPDX-License-Identifier: MIT
// Values of Jinja: memory, strings with origins, lists, dicts, comparisons.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/poison.h"
#include "text/jinja.h"

// ---- memory

struct jinja_chunk {
    struct jinja_chunk *next;
    size_t size, used; // bytes behind this header
};

#define CHUNK_LEAST ((size_t)16 << 10)
#define CHUNK_MOST  ((size_t)4 << 20)
#define ALIGNMENT   16

static uint8_t *bytes_of(struct jinja_chunk *c)
{
    return (uint8_t *)c + hearth_round_up(sizeof *c, ALIGNMENT);
}

static void add_chunk(struct jinja *j, size_t least)
{
    size_t size = j->chunks ? j->chunks->size * 2 : CHUNK_LEAST;
    size = size > CHUNK_MOST ? CHUNK_MOST : size;
    size = size < least ? least : size;
    if (size > j->limit - j->used)
        size = least;
    if (size > j->limit - j->used)
        hearth_jinja_fail(j, "it takes more than %zu MiB of memory", j->limit >> 20);
    struct jinja_chunk *c = malloc(size + hearth_round_up(sizeof *c, ALIGNMENT));
    if (!c)
        hearth_jinja_fail_code(j, HEARTH_E_MEMORY, "no memory for a chat template");
    *c = (struct jinja_chunk){j->chunks, size, 0};
    HEARTH_POISON(bytes_of(c), size);
    j->chunks = c;
    j->used += size;
}

void *hearth_jinja_alloc(struct jinja *j, size_t n)
{
    size_t size;
    if (!hearth_add_size(n, ALIGNMENT + HEARTH_RED_ZONE, &size))
        hearth_jinja_fail(j, "it takes more than %zu MiB of memory", j->limit >> 20);
    size = hearth_round_up(n ? n : 1, ALIGNMENT) + HEARTH_RED_ZONE;
    if (!j->chunks || size > j->chunks->size - j->chunks->used)
        add_chunk(j, size);
    void *p = bytes_of(j->chunks) + j->chunks->used;
    j->chunks->used += size;
    HEARTH_UNPOISON(p, n);
    return p;
}

void *hearth_jinja_array(struct jinja *j, size_t n, size_t size)
{
    size_t bytes;
    if (!hearth_mul_size(n, size, &bytes))
        hearth_jinja_fail(j, "it takes more than %zu MiB of memory", j->limit >> 20);
    return hearth_jinja_alloc(j, bytes);
}

void hearth_jinja_free(struct jinja *j)
{
    while (j->chunks) {
        struct jinja_chunk *next = j->chunks->next;
        HEARTH_UNPOISON(bytes_of(j->chunks), j->chunks->size);
        free(j->chunks);
        j->chunks = next;
    }
    j->used = 0;
}

// ---- failures and limits

static void say(struct jinja *j, int code, const char *before, const char *fmt, va_list args)
{
    char message[400];
    vsnprintf(message, sizeof message, fmt, args);
    j->code = hearth_fail(j->err, code, "%s%s", before, message);
}

void hearth_jinja_fail(struct jinja *j, const char *fmt, ...)
{
    char before[60];
    va_list args;
    snprintf(before, sizeof before, "chat template, line %d: ", j->line);
    va_start(args, fmt);
    say(j, HEARTH_E_INVALID, before, fmt, args);
    va_end(args);
    longjmp(j->failed, 1);
}

void hearth_jinja_fail_code(struct jinja *j, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(j, code, "", fmt, args);
    va_end(args);
    longjmp(j->failed, 1);
}

void hearth_jinja_work(struct jinja *j, size_t n)
{
    if (n >= j->max_steps - j->steps)
        hearth_jinja_fail(j, "it goes on for more than %llu steps", (unsigned long long)j->max_steps);
    j->steps += n;
}

void hearth_jinja_work_on(struct jinja *j, size_t n, size_t times)
{
    size_t bytes;
    hearth_jinja_work(j, 1 + (hearth_mul_size(n, times ? times : 1, &bytes) ? bytes : SIZE_MAX - 16) / 16);
}

void hearth_jinja_enter(struct jinja *j)
{
    if (++j->depth > JINJA_MAX_DEPTH)
        hearth_jinja_fail(j, "more than %d expressions, blocks or calls within each other", JINJA_MAX_DEPTH);
    hearth_jinja_work(j, 1);
}

void hearth_jinja_fail_undefined(struct jinja *j, const struct jinja_value *v)
{
    const int n = v->u.s ? (int)(v->u.s->n < 100 ? v->u.s->n : 100) : 0;
    const char *name = v->u.s ? v->u.s->s : "";
    if (v->owner == JINJA_MISSING)
        hearth_jinja_fail(j, "'%.*s' is undefined", n, name);
    const struct jinja_value owner = {.type = v->owner};
    hearth_jinja_fail(j, "'%s object' has no attribute '%.*s'", hearth_jinja_type(&owner), n, name);
}

// ---- strings

struct jinja_value hearth_jinja_undefined(const struct jinja_string *name, enum jinja_type owner)
{
    return (struct jinja_value){.type = JINJA_UNDEFINED, .owner = (uint8_t)owner, .u.s = name};
}

struct jinja_value hearth_jinja_string(struct jinja *j, const char *s, size_t n, enum jinja_origin origin)
{
    struct jinja_string *string = hearth_jinja_alloc(j, sizeof *string);
    *string = (struct jinja_string){.s = s, .n = n, .origin = (uint8_t)origin};
    return (struct jinja_value){.type = JINJA_STRING, .u.s = string};
}

struct jinja_value hearth_jinja_copy(struct jinja *j, const char *s, size_t n, enum jinja_origin origin)
{
    char *copy = hearth_jinja_alloc(j, n);
    if (n)
        memcpy(copy, s, n);
    hearth_jinja_work(j, n / 16);
    return hearth_jinja_string(j, copy, n, origin);
}

struct jinja_value hearth_jinja_literal(struct jinja *j, const char *s)
{
    return hearth_jinja_string(j, s, strlen(s), JINJA_TEMPLATE);
}

struct jinja_value hearth_jinja_part(struct jinja *j, const struct jinja_string *s, size_t start, size_t n)
{
    struct jinja_string *part = hearth_jinja_alloc(j, sizeof *part);
    *part = (struct jinja_string){s->s + start, n, s->marks ? s->marks + start : NULL, s->origin, s->markup};
    return (struct jinja_value){.type = JINJA_STRING, .u.s = part};
}

// Room for n more bytes.
static void make_room(struct jinja_builder *b, size_t n)
{
    hearth_jinja_work(b->j, n / 16);
    if (n <= b->cap - b->n)
        return;
    size_t cap = b->cap < 64 ? 64 : b->cap;
    while (cap - b->n < n)
        if (!hearth_mul_size(cap, 2, &cap))
            hearth_jinja_fail(b->j, "it makes a text that is too long");
    char *s = hearth_jinja_alloc(b->j, cap);
    if (b->n)
        memcpy(s, b->s, b->n);
    if (b->marks) {
        uint8_t *marks = hearth_jinja_alloc(b->j, cap);
        memcpy(marks, b->marks, b->n);
        b->marks = marks;
    }
    b->s = s;
    b->cap = cap;
}

static void mark_all(struct jinja_builder *b)
{
    b->marks = hearth_jinja_alloc(b->j, b->cap);
    memset(b->marks, b->origin, b->n);
}

void hearth_jinja_put(struct jinja_builder *b, const char *s, size_t n, enum jinja_origin origin)
{
    if (!n)
        return;
    make_room(b, n);
    if (!b->n)
        b->origin = (uint8_t)origin;
    if (!b->marks && b->origin != origin)
        mark_all(b);
    memcpy(b->s + b->n, s, n);
    if (b->marks)
        memset(b->marks + b->n, (int)origin, n);
    b->n += n;
}

void hearth_jinja_put_literal(struct jinja_builder *b, const char *s)
{
    hearth_jinja_put(b, s, strlen(s), JINJA_TEMPLATE);
}

void hearth_jinja_put_part(struct jinja_builder *b, const struct jinja_string *s, size_t start, size_t n)
{
    if (!s->marks) {
        hearth_jinja_put(b, s->s + start, n, s->origin);
        return;
    }
    if (!n)
        return;
    make_room(b, n);
    if (!b->marks)
        mark_all(b);
    memcpy(b->s + b->n, s->s + start, n);
    memcpy(b->marks + b->n, s->marks + start, n);
    b->n += n;
}

void hearth_jinja_put_string(struct jinja_builder *b, const struct jinja_string *s)
{
    hearth_jinja_put_part(b, s, 0, s->n);
}

struct jinja_value hearth_jinja_built(struct jinja_builder *b)
{
    struct jinja_string *s = hearth_jinja_alloc(b->j, sizeof *s);
    *s = (struct jinja_string){b->n ? b->s : "", b->n, b->marks, b->origin, b->markup};
    return (struct jinja_value){.type = JINJA_STRING, .u.s = s};
}

// ---- lists

struct jinja_value hearth_jinja_list(struct jinja *j, enum jinja_sequence kind)
{
    struct jinja_list *list = hearth_jinja_alloc(j, sizeof *list);
    *list = (struct jinja_list){.kind = (uint8_t)kind};
    return (struct jinja_value){.type = JINJA_LIST, .u.list = list};
}

void hearth_jinja_append(struct jinja *j, struct jinja_list *list, struct jinja_value v)
{
    if (list->n == list->cap) {
        const size_t cap = list->cap ? list->cap * 2 : 4;
        struct jinja_value *larger = hearth_jinja_array(j, cap, sizeof *larger);
        if (list->n)
            memcpy(larger, list->v, list->n * sizeof *larger);
        list->v = larger;
        list->cap = cap;
    }
    hearth_jinja_work(j, 1);
    list->v[list->n++] = v;
}

// ---- dicts

static uint64_t hash_bytes(const char *s, size_t n)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)s[i]) * 1099511628211u;
    return h;
}

static uint64_t hash_number(double f)
{
    uint64_t bits;
    f = f == 0 ? 0 : f;
    memcpy(&bits, &f, sizeof bits);
    return bits * 0x9E3779B97F4A7C15u;
}

// Numbers that are equal have equal hashes, whatever their types.
static uint64_t hash_of(struct jinja *j, const struct jinja_value *v)
{
    switch (v->type) {
    case JINJA_STRING:
        hearth_jinja_work(j, v->u.s->n / 16);
        return hash_bytes(v->u.s->s, v->u.s->n);
    case JINJA_BOOL:
        return hash_number(v->u.b);
    case JINJA_INT:
        return hash_number((double)v->u.i);
    case JINJA_FLOAT:
        return hash_number(v->u.f);
    case JINJA_NONE:
    case JINJA_UNDEFINED:
        return v->type;
    case JINJA_LIST:
        if (v->u.list->kind == JINJA_TUPLE) {
            uint64_t h = 17;
            hearth_jinja_enter(j);
            hearth_jinja_work(j, v->u.list->n);
            for (size_t i = 0; i < v->u.list->n; i++)
                h = h * 31 + hash_of(j, &v->u.list->v[i]);
            hearth_jinja_leave(j);
            return h;
        }
        break;
    default:
        break;
    }
    hearth_jinja_fail(j, "a value of type '%s' cannot be the key of a dict", hearth_jinja_type(v));
}

struct jinja_value hearth_jinja_dict(struct jinja *j)
{
    struct jinja_dict *dict = hearth_jinja_alloc(j, sizeof *dict);
    *dict = (struct jinja_dict){0};
    return (struct jinja_value){.type = JINJA_DICT, .u.dict = dict};
}

static struct jinja_entry *find(struct jinja *j, const struct jinja_dict *dict, const struct jinja_value *key,
                                uint64_t hash)
{
    hearth_jinja_work(j, dict->n / 16);
    for (size_t i = 0; i < dict->n; i++)
        if (dict->v[i].hash == hash && hearth_jinja_equal(j, &dict->v[i].key, key))
            return &dict->v[i];
    return NULL;
}

struct jinja_value *hearth_jinja_find(struct jinja *j, const struct jinja_dict *dict, struct jinja_value key)
{
    struct jinja_entry *e = find(j, dict, &key, hash_of(j, &key));
    return e ? &e->value : NULL;
}

struct jinja_value *hearth_jinja_find_text(struct jinja *j, const struct jinja_dict *dict, const char *key)
{
    const struct jinja_string s = {.s = key, .n = strlen(key)};
    return hearth_jinja_find(j, dict, (struct jinja_value){.type = JINJA_STRING, .u.s = &s});
}

void hearth_jinja_set(struct jinja *j, struct jinja_dict *dict, struct jinja_value key,
                      struct jinja_value value)
{
    const uint64_t hash = hash_of(j, &key);
    struct jinja_entry *e = find(j, dict, &key, hash);
    if (e) {
        e->value = value;
        return;
    }
    if (dict->n == dict->cap) {
        const size_t cap = dict->cap ? dict->cap * 2 : 4;
        struct jinja_entry *larger = hearth_jinja_array(j, cap, sizeof *larger);
        if (dict->n)
            memcpy(larger, dict->v, dict->n * sizeof *larger);
        dict->v = larger;
        dict->cap = cap;
    }
    dict->v[dict->n++] = (struct jinja_entry){key, value, hash};
}

struct jinja_value hearth_jinja_function(struct jinja *j, const char *name, jinja_fn fn,
                                         const struct jinja_value *self)
{
    struct jinja_function *f = hearth_jinja_alloc(j, sizeof *f);
    *f = (struct jinja_function){name, fn, self ? *self : hearth_jinja_missing()};
    return (struct jinja_value){.type = JINJA_FUNCTION, .u.function = f};
}

// ---- what values are

const char *hearth_jinja_type(const struct jinja_value *v)
{
    static const char *const lists[] = {"list", "tuple", "range", "dict view", "generator"};
    switch (v->type) {
    case JINJA_UNDEFINED:
        return "Undefined";
    case JINJA_NONE:
        return "NoneType";
    case JINJA_BOOL:
        return "bool";
    case JINJA_INT:
        return "int";
    case JINJA_FLOAT:
        return "float";
    case JINJA_STRING:
        return "str";
    case JINJA_LIST:
        return lists[v->u.list ? v->u.list->kind : 0];
    case JINJA_DICT:
        return "dict";
    case JINJA_NAMESPACE:
        return "Namespace";
    case JINJA_LOOP:
        return "LoopContext";
    case JINJA_MACRO:
        return "Macro";
    case JINJA_FUNCTION:
        return "function";
    case JINJA_CYCLER:
        return "Cycler";
    case JINJA_JOINER:
        return "Joiner";
    default:
        return "nothing";
    }
}

bool hearth_jinja_true(const struct jinja_value *v)
{
    switch (v->type) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:
    case JINJA_MISSING:
        return false;
    case JINJA_BOOL:
        return v->u.b;
    case JINJA_INT:
        return v->u.i != 0;
    case JINJA_FLOAT:
        return v->u.f != 0;
    case JINJA_STRING:
        return v->u.s->n > 0;
    case JINJA_LIST:
        return v->u.list->n > 0 || v->u.list->kind == JINJA_GENERATOR;
    case JINJA_DICT:
        return v->u.dict->n > 0;
    default:
        return true;
    }
}

static bool is_number(const struct jinja_value *v)
{
    return v->type == JINJA_BOOL || v->type == JINJA_INT || v->type == JINJA_FLOAT;
}

static int64_t whole(const struct jinja_value *v)
{
    return v->type == JINJA_BOOL ? v->u.b : v->u.i;
}

static double real(const struct jinja_value *v)
{
    return v->type == JINJA_FLOAT ? v->u.f : (double)whole(v);
}

static int order_numbers(const struct jinja_value *a, const struct jinja_value *b, bool *unordered)
{
    *unordered = false;
    if (a->type != JINJA_FLOAT && b->type != JINJA_FLOAT)
        return (whole(a) > whole(b)) - (whole(a) < whole(b));
    const double x = real(a), y = real(b);
    *unordered = isnan(x) || isnan(y);
    return (x > y) - (x < y);
}

static bool equal_dicts(struct jinja *j, const struct jinja_dict *a, const struct jinja_dict *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct jinja_entry *e = find(j, b, &a->v[i].key, a->v[i].hash);
        if (!e || !hearth_jinja_equal(j, &a->v[i].value, &e->value))
            return false;
    }
    return true;
}

static bool equal_lists(struct jinja *j, const struct jinja_list *a, const struct jinja_list *b)
{
    if (a == b)
        return true;
    if (a->kind != b->kind || a->kind == JINJA_GENERATOR || a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!hearth_jinja_equal(j, &a->v[i], &b->v[i]))
            return false;
    return true;
}

static bool equal_within(struct jinja *j, const struct jinja_value *a, const struct jinja_value *b)
{
    bool unordered;
    if (is_number(a) && is_number(b))
        return order_numbers(a, b, &unordered) == 0 && !unordered;
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return true;
    case JINJA_STRING:
        hearth_jinja_work(j, a->u.s->n / 16);
        return a->u.s->n == b->u.s->n && !memcmp(a->u.s->s, b->u.s->s, a->u.s->n);
    case JINJA_LIST:
        return equal_lists(j, a->u.list, b->u.list);
    case JINJA_DICT:
        return equal_dicts(j, a->u.dict, b->u.dict);
    case JINJA_FUNCTION:
        return a->u.function->fn == b->u.function->fn;
    default:
        return a->u.dict == b->u.dict;
    }
}

bool hearth_jinja_equal(struct jinja *j, const struct jinja_value *a, const struct jinja_value *b)
{
    hearth_jinja_work(j, 1);
    hearth_jinja_enter(j);
    const bool equal = equal_within(j, a, b);
    hearth_jinja_leave(j);
    return equal;
}

static int order_strings(struct jinja *j, const struct jinja_string *a, const struct jinja_string *b)
{
    const size_t n = a->n < b->n ? a->n : b->n;
    hearth_jinja_work(j, n / 16);
    const int c = n ? memcmp(a->s, b->s, n) : 0;
    return c ? (c > 0) - (c < 0) : (a->n > b->n) - (a->n < b->n);
}

static int order_lists(struct jinja *j, const struct jinja_list *a, const struct jinja_list *b,
                       const char *op)
{
    for (size_t i = 0; i < a->n && i < b->n; i++)
        if (!hearth_jinja_equal(j, &a->v[i], &b->v[i])) {
            hearth_jinja_enter(j);
            const int c = hearth_jinja_compare(j, &a->v[i], &b->v[i], op);
            hearth_jinja_leave(j);
            return c;
        }
    return (a->n > b->n) - (a->n < b->n);
}

int hearth_jinja_compare(struct jinja *j, const struct jinja_value *a, const struct jinja_value *b,
                         const char *op)
{
    bool unordered;
    hearth_jinja_work(j, 1);
    if (is_number(a) && is_number(b)) {
        const int c = order_numbers(a, b, &unordered);
        return unordered ? 2 : c; // neither below nor above
    }
    if (a->type == JINJA_STRING && b->type == JINJA_STRING)
        return order_strings(j, a->u.s, b->u.s);
    if (a->type == JINJA_LIST && b->type == JINJA_LIST && a->u.list->kind == b->u.list->kind &&
        a->u.list->kind <= JINJA_TUPLE)
        return order_lists(j, a->u.list, b->u.list, op);
    if (a->type == JINJA_UNDEFINED)
        hearth_jinja_fail_undefined(j, a);
    if (b->type == JINJA_UNDEFINED)
        hearth_jinja_fail_undefined(j, b);
    hearth_jinja_fail(j, "'%s' not supported between instances of '%s' and '%s'", op, hearth_jinja_type(a),
                      hearth_jinja_type(b));
}

// ---- arguments

static int place_of(const char *names, const struct jinja_string *name)
{
    for (int i = 0; *names; i++) {
        const size_t n = strcspn(names, " ");
        if (n == name->n && !memcmp(names, name->s, n))
            return i;
        names += n + (names[n] == ' ');
    }
    return -1;
}

static size_t count_names(const char *names)
{
    size_t n = *names != '\0';
    for (; *names; names++)
        n += *names == ' ';
    return n;
}

void hearth_jinja_bind(struct jinja *j, const char *who, const struct jinja_args *args, const char *names,
                       size_t required, struct jinja_value *out)
{
    const size_t n = count_names(names);
    if (args->n > n)
        hearth_jinja_fail(j, "%s takes at most %zu arguments, not %zu", who, n, args->n);
    for (size_t i = 0; i < n; i++)
        out[i] = i < args->n ? args->v[i] : hearth_jinja_missing();
    for (size_t i = 0; i < args->n_kw; i++) {
        const int place = place_of(names, args->names[i]);
        if (place < 0 || out[place].type != JINJA_MISSING)
            hearth_jinja_fail(j, "%s takes no such argument or takes it once: '%.*s'", who,
                              (int)(args->names[i]->n < 60 ? args->names[i]->n : 60), args->names[i]->s);
        out[place] = args->kw[i];
    }
    for (size_t i = 0; i < required; i++)
        if (out[i].type == JINJA_MISSING)
            hearth_jinja_fail(j, "%s needs %zu argument%s at least", who, required, required == 1 ? "" : "s");
}

int64_t hearth_jinja_int_or(struct jinja *j, const struct jinja_value *v, int64_t def)
{
    if (v->type == JINJA_MISSING)
        return def;
    if (v->type != JINJA_INT && v->type != JINJA_BOOL)
        hearth_jinja_fail(j, "an argument is to be an integer, not '%s'", hearth_jinja_type(v));
    return whole(v);
}

bool hearth_jinja_bool_or(const struct jinja_value *v, bool def)
{
    return v->type == JINJA_MISSING ? def : hearth_jinja_true(v);
}

const struct jinja_string *hearth_jinja_string_of(struct jinja *j, const struct jinja_value *v)
{
    if (v->type != JINJA_STRING)
        hearth_jinja_fail(j, "an argument is to be a string, not '%s'", hearth_jinja_type(v));
    return v->u.s;
}

jinja_fn hearth_jinja_named(const struct jinja_named *table, size_t n, const struct jinja_string *name)
{
    for (size_t i = 0; i < n; i++)
        if (hearth_jinja_is_text(name, table[i].name))
            return table[i].fn;
    return NULL;
}
