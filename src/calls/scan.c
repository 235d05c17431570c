// SPDX-License-Identifier: MIT
#include "calls/scan.h"

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
