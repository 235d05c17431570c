// SPDX-License-Identifier: MIT
// Safe UTF-8: these functions never read past the end and accept no ill-formed sequence. PCRE2
// provides character classes.
#ifndef HEARTH_TEXT_UNICODE_H
#define HEARTH_TEXT_UNICODE_H

#include <stddef.h>
#include <stdint.h>

// Decodes the character at the start of s[0..n). Returns its length in bytes (1..4) and writes
// *cp (which may be NULL). Returns 0 when n is 0 or the bytes are not well-formed (Unicode
// standard, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF).
size_t hearth_utf8_decode(const char *s, size_t n, uint32_t *cp);

// Writes the UTF-8 form of cp and returns its length; 0 for surrogates and anything above U+10FFFF.
size_t hearth_utf8_encode(uint32_t cp, char out[4]);

// Length of the longest well-formed prefix of s[0..n).
size_t hearth_utf8_span(const char *s, size_t n);

// Number of bytes (0..3) at the end of s[0..n) that start a character which further bytes could complete.
size_t hearth_utf8_pending(const char *s, size_t n);

#endif
