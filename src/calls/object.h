// SPDX-License-Identifier: MIT
// The object of a call, read up to its arguments, which then come piece by piece.
#ifndef HEARTH_CALLS_OBJECT_H
#define HEARTH_CALLS_OBJECT_H

#include <stdbool.h>
#include <stddef.h>

enum hearth_object_status {
    HEARTH_OBJECT_PARTIAL, // it may become a call
    HEARTH_OBJECT_OTHER,   // it is none
    HEARTH_OBJECT_CALL
};

struct hearth_call_object {
    const char *name;
    size_t n_name;
    const char *arguments; // those that came before the name, whole
    size_t n_arguments;
    bool none;   // the object has no arguments
    size_t used; // bytes read: up to the arguments, or behind the name if they came before
    int nest;    // brackets open there
};

// Reads s[0..n), which begins with a bracket. Keys: name; arguments or parameters; "function" may be the name
// or an object round both; others are skipped. Pointers are into s.
enum hearth_object_status hearth_call_object_read(struct hearth_call_object *o, const char *s, size_t n);

#endif
