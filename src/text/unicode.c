// SPDX-License-Identifier: MIT
// UTF-8 decoding and encoding.
#include "text/unicode.h"

#include <string.h>

// What a first byte says about its sequence: the length, and the range of the second byte. That range
// excludes overlong forms, surrogates and too large values. Length 0: no sequence starts with this byte.
struct lead {
    size_t length;
    uint8_t lo, hi;
};

static struct lead lead_of(uint8_t b)
{
    if (b < 0x80)
        return (struct lead){1, 0, 0};
    if (b < 0xC2)
        return (struct lead){0, 0, 0};
    if (b < 0xE0)
        return (struct lead){2, 0x80, 0xBF};
    if (b < 0xF0)
        return (struct lead){3, b == 0xE0 ? 0xA0 : 0x80, b == 0xED ? 0x9F : 0xBF};
    if (b < 0xF5)
        return (struct lead){4, b == 0xF0 ? 0x90 : 0x80, b == 0xF4 ? 0x8F : 0xBF};
    return (struct lead){0, 0, 0};
}

size_t hearth_utf8_decode(const char *s, size_t n, uint32_t *cp)
{
    static const uint8_t lead_mask[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    if (n == 0)
        return 0;
    const uint8_t *b = (const uint8_t *)s;
    struct lead lead = lead_of(b[0]);
    if (lead.length == 0 || lead.length > n)
        return 0;
    uint32_t value = b[0] & lead_mask[lead.length];
    for (size_t i = 1; i < lead.length; i++) {
        uint8_t lo = i == 1 ? lead.lo : 0x80, hi = i == 1 ? lead.hi : 0xBF;
        if (b[i] < lo || b[i] > hi)
            return 0;
        value = value << 6 | (b[i] & 0x3F);
    }
    if (cp)
        *cp = value;
    return lead.length;
}

size_t hearth_utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        if (cp >= 0xD800 && cp <= 0xDFFF)
            return 0;
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    if (cp > 0x10FFFF)
        return 0;
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

size_t hearth_utf8_span(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t eight;
        if (n - i >= sizeof eight) {
            memcpy(&eight, s + i, sizeof eight);
            if (!(eight & 0x8080808080808080u)) {
                i += sizeof eight;
                continue;
            }
        }
        size_t length = hearth_utf8_decode(s + i, n - i, NULL);
        if (length == 0)
            break;
        i += length;
    }
    return i;
}

size_t hearth_utf8_pending(const char *s, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const uint8_t *b = (const uint8_t *)s + n - back;
        if ((b[0] & 0xC0) == 0x80)
            continue;
        struct lead lead = lead_of(b[0]);
        if (lead.length <= back || (back > 1 && (b[1] < lead.lo || b[1] > lead.hi)))
            return 0;
        return back;
    }
    return 0;
}
