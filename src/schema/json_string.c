// SPDX-License-Identifier: MIT
// JSON strings from any bytes.
#include "schema/json_string.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/unicode.h"

json_t *hearth_json_string(const char *s, size_t n)
{
    if (n > SIZE_MAX / 3 - 1)
        return NULL;
    char *clean = malloc(3 * n + 1);
    if (!clean)
        return NULL;
    size_t to = 0;
    for (size_t i = 0; i < n;) {
        const size_t len = hearth_utf8_decode(s + i, n - i, NULL);
        memcpy(clean + to, len ? s + i : "\xEF\xBF\xBD", len ? len : 3);
        to += len ? len : 3;
        i += len ? len : 1;
    }
    json_t *value = json_stringn(clean, to);
    free(clean);
    return value;
}
