// SPDX-License-Identifier: MIT
// Cuts a template into tokens. White space around tags goes as Jinja2 has it with the options of
// transformers: trim_blocks (a block takes the newline after it along), lstrip_blocks (and the blanks before
// it, if its line begins with them), and one newline at the end of the template is dropped.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "text/jinja_parse.h"
#include "text/unicode.h"

struct lexer {
    struct jinja *j;
    struct jinja_string source;
    size_t at;
    bool line_starts; // what was read last ended in a newline
    char open[JINJA_MAX_DEPTH];
    size_t n_open; // brackets that are open
    struct jinja_token *tokens;
    size_t n, cap;
};

static struct jinja_token *add(struct lexer *x, enum jinja_token_kind kind)
{
    if (x->n == x->cap) {
        const size_t cap = x->cap ? x->cap * 2 : 256;
        struct jinja_token *larger = hearth_jinja_array(x->j, cap, sizeof *larger);
        if (x->n)
            memcpy(larger, x->tokens, x->n * sizeof *larger);
        x->tokens = larger;
        x->cap = cap;
    }
    hearth_jinja_work(x->j, 1);
    x->tokens[x->n] = (struct jinja_token){.kind = (uint8_t)kind, .line = x->j->line};
    return &x->tokens[x->n++];
}

// ---- places in the source

static bool is_at(const struct lexer *x, size_t at, const char *text)
{
    const size_t n = strlen(text);
    return at <= x->source.n && n <= x->source.n - at && !memcmp(x->source.s + at, text, n);
}

static char byte_at(const struct lexer *x, size_t at)
{
    return at < x->source.n ? x->source.s[at] : '\0';
}

static size_t after_blanks(const struct lexer *x, size_t at)
{
    size_t n;
    while (at < x->source.n && hearth_jinja_is_space(hearth_jinja_character(&x->source, at, &n)))
        at += n;
    return at;
}

// Goes on to `to`, counting lines.
static void advance(struct lexer *x, size_t to)
{
    for (; x->at < to; x->at++)
        x->j->line += x->source.s[x->at] == '\n';
    x->line_starts = to && x->source.s[to - 1] == '\n';
}

// ---- text between tags

// What is left of source[start, end) before a tag with this sign.
static size_t cut_end(const struct lexer *x, size_t start, size_t end, char sign, bool is_output)
{
    const struct jinja_string text = {.s = x->source.s + start, .n = end - start};
    if (sign == '-')
        return start + hearth_jinja_strip(x->j, &text, NULL, false, true).u.s->n;
    if (sign == '+' || is_output)
        return end;
    size_t line = text.n; // where the last one begins
    while (line && text.s[line - 1] != '\n')
        line--;
    if ((line || x->line_starts) && after_blanks(x, start + line) >= end)
        return start + line;
    return end;
}

static void add_text(struct lexer *x, size_t start, size_t end)
{
    if (end <= start)
        return;
    struct jinja_token *t = add(x, JINJA_T_TEXT);
    t->s = x->source.s + start;
    t->n = end - start;
}

static char sign_at(const struct lexer *x, size_t at)
{
    const char c = byte_at(x, at);
    return c == '-' || c == '+' ? c : '\0';
}

// The place after an end such as "%}", which is at `at`, with what it takes along.
static size_t after_end(const struct lexer *x, size_t at, char sign, bool takes_newline)
{
    at += 2;
    if (sign == '-')
        return after_blanks(x, at);
    return at + (sign != '+' && takes_newline && byte_at(x, at) == '\n');
}

static void skip_comment(struct lexer *x)
{
    const struct jinja_string end = {.s = "#}", .n = 2};
    const size_t start = x->at, found = hearth_jinja_search(x->j, &x->source, &end, start);
    if (found == SIZE_MAX)
        hearth_jinja_fail(x->j, "a comment without an end");
    advance(x, after_end(x, found, found > start ? sign_at(x, found - 1) : '\0', true));
}

// Whether {% NAME %} is at `at`. Sets the place after it, and the sign at its beginning.
static bool is_block(const struct lexer *x, size_t at, const char *name, bool takes_newline, size_t *after,
                     char *sign)
{
    *sign = sign_at(x, at + 2);
    size_t i = after_blanks(x, at + 2 + (*sign != '\0'));
    if (!is_at(x, at, "{%") || !is_at(x, i, name))
        return false;
    i = after_blanks(x, i + strlen(name));
    const char end_sign = sign_at(x, i);
    if (!is_at(x, i + (end_sign != '\0'), "%}") || (end_sign == '+' && !takes_newline))
        return false;
    *after = after_end(x, i + (end_sign != '\0'), end_sign, takes_newline);
    return true;
}

// Between {% raw %} and {% endraw %} everything is text.
static void read_raw(struct lexer *x)
{
    const struct jinja_string begin = {.s = "{%", .n = 2};
    size_t after = 0;
    char sign = '\0';
    for (size_t at = x->at; (at = hearth_jinja_search(x->j, &x->source, &begin, at)) != SIZE_MAX; at++) {
        if (!is_block(x, at, "endraw", true, &after, &sign))
            continue;
        add_text(x, x->at, cut_end(x, x->at, at, sign, false));
        advance(x, after);
        return;
    }
    hearth_jinja_fail(x->j, "{%% raw %%} without {%% endraw %%}");
}

static size_t next_tag(const struct lexer *x)
{
    for (size_t at = x->at; at + 1 < x->source.n; at++) {
        const char *brace = memchr(x->source.s + at, '{', x->source.n - at - 1);
        if (!brace)
            break;
        at = (size_t)(brace - x->source.s);
        if (brace[1] == '{' || brace[1] == '%' || brace[1] == '#')
            return at;
    }
    return x->source.n;
}

// ---- within tags

static void read_name(struct lexer *x)
{
    size_t end = x->at;
    for (; end < x->source.n; end++) {
        const uint8_t c = (uint8_t)x->source.s[end];
        if (!((c | 32) >= 'a' && (c | 32) <= 'z') && !(c >= '0' && c <= '9') && c != '_' && c < 0x80)
            break;
    }
    struct jinja_token *t = add(x, JINJA_T_NAME);
    t->s = x->source.s + x->at;
    t->n = end - x->at;
    advance(x, end);
}

static size_t digits(const struct lexer *x, size_t at)
{
    size_t end = at;
    while ((byte_at(x, end) >= '0' && byte_at(x, end) <= '9') ||
           (end > at && byte_at(x, end) == '_' && byte_at(x, end + 1) >= '0' && byte_at(x, end + 1) <= '9'))
        end++;
    return end - at;
}

static size_t exponent(const struct lexer *x, size_t at)
{
    const size_t sign = byte_at(x, at + 1) == '-' || byte_at(x, at + 1) == '+';
    if ((byte_at(x, at) | 32) != 'e' || !digits(x, at + 1 + sign))
        return 0;
    return 1 + sign + digits(x, at + 1 + sign);
}

static bool based(const struct lexer *x, int *base)
{
    const char letter = (char)(byte_at(x, x->at + 1) | 32);
    *base = byte_at(x, x->at) != '0' ? 10 : letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    return *base != 10;
}

static void read_number(struct lexer *x)
{
    size_t end = x->at + digits(x, x->at), after_dot = 0;
    int base;
    const bool after_a_dot = x->at && x->source.s[x->at - 1] == '.'; // an index, as in a.0.1
    bool whole = true;
    if (based(x, &base)) {
        for (end = x->at + 2; ((byte_at(x, end) | 32) >= 'a' && (byte_at(x, end) | 32) <= 'f') ||
                              (byte_at(x, end) >= '0' && byte_at(x, end) <= '9') || byte_at(x, end) == '_';)
            end++;
    } else if (!after_a_dot) {
        if (byte_at(x, end) == '.' && (after_dot = digits(x, end + 1))) {
            end += 1 + after_dot;
            whole = false;
        }
        if (exponent(x, end)) {
            end += exponent(x, end);
            whole = false;
        }
    }
    char text[100];
    size_t n = 0;
    for (size_t i = x->at; i < end && n < sizeof text - 1; i++)
        if (x->source.s[i] != '_')
            text[n++] = x->source.s[i];
    text[n] = '\0';
    if (n == sizeof text - 1)
        hearth_jinja_fail(x->j, "a number of more than %zu digits: %s...", n - 1, text);
    const struct jinja_string s = {.s = text, .n = n};
    int64_t i = 0;
    if (whole && !hearth_jinja_parse_int(&s, base, &i))
        hearth_jinja_fail(x->j, "no good integer, or beyond 64 bits: %s", text);
    add(x, JINJA_T_VALUE)->value =
        whole ? hearth_jinja_int(i) : hearth_jinja_float(hearth_strtod(text, NULL));
    advance(x, end);
}

static uint32_t escape_digits(struct lexer *x, size_t *at, size_t end, int base, int most)
{
    uint32_t c = 0;
    int n = 0;
    for (; n < most && *at < end; n++, ++*at) {
        const char d = (char)(x->source.s[*at] | 32), raw = x->source.s[*at];
        const int value = raw >= '0' && raw <= '9' ? raw - '0' : d >= 'a' && d <= 'f' ? d - 'a' + 10 : 99;
        if (value >= base)
            break;
        c = c * (uint32_t)base + (uint32_t)value;
    }
    if (base == 16 && n < most)
        hearth_jinja_fail(x->j, "an escape in a string has too few digits");
    return c;
}

// What follows a backslash at `at`, as in Python. Unknown escapes stay as they are.
static size_t read_escape(struct lexer *x, struct jinja_builder *b, size_t at, size_t end)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char c = x->source.s[at], *known = c ? strchr(from, c) : NULL;
    char bytes[4];
    uint32_t code;
    if (known) {
        hearth_jinja_put(b, &to[known - from], 1, JINJA_TEMPLATE);
        return at + 1;
    }
    if (c == '\n')
        return at + 1;
    if (c == 'x' || c == 'u' || c == 'U') {
        at++;
        code = escape_digits(x, &at, end, 16, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c >= '0' && c <= '7') {
        code = escape_digits(x, &at, end, 8, 3);
    } else {
        hearth_jinja_put(b, "\\", 1, JINJA_TEMPLATE);
        return at;
    }
    const size_t n = hearth_utf8_encode(code, bytes);
    if (!n)
        hearth_jinja_fail(x->j, "an escape in a string is no character");
    hearth_jinja_put(b, bytes, n, JINJA_TEMPLATE);
    return at;
}

static void read_string(struct lexer *x)
{
    const char quote = x->source.s[x->at];
    size_t end = x->at + 1;
    while (end < x->source.n && x->source.s[end] != quote)
        end += x->source.s[end] == '\\' ? 2 : 1;
    if (end >= x->source.n)
        hearth_jinja_fail(x->j, "a string without an end");
    struct jinja_builder b = {.j = x->j};
    for (size_t at = x->at + 1; at < end;) {
        const char *slash = memchr(x->source.s + at, '\\', end - at);
        const size_t stop = slash ? (size_t)(slash - x->source.s) : end;
        hearth_jinja_put(&b, x->source.s + at, stop - at, JINJA_TEMPLATE);
        at = slash ? read_escape(x, &b, stop + 1, end) : end;
    }
    add(x, JINJA_T_VALUE)->value = hearth_jinja_built(&b);
    advance(x, end + 1);
}

static void balance(struct lexer *x, char c)
{
    if (c == '(' || c == '[' || c == '{') {
        if (x->n_open == sizeof x->open)
            hearth_jinja_fail(x->j, "too many brackets within each other");
        x->open[x->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (!x->n_open || x->open[--x->n_open] != c)
            hearth_jinja_fail(x->j, "unexpected '%c'", c);
    }
}

static void read_operator(struct lexer *x)
{
    static const char pairs[][3] = {"//", "**", "==", "!=", ">=", "<="};
    const char c = x->source.s[x->at];
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (is_at(x, x->at, pairs[i])) {
            add(x, JINJA_T_OPERATOR)->op = JINJA_OP2(pairs[i][0], pairs[i][1]);
            advance(x, x->at + 2);
            return;
        }
    if (!c || !strchr("+-/*%~[](){}<>=.:|,;", c))
        hearth_jinja_fail(x->j, "unexpected character '%c'", c);
    balance(x, c);
    add(x, JINJA_T_OPERATOR)->op = JINJA_OP((uint8_t)c);
    advance(x, x->at + 1);
}

// Whether the tag ends here. Then goes on behind it.
static bool take_end(struct lexer *x, bool is_output)
{
    if (x->n_open)
        return false;
    char sign = sign_at(x, x->at);
    if (sign == '+' && is_output)
        sign = '\0';
    const size_t at = x->at + (sign != '\0');
    if (!is_at(x, at, is_output ? "}}" : "%}"))
        return false;
    add(x, is_output ? JINJA_T_OUTPUT_END : JINJA_T_BLOCK_END);
    advance(x, after_end(x, at, sign, !is_output));
    return true;
}

static void read_tag(struct lexer *x, bool is_output)
{
    add(x, is_output ? JINJA_T_OUTPUT : JINJA_T_BLOCK);
    for (;;) {
        advance(x, after_blanks(x, x->at));
        if (x->at == x->source.n)
            hearth_jinja_fail(x->j, "the template ends within a tag");
        if (take_end(x, is_output))
            return;
        const uint8_t c = (uint8_t)x->source.s[x->at];
        if (c >= '0' && c <= '9')
            read_number(x);
        else if (((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c >= 0x80)
            read_name(x);
        else if (c == '\'' || c == '"')
            read_string(x);
        else
            read_operator(x);
    }
}

// ---- the whole

// With \n as the only newline, and without one at the end.
static void set_source(struct lexer *x, const char *text, size_t n)
{
    char *source = hearth_jinja_alloc(x->j, n);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        source[k++] = text[i] == '\r' ? '\n' : text[i];
        i += text[i] == '\r' && i + 1 < n && text[i + 1] == '\n';
    }
    k -= k && source[k - 1] == '\n';
    x->source = (struct jinja_string){.s = source, .n = k};
}

static void read_next(struct lexer *x)
{
    const size_t tag = next_tag(x);
    size_t after = 0;
    char sign = '\0';
    if (tag == x->source.n) {
        add_text(x, x->at, tag);
        advance(x, tag);
        return;
    }
    const char kind = x->source.s[tag + 1];
    const bool raw = is_block(x, tag, "raw", false, &after, &sign);
    sign = sign_at(x, tag + 2);
    add_text(x, x->at, cut_end(x, x->at, tag, sign, kind == '{'));
    advance(x, raw ? after : tag + 2 + (sign != '\0'));
    if (raw)
        read_raw(x);
    else if (kind == '#')
        skip_comment(x);
    else
        read_tag(x, kind == '{');
}

struct jinja_token *hearth_jinja_lex(struct jinja *j, const char *text, size_t n)
{
    struct lexer x = {.j = j, .line_starts = true};
    j->line = 1;
    set_source(&x, text, n);
    while (x.at < x.source.n)
        read_next(&x);
    add(&x, JINJA_T_END);
    return x.tokens;
}
