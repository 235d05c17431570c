// SPDX-License-Identifier: MIT
// The functions that templates may call: those of Jinja2, and two of transformers (raise_exception,
// strftime_now).
#include <string.h>
#include <time.h>

#include "base/os.h"
#include "text/jinja.h"

typedef struct jinja_value value;

static value range(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[3];
    (void)self;
    hearth_jinja_bind(j, "range()", args, "start stop step", 1, a);
    for (int i = 0; i < 3; i++)
        if (a[i].type == JINJA_UNDEFINED)
            hearth_jinja_fail_undefined(j, &a[i]);
    const bool one = a[1].type == JINJA_MISSING;
    const int64_t start = one ? 0 : hearth_jinja_int_or(j, &a[0], 0),
                  stop = hearth_jinja_int_or(j, one ? &a[0] : &a[1], 0),
                  step = hearth_jinja_int_or(j, &a[2], 1);
    if (!step)
        hearth_jinja_fail(j, "range() arg 3 must not be zero");
    const value out = hearth_jinja_list(j, JINJA_RANGE);
    out.u.list->range[0] = start;
    out.u.list->range[1] = stop;
    out.u.list->range[2] = step;
    for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
        if (out.u.list->n == JINJA_MAX_RANGE)
            hearth_jinja_fail(j, "range() of more than %d numbers", JINJA_MAX_RANGE);
        hearth_jinja_append(j, out.u.list, hearth_jinja_int(i));
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    return out;
}

static void add_pairs(struct jinja *j, struct jinja_dict *dict, const value *from)
{
    const struct jinja_list *pairs = hearth_jinja_items(j, from);
    if (from->type == JINJA_DICT) {
        for (size_t i = 0; i < from->u.dict->n; i++)
            hearth_jinja_set(j, dict, from->u.dict->v[i].key, from->u.dict->v[i].value);
        return;
    }
    for (size_t i = 0; i < pairs->n; i++) {
        const struct jinja_list *pair = hearth_jinja_items(j, &pairs->v[i]);
        if (pair->n != 2)
            hearth_jinja_fail(j, "a dict is made of pairs");
        hearth_jinja_set(j, dict, pair->v[0], pair->v[1]);
    }
}

static value dict(struct jinja *j, const value *self, const struct jinja_args *args)
{
    const value out = hearth_jinja_dict(j);
    (void)self;
    if (args->n > 1)
        hearth_jinja_fail(j, "dict expected at most 1 argument, got %zu", args->n);
    if (args->n)
        add_pairs(j, out.u.dict, &args->v[0]);
    for (size_t i = 0; i < args->n_kw; i++)
        hearth_jinja_set(j, out.u.dict, (value){.type = JINJA_STRING, .u.s = args->names[i]}, args->kw[i]);
    return out;
}

static value namespace(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value out = dict(j, self, args);
    out.type = JINJA_NAMESPACE;
    return out;
}

static value joiner(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value sep;
    struct jinja_cycler *c = hearth_jinja_alloc(j, sizeof *c);
    (void)self;
    hearth_jinja_bind(j, "joiner()", args, "sep", 0, &sep);
    *c = (struct jinja_cycler){sep.type == JINJA_MISSING ? hearth_jinja_literal(j, ", ") : sep, 0};
    return (value){.type = JINJA_JOINER, .u.cycler = c};
}

static value cycler(struct jinja *j, const value *self, const struct jinja_args *args)
{
    struct jinja_cycler *c = hearth_jinja_alloc(j, sizeof *c);
    (void)self;
    if (!args->n || args->n_kw)
        hearth_jinja_fail(j, "at least one item has to be provided");
    *c = (struct jinja_cycler){hearth_jinja_list(j, JINJA_TUPLE), 0};
    for (size_t i = 0; i < args->n; i++)
        hearth_jinja_append(j, c->items.u.list, args->v[i]);
    return (value){.type = JINJA_CYCLER, .u.cycler = c};
}

static value raise_exception(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value message;
    (void)self;
    hearth_jinja_bind(j, "raise_exception()", args, "message", 1, &message);
    const struct jinja_string *s = hearth_jinja_str(j, &message).u.s;
    hearth_jinja_fail_code(j, HEARTH_E_INVALID, "the chat template refuses this conversation: %.*s",
                           (int)(s->n < 300 ? s->n : 300), s->s);
}

static value strftime_now(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value format;
    char form[256], text[1024];
    struct tm tm;
    const int64_t now = j->now == INT64_MIN ? (int64_t)time(NULL) : j->now;
    (void)self;
    hearth_jinja_bind(j, "strftime_now()", args, "format", 1, &format);
    const struct jinja_string *s = hearth_jinja_string_of(j, &format);
    if (s->n >= sizeof form || memchr(s->s, '\0', s->n))
        hearth_jinja_fail(j, "strftime_now(): a format of fewer than %zu bytes is wanted", sizeof form);
    if (!hearth_calendar(now, true, &tm))
        hearth_jinja_fail(j, "strftime_now(): the time is out of range");
    memcpy(form, s->s, s->n);
    form[s->n] = '\0';
    // What a message has written must not become a control token on its way through a date.
    const bool from_data = s->marks ? memchr(s->marks, JINJA_DATA, s->n) != NULL : s->origin == JINJA_DATA;
    return hearth_jinja_copy(j, text, strftime(text, sizeof text, form, &tm),
                             from_data ? JINJA_DATA : JINJA_TEMPLATE);
}

const struct jinja_named *hearth_jinja_globals(size_t *n)
{
    static const struct jinja_named table[] = {
        {"range", range},
        {"dict", dict},
        {"namespace", namespace},
        {"joiner", joiner},
        {"cycler", cycler},
        {"raise_exception", raise_exception},
        {"strftime_now", strftime_now},
    };
    *n = sizeof table / sizeof table[0];
    return table;
}
