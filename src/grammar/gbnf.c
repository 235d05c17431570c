// SPDX-License-Identifier: MIT
// Reads the text of a grammar. It trusts nothing: whatever is no grammar ends in a message with line and
// column, and depths and sizes are limited.
#include "grammar/gbnf.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "text/unicode.h"

#define MAX_CHAR 0x10FFFFu

struct reader {
    struct hearth_gbnf *g;
    const char *at, *end;
    hearth_gbnf_token_fn token;
    const void *arg;
    int n_tokens, depth;
    struct hearth_error *err;
};

// ---- messages

static void locate(const struct hearth_gbnf *g, const char *at, uint32_t *line, uint32_t *column)
{
    const char *start = g->text;
    *line = *column = 1;
    for (const char *c = g->text; c < at; c++)
        if (*c == '\n') {
            ++*line;
            start = c + 1;
        }
    for (const char *c = start; c < at; c++)
        *column += ((uint8_t)*c & 0xC0) != 0x80;
}

int hearth_gbnf_fail(const struct hearth_gbnf *g, const char *at, const char *what, struct hearth_str name,
                     struct hearth_error *err)
{
    uint32_t line, column;
    locate(g, at, &line, &column);
    return hearth_fail(err, HEARTH_E_FORMAT, "the grammar, line %u, column %u: %s%.*s", line, column, what,
                       (int)(name.n < 64 ? name.n : 64), name.n ? name.s : "");
}

static int fail_at(const struct reader *r, const char *at, const char *what, const char *name, size_t n)
{
    return hearth_gbnf_fail(r->g, at, what, (struct hearth_str){name, n}, r->err);
}

static int fail_here(const struct reader *r, const char *what)
{
    return fail_at(r, r->at, what, "", 0);
}

static int no_memory(const struct reader *r)
{
    return hearth_fail(r->err, HEARTH_E_MEMORY, "no memory for a grammar of %zu bytes", r->g->n_text);
}

// ---- growing arrays

static bool grow(void *array, uint32_t *cap, uint32_t n, size_t size)
{
    void **p = array;
    if (n < *cap)
        return true;
    const uint32_t larger = *cap ? *cap * 2 : 64;
    void *moved = larger > *cap ? hearth_reallocarray(*p, larger, size) : NULL;
    if (!moved)
        return false;
    *p = moved;
    *cap = larger;
    return true;
}

// Adds an item; 0: no memory.
static uint32_t add_item(const struct reader *r, enum hearth_gbnf_kind kind, uint32_t first, uint32_t n)
{
    struct hearth_gbnf *g = r->g;
    if (!grow(&g->items, &g->cap_items, g->n_items, sizeof *g->items))
        return 0;
    g->items[g->n_items] = (struct hearth_gbnf_item){kind, 0, 0, first, n, 0};
    return g->n_items++;
}

static bool add_byte(const struct reader *r, char byte)
{
    struct hearth_gbnf *g = r->g;
    if (!grow(&g->bytes, &g->cap_bytes, g->n_bytes, 1))
        return false;
    g->bytes[g->n_bytes++] = byte;
    return true;
}

static bool add_range(const struct reader *r, uint32_t lo, uint32_t hi)
{
    struct hearth_gbnf *g = r->g;
    if (!grow(&g->ranges, &g->cap_ranges, g->n_ranges, sizeof *g->ranges))
        return false;
    g->ranges[g->n_ranges++] = (struct hearth_gbnf_range){lo, hi};
    return true;
}

// ---- blanks and names

static bool is_here(const struct reader *r, char c)
{
    return r->at < r->end && *r->at == c;
}

static void skip_blanks(struct reader *r, bool newlines)
{
    while (r->at < r->end) {
        if (*r->at == '#')
            while (r->at < r->end && *r->at != '\n' && *r->at != '\r')
                r->at++;
        else if (*r->at == ' ' || *r->at == '\t' || (newlines && (*r->at == '\n' || *r->at == '\r')))
            r->at++;
        else
            return;
    }
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

// The rule of the name that begins here; -1: no memory or too many.
static int64_t read_name(struct reader *r)
{
    struct hearth_gbnf *g = r->g;
    const char *start = r->at;
    while (r->at < r->end && is_name_char(*r->at))
        r->at++;
    const struct hearth_str name = {(char *)(uintptr_t)start, (size_t)(r->at - start)};
    const int32_t known = hearth_strtab_find(&g->by_name, name.s, name.n);
    if (known >= 0)
        return known;
    if (g->n_rules == HEARTH_GBNF_MAX_RULES) {
        fail_at(r, start, "more rules than a grammar may have", "", 0);
        return -1;
    }
    if (!grow(&g->rules, &g->cap_rules, g->n_rules, sizeof *g->rules) ||
        !grow(&g->names, &g->cap_names, g->n_rules, sizeof *g->names)) {
        no_memory(r);
        return -1;
    }
    g->rules[g->n_rules] = (struct hearth_gbnf_rule){0, start};
    g->names[g->n_rules] = name;
    g->by_name.keys = g->names;
    if (!hearth_strtab_insert(&g->by_name, (int32_t)g->n_rules)) {
        no_memory(r);
        return -1;
    }
    return g->n_rules++;
}

// ---- characters

static int read_hex(struct reader *r, int digits, uint32_t *cp)
{
    const char *start = r->at - 2;
    *cp = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        const char c = r->at < r->end ? *r->at : '\0';
        const int v = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
        if (v < 0)
            return fail_at(r, start, "\\x wants 2 hexadecimal digits, \\u 4 and \\U 8", "", 0);
        *cp = *cp << 4 | (uint32_t)v;
    }
    if (*cp > MAX_CHAR || (*cp >= 0xD800 && *cp <= 0xDFFF))
        return fail_at(r, start, "there is no such character: ", start, (size_t)(r->at - start));
    return HEARTH_OK;
}

// One character of a text or a class, after its escapes.
static int read_char(struct reader *r, uint32_t *cp)
{
    if (!is_here(r, '\\')) {
        r->at += hearth_utf8_decode(r->at, (size_t)(r->end - r->at), cp);
        return HEARTH_OK;
    }
    const char *start = r->at++;
    const char c = r->at < r->end ? *r->at++ : '\0';
    switch (c) {
    case 'n':
        *cp = '\n';
        return HEARTH_OK;
    case 'r':
        *cp = '\r';
        return HEARTH_OK;
    case 't':
        *cp = '\t';
        return HEARTH_OK;
    case 'x':
        return read_hex(r, 2, cp);
    case 'u':
        return read_hex(r, 4, cp);
    case 'U':
        return read_hex(r, 8, cp);
    default:
        if (c && strchr("\\\"[]-^", c)) {
            *cp = (uint8_t)c;
            return HEARTH_OK;
        }
        return fail_at(r, start, "unknown escape: ", start, (size_t)(r->at - start));
    }
}

static int read_text(struct reader *r, uint32_t *item)
{
    const char *start = r->at++;
    const uint32_t first = r->g->n_bytes;
    while (!is_here(r, '"')) {
        if (r->at == r->end)
            return fail_at(r, start, "this text has no closing quote", "", 0);
        uint32_t cp = 0;
        char utf8[4];
        const int rc = read_char(r, &cp);
        if (rc)
            return rc;
        const size_t n = hearth_utf8_encode(cp, utf8);
        for (size_t i = 0; i < n; i++)
            if (!add_byte(r, utf8[i]))
                return no_memory(r);
    }
    r->at++;
    *item = add_item(r, HEARTH_GBNF_TEXT, first, r->g->n_bytes - first);
    return *item ? HEARTH_OK : no_memory(r);
}

// ---- classes

static int by_start(const void *a, const void *b)
{
    const struct hearth_gbnf_range *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

// Sorts the ranges from `first` on and joins those that touch.
static void tidy_ranges(struct hearth_gbnf *g, uint32_t first)
{
    struct hearth_gbnf_range *range = g->ranges + first;
    const uint32_t n = g->n_ranges - first;
    uint32_t kept = 0;
    qsort(range, n, sizeof *range, by_start);
    for (uint32_t i = 0; i < n; i++)
        if (kept && range[i].lo <= range[kept - 1].hi + 1) {
            if (range[i].hi > range[kept - 1].hi)
                range[kept - 1].hi = range[i].hi;
        } else {
            range[kept++] = range[i];
        }
    g->n_ranges = first + kept;
}

// What tidy ranges leave out.
static bool negate_ranges(const struct reader *r, uint32_t first)
{
    struct hearth_gbnf *g = r->g;
    const uint32_t n = g->n_ranges - first;
    uint32_t from = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct hearth_gbnf_range range = g->ranges[first + i];
        if (range.lo > from && !add_range(r, from, range.lo - 1))
            return false;
        from = range.hi + 1;
    }
    if (from <= MAX_CHAR && !add_range(r, from, MAX_CHAR))
        return false;
    const uint32_t rest = g->n_ranges - first - n;
    memmove(g->ranges + first, g->ranges + first + n, rest * sizeof *g->ranges);
    g->n_ranges = first + rest;
    return true;
}

static int read_range(struct reader *r, const char *start)
{
    const char *here = r->at;
    uint32_t lo = 0, hi;
    int rc = read_char(r, &lo);
    if (rc)
        return rc;
    hi = lo;
    if (is_here(r, '-') && r->at + 1 < r->end && r->at[1] != ']') {
        r->at++;
        rc = read_char(r, &hi);
        if (rc)
            return rc;
    }
    if (r->at == r->end)
        return fail_at(r, start, "this class has no closing bracket", "", 0);
    if (hi < lo)
        return fail_at(r, here, "the range's end comes before its start: ", here, (size_t)(r->at - here));
    return add_range(r, lo, hi) ? HEARTH_OK : no_memory(r);
}

static int read_class(struct reader *r, uint32_t *item)
{
    const char *start = r->at++;
    const uint32_t first = r->g->n_ranges;
    const bool negated = is_here(r, '^');
    r->at += negated;
    while (!is_here(r, ']')) {
        if (r->at == r->end)
            return fail_at(r, start, "this class has no closing bracket", "", 0);
        const int rc = read_range(r, start);
        if (rc)
            return rc;
    }
    r->at++;
    if (r->g->n_ranges > first)
        tidy_ranges(r->g, first);
    if (negated && !negate_ranges(r, first))
        return no_memory(r);
    if (r->g->n_ranges == first)
        return fail_at(r, start, "no character is in this class", "", 0);
    *item = add_item(r, HEARTH_GBNF_CLASS, first, r->g->n_ranges - first);
    return *item ? HEARTH_OK : no_memory(r);
}

static int read_any(struct reader *r, uint32_t *item)
{
    r->at++;
    const uint32_t first = r->g->n_ranges;
    if (add_range(r, 0, MAX_CHAR))
        *item = add_item(r, HEARTH_GBNF_CLASS, first, 1);
    return *item ? HEARTH_OK : no_memory(r);
}

// ---- tokens

// "<[12]>": token 12; "<text>": the token of this text, angle brackets included.
static int read_token(struct reader *r, uint32_t *item)
{
    const char *start = r->at;
    const bool negated = *r->at == '!';
    r->at += negated;
    if (!is_here(r, '<'))
        return fail_at(r, start, "! wants a token: !<[12]> or !<text>", "", 0);
    const char *name = r->at;
    while (r->at < r->end && *r->at != '>' && *r->at != '\n')
        r->at++;
    if (!is_here(r, '>'))
        return fail_at(r, start, "this token has no closing >", "", 0);
    const size_t n = (size_t)(++r->at - name);
    if (!r->token)
        return fail_at(r, start, "there is no vocabulary to find this token in: ", name, n);
    int64_t id = -1;
    if (n > 4 && name[1] == '[' && name[n - 2] == ']') {
        id = 0;
        for (const char *c = name + 2; c < name + n - 2; c++)
            id = *c < '0' || *c > '9' || id < 0 || id > INT32_MAX ? -1 : id * 10 + (*c - '0');
    } else {
        id = r->token(r->arg, name, n);
    }
    if (id == HEARTH_GBNF_FAILED)
        return no_memory(r);
    if (id < 0 || id >= r->n_tokens)
        return fail_at(r, start, "the vocabulary has no such token: ", name, n);
    *item = add_item(r, negated ? HEARTH_GBNF_NOT_TOKEN : HEARTH_GBNF_TOKEN, (uint32_t)id, 0);
    return *item ? HEARTH_OK : no_memory(r);
}

// ---- repetitions

static bool read_number(struct reader *r, uint32_t *number)
{
    const char *start = r->at;
    *number = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        if (*number <= HEARTH_GBNF_MAX_REPEAT)
            *number = *number * 10 + (uint32_t)(*r->at - '0');
    return r->at > start;
}

// {m}, {m,}, {m,n}
static int read_bounds(struct reader *r, uint32_t *min, uint32_t *max)
{
    const char *start = r->at++;
    skip_blanks(r, false);
    bool good = read_number(r, min);
    *max = *min;
    skip_blanks(r, false);
    if (good && is_here(r, ',')) {
        r->at++;
        skip_blanks(r, false);
        if (!read_number(r, max))
            *max = HEARTH_GBNF_NO_MAX;
        skip_blanks(r, false);
    }
    if (!good || !is_here(r, '}'))
        return fail_at(r, start, "a repetition is {m}, {m,} or {m,n}", "", 0);
    r->at++;
    if (*min > HEARTH_GBNF_MAX_REPEAT || (*max != HEARTH_GBNF_NO_MAX && *max > HEARTH_GBNF_MAX_REPEAT))
        return fail_at(r, start, "more than 100000 repetitions", "", 0);
    if (*max < *min)
        return fail_at(r, start, "a repetition whose most is less than its least", "", 0);
    return HEARTH_OK;
}

// Wraps *item in the repetitions that follow it.
static int read_repetitions(struct reader *r, uint32_t *item, bool nested)
{
    for (int count = 0;; count++) {
        skip_blanks(r, nested);
        uint32_t min = 0, max = HEARTH_GBNF_NO_MAX;
        const char c = r->at < r->end ? *r->at : '\0';
        if (!c || !strchr("*+?{", c))
            return HEARTH_OK;
        if (count == HEARTH_GBNF_MAX_AGAIN)
            return fail_here(r, "too many repetitions of repetitions");
        if (c == '{') {
            const int rc = read_bounds(r, &min, &max);
            if (rc)
                return rc;
        } else {
            min = c == '+';
            max = c == '?' ? 1 : max;
            r->at++;
        }
        const uint32_t repeat = add_item(r, HEARTH_GBNF_REPEAT, *item, min);
        if (!repeat)
            return no_memory(r);
        r->g->items[repeat].max = max;
        *item = repeat;
    }
}

// ---- sequences, alternatives, rules

static int read_alternatives(struct reader *r, bool nested, uint32_t *item);

static int read_group(struct reader *r, uint32_t *item)
{
    const char *start = r->at++;
    if (++r->depth > HEARTH_GBNF_MAX_DEPTH)
        return fail_at(r, start, "too many parentheses in parentheses", "", 0);
    const int rc = read_alternatives(r, true, item);
    if (rc)
        return rc;
    if (!is_here(r, ')'))
        return r->at == r->end ? fail_at(r, start, "this parenthesis is not closed", "", 0)
                               : fail_here(r, "what is this? A ) was to come");
    r->at++;
    r->depth--;
    return HEARTH_OK;
}

// Reads one symbol. *item stays 0 where none begins.
static int read_symbol(struct reader *r, uint32_t *item)
{
    *item = 0;
    if (r->at == r->end)
        return HEARTH_OK;
    switch (*r->at) {
    case '"':
        return read_text(r, item);
    case '[':
        return read_class(r, item);
    case '.':
        return read_any(r, item);
    case '(':
        return read_group(r, item);
    case '<':
    case '!':
        return read_token(r, item);
    default:
        break;
    }
    if (!is_name_char(*r->at))
        return HEARTH_OK;
    const int64_t rule = read_name(r);
    if (rule < 0)
        return r->err ? r->err->code : HEARTH_E_FORMAT;
    *item = add_item(r, HEARTH_GBNF_RULE, (uint32_t)rule, 0);
    return *item ? HEARTH_OK : no_memory(r);
}

// Puts a child behind the last one of a parent.
static void append(const struct hearth_gbnf *g, uint32_t parent, uint32_t *last, uint32_t child)
{
    if (*last)
        g->items[*last].next = child;
    else
        g->items[parent].first = child;
    g->items[child].prev = *last;
    g->items[parent].n = *last = child;
}

static int read_sequence(struct reader *r, bool nested, uint32_t *item)
{
    uint32_t last = 0, child;
    *item = add_item(r, HEARTH_GBNF_SEQUENCE, 0, 0);
    if (!*item)
        return no_memory(r);
    for (;;) {
        skip_blanks(r, nested);
        int rc = read_symbol(r, &child);
        if (!rc && child)
            rc = read_repetitions(r, &child, nested);
        if (rc || !child)
            return rc;
        append(r->g, *item, &last, child);
    }
}

static int read_alternatives(struct reader *r, bool nested, uint32_t *item)
{
    uint32_t last = 0, child;
    *item = add_item(r, HEARTH_GBNF_ALTERNATIVES, 0, 0);
    if (!*item)
        return no_memory(r);
    skip_blanks(r, true);
    for (;;) {
        const int rc = read_sequence(r, nested, &child);
        if (rc)
            return rc;
        append(r->g, *item, &last, child);
        if (!is_here(r, '|'))
            return HEARTH_OK;
        r->at++;
        skip_blanks(r, true);
    }
}

static int read_rule(struct reader *r)
{
    const char *start = r->at;
    if (!is_name_char(*r->at))
        return fail_here(r, "a rule begins with its name");
    const int64_t rule = read_name(r);
    if (rule < 0)
        return r->err ? r->err->code : HEARTH_E_FORMAT;
    const size_t n = (size_t)(r->at - start);
    skip_blanks(r, false);
    if (r->end - r->at < 3 || memcmp(r->at, "::=", 3) != 0)
        return fail_here(r, "::= was to come after the rule's name, as in root ::= \"yes\" | \"no\"");
    r->at += 3;
    if (r->g->rules[rule].body)
        return fail_at(r, start, "this rule is there already: ", start, n);
    uint32_t body;
    const int rc = read_alternatives(r, false, &body);
    if (rc)
        return rc;
    r->g->rules[rule] = (struct hearth_gbnf_rule){body, start};
    if (r->at < r->end && *r->at != '\n' && *r->at != '\r')
        return fail_here(r, "this is no symbol of a grammar");
    return HEARTH_OK;
}

static int check_names(const struct reader *r)
{
    struct hearth_gbnf *g = r->g;
    for (uint32_t i = 0; i < g->n_rules; i++)
        if (!g->rules[i].body)
            return hearth_gbnf_fail(g, g->rules[i].at, "there is no rule ", g->names[i], r->err);
    const int32_t root = hearth_strtab_find(&g->by_name, "root", 4);
    if (root < 0)
        return hearth_fail(r->err, HEARTH_E_FORMAT, "the grammar has no rule root, where it begins");
    g->root = (uint32_t)root;
    return HEARTH_OK;
}

int hearth_gbnf_read(struct hearth_gbnf *g, const char *text, size_t n, hearth_gbnf_token_fn token,
                     const void *arg, int n_tokens, struct hearth_error *err)
{
    *g = (struct hearth_gbnf){.text = text, .n_text = n, .n_items = 1, .by_name.seed = hearth_random_u64()};
    struct hearth_error own = {0};
    struct reader r = {g, text, text + n, token, arg, n_tokens, 0, err ? err : &own};
    if (n > HEARTH_GBNF_MAX_TEXT)
        return hearth_fail(err, HEARTH_E_FORMAT, "the grammar has %zu bytes, more than %d", n,
                           HEARTH_GBNF_MAX_TEXT);
    const size_t good = hearth_utf8_span(text, n);
    if (good < n) {
        r.at += good;
        return fail_here(&r, "this is not UTF-8");
    }
    g->items = hearth_calloc(64, sizeof *g->items);
    g->cap_items = 64;
    if (!g->items)
        return no_memory(&r);
    for (;;) {
        skip_blanks(&r, true);
        if (r.at == r.end)
            return check_names(&r);
        const int rc = read_rule(&r);
        if (rc)
            return rc;
    }
}

void hearth_gbnf_close(struct hearth_gbnf *g)
{
    free(g->items);
    free(g->ranges);
    free(g->rules);
    free(g->names);
    free(g->bytes);
    hearth_strtab_free(&g->by_name);
    *g = (struct hearth_gbnf){0};
}
