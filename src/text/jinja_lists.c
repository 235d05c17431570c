// SPDX-License-Identifier: MIT
// Filters of Jinja for what can be iterated over.
#include <string.h>

#include "text/jinja.h"

typedef struct jinja_value value;

static value generator(struct jinja *j)
{
    return hearth_jinja_list(j, JINJA_GENERATOR);
}

static value of_items(struct jinja_list *items, enum jinja_sequence kind)
{
    items->kind = (uint8_t)kind;
    return (value){.type = JINJA_LIST, .u.list = items};
}

// ---- counts and ends

static value length(struct jinja *j, const value *self, const struct jinja_args *args)
{
    int64_t n;
    hearth_jinja_bind(j, "length", args, "", 0, NULL);
    if (!hearth_jinja_count(self, &n))
        hearth_jinja_fail(j, "object of type '%s' has no len()", hearth_jinja_type(self));
    return hearth_jinja_int(n);
}

static value first(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "first", args, "", 0, NULL);
    const struct jinja_list *items = hearth_jinja_items(j, self);
    return items->n ? items->v[0] : hearth_jinja_undefined(NULL, JINJA_MISSING);
}

static value last(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "last", args, "", 0, NULL);
    if (self->type == JINJA_LIST && self->u.list->kind == JINJA_GENERATOR)
        hearth_jinja_fail(j, "'generator' object is not reversible");
    const struct jinja_list *items = hearth_jinja_items(j, self);
    return items->n ? items->v[items->n - 1] : hearth_jinja_undefined(NULL, JINJA_MISSING);
}

static value list(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "list", args, "", 0, NULL);
    const struct jinja_list *items = hearth_jinja_items(j, self);
    const value out = hearth_jinja_list(j, JINJA_PLAIN);
    for (size_t i = 0; i < items->n; i++) // a list changes, what it was made of does not
        hearth_jinja_append(j, out.u.list, items->v[i]);
    return out;
}

static value reverse(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "reverse", args, "", 0, NULL);
    if (self->type == JINJA_STRING) {
        const value none = hearth_jinja_none(), back = hearth_jinja_int(-1);
        return hearth_jinja_slice(j, self, &none, &none, &back);
    }
    const struct jinja_list *items = hearth_jinja_items(j, self);
    const value out = generator(j);
    for (size_t i = items->n; i-- > 0;)
        hearth_jinja_append(j, out.u.list, items->v[i]);
    return out;
}

static value join(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[2];
    hearth_jinja_bind(j, "join", args, "d attribute", 0, a);
    const struct jinja_string nothing = {.s = ""};
    const struct jinja_string *sep = a[0].type == JINJA_MISSING ? &nothing : hearth_jinja_str(j, &a[0]).u.s;
    const struct jinja_list *items = hearth_jinja_items(j, self);
    struct jinja_builder b = {.j = j};
    for (size_t i = 0; i < items->n; i++) {
        value item = items->v[i];
        if (a[1].type != JINJA_MISSING && a[1].type != JINJA_NONE)
            item = hearth_jinja_path(j, &item, &a[1]);
        if (i)
            hearth_jinja_put_string(&b, sep);
        hearth_jinja_print(&b, &item);
    }
    return hearth_jinja_built(&b);
}

static value items(struct jinja *j, const value *self, const struct jinja_args *args)
{
    static const struct jinja_string name = {.s = "items", .n = 5};
    hearth_jinja_bind(j, "items", args, "", 0, NULL);
    if (self->type == JINJA_UNDEFINED)
        return generator(j);
    if (self->type != JINJA_DICT)
        hearth_jinja_fail(j, "Can only get item pairs from a mapping.");
    const value view = j->calls->method(self, &name)(j, self, args);
    return of_items(hearth_jinja_items(j, &view), JINJA_GENERATOR);
}

// ---- orders

struct key {
    value by, item;
};

// What an item is compared by: a part of it, and strings without regard to case.
static value key_of(struct jinja *j, const value *item, const value *attribute, bool with_case)
{
    value key = *item;
    if (attribute && attribute->type != JINJA_MISSING && attribute->type != JINJA_NONE)
        key = hearth_jinja_path(j, item, attribute);
    if (!with_case && key.type == JINJA_STRING)
        key = hearth_jinja_case(j, key.u.s, JINJA_LOWER);
    return key;
}

static struct key *keys_of(struct jinja *j, const struct jinja_list *from, const value *attribute,
                           bool with_case)
{
    struct key *keys = hearth_jinja_array(j, from->n, sizeof *keys);
    for (size_t i = 0; i < from->n; i++)
        keys[i] = (struct key){key_of(j, &from->v[i], attribute, with_case), from->v[i]};
    return keys;
}

static bool is_below(struct jinja *j, const value *a, const value *b)
{
    hearth_jinja_work(j, 1);
    return !hearth_jinja_equal(j, a, b) && hearth_jinja_compare(j, a, b, "<") == -1;
}

// Stable, as Python's.
static void sort_keys(struct jinja *j, struct key *keys, size_t n, bool down)
{
    struct key *from = keys, *to = hearth_jinja_array(j, n, sizeof *to);
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t start = 0; start < n; start += 2 * width) {
            const size_t middle = start + width < n ? start + width : n;
            const size_t end = start + 2 * width < n ? start + 2 * width : n;
            size_t a = start, b = middle;
            for (size_t at = start; at < end; at++) {
                bool second = a == middle;
                if (a < middle && b < end)
                    second =
                        down ? is_below(j, &from[a].by, &from[b].by) : is_below(j, &from[b].by, &from[a].by);
                to[at] = from[second ? b++ : a++];
            }
        }
        struct key *other = from;
        from = to;
        to = other;
    }
    if (from != keys)
        memcpy(keys, from, n * sizeof *keys);
}

static bool more_parts(const value *attribute)
{
    return attribute->type == JINJA_STRING && attribute->u.s->n &&
           memchr(attribute->u.s->s, ',', attribute->u.s->n);
}

// By the last of several attributes first, which is the same as by all of them at once.
static void sort_by_parts(struct jinja *j, struct jinja_list *from, const value *attribute, bool with_case,
                          bool down)
{
    size_t end = attribute->u.s->n;
    for (;;) {
        size_t start = end;
        while (start && attribute->u.s->s[start - 1] != ',')
            start--;
        const value part = hearth_jinja_part(j, attribute->u.s, start, end - start);
        struct key *keys = keys_of(j, from, &part, with_case);
        sort_keys(j, keys, from->n, down);
        for (size_t i = 0; i < from->n; i++)
            from->v[i] = keys[i].item;
        if (!start)
            return;
        end = start - 1;
    }
}

static value sort(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[3];
    hearth_jinja_bind(j, "sort", args, "reverse case_sensitive attribute", 0, a);
    const bool down = hearth_jinja_bool_or(&a[0], false), with_case = hearth_jinja_bool_or(&a[1], false);
    const struct jinja_list *from = hearth_jinja_items(j, self);
    const value out = hearth_jinja_list(j, JINJA_PLAIN);
    for (size_t i = 0; i < from->n; i++)
        hearth_jinja_append(j, out.u.list, from->v[i]);
    if (more_parts(&a[2])) {
        sort_by_parts(j, out.u.list, &a[2], with_case, down);
        return out;
    }
    struct key *keys = keys_of(j, from, &a[2], with_case);
    sort_keys(j, keys, from->n, down);
    for (size_t i = 0; i < from->n; i++)
        out.u.list->v[i] = keys[i].item;
    return out;
}

static value dictsort(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[3];
    hearth_jinja_bind(j, "dictsort", args, "case_sensitive by reverse", 0, a);
    const value key = hearth_jinja_literal(j, "key");
    const struct jinja_string *by = hearth_jinja_string_of(j, a[1].type == JINJA_MISSING ? &key : &a[1]);
    const value place = hearth_jinja_int(hearth_jinja_is_text(by, "value"));
    if (!hearth_jinja_is_text(by, "value") && !hearth_jinja_is_text(by, "key"))
        hearth_jinja_fail(j, "dictsort: you can only sort by either \"key\" or \"value\"");
    if (self->type != JINJA_DICT)
        hearth_jinja_fail(j, "dictsort: a dict is wanted, not '%s'", hearth_jinja_type(self));
    const struct jinja_args none = {0};
    const value pairs = items(j, self, &none);
    struct jinja_list *from = hearth_jinja_items(j, &pairs);
    struct key *keys = keys_of(j, from, &place, hearth_jinja_bool_or(&a[0], false));
    sort_keys(j, keys, from->n, hearth_jinja_bool_or(&a[2], false));
    const value out = hearth_jinja_list(j, JINJA_PLAIN);
    for (size_t i = 0; i < from->n; i++)
        hearth_jinja_append(j, out.u.list, keys[i].item);
    return out;
}

static value unique(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[2];
    hearth_jinja_bind(j, "unique", args, "case_sensitive attribute", 0, a);
    const struct jinja_list *from = hearth_jinja_items(j, self);
    const value out = generator(j), seen = hearth_jinja_dict(j);
    for (size_t i = 0; i < from->n; i++) {
        const value key = key_of(j, &from->v[i], &a[1], hearth_jinja_bool_or(&a[0], false));
        if (hearth_jinja_find(j, seen.u.dict, key))
            continue;
        hearth_jinja_set(j, seen.u.dict, key, key);
        hearth_jinja_append(j, out.u.list, from->v[i]);
    }
    return out;
}

static value extreme(struct jinja *j, const value *self, const struct jinja_args *args, int sign)
{
    value a[2];
    hearth_jinja_bind(j, sign < 0 ? "min" : "max", args, "case_sensitive attribute", 0, a);
    const struct jinja_list *from = hearth_jinja_items(j, self);
    if (!from->n)
        return hearth_jinja_undefined(NULL, JINJA_MISSING);
    const struct key *keys = keys_of(j, from, &a[1], hearth_jinja_bool_or(&a[0], false));
    size_t best = 0;
    for (size_t i = 1; i < from->n; i++)
        if (hearth_jinja_compare(j, &keys[i].by, &keys[best].by, sign < 0 ? "<" : ">") == sign)
            best = i;
    return from->v[best];
}

static value least(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return extreme(j, self, args, -1);
}

static value most(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return extreme(j, self, args, 1);
}

static value sum(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[2];
    hearth_jinja_bind(j, "sum", args, "attribute start", 0, a);
    const struct jinja_list *from = hearth_jinja_items(j, self);
    value total = a[1].type == JINJA_MISSING ? hearth_jinja_int(0) : a[1];
    if (total.type == JINJA_STRING)
        hearth_jinja_fail(j, "sum() can't sum strings [use ''.join(seq) instead]");
    for (size_t i = 0; i < from->n; i++) {
        const value item = key_of(j, &from->v[i], &a[0], true);
        total = hearth_jinja_operate(j, JINJA_ADD, &total, &item);
    }
    return total;
}

// ---- groups

static value groupby(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[3];
    hearth_jinja_bind(j, "groupby", args, "attribute default case_sensitive", 1, a);
    const bool with_case = hearth_jinja_bool_or(&a[2], false);
    const struct jinja_list *from = hearth_jinja_items(j, self);
    struct key *keys = keys_of(j, from, &a[0], with_case);
    for (size_t i = 0; i < from->n; i++)
        if (keys[i].by.type == JINJA_UNDEFINED && a[1].type != JINJA_MISSING)
            keys[i].by = key_of(j, &a[1], NULL, with_case);
    sort_keys(j, keys, from->n, false);
    const value out = hearth_jinja_list(j, JINJA_PLAIN);
    for (size_t i = 0, end; i < from->n; i = end) {
        const value group = hearth_jinja_list(j, JINJA_TUPLE), members = hearth_jinja_list(j, JINJA_PLAIN);
        value name = key_of(j, &keys[i].item, &a[0], true); // as it is written in the first item
        if (name.type == JINJA_UNDEFINED)
            name = a[1];
        for (end = i; end < from->n && hearth_jinja_equal(j, &keys[i].by, &keys[end].by); end++)
            hearth_jinja_append(j, members.u.list, keys[end].item);
        group.u.list->name = "group";
        hearth_jinja_append(j, group.u.list, name);
        hearth_jinja_append(j, group.u.list, members);
        hearth_jinja_append(j, out.u.list, group);
    }
    return out;
}

static value batch(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[2];
    hearth_jinja_bind(j, "batch", args, "linecount fill_with", 1, a);
    const int64_t n = hearth_jinja_int_or(j, &a[0], 0);
    const struct jinja_list *from = hearth_jinja_items(j, self);
    const value out = generator(j);
    if (n < 1)
        hearth_jinja_fail(j, "batch: at least 1 item is wanted");
    for (size_t i = 0; i < from->n;) {
        const value line = hearth_jinja_list(j, JINJA_PLAIN);
        for (int64_t k = 0; k < n && i < from->n; k++)
            hearth_jinja_append(j, line.u.list, from->v[i++]);
        while (a[1].type != JINJA_MISSING && a[1].type != JINJA_NONE && (int64_t)line.u.list->n < n)
            hearth_jinja_append(j, line.u.list, a[1]);
        hearth_jinja_append(j, out.u.list, line);
    }
    return out;
}

static value slices(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[2];
    hearth_jinja_bind(j, "slice", args, "slices fill_with", 1, a);
    const int64_t n = hearth_jinja_int_or(j, &a[0], 0);
    const struct jinja_list *from = hearth_jinja_items(j, self);
    const value out = generator(j);
    if (n < 1 || n > JINJA_MAX_RANGE)
        hearth_jinja_fail(j, "slice: at least 1 slice is wanted");
    const size_t each = from->n / (size_t)n, longer = from->n % (size_t)n;
    size_t at = 0;
    for (size_t i = 0; i < (size_t)n; i++) {
        const value part = hearth_jinja_list(j, JINJA_PLAIN);
        for (size_t k = 0; k < each + (i < longer); k++)
            hearth_jinja_append(j, part.u.list, from->v[at++]);
        if (a[1].type != JINJA_MISSING && a[1].type != JINJA_NONE && i >= longer)
            hearth_jinja_append(j, part.u.list, a[1]);
        hearth_jinja_append(j, out.u.list, part);
    }
    return out;
}

// ---- filters and tests of every item

// As these filters have it, of what is not true there are no items.
static const struct jinja_list *items_if_true(struct jinja *j, const value *self)
{
    return hearth_jinja_true(self) ? hearth_jinja_items(j, self) : hearth_jinja_list(j, JINJA_PLAIN).u.list;
}

static struct jinja_args rest_of(const struct jinja_args *args, size_t from)
{
    struct jinja_args rest = *args;
    rest.v += from;
    rest.n -= from;
    return rest;
}

static const value *keyword(const struct jinja_args *args, const char *name)
{
    for (size_t i = 0; i < args->n_kw; i++)
        if (hearth_jinja_is_text(args->names[i], name))
            return &args->kw[i];
    return NULL;
}

static value map(struct jinja *j, const value *self, const struct jinja_args *args)
{
    const value *attribute = args->n ? NULL : keyword(args, "attribute"), *def = keyword(args, "default");
    if (!args->n && !attribute)
        hearth_jinja_fail(j, "map requires a filter argument");
    const struct jinja_list *from = items_if_true(j, self);
    const struct jinja_args rest = args->n ? rest_of(args, 1) : *args;
    const value out = generator(j);
    for (size_t i = 0; i < from->n; i++) {
        value item;
        if (attribute) {
            item = hearth_jinja_path(j, &from->v[i], attribute);
            if (item.type == JINJA_UNDEFINED && def)
                item = *def;
        } else {
            item = j->calls->filter(j, hearth_jinja_string_of(j, &args->v[0]), from->v[i], &rest);
        }
        hearth_jinja_append(j, out.u.list, item);
    }
    return out;
}

static value choose(struct jinja *j, const value *self, const struct jinja_args *args, bool by_attribute,
                    bool keep)
{
    const size_t before = by_attribute ? 1 : 0;
    if (args->n < before)
        hearth_jinja_fail(j, "Missing parameter for attribute name");
    const struct jinja_list *from = items_if_true(j, self);
    const bool plain = args->n == before; // whether it is true
    const struct jinja_args rest = plain ? *args : rest_of(args, before + 1);
    const value out = generator(j);
    for (size_t i = 0; i < from->n; i++) {
        const value item = by_attribute ? hearth_jinja_path(j, &from->v[i], &args->v[0]) : from->v[i];
        const bool yes = plain ? hearth_jinja_true(&item)
                               : j->calls->test(j, hearth_jinja_string_of(j, &args->v[before]), item, &rest);
        if (yes == keep)
            hearth_jinja_append(j, out.u.list, from->v[i]);
    }
    return out;
}

static value select_(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return choose(j, self, args, false, true);
}

static value reject(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return choose(j, self, args, false, false);
}

static value selectattr(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return choose(j, self, args, true, true);
}

static value rejectattr(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return choose(j, self, args, true, false);
}

static value random_(struct jinja *j, const value *self, const struct jinja_args *args)
{
    (void)self;
    (void)args;
    hearth_jinja_fail(j, "the filter random is refused: a prompt is the same each time");
}

jinja_fn hearth_jinja_list_filter(const struct jinja_string *name)
{
    static const struct jinja_named table[] = {
        {"length", length},
        {"count", length},
        {"join", join},
        {"list", list},
        {"items", items},
        {"first", first},
        {"last", last},
        {"map", map},
        {"select", select_},
        {"reject", reject},
        {"selectattr", selectattr},
        {"rejectattr", rejectattr},
        {"reverse", reverse},
        {"sort", sort},
        {"dictsort", dictsort},
        {"unique", unique},
        {"min", least},
        {"max", most},
        {"sum", sum},
        {"groupby", groupby},
        {"batch", batch},
        {"slice", slices},
        {"random", random_},
    };
    return hearth_jinja_named(table, sizeof table / sizeof table[0], name);
}
