// SPDX-License-Identifier: MIT
// The byte alphabet of GPT-2: byte-level vocabularies store every byte as one printable character.
#ifndef HEARTH_TEXT_BYTES_H
#define HEARTH_TEXT_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The character (U+0021..U+0143) that represents a byte. Source: bytes_to_unicode() of the GPT-2 release.
uint32_t hearth_byte_to_char(uint8_t byte);

// Decodes s[0..n), written in that alphabet, into at most n bytes at `out`. Returns their number, or -1 when
// a character is outside the alphabet (`out` is then undefined).
ptrdiff_t hearth_bytes_decode(const char *s, size_t n, char *out);

#endif
