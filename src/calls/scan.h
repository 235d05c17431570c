// SPDX-License-Identifier: MIT
// JSON in text that is not all there yet.
#ifndef HEARTH_CALLS_SCAN_H
#define HEARTH_CALLS_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool hearth_call_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

// Follows a JSON value byte by byte, by its quotes and brackets alone.
struct hearth_call_scan {
    uint32_t depth; // brackets that are open
    bool in_string, escaped, scalar;
};

enum hearth_call_step {
    HEARTH_CALL_INSIDE, // the byte belongs to the value, which goes on
    HEARTH_CALL_LAST,   // the byte is the value's last one
    HEARTH_CALL_BEHIND  // the value ended before this byte: a number or a word
};

// Starts with all zeros, at the value's first byte.
enum hearth_call_step hearth_call_scan(struct hearth_call_scan *scan, char c);

// Behind the value that begins at s[at]; 0: it does not end.
size_t hearth_call_json_end(const char *s, size_t n, size_t at);

// Skips white space.
size_t hearth_call_skip(const char *s, size_t n, size_t at);

// The character that an escape in a JSON string means: s[0] is a backslash. Returns the bytes of the escape, with
// its UTF-8 in out; 0: it is not all there. What is no escape is the character behind the backslash.
size_t hearth_call_unescape(const char *s, size_t n, char out[4], size_t *n_out);

#endif
