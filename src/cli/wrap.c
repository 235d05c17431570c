// SPDX-License-Identifier: MIT
// Wrapping at word borders: see wrap.h.
#include "cli/wrap.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Bytes of the text if each of its blanks and newlines began a line; 0: too many.
static size_t most_bytes(const char *text, size_t indent)
{
    size_t n = 1, lines = 0;
    for (; *text; text++, n++)
        lines += *text == ' ' || *text == '\n';
    return lines && indent > (SIZE_MAX / 2 - n) / lines ? 0 : n + lines * indent;
}

static size_t columns_of(const char *text, size_t n)
{
    size_t columns = 0;
    for (size_t i = 0; i < n; i++)
        columns += ((unsigned char)text[i] & 0xC0) != 0x80;
    return columns;
}

static char *add(char *to, const char *from, size_t n)
{
    memcpy(to, from, n);
    return to + n;
}

static char *add_blanks(char *to, size_t n)
{
    memset(to, ' ', n);
    return to + n;
}

char *hearth_wrap(const char *text, size_t width, size_t indent, size_t at)
{
    const size_t bytes = most_bytes(text, indent);
    char *out = bytes ? malloc(bytes) : NULL, *to = out;
    bool begun = false; // the line has a word
    while (out && *text) {
        const size_t blanks = strspn(text, " "), word = strcspn(text + blanks, " \n");
        const size_t columns = columns_of(text + blanks, word);
        const bool fits = at + blanks + columns <= width;
        if (word && !fits && begun && indent + columns <= width) {
            to = add_blanks(add(to, "\n", 1), indent);
            at = indent;
        } else {
            to = add_blanks(to, blanks);
            at += blanks;
        }
        to = add(to, text + blanks, word);
        at += columns;
        text += blanks + word;
        begun = true;
        if (*text != '\n')
            continue;
        to = add(to, text++, 1);
        at = 0;
        begun = false;
        if (*text && *text != '\n') {
            to = add_blanks(to, indent);
            at = indent;
        }
    }
    if (out)
        *to = '\0';
    return out;
}
