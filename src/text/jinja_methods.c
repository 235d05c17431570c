// SPDX-License-Identifier: MIT
// The methods of dicts, lists and other values that templates may call. Templates may change lists and dicts,
// which Jinja2's immutable sandbox forbids: what they change is gone after the rendering, and some published
// ones do it.
#include <math.h>
#include <string.h>

#include "text/jinja.h"

typedef struct jinja_value value;

// ---- dicts

enum { KEYS, VALUES, ITEMS };

static value pair(struct jinja *j, value a, value b)
{
    const value tuple = hearth_jinja_list(j, JINJA_TUPLE);
    hearth_jinja_append(j, tuple.u.list, a);
    hearth_jinja_append(j, tuple.u.list, b);
    return tuple;
}

static value view(struct jinja *j, const value *self, const struct jinja_args *args, int what)
{
    static const char *const names[] = {"dict_keys", "dict_values", "dict_items"};
    const value out = hearth_jinja_list(j, JINJA_VIEW);
    hearth_jinja_bind(j, names[what], args, "", 0, NULL);
    out.u.list->name = names[what];
    for (size_t i = 0; i < self->u.dict->n; i++) {
        const struct jinja_entry *e = &self->u.dict->v[i];
        hearth_jinja_append(j, out.u.list,
                            what == KEYS     ? e->key
                            : what == VALUES ? e->value
                                             : pair(j, e->key, e->value));
    }
    return out;
}

static value keys(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return view(j, self, args, KEYS);
}

static value values(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return view(j, self, args, VALUES);
}

static value items(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return view(j, self, args, ITEMS);
}

static value get(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[2];
    hearth_jinja_bind(j, "get()", args, "key default", 1, a);
    const value *found = hearth_jinja_find(j, self->u.dict, a[0]);
    return found ? *found : a[1].type == JINJA_MISSING ? hearth_jinja_none() : a[1];
}

static void add_all(struct jinja *j, struct jinja_dict *dict, const value *from)
{
    if (from->type != JINJA_DICT)
        hearth_jinja_fail(j, "a dict is wanted, not '%s'", hearth_jinja_type(from));
    const size_t n = from->u.dict->n;
    for (size_t i = 0; i < n; i++)
        hearth_jinja_set(j, dict, from->u.dict->v[i].key, from->u.dict->v[i].value);
}

static value update(struct jinja *j, const value *self, const struct jinja_args *args)
{
    for (size_t i = 0; i < args->n; i++)
        add_all(j, self->u.dict, &args->v[i]);
    for (size_t i = 0; i < args->n_kw; i++)
        hearth_jinja_set(j, self->u.dict, (value){.type = JINJA_STRING, .u.s = args->names[i]}, args->kw[i]);
    return hearth_jinja_none();
}

static value copy_dict(struct jinja *j, const value *self, const struct jinja_args *args)
{
    const value copy = hearth_jinja_dict(j);
    hearth_jinja_bind(j, "copy()", args, "", 0, NULL);
    add_all(j, copy.u.dict, self);
    return copy;
}

static value setdefault(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[2];
    hearth_jinja_bind(j, "setdefault()", args, "key default", 1, a);
    const value *found = hearth_jinja_find(j, self->u.dict, a[0]);
    if (found)
        return *found;
    const value v = a[1].type == JINJA_MISSING ? hearth_jinja_none() : a[1];
    hearth_jinja_set(j, self->u.dict, a[0], v);
    return v;
}

static value pop_key(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[2];
    hearth_jinja_bind(j, "pop()", args, "key default", 1, a);
    struct jinja_dict *dict = self->u.dict;
    const value *found = hearth_jinja_find(j, dict, a[0]);
    if (!found && a[1].type == JINJA_MISSING)
        hearth_jinja_fail(j, "pop() of a key that is not there");
    if (!found)
        return a[1];
    const value v = *found;
    const size_t place =
        (size_t)((const struct jinja_entry *)(const void *)((const char *)found -
                                                            offsetof(struct jinja_entry, value)) -
                 dict->v);
    memmove(dict->v + place, dict->v + place + 1, (dict->n - place - 1) * sizeof *dict->v);
    dict->n--;
    return v;
}

// ---- lists

static value append(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value v;
    hearth_jinja_bind(j, "append()", args, "object", 1, &v);
    hearth_jinja_append(j, self->u.list, v);
    return hearth_jinja_none();
}

static value extend(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value v;
    hearth_jinja_bind(j, "extend()", args, "iterable", 1, &v);
    const struct jinja_list *more = hearth_jinja_items(j, &v);
    for (size_t i = 0; i < more->n; i++)
        hearth_jinja_append(j, self->u.list, more->v[i]);
    return hearth_jinja_none();
}

static value insert(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[2];
    hearth_jinja_bind(j, "insert()", args, "index object", 2, a);
    struct jinja_list *list = self->u.list;
    const int64_t n = (int64_t)list->n;
    int64_t at = hearth_jinja_int_or(j, &a[0], 0);
    at = at < 0 ? at + n : at;
    at = at < 0 ? 0 : at > n ? n : at;
    hearth_jinja_append(j, list, a[1]);
    hearth_jinja_work(j, list->n / 8);
    memmove(list->v + at + 1, list->v + at, (size_t)(n - at) * sizeof *list->v);
    list->v[at] = a[1];
    return hearth_jinja_none();
}

static value pop(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a;
    hearth_jinja_bind(j, "pop()", args, "index", 0, &a);
    struct jinja_list *list = self->u.list;
    const int64_t n = (int64_t)list->n;
    int64_t at = hearth_jinja_int_or(j, &a, -1);
    at = at < 0 ? at + n : at;
    if (at < 0 || at >= n)
        hearth_jinja_fail(j, n ? "pop index out of range" : "pop from empty list");
    const value v = list->v[at];
    hearth_jinja_work(j, list->n / 8);
    memmove(list->v + at, list->v + at + 1, (size_t)(n - at - 1) * sizeof *list->v);
    list->n--;
    return v;
}

static value copy_list(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "copy()", args, "", 0, NULL);
    return (value){.type = JINJA_LIST, .u.list = hearth_jinja_items(j, self)};
}

static value count(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value v;
    int64_t n = 0;
    hearth_jinja_bind(j, "count()", args, "value", 1, &v);
    for (size_t i = 0; i < self->u.list->n; i++)
        n += hearth_jinja_equal(j, &self->u.list->v[i], &v);
    return hearth_jinja_int(n);
}

static value index_of(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value v;
    hearth_jinja_bind(j, "index()", args, "value", 1, &v);
    for (size_t i = 0; i < self->u.list->n; i++)
        if (hearth_jinja_equal(j, &self->u.list->v[i], &v))
            return hearth_jinja_int((int64_t)i);
    hearth_jinja_fail(j, "index() of a value that is not in the list");
}

// ---- others

static value is_integer(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "is_integer()", args, "", 0, NULL);
    return hearth_jinja_bool(self->type != JINJA_FLOAT || floor(self->u.f) == self->u.f);
}

static value next(struct jinja *j, const value *self, const struct jinja_args *args)
{
    struct jinja_cycler *c = self->u.cycler;
    hearth_jinja_bind(j, "next()", args, "", 0, NULL);
    return c->items.u.list->v[c->at++ % c->items.u.list->n];
}

static value reset(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "reset()", args, "", 0, NULL);
    self->u.cycler->at = 0;
    return hearth_jinja_none();
}

#define FIND(table) hearth_jinja_named(table, sizeof table / sizeof table[0], name)

jinja_fn hearth_jinja_method(const struct jinja_value *v, const struct jinja_string *name)
{
    static const struct jinja_named of_dicts[] = {
        {"get", get},
        {"items", items},
        {"keys", keys},
        {"values", values},
        {"copy", copy_dict},
        {"pop", pop_key},
        {"setdefault", setdefault},
        {"update", update},
    };
    static const struct jinja_named of_lists[] = {
        {"append", append},  {"pop", pop},     {"extend", extend},  {"insert", insert},
        {"copy", copy_list}, {"count", count}, {"index", index_of},
    };
    static const struct jinja_named of_tuples[] = {{"count", count}, {"index", index_of}};
    static const struct jinja_named of_numbers[] = {{"is_integer", is_integer}};
    static const struct jinja_named of_cyclers[] = {{"next", next}, {"reset", reset}};
    switch (v->type) {
    case JINJA_STRING:
        return hearth_jinja_string_method(name);
    case JINJA_DICT:
        return FIND(of_dicts);
    case JINJA_LIST:
        return v->u.list->kind == JINJA_PLAIN   ? FIND(of_lists)
               : v->u.list->kind <= JINJA_RANGE ? FIND(of_tuples)
                                                : NULL;
    case JINJA_INT:
    case JINJA_FLOAT:
        return FIND(of_numbers);
    case JINJA_CYCLER:
        return FIND(of_cyclers);
    default:
        return NULL;
    }
}
