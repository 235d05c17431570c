// SPDX-License-Identifier: MIT
// Values as text: str(), repr(), and the two ways in which Python's strings format values.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "text/jinja.h"

// ---- numbers

// Digits of a finite number above zero, as few as give it back, and the power of ten of the first one.
static int digits_of(double f, char digits[24], int *exponent)
{
    char text[40];
    for (int precision = 0; precision < 17; precision++) {
        hearth_print_number(text, sizeof text, 'e', precision, f);
        if (hearth_strtod(text, NULL) == f)
            break;
    }
    int n = 0;
    for (const char *c = text; *c != 'e'; c++)
        if (*c != '.')
            digits[n++] = *c;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = '\0';
    *exponent = atoi(strchr(text, 'e') + 1);
    return n;
}

void hearth_jinja_put_float(struct jinja_builder *b, double f)
{
    char digits[24], text[64];
    int exponent;
    if (isnan(f) || isinf(f)) {
        hearth_jinja_put_literal(b, isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
        return;
    }
    if (signbit(f))
        hearth_jinja_put_literal(b, "-");
    f = fabs(f);
    if (f == 0) {
        hearth_jinja_put_literal(b, "0.0");
        return;
    }
    const int n = digits_of(f, digits, &exponent);
    if (exponent < -4 || exponent >= 16)
        snprintf(text, sizeof text, "%c%s%se%c%02d", digits[0], n > 1 ? "." : "", digits + 1,
                 exponent < 0 ? '-' : '+', abs(exponent));
    else if (exponent < 0)
        snprintf(text, sizeof text, "0.%.*s%s", -exponent - 1, "0000", digits);
    else if (exponent >= n - 1)
        snprintf(text, sizeof text, "%s%.*s.0", digits, exponent - n + 1, "0000000000000000");
    else
        snprintf(text, sizeof text, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
    hearth_jinja_put(b, text, strlen(text), JINJA_TEMPLATE);
}

static void put_int(struct jinja_builder *b, int64_t i)
{
    char text[24];
    const int n = snprintf(text, sizeof text, "%" PRId64, i);
    hearth_jinja_put(b, text, (size_t)n, JINJA_TEMPLATE);
}

// ---- repr()

static void repr_character(struct jinja_builder *b, const struct jinja_string *s, size_t at, size_t n,
                           uint32_t c, char quote)
{
    char text[16];
    const uint8_t origin = s->marks ? s->marks[at] : s->origin;
    int length = 0;
    if (c == (uint8_t)quote || c == '\\')
        length = snprintf(text, sizeof text, "\\%c", (char)c);
    else if (c == '\n' || c == '\r' || c == '\t')
        length = snprintf(text, sizeof text, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else if (!hearth_jinja_is_printable(c))
        length = snprintf(text, sizeof text,
                          c < 0x100     ? "\\x%02" PRIx32
                          : c < 0x10000 ? "\\u%04" PRIx32
                                        : "\\U%08" PRIx32,
                          c);
    if (length)
        hearth_jinja_put(b, text, (size_t)length, origin);
    else
        hearth_jinja_put_part(b, s, at, n);
}

static void repr_string(struct jinja_builder *b, const struct jinja_string *s)
{
    const bool has_single = s->n && memchr(s->s, '\'', s->n), has_double = s->n && memchr(s->s, '"', s->n);
    const char quote[2] = {has_single && !has_double ? '"' : '\'', '\0'};
    size_t n;
    hearth_jinja_put_literal(b, quote);
    for (size_t i = 0; i < s->n; i += n) {
        const uint32_t c = hearth_jinja_character(s, i, &n);
        repr_character(b, s, i, n, c, quote[0]);
    }
    hearth_jinja_put_literal(b, quote);
}

static void put_repr(struct jinja_builder *b, const struct jinja_value *v);

static void repr_items(struct jinja_builder *b, const struct jinja_list *list, const char *open,
                       const char *close)
{
    hearth_jinja_put_literal(b, open);
    for (size_t i = 0; i < list->n; i++) {
        if (i)
            hearth_jinja_put_literal(b, ", ");
        put_repr(b, &list->v[i]);
    }
    hearth_jinja_put_literal(b, close);
}

static void repr_list(struct jinja_builder *b, const struct jinja_list *list)
{
    switch (list->kind) {
    case JINJA_PLAIN:
        repr_items(b, list, "[", "]");
        break;
    case JINJA_TUPLE:
        repr_items(b, list, "(", list->n == 1 ? ",)" : ")");
        break;
    case JINJA_RANGE:
        hearth_jinja_put_literal(b, "range(");
        put_int(b, list->range[0]);
        hearth_jinja_put_literal(b, ", ");
        put_int(b, list->range[1]);
        if (list->range[2] != 1) {
            hearth_jinja_put_literal(b, ", ");
            put_int(b, list->range[2]);
        }
        hearth_jinja_put_literal(b, ")");
        break;
    case JINJA_VIEW:
        hearth_jinja_put_literal(b, list->name);
        repr_items(b, list, "([", "])");
        break;
    default: // Python adds an address, which no template can want
        hearth_jinja_put_literal(b, "<generator object>");
        break;
    }
}

static void repr_dict(struct jinja_builder *b, const struct jinja_dict *dict)
{
    hearth_jinja_put_literal(b, "{");
    for (size_t i = 0; i < dict->n; i++) {
        if (i)
            hearth_jinja_put_literal(b, ", ");
        put_repr(b, &dict->v[i].key);
        hearth_jinja_put_literal(b, ": ");
        put_repr(b, &dict->v[i].value);
    }
    hearth_jinja_put_literal(b, "}");
}

static void put_repr(struct jinja_builder *b, const struct jinja_value *v)
{
    hearth_jinja_enter(b->j);
    switch (v->type) {
    case JINJA_UNDEFINED:
        hearth_jinja_put_literal(b, "Undefined");
        break;
    case JINJA_NONE:
        hearth_jinja_put_literal(b, "None");
        break;
    case JINJA_BOOL:
        hearth_jinja_put_literal(b, v->u.b ? "True" : "False");
        break;
    case JINJA_INT:
        put_int(b, v->u.i);
        break;
    case JINJA_FLOAT:
        hearth_jinja_put_float(b, v->u.f);
        break;
    case JINJA_STRING:
        repr_string(b, v->u.s);
        break;
    case JINJA_LIST:
        repr_list(b, v->u.list);
        break;
    case JINJA_DICT:
        repr_dict(b, v->u.dict);
        break;
    case JINJA_NAMESPACE:
        hearth_jinja_put_literal(b, "<Namespace ");
        repr_dict(b, v->u.dict);
        hearth_jinja_put_literal(b, ">");
        break;
    default:
        hearth_jinja_put_literal(b, "<");
        hearth_jinja_put_literal(b, hearth_jinja_type(v));
        hearth_jinja_put_literal(b, ">");
    }
    hearth_jinja_leave(b->j);
}

void hearth_jinja_print(struct jinja_builder *b, const struct jinja_value *v)
{
    if (v->type == JINJA_STRING)
        hearth_jinja_put_string(b, v->u.s);
    else if (v->type != JINJA_UNDEFINED)
        put_repr(b, v);
}

struct jinja_value hearth_jinja_str(struct jinja *j, const struct jinja_value *v)
{
    if (v->type == JINJA_STRING)
        return *v;
    struct jinja_builder b = {.j = j};
    hearth_jinja_print(&b, v);
    return hearth_jinja_built(&b);
}

// ---- formats

// What stands between % or : and the letter of the type.
struct spec {
    bool left, center, plus, space, zero, alternate, has_align, comma;
    const char *fill; // a character
    size_t n_fill;
    enum jinja_origin origin; // of the character
    int64_t width, precision; // precision -1: not given
    char type;                // 0: not given
};

static int64_t number_at(struct jinja *j, const struct jinja_string *s, size_t *at)
{
    int64_t n = 0;
    for (; *at < s->n && s->s[*at] >= '0' && s->s[*at] <= '9'; ++*at) {
        n = n * 10 + (s->s[*at] - '0');
        if (n > 100000)
            hearth_jinja_fail(j, "a format asks for more than 100000 characters");
    }
    return n;
}

static void pad(struct jinja_builder *b, const struct spec *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        hearth_jinja_put(b, p->fill, p->n_fill, p->origin);
}

// Text with the width of the format. `sign`: bytes of it that stay before filling zeros.
static void put_padded(struct jinja_builder *b, const struct spec *p, const struct jinja_string *s,
                       size_t sign, bool left)
{
    const int64_t missing = p->width - (int64_t)hearth_jinja_length(s);
    if (missing <= 0) {
        hearth_jinja_put_string(b, s);
    } else if (p->zero && !p->has_align) {
        const struct spec zeros = {.fill = "0", .n_fill = 1};
        hearth_jinja_put_part(b, s, 0, sign);
        pad(b, &zeros, missing);
        hearth_jinja_put_part(b, s, sign, s->n - sign);
    } else {
        const int64_t before = p->center ? missing / 2 : left ? 0 : missing;
        pad(b, p, before);
        hearth_jinja_put_string(b, s);
        pad(b, p, missing - before);
    }
}

static double as_double(struct jinja *j, const struct jinja_value *v)
{
    if (v->type == JINJA_FLOAT)
        return v->u.f;
    return (double)hearth_jinja_int_or(j, v, 0);
}

static size_t group_digits(char *text, size_t n, size_t sign)
{
    size_t whole = sign;
    while (whole < n && text[whole] >= '0' && text[whole] <= '9')
        whole++;
    for (size_t at = whole; at > sign + 3;) {
        at -= 3;
        memmove(text + at + 1, text + at, n - at);
        text[at] = ',';
        n++;
    }
    return n;
}

static void put_number(struct jinja_builder *b, const struct spec *p, const struct jinja_value *v, char type)
{
    char text[900], form[16]; // at most 309 digits, commas between them, a point and 100 more
    int n;
    if (p->precision > 100)
        hearth_jinja_fail(b->j, "a format asks for more than 100 digits");
    const char *sign = p->plus ? "+" : p->space ? " " : "";
    if (strchr("feEgG%", type)) {
        const double f = as_double(b->j, v) * (type == '%' ? 100 : 1);
        snprintf(form, sizeof form, "%%%s%s.*%c", sign, p->alternate ? "#" : "", type == '%' ? 'f' : type);
        n = snprintf(text, sizeof text - 200, form, (int)(p->precision < 0 ? 6 : p->precision), f);
        if (type == '%')
            text[n++] = '%';
    } else {
        int64_t i =
            v->type == JINJA_FLOAT && fabs(v->u.f) < 9e18 ? (int64_t)v->u.f : hearth_jinja_int_or(b->j, v, 0);
        const uint64_t size = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
        const char *before = i < 0 ? "-" : sign;
        const char *base = !p->alternate ? "" : type == 'x' || type == 'X' ? "0x" : type == 'o' ? "0o" : "";
        snprintf(form, sizeof form, "%%s%%s%%%s",
                 type == 'x'   ? PRIx64
                 : type == 'X' ? PRIX64
                 : type == 'o' ? PRIo64
                               : PRIu64);
        n = snprintf(text, sizeof text, form, before, base, size);
    }
    size_t length = (size_t)n, start = strspn(text, "+- ");
    if (p->comma)
        length = group_digits(text, length, start);
    const struct jinja_string s = {.s = text, .n = length};
    put_padded(b, p, &s, start, p->left);
}

static void put_cut(struct jinja_builder *b, const struct spec *p, struct jinja_value text, bool left)
{
    struct jinja_string s = *text.u.s;
    if (p->precision >= 0)
        s.n = hearth_jinja_offset(&s, (size_t)p->precision);
    put_padded(b, p, &s, 0, left);
}

static struct jinja_value repr_value(struct jinja *j, const struct jinja_value *v)
{
    struct jinja_builder b = {.j = j};
    put_repr(&b, v);
    return hearth_jinja_built(&b);
}

// ---- the operator %

static struct spec percent_spec(struct jinja *j, const struct jinja_string *s, size_t *at)
{
    struct spec p = {.fill = " ", .n_fill = 1, .precision = -1};
    for (; *at < s->n && strchr("-+ 0#", s->s[*at]) && s->s[*at]; ++*at) {
        p.left |= s->s[*at] == '-';
        p.plus |= s->s[*at] == '+';
        p.space |= s->s[*at] == ' ';
        p.zero |= s->s[*at] == '0';
        p.alternate |= s->s[*at] == '#';
    }
    p.has_align = p.left;
    p.width = number_at(j, s, at);
    if (*at < s->n && s->s[*at] == '.') {
        ++*at;
        p.precision = number_at(j, s, at);
    }
    if (*at == s->n)
        hearth_jinja_fail(j, "a format ends within a %% sequence");
    p.type = s->s[(*at)++];
    return p;
}

static void put_percent(struct jinja_builder *b, struct spec *p, const struct jinja_value *v)
{
    switch (p->type) {
    case 's':
        p->zero = false;
        put_cut(b, p, hearth_jinja_str(b->j, v), p->left);
        break;
    case 'r':
        p->zero = false;
        put_cut(b, p, repr_value(b->j, v), p->left);
        break;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
        put_number(b, p, v, p->type == 'i' || p->type == 'u' ? 'd' : p->type == 'F' ? 'f' : p->type);
        break;
    default:
        hearth_jinja_fail(b->j, "a format has the unknown type '%c'", p->type);
    }
}

struct jinja_value hearth_jinja_percent(struct jinja *j, const struct jinja_string *s,
                                        const struct jinja_value *v)
{
    struct jinja_builder b = {.j = j};
    const bool many = v->type == JINJA_LIST && v->u.list->kind == JINJA_TUPLE;
    const size_t n = many ? v->u.list->n : 1;
    const struct jinja_value *args = many ? v->u.list->v : v;
    size_t used = 0, start = 0;
    for (size_t at = 0; at < s->n;) {
        if (s->s[at] != '%') {
            at++;
            continue;
        }
        hearth_jinja_put_part(&b, s, start, at - start);
        at++;
        const struct jinja_value *arg = NULL;
        if (at < s->n && s->s[at] == '(' && v->type == JINJA_DICT) {
            const char *end = memchr(s->s + at, ')', s->n - at);
            if (!end)
                hearth_jinja_fail(j, "a format ends within a %% sequence");
            const size_t length = (size_t)(end - s->s) - at - 1;
            arg = hearth_jinja_find(j, v->u.dict, hearth_jinja_part(j, s, at + 1, length));
            if (!arg)
                hearth_jinja_fail(j, "a format names a key that is not there");
            at += length + 2;
            used = n;
        }
        struct spec p = percent_spec(j, s, &at);
        start = at;
        if (p.type == '%') {
            hearth_jinja_put_literal(&b, "%");
            continue;
        }
        if (!arg && used >= n)
            hearth_jinja_fail(j, "not enough arguments for format string");
        put_percent(&b, &p, arg ? arg : &args[used++]);
    }
    hearth_jinja_put_part(&b, s, start, s->n - start);
    if (used < n && v->type != JINJA_DICT)
        hearth_jinja_fail(j, "not all arguments converted during string formatting");
    return hearth_jinja_built(&b);
}

// ---- str.format()

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '^';
}

static struct spec format_spec(struct jinja *j, const struct jinja_string *s)
{
    struct spec p = {.fill = " ", .n_fill = 1, .precision = -1};
    size_t at = 0, n = 0;
    if (s->n)
        hearth_jinja_character(s, 0, &n);
    if (n < s->n && is_align(s->s[n])) {
        p.fill = s->s;
        p.n_fill = n;
        p.origin = s->marks ? s->marks[0] : s->origin;
        at = n;
    }
    if (at < s->n && is_align(s->s[at])) {
        p.has_align = true;
        p.left = s->s[at] == '<';
        p.center = s->s[at++] == '^';
    }
    if (at < s->n && strchr("+- ", s->s[at]) && s->s[at]) {
        p.plus = s->s[at] == '+';
        p.space = s->s[at++] == ' ';
    }
    if (at < s->n && s->s[at] == '#')
        p.alternate = at++ < s->n;
    if (at < s->n && s->s[at] == '0')
        p.zero = at++ < s->n;
    p.width = number_at(j, s, &at);
    if (at < s->n && s->s[at] == ',')
        p.comma = at++ < s->n;
    if (at < s->n && s->s[at] == '.') {
        at++;
        p.precision = number_at(j, s, &at);
    }
    p.type = at < s->n ? s->s[at++] : '\0';
    if (at < s->n || (p.type && !strchr("sdxXofFeEgG%", p.type)))
        hearth_jinja_fail(j, "a format has an unknown specification");
    return p;
}

static void put_formatted(struct jinja_builder *b, const struct jinja_value *v,
                          const struct jinja_string *text)
{
    struct spec p = format_spec(b->j, text);
    const bool number = v->type == JINJA_INT || v->type == JINJA_FLOAT || v->type == JINJA_BOOL;
    if (number && p.type == '\0' && text->n && (v->type != JINJA_FLOAT || p.precision >= 0))
        p.type = v->type == JINJA_FLOAT ? 'g' : 'd';
    if (p.type && p.type != 's')
        put_number(b, &p, v, p.type == 'F' ? 'f' : p.type);
    else
        put_cut(b, &p, hearth_jinja_str(b->j, v), p.has_align ? p.left : !number);
}

// The value of a field's name: a number, a keyword or nothing (the next one).
static struct jinja_value field_value(struct jinja *j, const struct jinja_string *name,
                                      const struct jinja_args *args, size_t *next)
{
    size_t at = 0;
    const int64_t i = number_at(j, name, &at);
    if (at == name->n) {
        const size_t place = name->n ? (size_t)i : (*next)++;
        if (place >= args->n)
            hearth_jinja_fail(j, "a format names an argument that is not there");
        return args->v[place];
    }
    for (size_t k = 0; k < args->n_kw; k++)
        if (args->names[k]->n == name->n && !memcmp(args->names[k]->s, name->s, name->n))
            return args->kw[k];
    hearth_jinja_fail(j, "a format names an argument that is not there");
}

static void put_field(struct jinja_builder *b, const struct jinja_string *field,
                      const struct jinja_args *args, size_t *next)
{
    const char *colon = field->n ? memchr(field->s, ':', field->n) : NULL;
    struct jinja_string name = *field, spec = {.s = ""};
    bool repr = false;
    if (colon) {
        name.n = (size_t)(colon - field->s);
        spec = *field;
        spec.s += name.n + 1;
        spec.n -= name.n + 1;
        spec.marks = field->marks ? field->marks + name.n + 1 : NULL;
    }
    if (name.n >= 2 && name.s[name.n - 2] == '!') {
        repr = name.s[name.n - 1] == 'r';
        name.n -= 2;
    }
    struct jinja_value v = field_value(b->j, &name, args, next);
    if (repr)
        v = repr_value(b->j, &v);
    put_formatted(b, &v, &spec);
}

struct jinja_value hearth_jinja_format(struct jinja *j, const struct jinja_string *s,
                                       const struct jinja_args *args)
{
    struct jinja_builder b = {.j = j};
    size_t next = 0;
    for (size_t at = 0; at < s->n;) {
        const char c = s->s[at];
        if (c != '{' && c != '}') {
            hearth_jinja_put_part(&b, s, at++, 1);
        } else if (at + 1 < s->n && s->s[at + 1] == c) {
            hearth_jinja_put_part(&b, s, at, 1);
            at += 2;
        } else {
            const char *end = c == '{' ? memchr(s->s + at, '}', s->n - at) : NULL;
            if (!end)
                hearth_jinja_fail(j, "a single '%c' in a format", c);
            const size_t length = (size_t)(end - s->s) - at - 1;
            const struct jinja_value field = hearth_jinja_part(j, s, at + 1, length);
            put_field(&b, field.u.s, args, &next);
            at += length + 2;
        }
    }
    return hearth_jinja_built(&b);
}
