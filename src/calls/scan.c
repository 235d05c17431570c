// SPDX-License-Identifier: MIT
#include "calls/scan.h"

#include <string.h>

static enum hearth_call_step in_string(struct hearth_call_scan *scan, char c)
{
    if (scan->escaped)
        scan->escaped = false;
    else if (c == '\\')
        scan->escaped = true;
    else if (c == '"')
        scan->in_string = false;
    return scan->in_string || scan->depth ? HEARTH_CALL_INSIDE : HEARTH_CALL_LAST;
}

enum hearth_call_step hearth_call_scan(struct hearth_call_scan *scan, char c)
{
    if (scan->in_string)
        return in_string(scan, c);
    if (scan->scalar) // at the top: ends where something else begins
        return hearth_call_is_space(c) || c == ',' || c == '}' || c == ']' || c == '<' ? HEARTH_CALL_BEHIND
                                                                                       : HEARTH_CALL_INSIDE;
    if (c == '"') {
        scan->in_string = true;
    } else if (c == '{' || c == '[') {
        scan->depth++;
    } else if (c == '}' || c == ']') {
        if (!scan->depth)
            return HEARTH_CALL_BEHIND;
        if (!--scan->depth)
            return HEARTH_CALL_LAST;
    } else if (!scan->depth) {
        scan->scalar = true;
    }
    return HEARTH_CALL_INSIDE;
}

size_t hearth_call_json_end(const char *s, size_t n, size_t at)
{
    struct hearth_call_scan scan = {0};
    for (size_t i = at; i < n; i++) {
        const enum hearth_call_step step = hearth_call_scan(&scan, s[i]);
        if (step == HEARTH_CALL_LAST)
            return i + 1;
        if (step == HEARTH_CALL_BEHIND)
            return i;
    }
    return 0;
}

size_t hearth_call_skip(const char *s, size_t n, size_t at)
{
    while (at < n && hearth_call_is_space(s[at]))
        at++;
    return at;
}

// The four hexadecimal digits of \uHHHH; -1: there are none.
static int32_t code_unit(const char *s)
{
    int32_t c = 0;
    for (int i = 2; i < 6; i++) {
        const char *digits = "0123456789abcdef", *digit = strchr(digits, s[i] | 0x20);
        if (!s[i] || !digit)
            return -1;
        c = c * 16 + (int32_t)(digit - digits);
    }
    return c;
}

static size_t encode(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)((0xF00u >> n & 0xF0u) | c);
    return n;
}

size_t hearth_call_unescape(const char *s, size_t n, char out[4], size_t *n_out)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    if (n < 2 || (s[1] == 'u' && n < 6))
        return 0;
    const char *known = s[1] ? strchr(from, s[1]) : NULL;
    const int32_t high = s[1] == 'u' ? code_unit(s) : -1;
    if (high < 0) {
        out[0] = known ? to[known - from] : s[1];
        *n_out = 1;
        return 2;
    }
    uint32_t c = (uint32_t)high;
    size_t used = 6;
    if (c >= 0xD800 && c < 0xDC00) {
        if (n < 12)
            return 0;
        const int32_t low = s[6] == '\\' && s[7] == 'u' ? code_unit(s + 6) : -1;
        if (low >= 0xDC00 && low < 0xE000) {
            c = 0x10000 + ((c - 0xD800) << 10 | ((uint32_t)low - 0xDC00));
            used = 12;
        }
    }
    *n_out = encode(c >= 0xD800 && c < 0xE000 ? 0xFFFD : c, out); // half a pair is no character
    return used;
}
