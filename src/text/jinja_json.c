// SPDX-License-Identifier: MIT
// JSON: reading the data of a chat, and what the filter tojson writes.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "text/jinja.h"
#include "text/unicode.h"

// ---- reading

struct reader {
    struct jinja *j;
    const char *text, *what;
    size_t n, at;
    enum jinja_origin origin;
};

_Noreturn static void refuse(struct reader *r, const char *why)
{
    int line = 1;
    size_t column = 1;
    for (size_t i = 0; i < r->at && i < r->n; i++) {
        column = r->text[i] == '\n' ? 1 : column + 1;
        line += r->text[i] == '\n';
    }
    hearth_jinja_fail_code(r->j, HEARTH_E_INVALID, "%s: no good JSON, line %d, column %zu: %s", r->what, line,
                           column, why);
}

static void skip_blanks(struct reader *r)
{
    while (r->at < r->n && r->text[r->at] && strchr(" \t\r\n", r->text[r->at]))
        r->at++;
}

static bool take(struct reader *r, char c)
{
    skip_blanks(r);
    if (r->at == r->n || r->text[r->at] != c)
        return false;
    r->at++;
    return true;
}

static bool take_word(struct reader *r, const char *word)
{
    const size_t n = strlen(word);
    if (n > r->n - r->at || memcmp(r->text + r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

static uint32_t read_hex(struct reader *r)
{
    uint32_t c = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        const char digit = r->at < r->n ? r->text[r->at] : ' ';
        if (digit >= '0' && digit <= '9')
            c = c * 16 + (uint32_t)(digit - '0');
        else if ((digit | 32) >= 'a' && (digit | 32) <= 'f')
            c = c * 16 + (uint32_t)((digit | 32) - 'a' + 10);
        else
            refuse(r, "\\u needs four hexadecimal digits");
    }
    return c;
}

// What follows a backslash. A half of a surrogate pair becomes U+FFFD.
static void read_escape(struct reader *r, struct jinja_builder *b)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char c = r->at < r->n ? r->text[r->at++] : ' ';
    const char *known = c ? strchr(from, c) : NULL;
    char bytes[4];
    if (known) {
        hearth_jinja_put(b, &to[known - from], 1, r->origin);
        return;
    }
    if (c != 'u')
        refuse(r, "an unknown escape");
    uint32_t code = read_hex(r);
    const size_t after = r->at;
    if (code >= 0xD800 && code < 0xDC00 && take_word(r, "\\u")) {
        const uint32_t low = read_hex(r);
        if (low >= 0xDC00 && low < 0xE000)
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        else
            r->at = after;
    }
    if (code >= 0xD800 && code < 0xE000)
        code = 0xFFFD;
    hearth_jinja_put(b, bytes, hearth_utf8_encode(code, bytes), r->origin);
}

// What lies between `start` and here, without escapes.
static void put_checked(struct reader *r, struct jinja_builder *b, size_t start)
{
    if (hearth_utf8_span(r->text + start, r->at - start) != r->at - start)
        refuse(r, "a string that is no UTF-8");
    hearth_jinja_put(b, r->text + start, r->at - start, r->origin);
}

// After the opening quote.
static struct jinja_value read_string(struct reader *r)
{
    struct jinja_builder b = {.j = r->j};
    size_t start = r->at;
    b.origin = (uint8_t)r->origin;
    for (; r->at < r->n && r->text[r->at] != '"'; r->at++) {
        if ((uint8_t)r->text[r->at] < 0x20)
            refuse(r, "a control character within a string");
        if (r->text[r->at] != '\\')
            continue;
        put_checked(r, &b, start);
        r->at++;
        read_escape(r, &b);
        start = r->at--;
    }
    if (r->at == r->n)
        refuse(r, "a string without an end");
    put_checked(r, &b, start);
    r->at++;
    return hearth_jinja_built(&b);
}

static size_t count_digits(const struct reader *r, size_t at)
{
    size_t n = 0;
    while (at + n < r->n && r->text[at + n] >= '0' && r->text[at + n] <= '9')
        n++;
    return n;
}

// Integers that are too large for 64 bits become floating-point numbers.
static struct jinja_value read_number(struct reader *r)
{
    char text[400];
    size_t end = r->at + (r->text[r->at] == '-'), n = count_digits(r, end);
    bool whole = true;
    if (!n || (n > 1 && r->text[end] == '0'))
        refuse(r, "not a value");
    end += n;
    if (end < r->n && r->text[end] == '.' && (n = count_digits(r, end + 1))) {
        end += 1 + n;
        whole = false;
    }
    if (end < r->n && (r->text[end] | 32) == 'e') {
        const size_t sign = end + 1 < r->n && (r->text[end + 1] == '-' || r->text[end + 1] == '+');
        if ((n = count_digits(r, end + 1 + sign))) {
            end += 1 + sign + n;
            whole = false;
        }
    }
    if (end - r->at >= sizeof text)
        refuse(r, "a number of too many digits");
    memcpy(text, r->text + r->at, end - r->at);
    text[end - r->at] = '\0';
    r->at = end;
    errno = 0;
    const long long i = whole ? strtoll(text, NULL, 10) : 0;
    return whole && !errno ? hearth_jinja_int(i) : hearth_jinja_float(hearth_strtod(text, NULL));
}

static struct jinja_value read_value(struct reader *r);

static struct jinja_value read_list(struct reader *r)
{
    const struct jinja_value list = hearth_jinja_list(r->j, JINJA_PLAIN);
    if (take(r, ']'))
        return list;
    do {
        hearth_jinja_append(r->j, list.u.list, read_value(r));
    } while (take(r, ','));
    if (!take(r, ']'))
        refuse(r, "a list goes on with ',' or ends with ']'");
    return list;
}

static struct jinja_value read_dict(struct reader *r)
{
    const struct jinja_value dict = hearth_jinja_dict(r->j);
    if (take(r, '}'))
        return dict;
    do {
        if (!take(r, '"'))
            refuse(r, "a key is a string");
        const struct jinja_value key = read_string(r);
        if (!take(r, ':'))
            refuse(r, "a key is followed by ':'");
        hearth_jinja_set(r->j, dict.u.dict, key, read_value(r));
    } while (take(r, ','));
    if (!take(r, '}'))
        refuse(r, "an object goes on with ',' or ends with '}'");
    return dict;
}

static struct jinja_value read_value(struct reader *r)
{
    struct jinja_value v = hearth_jinja_none();
    skip_blanks(r);
    if (r->j->depth >= JINJA_MAX_DEPTH - 1)
        refuse(r, "too many lists and objects within each other");
    hearth_jinja_enter(r->j);
    if (take(r, '['))
        v = read_list(r);
    else if (take(r, '{'))
        v = read_dict(r);
    else if (take(r, '"'))
        v = read_string(r);
    else if (take_word(r, "true"))
        v = hearth_jinja_bool(true);
    else if (take_word(r, "false"))
        v = hearth_jinja_bool(false);
    else if (r->at == r->n)
        refuse(r, "it ends where a value is wanted");
    else if (!take_word(r, "null"))
        v = read_number(r);
    hearth_jinja_leave(r->j);
    return v;
}

struct jinja_value hearth_jinja_read_json(struct jinja *j, const char *text, size_t n, const char *what,
                                          enum jinja_origin origin)
{
    struct reader r = {j, text, what, n, 0, origin};
    hearth_jinja_work(j, n / 4);
    const struct jinja_value v = read_value(&r);
    skip_blanks(&r);
    if (r.at < n)
        refuse(&r, "there is more after the value");
    return v;
}

// ---- writing

struct writer {
    struct jinja_builder b;
    bool ascii, sort_keys;
    const struct jinja_string *indent, *comma, *colon; // indent NULL: one line
};

static void write_value(struct writer *w, const struct jinja_value *v, int depth);

static void new_line(struct writer *w, int depth)
{
    if (!w->indent)
        return;
    hearth_jinja_put_literal(&w->b, "\n");
    for (int i = 0; i < depth; i++)
        hearth_jinja_put_string(&w->b, w->indent);
}

static void write_escape(struct writer *w, uint32_t c, uint8_t origin)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *known = c && c < 0x80 ? strchr(from, (int)c) : NULL;
    char text[16];
    if (known)
        snprintf(text, sizeof text, "\\%c", to[known - from]);
    else if (c < 0x10000)
        snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    else
        snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xD800 + ((c - 0x10000) >> 10)),
                 (unsigned)(0xDC00 + ((c - 0x10000) & 0x3FF)));
    hearth_jinja_put(&w->b, text, strlen(text), origin);
}

static void write_string(struct writer *w, const struct jinja_string *s)
{
    size_t start = 0, n;
    hearth_jinja_put_literal(&w->b, "\"");
    for (size_t i = 0; i < s->n; i += n) {
        const uint32_t c = hearth_jinja_character(s, i, &n);
        if (c >= 0x20 && c != '"' && c != '\\' && !(w->ascii && c >= 0x80))
            continue;
        hearth_jinja_put_part(&w->b, s, start, i - start);
        write_escape(w, c, s->marks ? s->marks[i] : s->origin);
        start = i + n;
    }
    hearth_jinja_put_part(&w->b, s, start, s->n - start);
    hearth_jinja_put_literal(&w->b, "\"");
}

static void write_float(struct writer *w, double f)
{
    if (isfinite(f))
        hearth_jinja_put_float(&w->b, f);
    else
        hearth_jinja_put_literal(&w->b, isnan(f) ? "NaN" : f > 0 ? "Infinity" : "-Infinity");
}

static void write_key(struct writer *w, const struct jinja_value *key)
{
    const bool quoted = key->type == JINJA_STRING;
    if (!quoted && key->type != JINJA_NONE && key->type != JINJA_BOOL && key->type != JINJA_INT &&
        key->type != JINJA_FLOAT)
        hearth_jinja_fail(w->b.j, "a dict with a key of type '%s' cannot be written as JSON",
                          hearth_jinja_type(key));
    if (!quoted)
        hearth_jinja_put_literal(&w->b, "\"");
    write_value(w, key, 0);
    if (!quoted)
        hearth_jinja_put_literal(&w->b, "\"");
}

static void write_list(struct writer *w, const struct jinja_list *list, int depth)
{
    hearth_jinja_put_literal(&w->b, "[");
    for (size_t i = 0; i < list->n; i++) {
        if (i)
            hearth_jinja_put_string(&w->b, w->comma);
        new_line(w, depth + 1);
        write_value(w, &list->v[i], depth + 1);
    }
    if (list->n)
        new_line(w, depth);
    hearth_jinja_put_literal(&w->b, "]");
}

// The entries in the order of their keys. Insertion is enough: objects have few keys.
static const struct jinja_entry **sorted_entries(struct jinja *j, const struct jinja_dict *dict)
{
    const struct jinja_entry **order = hearth_jinja_array(j, dict->n, sizeof *order);
    for (size_t i = 0; i < dict->n; i++) {
        size_t k = i;
        for (; k && hearth_jinja_compare(j, &dict->v[i].key, &order[k - 1]->key, "<") == -1; k--)
            order[k] = order[k - 1];
        order[k] = &dict->v[i];
        hearth_jinja_work(j, i - k + 1);
    }
    return order;
}

static void write_dict(struct writer *w, const struct jinja_dict *dict, int depth)
{
    const struct jinja_entry **order = w->sort_keys ? sorted_entries(w->b.j, dict) : NULL;
    hearth_jinja_put_literal(&w->b, "{");
    for (size_t i = 0; i < dict->n; i++) {
        const struct jinja_entry *e = order ? order[i] : &dict->v[i];
        if (i)
            hearth_jinja_put_string(&w->b, w->comma);
        new_line(w, depth + 1);
        write_key(w, &e->key);
        hearth_jinja_put_string(&w->b, w->colon);
        write_value(w, &e->value, depth + 1);
    }
    if (dict->n)
        new_line(w, depth);
    hearth_jinja_put_literal(&w->b, "}");
}

static void write_value(struct writer *w, const struct jinja_value *v, int depth)
{
    hearth_jinja_enter(w->b.j);
    if (v->type == JINJA_STRING)
        write_string(w, v->u.s);
    else if (v->type == JINJA_NONE)
        hearth_jinja_put_literal(&w->b, "null");
    else if (v->type == JINJA_BOOL)
        hearth_jinja_put_literal(&w->b, v->u.b ? "true" : "false");
    else if (v->type == JINJA_INT)
        hearth_jinja_print(&w->b, v);
    else if (v->type == JINJA_FLOAT)
        write_float(w, v->u.f);
    else if (v->type == JINJA_LIST && v->u.list->kind <= JINJA_TUPLE)
        write_list(w, v->u.list, depth);
    else if (v->type == JINJA_DICT)
        write_dict(w, v->u.dict, depth);
    else
        hearth_jinja_fail(w->b.j, "a value of type '%s' cannot be written as JSON", hearth_jinja_type(v));
    hearth_jinja_leave(w->b.j);
}

struct jinja_value hearth_jinja_dumps(struct jinja *j, const struct jinja_value *v, bool ascii,
                                      bool sort_keys, const struct jinja_string *indent,
                                      const struct jinja_string *comma, const struct jinja_string *colon)
{
    struct writer w = {{.j = j}, ascii, sort_keys, indent, comma, colon};
    write_value(&w, v, 0);
    return hearth_jinja_built(&w.b);
}
