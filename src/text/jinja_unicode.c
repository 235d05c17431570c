// SPDX-License-Identifier: MIT
// Characters of Jinja's strings, as Python's str counts them, and what is made of them. Letters beyond ASCII
// have case in the Latin, Greek, Cyrillic and Armenian scripts; all others stay as they are.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "text/jinja.h"
#include "text/unicode.h"

uint32_t hearth_jinja_character(const struct jinja_string *s, size_t at, size_t *n)
{
    uint32_t c = (uint8_t)s->s[at];
    *n = 1;
    if (c >= 0x80) {
        const size_t length = hearth_utf8_decode(s->s + at, s->n - at, &c);
        if (length)
            *n = length;
        else
            c = 0xFFFD;
    }
    return c;
}

size_t hearth_jinja_length(const struct jinja_string *s)
{
    size_t count = 0, n;
    for (size_t i = 0; i < s->n; i += n, count++)
        hearth_jinja_character(s, i, &n);
    return count;
}

size_t hearth_jinja_offset(const struct jinja_string *s, size_t i)
{
    size_t at = 0, n;
    for (; i && at < s->n; i--, at += n)
        hearth_jinja_character(s, at, &n);
    return at;
}

bool hearth_jinja_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
           c == 0x3000;
}

bool hearth_jinja_is_printable(uint32_t c)
{
    static const uint32_t hidden[][2] = {
        {0, 0x1F},        {0x7F, 0xA0},     {0xAD, 0xAD},       {0x600, 0x605},     {0x61C, 0x61C},
        {0x6DD, 0x6DD},   {0x70F, 0x70F},   {0x1680, 0x1680},   {0x180E, 0x180E},   {0x2000, 0x200F},
        {0x2028, 0x202F}, {0x205F, 0x206F}, {0x3000, 0x3000},   {0xD800, 0xF8FF},   {0xFEFF, 0xFEFF},
        {0xFFF0, 0xFFFB}, {0xFFFE, 0xFFFF}, {0x1D173, 0x1D17A}, {0xE0000, 0xE00FF}, {0xE01F0, 0x10FFFF},
    };
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
        if (c >= hidden[i][0] && c <= hidden[i][1])
            return false;
    return true;
}

// ---- case

// Small letters first..last with a step of 1 have their capitals at a distance; with a step of 2 every second
// one has it, from the first on.
struct case_range {
    uint32_t first, last, step;
    int32_t distance;
};
static const struct case_range small[] = {
    {'a', 'z', 1, -32},       {0xE0, 0xF6, 1, -32},   {0xF8, 0xFE, 1, -32},    {0xFF, 0xFF, 1, 121},
    {0x101, 0x12F, 2, -1},    {0x133, 0x137, 2, -1},  {0x13A, 0x148, 2, -1},   {0x14B, 0x177, 2, -1},
    {0x17A, 0x17E, 2, -1},    {0x3AC, 0x3AC, 1, -38}, {0x3AD, 0x3AF, 1, -37},  {0x3B1, 0x3C1, 1, -32},
    {0x3C3, 0x3CB, 1, -32},   {0x3CC, 0x3CC, 1, -64}, {0x3CD, 0x3CE, 1, -63},  {0x430, 0x44F, 1, -32},
    {0x450, 0x45F, 1, -80},   {0x461, 0x481, 2, -1},  {0x48B, 0x4BF, 2, -1},   {0x4C2, 0x4CE, 2, -1},
    {0x4D1, 0x52F, 2, -1},    {0x561, 0x586, 1, -48}, {0x1E01, 0x1E95, 2, -1}, {0x1EA1, 0x1EFF, 2, -1},
    {0xFF41, 0xFF5A, 1, -32},
};
#define N_SMALL (sizeof small / sizeof small[0])

static uint32_t moved(uint32_t c, int32_t distance)
{
    return (uint32_t)((int32_t)c + distance);
}

uint32_t hearth_jinja_upper(uint32_t c)
{
    if (c == 0xB5)
        return 0x39C;
    if (c == 0x131)
        return 'I';
    if (c == 0x17F)
        return 'S';
    if (c == 0x3C2)
        return 0x3A3;
    for (size_t i = 0; i < N_SMALL; i++)
        if (c >= small[i].first && c <= small[i].last && (c - small[i].first) % small[i].step == 0)
            return moved(c, small[i].distance);
    return c;
}

uint32_t hearth_jinja_lower(uint32_t c)
{
    if (c == 0x1E9E)
        return 0xDF;
    for (size_t i = 0; i < N_SMALL; i++) {
        const uint32_t first = moved(small[i].first, small[i].distance);
        const uint32_t last = moved(small[i].last, small[i].distance);
        if (c >= first && c <= last && (c - first) % small[i].step == 0)
            return moved(c, -small[i].distance);
    }
    return c;
}

static bool has_case(uint32_t c)
{
    return hearth_jinja_upper(c) != c || hearth_jinja_lower(c) != c || c == 0xDF;
}

bool hearth_jinja_is_letter(uint32_t c)
{
    if (c < 0x80)
        return (c | 32) >= 'a' && (c | 32) <= 'z';
    if (c < 0xC0)
        return c == 0xAA || c == 0xB5 || c == 0xBA;
    return c != 0xD7 && c != 0xF7 && !hearth_jinja_is_space(c) && hearth_jinja_is_printable(c) &&
           !(c >= 0x2010 && c <= 0x2BFF) && !(c >= 0x3001 && c <= 0x3004) && !(c >= 0xFF01 && c <= 0xFF20) &&
           !(c >= 0x1F000 && c <= 0x1FAFF);
}

static void put_character(struct jinja_builder *b, uint32_t c, uint8_t origin)
{
    char bytes[4];
    hearth_jinja_put(b, bytes, hearth_utf8_encode(c, bytes), origin);
}

// Whether the character becomes a capital. `before`: the one before it, ' ' at the start.
static bool wants_capital(enum jinja_case how, uint32_t c, uint32_t before, bool first)
{
    switch (how) {
    case JINJA_UPPER:
        return true;
    case JINJA_CAPITALIZE:
        return first;
    case JINJA_TITLE:
        return !has_case(before);
    case JINJA_SWAP:
        return hearth_jinja_lower(c) == c;
    case JINJA_WORDS:
        return hearth_jinja_is_space(before) || (before < 0x80 && strchr("-({[<", (int)before));
    default:
        return false;
    }
}

struct jinja_value hearth_jinja_case(struct jinja *j, const struct jinja_string *s, enum jinja_case how)
{
    struct jinja_builder b = {.j = j};
    uint32_t before = ' ';
    size_t n;
    for (size_t i = 0; i < s->n; i += n) {
        const uint32_t c = hearth_jinja_character(s, i, &n);
        const uint8_t origin = s->marks ? s->marks[i] : s->origin;
        const bool capital = wants_capital(how, c, before, i == 0);
        if (c == 0xFFFD) // perhaps a byte that is no UTF-8
            hearth_jinja_put_part(&b, s, i, n);
        else if (capital && c == 0xDF)
            hearth_jinja_put(&b, how == JINJA_TITLE || how == JINJA_CAPITALIZE ? "Ss" : "SS", 2, origin);
        else
            put_character(&b, capital ? hearth_jinja_upper(c) : hearth_jinja_lower(c), origin);
        before = c;
    }
    return hearth_jinja_built(&b);
}

// ---- the ends, and places

static bool is_in(uint32_t c, const struct jinja_string *chars)
{
    size_t n;
    if (!chars)
        return hearth_jinja_is_space(c);
    for (size_t i = 0; i < chars->n; i += n)
        if (hearth_jinja_character(chars, i, &n) == c)
            return true;
    return false;
}

// The byte at which the character before `end` begins.
static size_t step_back(const struct jinja_string *s, size_t end)
{
    for (size_t back = 1; back <= 4 && back <= end; back++)
        if (hearth_utf8_decode(s->s + end - back, back, NULL) == back)
            return end - back;
    return end - 1;
}

struct jinja_value hearth_jinja_strip(struct jinja *j, const struct jinja_string *s,
                                      const struct jinja_string *chars, bool left, bool right)
{
    size_t start = 0, end = s->n, n;
    hearth_jinja_work_on(j, s->n, chars ? chars->n : 1);
    while (left && start < end && is_in(hearth_jinja_character(s, start, &n), chars))
        start += n;
    while (right && end > start) {
        const size_t at = step_back(s, end);
        if (!is_in(hearth_jinja_character(s, at, &n), chars))
            break;
        end = at;
    }
    return hearth_jinja_part(j, s, start, end - start);
}

// How many bytes both have in common at their beginnings, up to n, rounded down.
static size_t common(const char *a, const char *b, size_t n)
{
    enum { STRIDE = 64 };
    size_t same = 0;
    while (n - same > STRIDE && !memcmp(a + same, b + same, STRIDE))
        same += STRIDE;
    return n - same > STRIDE || memcmp(a + same, b + same, n - same) != 0 ? same : n;
}

size_t hearth_jinja_search(struct jinja *j, const struct jinja_string *s, const struct jinja_string *text,
                           size_t from)
{
    size_t at = from;
    if (from > s->n)
        return SIZE_MAX;
    for (; text->n && s->n - at >= text->n; at++) {
        const char *first = memchr(s->s + at, *text->s, s->n - at - text->n + 1);
        const size_t next = first ? (size_t)(first - s->s) : s->n,
                     same = first ? common(first, text->s, text->n) : 0;
        hearth_jinja_work(j, (next - at + same) / 16 + 1);
        at = next;
        if (!first || same == text->n)
            break;
    }
    return !text->n || (s->n - at >= text->n) ? at : SIZE_MAX;
}

size_t hearth_jinja_search_last(struct jinja *j, const struct jinja_string *s,
                                const struct jinja_string *text, size_t end)
{
    hearth_jinja_work_on(j, end, text->n);
    for (size_t i = end < text->n ? 0 : end - text->n + 1; i-- > 0;)
        if (!memcmp(s->s + i, text->s, text->n))
            return i;
    return SIZE_MAX;
}

void hearth_jinja_put_escaped(struct jinja_builder *b, const struct jinja_string *s)
{
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    for (size_t i = 0; i < s->n; i++) {
        const char *found = s->s[i] ? strchr(from, s->s[i]) : NULL;
        if (found)
            hearth_jinja_put(b, to[found - from], strlen(to[found - from]),
                             s->marks ? s->marks[i] : s->origin);
        else
            hearth_jinja_put_part(b, s, i, 1);
    }
}

// ---- numbers in strings

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

static struct jinja_string trimmed(const struct jinja_string *s)
{
    struct jinja_string t = *s;
    for (; t.n && hearth_jinja_is_space((uint8_t)t.s[0]) && (uint8_t)t.s[0] < 0x80; t.n--)
        t.s++;
    while (t.n && hearth_jinja_is_space((uint8_t)t.s[t.n - 1]) && (uint8_t)t.s[t.n - 1] < 0x80)
        t.n--;
    return t;
}

bool hearth_jinja_parse_int(const struct jinja_string *s, int base, int64_t *out)
{
    const struct jinja_string t = trimmed(s);
    size_t i = t.n && (t.s[0] == '-' || t.s[0] == '+');
    const bool negative = t.n && t.s[0] == '-';
    const char letter = base == 16 ? 'x' : base == 8 ? 'o' : base == 2 ? 'b' : '\0';
    int64_t n = 0;
    if (letter && t.n > i + 2 && t.s[i] == '0' && (t.s[i + 1] | 32) == letter)
        i += 2;
    if (i == t.n)
        return false;
    for (bool digit = false; i < t.n; i++) {
        if (t.s[i] == '_' && digit && i + 1 < t.n) {
            digit = false;
            continue;
        }
        const int d = digit_of(t.s[i]);
        if (d >= base || __builtin_mul_overflow(n, base, &n) ||
            __builtin_add_overflow(n, negative ? -d : d, &n))
            return false;
        digit = true;
    }
    *out = n;
    return true;
}

bool hearth_jinja_parse_float(const struct jinja_string *s, double *out)
{
    const struct jinja_string t = trimmed(s);
    char text[128], *end;
    if (!t.n || t.n >= sizeof text || memchr(t.s, 'x', t.n) || memchr(t.s, 'X', t.n) || memchr(t.s, '(', t.n))
        return false;
    memcpy(text, t.s, t.n);
    text[t.n] = '\0';
    *out = hearth_strtod(text, &end);
    return end == text + t.n;
}
