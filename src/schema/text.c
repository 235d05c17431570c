// SPDX-License-Identifier: MIT
// Growing text, and the parts of GBNF that need escapes.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "schema/insides.h"

void hearth_text_add_n(struct hearth_text *t, const char *s, size_t n)
{
    if (t->failed)
        return;
    if (n >= t->cap - t->n) {
        const size_t larger = (t->n + n + 64) * 2;
        char *moved = hearth_reallocarray(t->s, larger, 1);
        if (!moved) {
            t->failed = true;
            return;
        }
        t->s = moved;
        t->cap = larger;
    }
    if (n)
        memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = '\0';
}

void hearth_text_add(struct hearth_text *t, const char *s)
{
    hearth_text_add_n(t, s, strlen(s));
}

void hearth_text_format(struct hearth_text *t, const char *fmt, ...)
{
    char line[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    hearth_text_add(t, line);
}

void hearth_text_quote(struct hearth_text *t, const char *s, size_t n)
{
    hearth_text_add(t, "\"");
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\')
            hearth_text_format(t, "\\%c", c);
        else if (c < 0x20 || c == 0x7F)
            hearth_text_format(t, "\\x%02X", c);
        else
            hearth_text_add_n(t, s + i, 1);
    }
    hearth_text_add(t, "\"");
}

void hearth_text_char(struct hearth_text *t, uint32_t cp)
{
    if ((cp >= '0' && cp <= '9') || (cp >= 'A' && cp <= 'Z') || (cp >= 'a' && cp <= 'z') || cp == ' ')
        hearth_text_format(t, "%c", (char)cp);
    else if (cp <= 0xFF)
        hearth_text_format(t, "\\x%02X", cp);
    else
        hearth_text_format(t, "\\U%08X", cp);
}

void hearth_text_free(struct hearth_text *t)
{
    free(t->s);
    *t = (struct hearth_text){0};
}

int hearth_schema_fail(struct hearth_conversion *c, int code, const char *fmt, ...)
{
    char message[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    return hearth_fail(c->err, code, "the schema, at #%s: %s", c->path, message);
}

int hearth_schema_no_memory(struct hearth_conversion *c)
{
    return hearth_fail(c->err, HEARTH_E_MEMORY, "no memory for a schema's grammar");
}
