// SPDX-License-Identifier: MIT
// Iteration, indices, slices and attributes of Jinja's values.
#include <stdlib.h>
#include <string.h>

#include "text/jinja.h"

// ---- iteration

static struct jinja_value loop_attribute(struct jinja *j, const struct jinja_value *v,
                                         const struct jinja_string *name);

static struct jinja_list *characters(struct jinja *j, const struct jinja_string *s)
{
    struct jinja_list *list = hearth_jinja_list(j, JINJA_PLAIN).u.list;
    size_t n;
    for (size_t i = 0; i < s->n; i += n) {
        hearth_jinja_character(s, i, &n);
        hearth_jinja_append(j, list, hearth_jinja_part(j, s, i, n));
    }
    return list;
}

struct jinja_list *hearth_jinja_items(struct jinja *j, const struct jinja_value *v)
{
    struct jinja_list *list = hearth_jinja_list(j, JINJA_PLAIN).u.list;
    switch (v->type) {
    case JINJA_UNDEFINED:
        break;
    case JINJA_STRING:
        return characters(j, v->u.s);
    case JINJA_LIST:
        if (v->u.list->kind == JINJA_GENERATOR && v->u.list->spent)
            break;
        v->u.list->spent = true;
        list->n = list->cap = v->u.list->n;
        list->v = v->u.list->v;
        if (v->u.list->kind == JINJA_PLAIN && list->n) { // others never change
            list->v = hearth_jinja_array(j, list->n, sizeof *list->v);
            memcpy(list->v, v->u.list->v, list->n * sizeof *list->v);
            hearth_jinja_work(j, list->n / 4);
        }
        break;
    case JINJA_DICT:
        for (size_t i = 0; i < v->u.dict->n; i++)
            hearth_jinja_append(j, list, v->u.dict->v[i].key);
        break;
    default:
        hearth_jinja_fail(j, "'%s' object is not iterable", hearth_jinja_type(v));
    }
    return list;
}

bool hearth_jinja_count(const struct jinja_value *v, int64_t *n)
{
    *n = 0;
    if (v->type == JINJA_STRING)
        *n = (int64_t)hearth_jinja_length(v->u.s);
    else if (v->type == JINJA_LIST && v->u.list->kind != JINJA_GENERATOR)
        *n = (int64_t)v->u.list->n;
    else if (v->type == JINJA_DICT)
        *n = (int64_t)v->u.dict->n;
    else if (v->type == JINJA_LOOP)
        *n = (int64_t)v->u.loop->items->n;
    else
        return v->type == JINJA_UNDEFINED;
    return true;
}

// ---- indices

static bool has_indices(const struct jinja_list *list)
{
    return list->kind <= JINJA_RANGE;
}

// The i-th item, counted from the end when it is negative; false: there is none.
static bool place_of(int64_t i, int64_t n, int64_t *place)
{
    *place = i < 0 ? i + n : i;
    return *place >= 0 && *place < n;
}

static bool whole_index(const struct jinja_value *key, int64_t *i)
{
    *i = key->type == JINJA_BOOL ? key->u.b : key->type == JINJA_INT ? key->u.i : 0;
    return key->type == JINJA_BOOL || key->type == JINJA_INT;
}

// v[key], or false.
static bool lookup(struct jinja *j, const struct jinja_value *v, const struct jinja_value *key,
                   struct jinja_value *out)
{
    int64_t i, place, n;
    if (v->type == JINJA_UNDEFINED)
        hearth_jinja_fail_undefined(j, v);
    if (v->type == JINJA_DICT) {
        const bool can_be_key =
            key->type <= JINJA_STRING || (key->type == JINJA_LIST && key->u.list->kind == JINJA_TUPLE);
        const struct jinja_value *found = can_be_key ? hearth_jinja_find(j, v->u.dict, *key) : NULL;
        if (found)
            *out = *found;
        return found;
    }
    if (!whole_index(key, &i))
        return false;
    if (v->type == JINJA_LIST && has_indices(v->u.list)) {
        if (!place_of(i, (int64_t)v->u.list->n, &place))
            return false;
        *out = v->u.list->v[place];
        return true;
    }
    if (v->type == JINJA_STRING) {
        hearth_jinja_count(v, &n);
        hearth_jinja_work(j, (size_t)n / 16);
        if (!place_of(i, n, &place))
            return false;
        const size_t start = hearth_jinja_offset(v->u.s, (size_t)place);
        size_t length;
        hearth_jinja_character(v->u.s, start, &length);
        *out = hearth_jinja_part(j, v->u.s, start, length);
        return true;
    }
    return false;
}

// ---- attributes

static bool own_attribute(struct jinja *j, const struct jinja_value *v, const struct jinja_string *name,
                          struct jinja_value *out)
{
    if (v->type == JINJA_UNDEFINED)
        hearth_jinja_fail_undefined(j, v);
    if (v->type == JINJA_NAMESPACE) {
        const struct jinja_value *found =
            hearth_jinja_find(j, v->u.dict, (struct jinja_value){.type = JINJA_STRING, .u.s = name});
        if (found)
            *out = *found;
        return found;
    }
    if (v->type == JINJA_LOOP) {
        *out = loop_attribute(j, v, name);
        if (out->type != JINJA_MISSING)
            return true;
    }
    if (v->type == JINJA_LIST && v->u.list->kind == JINJA_TUPLE && v->u.list->name && v->u.list->n == 2 &&
        (hearth_jinja_is_text(name, "grouper") || hearth_jinja_is_text(name, "list"))) { // of groupby
        *out = v->u.list->v[hearth_jinja_is_text(name, "list")];
        return true;
    }
    const jinja_fn fn = j->calls->method(v, name);
    if (!fn)
        return false;
    *out = hearth_jinja_function(j, "method", fn, v);
    return true;
}

struct jinja_value hearth_jinja_attribute(struct jinja *j, const struct jinja_value *v,
                                          const struct jinja_string *name)
{
    const struct jinja_value key = {.type = JINJA_STRING, .u.s = name};
    struct jinja_value out;
    if (own_attribute(j, v, name, &out) || lookup(j, v, &key, &out))
        return out;
    return hearth_jinja_undefined(name, v->type);
}

struct jinja_value hearth_jinja_item(struct jinja *j, const struct jinja_value *v,
                                     const struct jinja_value *key)
{
    struct jinja_value out;
    if (lookup(j, v, key, &out) || (key->type == JINJA_STRING && own_attribute(j, v, key->u.s, &out)))
        return out;
    return hearth_jinja_undefined(hearth_jinja_str(j, key).u.s, v->type);
}

struct jinja_value hearth_jinja_path(struct jinja *j, const struct jinja_value *v,
                                     const struct jinja_value *path)
{
    struct jinja_value at = *v;
    if (path->type != JINJA_STRING)
        return hearth_jinja_item(j, &at, path);
    const struct jinja_string *s = path->u.s;
    for (size_t start = 0; start <= s->n;) {
        const char *dot = start < s->n ? memchr(s->s + start, '.', s->n - start) : NULL;
        const size_t end = dot ? (size_t)(dot - s->s) : s->n;
        struct jinja_value key = hearth_jinja_part(j, s, start, end - start);
        int64_t i;
        if (end > start && s->s[start] >= '0' && s->s[start] <= '9' &&
            hearth_jinja_parse_int(key.u.s, 10, &i))
            key = hearth_jinja_int(i);
        at = hearth_jinja_item(j, &at, &key);
        start = end + 1;
    }
    return at;
}

// ---- slices

static int64_t bound(struct jinja *j, const struct jinja_value *v, int64_t def, int64_t n, bool back)
{
    int64_t i;
    if (v->type == JINJA_NONE || v->type == JINJA_MISSING)
        return def;
    if (v->type == JINJA_UNDEFINED)
        hearth_jinja_fail_undefined(j, v);
    if (!whole_index(v, &i))
        hearth_jinja_fail(j, "slice indices must be integers or None");
    i = i < 0 ? i + n : i;
    const int64_t least = back ? -1 : 0, most = back ? n - 1 : n;
    return i < least ? least : i > most ? most : i;
}

struct jinja_value hearth_jinja_slice(struct jinja *j, const struct jinja_value *v,
                                      const struct jinja_value *from, const struct jinja_value *to,
                                      const struct jinja_value *by)
{
    int64_t n = 0, step = 1;
    if (v->type == JINJA_UNDEFINED)
        hearth_jinja_fail_undefined(j, v);
    if (v->type != JINJA_STRING && !(v->type == JINJA_LIST && has_indices(v->u.list)))
        hearth_jinja_fail(j, "'%s' object is not subscriptable", hearth_jinja_type(v));
    hearth_jinja_count(v, &n);
    if (by->type != JINJA_NONE && by->type != JINJA_MISSING && (!whole_index(by, &step) || !step))
        hearth_jinja_fail(j, "the step of a slice is an integer other than 0");
    const bool back = step < 0;
    const int64_t start = bound(j, from, back ? n - 1 : 0, n, back),
                  stop = bound(j, to, back ? -1 : n, n, back);
    if (v->type == JINJA_STRING && step == 1) {
        const size_t first = hearth_jinja_offset(v->u.s, (size_t)start);
        const struct jinja_string rest = {.s = v->u.s->s + first, .n = v->u.s->n - first};
        hearth_jinja_work(j, v->u.s->n / 16);
        return hearth_jinja_part(j, v->u.s, first,
                                 hearth_jinja_offset(&rest, stop > start ? (size_t)(stop - start) : 0));
    }
    const struct jinja_list *items = v->type == JINJA_STRING ? characters(j, v->u.s) : v->u.list;
    const struct jinja_value list = hearth_jinja_list(
        j, v->type == JINJA_LIST && v->u.list->kind == JINJA_TUPLE ? JINJA_TUPLE : JINJA_PLAIN);
    for (int64_t i = start; back ? i > stop : i < stop;) {
        hearth_jinja_append(j, list.u.list, items->v[i]);
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    if (v->type != JINJA_STRING)
        return list;
    struct jinja_builder b = {.j = j};
    for (size_t i = 0; i < list.u.list->n; i++)
        hearth_jinja_put_string(&b, list.u.list->v[i].u.s);
    return hearth_jinja_built(&b);
}

// ---- the operator in

bool hearth_jinja_contains(struct jinja *j, const struct jinja_value *v, const struct jinja_value *item)
{
    if (v->type == JINJA_STRING) {
        if (item->type == JINJA_UNDEFINED)
            hearth_jinja_fail_undefined(j, item);
        if (item->type != JINJA_STRING)
            hearth_jinja_fail(j, "'in <string>' requires string as left operand, not %s",
                              hearth_jinja_type(item));
        return hearth_jinja_search(j, v->u.s, item->u.s, 0) != SIZE_MAX;
    }
    if (v->type == JINJA_DICT)
        return hearth_jinja_find(j, v->u.dict, *item) != NULL;
    const struct jinja_list *list = hearth_jinja_items(j, v);
    for (size_t i = 0; i < list->n; i++)
        if (hearth_jinja_equal(j, &list->v[i], item))
            return true;
    return false;
}

// ---- the variable loop

static struct jinja_value cycle(struct jinja *j, const struct jinja_value *self,
                                const struct jinja_args *args)
{
    if (!args->n)
        hearth_jinja_fail(j, "no items for cycling given");
    return args->v[self->u.loop->index % args->n];
}

static struct jinja_value changed(struct jinja *j, const struct jinja_value *self,
                                  const struct jinja_args *args)
{
    const struct jinja_value now = hearth_jinja_list(j, JINJA_TUPLE);
    for (size_t i = 0; i < args->n; i++)
        hearth_jinja_append(j, now.u.list, args->v[i]);
    struct jinja_value *before = &self->u.loop->changed;
    if (before->type == JINJA_LIST && hearth_jinja_equal(j, before, &now))
        return hearth_jinja_bool(false);
    *before = now;
    return hearth_jinja_bool(true);
}

static struct jinja_value loop_attribute(struct jinja *j, const struct jinja_value *v,
                                         const struct jinja_string *name)
{
    const struct jinja_loop *loop = v->u.loop;
    const int64_t i = (int64_t)loop->index, n = (int64_t)loop->items->n;
    if (hearth_jinja_is_text(name, "index"))
        return hearth_jinja_int(i + 1);
    if (hearth_jinja_is_text(name, "index0"))
        return hearth_jinja_int(i);
    if (hearth_jinja_is_text(name, "revindex"))
        return hearth_jinja_int(n - i);
    if (hearth_jinja_is_text(name, "revindex0"))
        return hearth_jinja_int(n - i - 1);
    if (hearth_jinja_is_text(name, "first"))
        return hearth_jinja_bool(i == 0);
    if (hearth_jinja_is_text(name, "last"))
        return hearth_jinja_bool(i == n - 1);
    if (hearth_jinja_is_text(name, "length"))
        return hearth_jinja_int(n);
    if (hearth_jinja_is_text(name, "depth"))
        return hearth_jinja_int(loop->depth + 1);
    if (hearth_jinja_is_text(name, "depth0"))
        return hearth_jinja_int(loop->depth);
    if (hearth_jinja_is_text(name, "previtem"))
        return i ? loop->items->v[i - 1] : hearth_jinja_undefined(name, JINJA_LOOP);
    if (hearth_jinja_is_text(name, "nextitem"))
        return i + 1 < n ? loop->items->v[i + 1] : hearth_jinja_undefined(name, JINJA_LOOP);
    if (hearth_jinja_is_text(name, "cycle"))
        return hearth_jinja_function(j, "cycle", cycle, v);
    if (hearth_jinja_is_text(name, "changed"))
        return hearth_jinja_function(j, "changed", changed, v);
    return hearth_jinja_missing();
}
