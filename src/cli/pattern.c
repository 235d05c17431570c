// SPDX-License-Identifier: MIT
// Regular expressions: see pattern.h. A pattern becomes steps, and all ways through them are followed at once, byte by
// byte. Steps name others by how far away they are, so groups of them can be copied and moved.
#include "cli/pattern.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_STEPS 2000
#define MOST_DEPTH 50
#define NO_LIMIT   INT_MAX

enum kind { TAKE, FORK, JUMP, BEGIN, END, EDGE, FOUND };

struct step {
    enum kind kind;
    int a, b;        // FORK, JUMP (a alone): steps from here
    uint8_t set[32]; // TAKE: a bit for each byte
};

struct hearth_pattern {
    struct step steps[MOST_STEPS];
    int n;
    int stack[2 * MOST_STEPS]; // to be looked at
    int ways[2][MOST_STEPS];   // steps before a byte, and behind it
    bool has[MOST_STEPS];      // of those behind it
};

// ---- reading a pattern

struct reader {
    struct hearth_pattern *p;
    const char *at, *end;
    const char *why;     // NULL: all is well
    struct step nowhere; // what has no room
};

static void read_choice(struct reader *r, int depth);

static bool fail(struct reader *r, const char *why)
{
    r->why = r->why ? r->why : why;
    r->at = r->end;
    return false;
}

static struct step *add(struct reader *r, enum kind kind, int a, int b)
{
    struct hearth_pattern *p = r->p;
    if (p->n == MOST_STEPS) {
        fail(r, "it is too long");
        return &r->nowhere;
    }
    p->steps[p->n] = (struct step){.kind = kind, .a = a, .b = b};
    return &p->steps[p->n++];
}

// A step before the one that is number `at`.
static void insert(struct reader *r, int at, enum kind kind, int a, int b)
{
    struct hearth_pattern *p = r->p;
    add(r, kind, a, b);
    if (r->why)
        return;
    const struct step last = p->steps[p->n - 1];
    memmove(&p->steps[at + 1], &p->steps[at], (size_t)(p->n - 1 - at) * sizeof last);
    p->steps[at] = last;
}

static void set_bit(uint8_t *set, unsigned char c)
{
    set[c / 8] |= (uint8_t)(1 << c % 8);
}

static void set_range(uint8_t *set, unsigned char from, unsigned char to)
{
    for (unsigned c = from; c <= to; c++)
        set_bit(set, (unsigned char)c);
}

static void invert(uint8_t *set)
{
    for (int i = 0; i < 32; i++)
        set[i] = (uint8_t)~set[i];
}

// \d and the like, what is behind the backslash; false: it is none of them.
static bool set_class(uint8_t *set, char c)
{
    uint8_t own[32] = {0};
    switch (c | 0x20) {
    case 'w':
        set_range(own, 'a', 'z');
        set_range(own, 'A', 'Z');
        set_bit(own, '_');
        set_range(own, '0', '9');
        break;
    case 'd':
        set_range(own, '0', '9');
        break;
    case 's':
        set_range(own, '\t', '\r');
        set_bit(own, ' ');
        break;
    default:
        return false;
    }
    if (!(c & 0x20))
        invert(own);
    for (int i = 0; i < 32; i++)
        set[i] |= own[i];
    return true;
}

static bool is_letter_or_digit(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

// A byte of a set, behind a backslash or not.
static unsigned char read_byte(struct reader *r)
{
    if (*r->at == '\\' && r->at + 1 < r->end && !is_letter_or_digit(r->at[1]))
        r->at++;
    else if (*r->at == '\\')
        fail(r, "what is behind a backslash is not known");
    return r->at < r->end ? (unsigned char)*r->at++ : 0;
}

// Behind [, with the ].
static void read_set(struct reader *r)
{
    uint8_t set[32] = {0};
    const bool inverts = r->at < r->end && *r->at == '^';
    r->at += inverts;
    while (r->at < r->end && *r->at != ']') {
        if (*r->at == '\\' && r->at + 1 < r->end && set_class(set, r->at[1])) {
            r->at += 2;
            continue;
        }
        const unsigned char from = read_byte(r);
        unsigned char to = from;
        if (r->at + 1 < r->end && *r->at == '-' && r->at[1] != ']') {
            r->at++;
            to = read_byte(r);
        }
        if (to < from)
            fail(r, "a range of [] ends before it begins");
        set_range(set, from, to);
    }
    if (r->at == r->end) {
        fail(r, "a [ has no ]");
        return;
    }
    r->at++;
    if (inverts)
        invert(set);
    memcpy(add(r, TAKE, 0, 0)->set, set, sizeof set);
}

// Behind (, with the ).
static void read_group(struct reader *r, int depth)
{
    if (r->end - r->at >= 2 && r->at[0] == '?' && r->at[1] == ':')
        r->at += 2;
    else if (r->at < r->end && *r->at == '?')
        fail(r, "there is no look-ahead");
    if (depth == MOST_DEPTH)
        fail(r, "its groups are too deep");
    if (r->why)
        return;
    read_choice(r, depth + 1);
    if (r->at == r->end)
        fail(r, "a ( has no )");
    else
        r->at++;
}

// Behind a backslash.
static void read_escape(struct reader *r)
{
    uint8_t set[32] = {0};
    if (r->at == r->end) {
        fail(r, "nothing is behind a backslash");
        return;
    }
    const char c = *r->at++;
    if (c == 'b') {
        add(r, EDGE, 0, 0);
        return;
    }
    if (!set_class(set, c)) {
        if (is_letter_or_digit(c))
            fail(r, "what is behind a backslash is not known");
        set_bit(set, (unsigned char)c);
    }
    memcpy(add(r, TAKE, 0, 0)->set, set, sizeof set);
}

static void read_atom(struct reader *r, int depth)
{
    const char c = *r->at++;
    switch (c) {
    case '[':
        read_set(r);
        return;
    case '(':
        read_group(r, depth);
        return;
    case '\\':
        read_escape(r);
        return;
    case '^':
    case '$':
        add(r, c == '^' ? BEGIN : END, 0, 0);
        return;
    case '*':
    case '+':
    case '?':
    case '{':
        fail(r, "nothing is there to be repeated");
        return;
    default:
        break;
    }
    struct step *s = add(r, TAKE, 0, 0);
    if (c == '.')
        invert(s->set);
    else
        set_bit(s->set, (unsigned char)c);
}

static int read_number(struct reader *r)
{
    int n = 0, digits = 0;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && digits++ < 5)
        n = n * 10 + (*r->at++ - '0');
    if (!digits)
        fail(r, "{} has no number");
    return n;
}

// How often; false: once, as nothing says otherwise.
static bool read_times(struct reader *r, int *least, int *most)
{
    const char c = r->at < r->end ? *r->at : 0;
    if (c != '*' && c != '+' && c != '?' && c != '{')
        return false;
    r->at++;
    *least = c == '+';
    *most = c == '?' ? 1 : NO_LIMIT;
    if (c == '{') {
        *least = *most = read_number(r);
        if (r->at < r->end && *r->at == ',') {
            r->at++;
            *most = r->at < r->end && *r->at == '}' ? NO_LIMIT : read_number(r);
        }
        if (r->at == r->end || *r->at != '}')
            return fail(r, "a { has no }");
        r->at++;
        if (*most < *least)
            return fail(r, "{} has a larger number before a smaller one");
    }
    if (r->at < r->end && *r->at == '?') // few first: found is found
        r->at++;
    return true;
}

static void copy(struct reader *r, int from, int n)
{
    for (int i = 0; i < n && !r->why; i++)
        *add(r, TAKE, 0, 0) = r->p->steps[from + i];
}

// Steps [from, n) become ones that are taken least to most times.
static void repeat(struct reader *r, int from, int least, int most)
{
    struct hearth_pattern *p = r->p;
    int first = from;
    const int n = p->n - from;
    if (!most) {
        p->n = from;
        return;
    }
    if (!least) {
        insert(r, from, FORK, 1, most == NO_LIMIT ? n + 2 : n + 1);
        first++;
        if (most == NO_LIMIT)
            add(r, JUMP, -n - 1, 0);
    }
    for (int i = 1; i < least && !r->why; i++)
        copy(r, first, n);
    if (least && most == NO_LIMIT)
        add(r, FORK, -n, 1);
    for (int i = least ? least : 1; most != NO_LIMIT && i < most && !r->why; i++) {
        add(r, FORK, 1, n + 1);
        copy(r, first, n);
    }
}

static void read_sequence(struct reader *r, int depth)
{
    while (r->at < r->end && *r->at != '|' && *r->at != ')') {
        const int from = r->p->n;
        int least, most;
        read_atom(r, depth);
        if (!r->why && read_times(r, &least, &most) && !r->why)
            repeat(r, from, least, most);
    }
}

static void read_choice(struct reader *r, int depth)
{
    const int from = r->p->n;
    read_sequence(r, depth);
    if (r->at == r->end || *r->at != '|')
        return;
    r->at++;
    insert(r, from, FORK, 1, r->p->n - from + 2);
    const int jump = r->p->n;
    add(r, JUMP, 0, 0);
    if (r->why)
        return;
    read_choice(r, depth);
    r->p->steps[jump].a = r->p->n - jump;
}

struct hearth_pattern *hearth_pattern_open(const char *text, size_t n, const char **why)
{
    struct hearth_pattern *p = calloc(1, sizeof *p);
    struct reader r = {.p = p, .at = text, .end = text + n};
    *why = "there is no memory for it";
    if (!p)
        return NULL;
    read_choice(&r, 0);
    if (!r.why && r.at < r.end)
        fail(&r, "a ) has no (");
    add(&r, FOUND, 0, 0);
    if (!r.why)
        return p;
    *why = r.why;
    free(p);
    return NULL;
}

void hearth_pattern_close(struct hearth_pattern *p)
{
    free(p);
}

// ---- finding it

static bool is_word(const char *text, size_t at)
{
    const char c = text[at];
    return c == '_' || is_letter_or_digit(c);
}

// Whether a step that takes nothing holds before the byte `at`.
static bool holds(enum kind kind, const char *text, size_t at)
{
    return kind == BEGIN ? at == 0
           : kind == END ? !text[at]
                         : (at > 0 && is_word(text, at - 1)) != is_word(text, at);
}

// The step, and all that follow it before a byte is taken. True: it is found.
static bool follow(struct hearth_pattern *p, int first, int *ways, int *n, const char *text, size_t at)
{
    int left = 0;
    p->stack[left++] = first;
    while (left) {
        const int i = p->stack[--left];
        const struct step *s = &p->steps[i];
        if (p->has[i])
            continue;
        p->has[i] = true;
        if (s->kind == FOUND)
            return true;
        if (s->kind == TAKE) {
            ways[(*n)++] = i;
        } else if (s->kind == FORK || s->kind == JUMP) {
            p->stack[left++] = i + s->a;
            if (s->kind == FORK)
                p->stack[left++] = i + s->b;
        } else if (holds(s->kind, text, at)) {
            p->stack[left++] = i + 1;
        }
    }
    return false;
}

bool hearth_pattern_is_in(struct hearth_pattern *p, const char *text)
{
    int n[2] = {0};
    memset(p->has, 0, (size_t)p->n * sizeof *p->has);
    for (size_t at = 0;; at++) {
        int *now = p->ways[at % 2], *next = p->ways[(at + 1) % 2], *n_now = &n[at % 2];
        if (follow(p, 0, now, n_now, text, at)) // it may begin here
            return true;
        if (!text[at])
            return false;
        const unsigned char c = (unsigned char)text[at];
        int *n_next = &n[(at + 1) % 2];
        *n_next = 0;
        memset(p->has, 0, (size_t)p->n * sizeof *p->has);
        for (int i = 0; i < *n_now; i++)
            if ((p->steps[now[i]].set[c / 8] >> c % 8 & 1) &&
                follow(p, now[i] + 1, next, n_next, text, at + 1))
                return true;
    }
}
