// SPDX-License-Identifier: MIT
// The bodies of requests.
#include "serve/body.h"

#include <string.h>

// Bytes of memory that the values of a request may take beside their texts.
#define MOST_VALUES (256u << 20)

// Texts are C strings on their way through templates and grammars, so none has a zero.
static void replace_zeros(char *s, size_t n)
{
    const char *end = s + n;
    char *at = s;
    while (at < end && (at = memchr(at, '\\', (size_t)(end - at)))) {
        if (end - at >= 6 && !memcmp(at + 1, "u0000", 5))
            memcpy(at + 1, "ufffd", 5);
        at += 2; // the next may be a backslash, too
    }
}

static size_t string_length(const char *s, size_t n)
{
    size_t i = 1;
    while (i < n && s[i] != '"')
        i += s[i] == '\\' ? 2 : 1;
    return i < n ? i + 1 : n;
}

static bool is_too_large(const char *number, size_t n)
{
    const size_t sign = *number == '-', digits = n - sign;
    return strcspn(number, ".eE") >= n &&
           (digits > 19 || (digits == 19 && memcmp(number + sign, "9223372036854775807", 19) > 0));
}

// The same text, in which large integers end with ".0".
static void add_reals(struct hearth_out *to, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t length = strspn(s + i, "+-.0123456789eE");
        const bool number = length && s[i] != 'e' && s[i] != 'E'; // no "e" of a word
        if (s[i] == '"')
            length = string_length(s + i, n - i);
        length = length > n - i ? n - i : length ? length : 1;
        hearth_out_add(to, s + i, length);
        if (number && is_too_large(s + i, length))
            hearth_out_text(to, ".0");
        i += length;
    }
}

bool hearth_body_is_large(const struct hearth_out *in)
{
    size_t cost = 0; // of values with jansson, about
    for (size_t i = 0; i < in->n && cost <= MOST_VALUES;) {
        const char c = in->data[i];
        cost += c == '{' ? 256 : c == '[' ? 128 : c == ':' ? 96 : c == '"' ? 64 : c == ',' ? 40 : 0;
        i += c == '"' ? string_length(in->data + i, in->n - i) : 1;
    }
    return cost > MOST_VALUES;
}

json_t *hearth_body_read(struct hearth_out *in, json_error_t *error)
{
    struct hearth_out reals = {0};
    hearth_out_add(in, "", 1); // ends what looks for characters
    if (in->failed)
        return NULL;
    const size_t n = in->n - 1;
    replace_zeros(in->data, n);
    json_t *body = json_loadb(in->data, n, 0, error);
    if (body || json_error_code(error) != json_error_numeric_overflow)
        return body;
    add_reals(&reals, in->data, n);
    body = reals.failed ? NULL : json_loadb(reals.data, reals.n, 0, error);
    hearth_out_free(&reals);
    return body;
}
