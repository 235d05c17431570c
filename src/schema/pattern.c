// SPDX-License-Identifier: MIT
// Regular expressions (the regular part of ECMA-262's) as the insides of JSON strings: every character in one
// of the forms that JSON has for it.
#include <stdlib.h>
#include <string.h>

#include "schema/insides.h"
#include "text/unicode.h"

#define MAX_CHAR 0x10FFFFu

enum { MAX_DEPTH = 30, MAX_RANGES = 512 };

struct ranges {
    struct {
        uint32_t lo, hi;
    } r[MAX_RANGES];
    int n;
    bool negated;
};

struct pattern {
    struct hearth_conversion *c;
    const char *at, *end;
    int depth;
    struct hearth_text *out;
};

static int refuse(struct pattern *p, const char *what)
{
    return hearth_schema_fail(p->c, HEARTH_E_UNSUPPORTED, "pattern: %s", what);
}

static bool is_here(const struct pattern *p, char c)
{
    return p->at < p->end && *p->at == c;
}

// ---- sets of characters

static bool has(const struct ranges *set, uint32_t cp)
{
    bool found = false;
    for (int i = 0; i < set->n; i++)
        found |= cp >= set->r[i].lo && cp <= set->r[i].hi;
    return found != set->negated;
}

static int add_range(struct pattern *p, struct ranges *set, uint32_t lo, uint32_t hi)
{
    if (set->n == MAX_RANGES)
        return refuse(p, "a class of too many ranges");
    set->r[set->n].lo = lo;
    set->r[set->n++].hi = hi;
    return HEARTH_OK;
}

static void add_class_char(struct hearth_text *out, uint32_t lo, uint32_t hi)
{
    hearth_text_char(out, lo);
    if (hi > lo) {
        hearth_text_add(out, "-");
        hearth_text_char(out, hi);
    }
}

// The part of a range that JSON strings have as it is.
static void add_plain(struct hearth_text *out, uint32_t lo, uint32_t hi)
{
    static const uint32_t stops[] = {'"', '\\'};
    lo = lo < 0x20 ? 0x20 : lo;
    for (size_t i = 0; i < 2; i++)
        if (lo <= stops[i] && hi >= stops[i]) {
            if (lo < stops[i])
                add_class_char(out, lo, stops[i] - 1);
            lo = stops[i] + 1;
        }
    // No range begins or ends among the surrogates.
    if (lo >= 0xD800 && lo <= 0xDFFF)
        lo = 0xE000;
    if (hi >= 0xD800 && hi <= 0xDFFF)
        hi = 0xD7FF;
    if (lo <= hi)
        add_class_char(out, lo, hi);
}

static int by_start(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void add_plain_parts(struct hearth_text *out, struct ranges *set)
{
    if (!set->negated) {
        for (int i = 0; i < set->n; i++)
            add_plain(out, set->r[i].lo, set->r[i].hi);
        return;
    }
    qsort(set->r, (size_t)set->n, sizeof set->r[0], by_start);
    uint32_t from = 0;
    for (int i = 0; i < set->n; i++) {
        if (set->r[i].lo > from)
            add_plain(out, from, set->r[i].lo - 1);
        if (set->r[i].hi >= from)
            from = set->r[i].hi + 1;
    }
    if (from <= MAX_CHAR)
        add_plain(out, from, MAX_CHAR);
}

// One character of a set, in parentheses.
static int put_set(struct pattern *p, struct ranges *set)
{
    static const struct {
        char c, escape;
    } escapes[] = {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}};
    struct hearth_text plain = {0};
    const char *bar = "";
    add_plain_parts(&plain, set);
    hearth_text_add(p->out, "(");
    if (plain.n) {
        hearth_text_add(p->out, "[");
        hearth_text_add_n(p->out, plain.s, plain.n);
        hearth_text_add(p->out, "]");
        bar = " | ";
    }
    p->out->failed |= plain.failed;
    hearth_text_free(&plain);
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++)
        if (has(set, (uint32_t)escapes[i].c)) {
            const char both[2] = {'\\', escapes[i].escape};
            hearth_text_add(p->out, bar);
            hearth_text_quote(p->out, both, 2);
            bar = " | ";
        }
    hearth_text_add(p->out, ")");
    return *bar ? HEARTH_OK : refuse(p, "a class of characters that text does not have");
}

// ---- characters and classes

static int read_hex(struct pattern *p, int digits, uint32_t *cp)
{
    *cp = 0;
    for (int i = 0; i < digits; i++) {
        const char *place = p->at < p->end ? strchr("0123456789abcdef0123456789ABCDEF", *p->at) : NULL;
        if (!place || !*place)
            return refuse(p, "\\x wants 2 hexadecimal digits, \\u 4");
        *cp = *cp << 4 | (uint32_t)(place - "0123456789abcdef0123456789ABCDEF") % 16;
        p->at++;
    }
    return *cp >= 0xD800 && *cp <= 0xDFFF ? refuse(p, "half a character") : HEARTH_OK;
}

static int add_ranges_of(struct pattern *p, struct ranges *set, char name)
{
    static const uint32_t digits[] = {'0', '9'}, words[] = {'0', '9', 'A', 'Z', '_', '_', 'a', 'z'},
                          spaces[] = {'\t', '\r', ' ', ' ', 0xA0, 0xA0, 0x2028, 0x2029, 0x3000, 0x3000};
    const char kind = (char)(name | 0x20);
    const uint32_t *r = kind == 'd' ? digits : kind == 'w' ? words : spaces;
    const int n = kind == 'd' ? 1 : kind == 'w' ? 4 : 5;
    uint32_t from = 0;
    for (int i = 0; i < n; i++) {
        int rc = HEARTH_OK;
        if (name == kind)
            rc = add_range(p, set, r[2 * i], r[2 * i + 1]);
        else if (r[2 * i] > from)
            rc = add_range(p, set, from, r[2 * i] - 1);
        if (rc)
            return rc;
        from = r[2 * i + 1] + 1;
    }
    return name == kind ? HEARTH_OK : add_range(p, set, from, MAX_CHAR);
}

// Behind a backslash: adds \d and the like to the set and sets *is_set, or reads a character.
static int read_escape(struct pattern *p, struct ranges *set, bool *is_set, uint32_t *cp)
{
    static const char names[] = "nrtfv", values[] = "\n\r\t\f\v";
    *is_set = false;
    if (p->at == p->end)
        return refuse(p, "a backslash at its end");
    const char c = *p->at++;
    if (strchr("dDwWsS", c)) {
        *is_set = true;
        return add_ranges_of(p, set, c);
    }
    if (c == 'x' || c == 'u')
        return read_hex(p, c == 'x' ? 2 : 4, cp);
    const char *name = strchr(names, c);
    if (name) {
        *cp = (uint8_t)values[name - names];
        return HEARTH_OK;
    }
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (uint8_t)c >= 0x80)
        return refuse(p, "an escape that is not supported");
    *cp = (uint8_t)c;
    return HEARTH_OK;
}

static int read_char(struct pattern *p, struct ranges *set, bool *is_set, uint32_t *cp)
{
    *is_set = false;
    if (is_here(p, '\\')) {
        p->at++;
        return read_escape(p, set, is_set, cp);
    }
    p->at += hearth_utf8_decode(p->at, (size_t)(p->end - p->at), cp);
    return HEARTH_OK;
}

static int read_class(struct pattern *p)
{
    struct ranges set = {.n = 0};
    p->at++;
    set.negated = is_here(p, '^');
    p->at += set.negated;
    while (!is_here(p, ']')) {
        uint32_t lo = 0, hi;
        bool is_set;
        if (p->at == p->end)
            return refuse(p, "a class without its closing bracket");
        int rc = read_char(p, &set, &is_set, &lo);
        if (rc)
            return rc;
        if (is_set)
            continue;
        hi = lo;
        if (is_here(p, '-') && p->at + 1 < p->end && p->at[1] != ']') {
            p->at++;
            rc = read_char(p, &set, &is_set, &hi);
            if (rc)
                return rc;
            if (is_set || hi < lo)
                return refuse(p, "a range whose end comes before its start");
        }
        rc = add_range(p, &set, lo, hi);
        if (rc)
            return rc;
    }
    p->at++;
    return put_set(p, &set);
}

static int read_single(struct pattern *p)
{
    struct ranges set = {.n = 0};
    uint32_t cp = 0;
    bool is_set;
    int rc = HEARTH_OK;
    if (is_here(p, '.')) {
        p->at++;
        set.negated = true;
        rc = add_range(p, &set, '\n', '\n');
        rc = rc ? rc : add_range(p, &set, '\r', '\r');
        rc = rc ? rc : add_range(p, &set, 0x2028, 0x2029);
    } else {
        rc = read_char(p, &set, &is_set, &cp);
        if (!rc && !is_set)
            rc = add_range(p, &set, cp, cp);
    }
    return rc ? rc : put_set(p, &set);
}

// ---- expressions

static int read_alternatives(struct pattern *p, bool top);

static int read_group(struct pattern *p)
{
    p->at++;
    if (++p->depth > MAX_DEPTH)
        return refuse(p, "too many parentheses in parentheses");
    if (is_here(p, '?')) {
        p->at++;
        if (is_here(p, ':')) {
            p->at++;
        } else if (p->end - p->at > 1 && *p->at == '<' && p->at[1] != '=' && p->at[1] != '!') {
            while (p->at < p->end && *p->at++ != '>')
                ;
        } else {
            return refuse(p, "looking ahead or behind is not supported");
        }
    }
    hearth_text_add(p->out, "(");
    const int rc = read_alternatives(p, false);
    if (rc)
        return rc;
    if (!is_here(p, ')'))
        return refuse(p, "a parenthesis is not closed");
    p->at++;
    p->depth--;
    hearth_text_add(p->out, ")");
    return HEARTH_OK;
}

static int read_repetition(struct pattern *p)
{
    if (p->at < p->end && strchr("*+?", *p->at)) {
        hearth_text_add_n(p->out, p->at++, 1);
    } else if (is_here(p, '{')) {
        const char *close = memchr(p->at, '}', (size_t)(p->end - p->at));
        if (!close || close == p->at + 1 || close - p->at > 15)
            return refuse(p, "{ begins no repetition");
        for (const char *d = p->at + 1; d < close; d++)
            if ((*d < '0' || *d > '9') &&
                !(*d == ',' && d > p->at + 1 && !memchr(p->at, ',', (size_t)(d - p->at))))
                return refuse(p, "{ begins no repetition");
        hearth_text_add_n(p->out, p->at, (size_t)(close - p->at) + 1);
        p->at = close + 1;
    } else {
        return HEARTH_OK;
    }
    if (is_here(p, '?')) // as few as will do: the same texts
        p->at++;
    return p->at < p->end && strchr("*+?{", *p->at) ? refuse(p, "a repetition of a repetition") : HEARTH_OK;
}

static int read_part(struct pattern *p)
{
    switch (*p->at) {
    case '(': {
        const int rc = read_group(p);
        return rc ? rc : read_repetition(p);
    }
    case '[': {
        const int rc = read_class(p);
        return rc ? rc : read_repetition(p);
    }
    case '^':
    case '$':
        return refuse(p, "^ and $ only at its ends");
    case '*':
    case '+':
    case '?':
    case '{':
        return refuse(p, "a repetition of nothing");
    default: {
        const int rc = read_single(p);
        return rc ? rc : read_repetition(p);
    }
    }
}

// One alternative. At the top, what is not tied to an end of the text has any text there.
static int read_sequence(struct pattern *p, bool top)
{
    const bool tied = top && is_here(p, '^');
    bool tied_end = false;
    p->at += tied;
    hearth_text_add(p->out, top && !tied ? "char* " : "\"\"");
    while (p->at < p->end && *p->at != '|' && *p->at != ')') {
        if (top && *p->at == '$' && (p->at + 1 == p->end || p->at[1] == '|')) {
            p->at++;
            tied_end = true;
            break;
        }
        hearth_text_add(p->out, " ");
        const int rc = read_part(p);
        if (rc)
            return rc;
    }
    if (top && !tied_end)
        hearth_text_add(p->out, " char*");
    return HEARTH_OK;
}

static int read_alternatives(struct pattern *p, bool top)
{
    for (;;) {
        const int rc = read_sequence(p, top);
        if (rc)
            return rc;
        if (!is_here(p, '|'))
            return HEARTH_OK;
        p->at++;
        hearth_text_add(p->out, " | ");
    }
}

int hearth_schema_pattern(struct hearth_conversion *c, const char *pattern, size_t n, struct hearth_text *out)
{
    struct pattern p = {c, pattern, pattern + n, 0, out};
    if (memchr(pattern, '\0', n))
        return refuse(&p, "a character that text does not have");
    hearth_text_add(out, "(");
    const int rc = read_alternatives(&p, true);
    if (rc)
        return rc;
    if (p.at < p.end)
        return refuse(&p, "a parenthesis closes nothing");
    hearth_text_add(out, ")");
    return HEARTH_OK;
}
