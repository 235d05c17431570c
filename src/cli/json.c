// SPDX-License-Identifier: MIT
// JSON output: additions to jansson.
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"
#include "cli/json.h"

// Length of the well-formed UTF-8 character at s, or 0.
static size_t utf8_length(const unsigned char *s, size_t n)
{
    unsigned char c = s[0];
    size_t len = c < 0x80                 ? 1
                 : c >= 0xC2 && c <= 0xDF ? 2
                 : (c & 0xF0) == 0xE0     ? 3
                 : c >= 0xF0 && c <= 0xF4 ? 4
                                          : 0;
    if (!len || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    // Overlong forms, surrogates, values above U+10FFFF.
    if ((c == 0xE0 && s[1] < 0xA0) || (c == 0xED && s[1] > 0x9F) || (c == 0xF0 && s[1] < 0x90) ||
        (c == 0xF4 && s[1] > 0x8F))
        return 0;
    return len;
}

json_t *hearth_json_string(const char *s, size_t n)
{
    if (n > SIZE_MAX / 3 - 1)
        return NULL;
    char *clean = malloc(3 * n + 1);
    if (!clean)
        return NULL;
    size_t to = 0;
    for (size_t i = 0; i < n;) {
        size_t len = utf8_length((const unsigned char *)s + i, n - i);
        memcpy(clean + to, len ? s + i : "\xEF\xBF\xBD", len ? len : 3);
        to += len ? len : 3;
        i += len ? len : 1;
    }
    json_t *value = json_stringn(clean, to);
    free(clean);
    return value;
}

json_t *hearth_json_real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

bool hearth_json_print(json_t *value, FILE *to, bool indented)
{
    if (!value)
        return false;
    int rc = json_dumpf(value, to, (indented ? JSON_INDENT(2) : JSON_COMPACT) | JSON_REAL_PRECISION(9));
    json_decref(value);
    return rc == 0 && fputc('\n', to) != EOF;
}

int hearth_json_answer(json_t *value)
{
    return hearth_json_print(value, stdout, true)
               ? HEARTH_EXIT_OK
               : hearth_cli_error("cannot write JSON: out of memory or disk full");
}
