// SPDX-License-Identifier: MIT
// UTF-8, safely: nothing here reads past the end or accepts ill-formed sequences. Character classes are
// PCRE2's business.
#ifndef HEARTH_TEXT_UNICODE_H
#define HEARTH_TEXT_UNICODE_H

#include <stddef.h>
#include <stdint.h>

// Decodes the character at the start of s[0..n): returns its length in bytes (1..4) and writes *cp (which may
// be NULL), or returns 0 when the bytes are no well-formed sequence (Unicode standard, table 3-7: no overlong
// forms, no surrogates, nothing above U+10FFFF). n == 0 returns 0.
size_t hearth_utf8_decode(const char *s, size_t n, uint32_t *cp);

// Writes the UTF-8 form of cp and returns its length; 0 for surrogates and anything above U+10FFFF.
size_t hearth_utf8_encode(uint32_t cp, char out[4]);

// Length of the longest prefix of s[0..n) that is well-formed.
size_t hearth_utf8_span(const char *s, size_t n);

// How many bytes at the end of s[0..n) begin a character that further bytes could complete: 0..3.
size_t hearth_utf8_pending(const char *s, size_t n);

#endif
