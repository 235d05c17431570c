// SPDX-License-Identifier: MIT
// Filters of Jinja for strings, numbers and single values.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "text/jinja.h"

typedef struct jinja_value value;

// ---- strings

// The same as a method of the value as a string.
static value as_method(struct jinja *j, const value *self, const struct jinja_args *args, const char *name)
{
    const struct jinja_string method = {.s = name, .n = strlen(name)};
    const value s = hearth_jinja_str(j, self);
    return hearth_jinja_string_method(&method)(j, &s, args);
}

static value upper(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return as_method(j, self, args, "upper");
}

static value lower(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return as_method(j, self, args, "lower");
}

static value capitalize(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return as_method(j, self, args, "capitalize");
}

static value title(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "title", args, "", 0, NULL);
    return hearth_jinja_case(j, hearth_jinja_str(j, self).u.s, JINJA_WORDS);
}

static value trim(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value chars;
    hearth_jinja_bind(j, "trim", args, "chars", 0, &chars);
    const bool none = chars.type == JINJA_MISSING || chars.type == JINJA_NONE;
    return hearth_jinja_strip(j, hearth_jinja_str(j, self).u.s,
                              none ? NULL : hearth_jinja_string_of(j, &chars), true, true);
}

static value replace(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[3];
    hearth_jinja_bind(j, "replace", args, "old new count", 2, a);
    a[0] = hearth_jinja_str(j, &a[0]);
    a[1] = hearth_jinja_str(j, &a[1]);
    const struct jinja_args given = {.v = a, .n = a[2].type == JINJA_MISSING ? 2 : 3};
    return as_method(j, self, &given, "replace");
}

static value center(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value width;
    hearth_jinja_bind(j, "center", args, "width", 0, &width);
    width = hearth_jinja_int(hearth_jinja_int_or(j, &width, 80));
    const struct jinja_args given = {.v = &width, .n = 1};
    return as_method(j, self, &given, "center");
}

static value string(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "string", args, "", 0, NULL);
    return hearth_jinja_str(j, self);
}

static value safe(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "safe", args, "", 0, NULL);
    const value text = hearth_jinja_str(j, self);
    struct jinja_string *s = hearth_jinja_alloc(j, sizeof *s);
    *s = *text.u.s;
    s->markup = true;
    return (value){.type = JINJA_STRING, .u.s = s};
}

static value forceescape(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "escape", args, "", 0, NULL);
    struct jinja_builder b = {.j = j, .markup = true};
    hearth_jinja_put_escaped(&b, hearth_jinja_str(j, self).u.s);
    return hearth_jinja_built(&b);
}

static value escape(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return self->type == JINJA_STRING && self->u.s->markup ? *self : forceescape(j, self, args);
}

static value format(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value all = hearth_jinja_list(j, JINJA_TUPLE);
    for (size_t i = 0; i < args->n; i++)
        hearth_jinja_append(j, all.u.list, args->v[i]);
    if (args->n_kw) {
        all = hearth_jinja_dict(j);
        for (size_t i = 0; i < args->n_kw; i++)
            hearth_jinja_set(j, all.u.dict, (value){.type = JINJA_STRING, .u.s = args->names[i]},
                             args->kw[i]);
    }
    return hearth_jinja_percent(j, hearth_jinja_str(j, self).u.s, &all);
}

static value blanks(struct jinja *j, int64_t n)
{
    const value blank = hearth_jinja_literal(j, " "), count = hearth_jinja_int(n);
    return hearth_jinja_operate(j, JINJA_MULTIPLY, &blank, &count);
}

static value indent(struct jinja *j, const value *self, const struct jinja_args *args)
{
    static const struct jinja_string splitlines = {.s = "splitlines", .n = 10}, newline = {.s = "\n", .n = 1};
    static const struct jinja_args nothing = {0};
    value a[3];
    hearth_jinja_bind(j, "indent", args, "width first blank", 0, a);
    const value by = a[0].type == JINJA_STRING ? a[0] : blanks(j, hearth_jinja_int_or(j, &a[0], 4));
    const bool first = hearth_jinja_bool_or(&a[1], false), blank = hearth_jinja_bool_or(&a[2], false);
    struct jinja_builder whole = {.j = j}, b = {.j = j};
    hearth_jinja_put_string(&whole, hearth_jinja_str(j, self).u.s);
    hearth_jinja_put_string(&whole, &newline); // so that an empty last line counts
    const value text = hearth_jinja_built(&whole);
    const struct jinja_list *lines = hearth_jinja_string_method(&splitlines)(j, &text, &nothing).u.list;
    for (size_t i = 0; i < lines->n; i++) {
        const struct jinja_string *line = lines->v[i].u.s;
        if (i)
            hearth_jinja_put_string(&b, &newline);
        if (i ? blank || line->n : first)
            hearth_jinja_put_string(&b, by.u.s);
        hearth_jinja_put_string(&b, line);
    }
    return hearth_jinja_built(&b);
}

static value truncate_to(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[4];
    hearth_jinja_bind(j, "truncate", args, "length killwords end leeway", 0, a);
    const value text = hearth_jinja_str(j, self), dots = hearth_jinja_literal(j, "...");
    const struct jinja_string *end = a[2].type == JINJA_MISSING ? dots.u.s : hearth_jinja_string_of(j, &a[2]);
    const int64_t length = hearth_jinja_int_or(j, &a[0], 255), leeway = hearth_jinja_int_or(j, &a[3], 5);
    const int64_t n = (int64_t)hearth_jinja_length(text.u.s), n_end = (int64_t)hearth_jinja_length(end);
    if (length < n_end || leeway < 0)
        hearth_jinja_fail(j, "truncate: length is to be at least %lld, leeway at least 0", (long long)n_end);
    if (n - leeway <= length)
        return text;
    size_t bytes = hearth_jinja_offset(text.u.s, (size_t)(length - n_end));
    const struct jinja_string blank = {.s = " ", .n = 1};
    if (!hearth_jinja_bool_or(&a[1], false)) {
        const size_t at = hearth_jinja_search_last(j, text.u.s, &blank, bytes);
        bytes = at == SIZE_MAX ? bytes : at;
    }
    struct jinja_builder b = {.j = j};
    hearth_jinja_put_part(&b, text.u.s, 0, bytes);
    hearth_jinja_put_string(&b, end);
    return hearth_jinja_built(&b);
}

static value wordcount(struct jinja *j, const value *self, const struct jinja_args *args)
{
    int64_t words = 0;
    bool inside = false;
    size_t n;
    hearth_jinja_bind(j, "wordcount", args, "", 0, NULL);
    const value text = hearth_jinja_str(j, self);
    for (size_t i = 0; i < text.u.s->n; i += n) {
        const uint32_t c = hearth_jinja_character(text.u.s, i, &n);
        const bool word = hearth_jinja_is_letter(c) || (c >= '0' && c <= '9') || c == '_';
        words += word && !inside;
        inside = word;
    }
    return hearth_jinja_int(words);
}

// ---- numbers

static value to_int(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[2];
    int64_t i;
    double f = NAN;
    hearth_jinja_bind(j, "int", args, "default base", 0, a);
    const value def = a[0].type == JINJA_MISSING ? hearth_jinja_int(0) : a[0];
    if (self->type == JINJA_UNDEFINED)
        hearth_jinja_fail_undefined(j, self);
    if (self->type == JINJA_INT || self->type == JINJA_BOOL)
        return hearth_jinja_int(hearth_jinja_int_or(j, self, 0));
    if (self->type == JINJA_STRING &&
        hearth_jinja_parse_int(self->u.s, (int)hearth_jinja_int_or(j, &a[1], 10), &i))
        return hearth_jinja_int(i);
    if (self->type == JINJA_FLOAT)
        f = self->u.f;
    else if (self->type == JINJA_STRING && !hearth_jinja_parse_float(self->u.s, &f))
        return def;
    if (isnan(f) || isinf(f))
        return def;
    if (fabs(f) >= 9.2e18)
        hearth_jinja_fail(j, "an integer beyond 64 bits");
    return hearth_jinja_int((int64_t)f);
}

static value to_float(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value def;
    double f;
    hearth_jinja_bind(j, "float", args, "default", 0, &def);
    if (self->type == JINJA_UNDEFINED)
        hearth_jinja_fail_undefined(j, self);
    if (self->type == JINJA_FLOAT)
        return *self;
    if (self->type == JINJA_INT || self->type == JINJA_BOOL)
        return hearth_jinja_float((double)hearth_jinja_int_or(j, self, 0));
    if (self->type == JINJA_STRING && hearth_jinja_parse_float(self->u.s, &f))
        return hearth_jinja_float(f);
    return def.type == JINJA_MISSING ? hearth_jinja_float(0) : def;
}

static value absolute(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "abs", args, "", 0, NULL);
    if (self->type == JINJA_FLOAT)
        return hearth_jinja_float(fabs(self->u.f));
    if (self->type == JINJA_STRING || self->type == JINJA_LIST || self->type == JINJA_NONE)
        hearth_jinja_fail(j, "bad operand type for abs(): '%s'", hearth_jinja_type(self));
    return hearth_jinja_int_or(j, self, 0) < 0 ? hearth_jinja_negate(j, self)
                                               : hearth_jinja_int(hearth_jinja_int_or(j, self, 0));
}

// To the nearest number of so many digits; halves, in binary, to the even one.
static double nearest(double f, int64_t digits)
{
    char text[400];
    if (digits < 0) {
        const double unit = pow(10, (double)-digits);
        return nearbyint(f / unit) * unit;
    }
    if (digits > 22 || !isfinite(f) || fabs(f) > 1e60)
        return f;
    hearth_print_number(text, sizeof text, 'f', (int)digits, f);
    return hearth_strtod(text, NULL);
}

static value round_to(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[2];
    hearth_jinja_bind(j, "round", args, "precision method", 0, a);
    const int64_t digits = hearth_jinja_int_or(j, &a[0], 0);
    const value common = hearth_jinja_literal(j, "common");
    const struct jinja_string *how = hearth_jinja_string_of(j, a[1].type == JINJA_MISSING ? &common : &a[1]);
    const bool up = hearth_jinja_is_text(how, "ceil"), down = hearth_jinja_is_text(how, "floor");
    if (digits < -300 || digits > 300)
        hearth_jinja_fail(j, "round: at most 300 digits");
    const bool whole = self->type != JINJA_FLOAT;
    const double f = whole ? (double)hearth_jinja_int_or(j, self, 0) : self->u.f,
                 unit = pow(10, (double)digits);
    if (up || down)
        return hearth_jinja_float((up ? ceil(f * unit) : floor(f * unit)) / unit);
    if (!hearth_jinja_is_text(how, "common"))
        hearth_jinja_fail(j, "round: method must be common, ceil or floor");
    if (whole && digits >= 0)
        return hearth_jinja_int(hearth_jinja_int_or(j, self, 0));
    return whole ? hearth_jinja_int((int64_t)nearest(f, digits)) : hearth_jinja_float(nearest(f, digits));
}

// ---- any value

static value default_to(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[2];
    hearth_jinja_bind(j, "default", args, "default_value boolean", 0, a);
    if (self->type != JINJA_UNDEFINED && (!hearth_jinja_bool_or(&a[1], false) || hearth_jinja_true(self)))
        return *self;
    return a[0].type == JINJA_MISSING ? hearth_jinja_literal(j, "") : a[0];
}

static value attr(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value name;
    hearth_jinja_bind(j, "attr", args, "name", 1, &name);
    const struct jinja_string *s = hearth_jinja_string_of(j, &name);
    if (self->type == JINJA_DICT && !j->calls->method(self, s))
        return hearth_jinja_undefined(s, JINJA_DICT);
    return hearth_jinja_attribute(j, self, s);
}

// The filter of transformers, which has other defaults than Jinja2's.
static value tojson(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[4];
    hearth_jinja_bind(j, "tojson", args, "ensure_ascii indent separators sort_keys", 0, a);
    const struct jinja_string *indentation = NULL;
    const bool lines = a[1].type != JINJA_MISSING && a[1].type != JINJA_NONE;
    if (lines) {
        const value by = a[1].type == JINJA_STRING ? a[1] : blanks(j, hearth_jinja_int_or(j, &a[1], 0));
        indentation = by.u.s;
    }
    value comma = hearth_jinja_literal(j, lines ? "," : ", "), colon = hearth_jinja_literal(j, ": ");
    if (a[2].type != JINJA_MISSING && a[2].type != JINJA_NONE) {
        const struct jinja_list *pair = hearth_jinja_items(j, &a[2]);
        if (pair->n != 2)
            hearth_jinja_fail(j, "tojson: separators are two strings");
        comma = pair->v[0];
        colon = pair->v[1];
    }
    return hearth_jinja_dumps(j, self, hearth_jinja_bool_or(&a[0], false), hearth_jinja_bool_or(&a[3], false),
                              indentation, hearth_jinja_string_of(j, &comma),
                              hearth_jinja_string_of(j, &colon));
}

jinja_fn hearth_jinja_filter(const struct jinja_string *name)
{
    static const struct jinja_named table[] = {
        {"trim", trim},
        {"tojson", tojson},
        {"default", default_to},
        {"d", default_to},
        {"string", string},
        {"safe", safe},
        {"upper", upper},
        {"lower", lower},
        {"title", title},
        {"capitalize", capitalize},
        {"replace", replace},
        {"indent", indent},
        {"int", to_int},
        {"float", to_float},
        {"escape", escape},
        {"e", escape},
        {"forceescape", forceescape},
        {"format", format},
        {"abs", absolute},
        {"round", round_to},
        {"attr", attr},
        {"center", center},
        {"truncate", truncate_to},
        {"wordcount", wordcount},
    };
    return hearth_jinja_named(table, sizeof table / sizeof table[0], name);
}
