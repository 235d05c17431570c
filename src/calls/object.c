// SPDX-License-Identifier: MIT
#include "calls/object.h"

#include <string.h>

#include "calls/scan.h"

struct reader {
    const char *s;
    size_t at, n;
};

static bool is(const char *s, size_t n, const char *word)
{
    return strlen(word) == n && !memcmp(s, word, n);
}

// The inside of a string; false: there is none, or not all of it.
static bool read_string(struct reader *r, const char **s, size_t *n)
{
    if (r->at >= r->n || r->s[r->at] != '"')
        return false;
    const size_t end = hearth_call_json_end(r->s, r->n, r->at);
    if (!end)
        return false;
    *s = r->s + r->at + 1;
    *n = end - r->at - 2;
    r->at = end;
    return true;
}

// Skips white space and, where it comes, one of these bytes. False: the text is at its end.
static bool skip(struct reader *r, char c)
{
    r->at = hearth_call_skip(r->s, r->n, r->at);
    if (r->at < r->n && r->s[r->at] == c)
        r->at = hearth_call_skip(r->s, r->n, r->at + 1);
    return r->at < r->n;
}

static enum hearth_object_status found(struct hearth_call_object *o, const struct reader *r)
{
    o->used = r->at;
    return HEARTH_OBJECT_CALL;
}

// The value of a key. HEARTH_OBJECT_OTHER: go on with the next key.
static enum hearth_object_status read_value(struct hearth_call_object *o, struct reader *r, const char *key,
                                            size_t n_key)
{
    const char *value = r->s + r->at;
    if (is(key, n_key, "function") && *value == '{') {
        o->nest++;
        r->at++;
        return HEARTH_OBJECT_OTHER;
    }
    const bool arguments = is(key, n_key, "arguments") || is(key, n_key, "parameters");
    if (arguments && o->name)
        return found(o, r);
    const char *text;
    size_t n;
    if ((is(key, n_key, "name") || is(key, n_key, "function")) && *value == '"') {
        if (!read_string(r, &text, &n))
            return HEARTH_OBJECT_PARTIAL;
        o->name = text;
        o->n_name = n;
        return o->arguments ? found(o, r) : HEARTH_OBJECT_OTHER;
    }
    const size_t end = hearth_call_json_end(r->s, r->n, r->at);
    if (!end || end == r->n) // a number may go on
        return HEARTH_OBJECT_PARTIAL;
    if (arguments) {
        o->arguments = value;
        o->n_arguments = end - r->at;
    }
    r->at = end;
    return HEARTH_OBJECT_OTHER;
}

enum hearth_object_status hearth_call_object_read(struct hearth_call_object *o, const char *s, size_t n)
{
    struct reader r = {s, 1, n};
    *o = (struct hearth_call_object){.nest = 1};
    for (;;) {
        const char *key;
        size_t n_key;
        if (!skip(&r, ','))
            return HEARTH_OBJECT_PARTIAL;
        if (s[r.at] == '}') {
            if (o->name && o->n_name) {
                o->none = true;
                return found(o, &r);
            }
            return HEARTH_OBJECT_OTHER;
        }
        if (s[r.at] != '"')
            return HEARTH_OBJECT_OTHER;
        if (!read_string(&r, &key, &n_key))
            return HEARTH_OBJECT_PARTIAL;
        const size_t before = r.at = hearth_call_skip(s, n, r.at);
        if (before == n)
            return HEARTH_OBJECT_PARTIAL;
        if (s[before] != ':')
            return HEARTH_OBJECT_OTHER;
        if (!skip(&r, ':'))
            return HEARTH_OBJECT_PARTIAL;
        const enum hearth_object_status status = read_value(o, &r, key, n_key);
        if (status != HEARTH_OBJECT_OTHER)
            return status == HEARTH_OBJECT_CALL && !o->n_name ? HEARTH_OBJECT_OTHER : status;
    }
}
