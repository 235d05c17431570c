// SPDX-License-Identifier: MIT
// GPT-2's byte alphabet: printable Latin-1 characters represent themselves, the 68 other bytes
// are U+0100 and up, in order.
#include "text/bytes.h"

#include "text/unicode.h"

static bool stands_for_itself(uint32_t c)
{
    return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xFF && c != 0xAD);
}

uint32_t hearth_byte_to_char(uint8_t byte)
{
    if (stands_for_itself(byte))
        return byte;
    if (byte <= 0x20)
        return 0x100u + byte;
    if (byte <= 0xA0)
        return 0x100u + 0x21u + (byte - 0x7Fu);
    return 0x143; // 0xAD, the soft hyphen
}

// The byte that a character of the alphabet represents, or -1.
static int char_to_byte(uint32_t c)
{
    if (stands_for_itself(c))
        return (int)c;
    if (c >= 0x100 && c <= 0x120)
        return (int)(c - 0x100);
    if (c > 0x120 && c < 0x143)
        return (int)(c - 0x121 + 0x7F);
    return c == 0x143 ? 0xAD : -1;
}

ptrdiff_t hearth_bytes_decode(const char *s, size_t n, char *out)
{
    ptrdiff_t written = 0;
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t length = hearth_utf8_decode(s + i, n - i, &c);
        int byte = length ? char_to_byte(c) : -1;
        if (byte < 0)
            return -1;
        out[written++] = (char)byte;
        i += length;
    }
    return written;
}
