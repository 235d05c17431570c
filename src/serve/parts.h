// SPDX-License-Identifier: MIT
// The parts of an answer in a chat: thoughts, text, calls of tools.
#ifndef HEARTH_SERVE_PARTS_H
#define HEARTH_SERVE_PARTS_H

#include "serve/out.h"

enum hearth_part_kind { HEARTH_PART_TEXT, HEARTH_PART_REASONING, HEARTH_PART_CALL };

struct hearth_part {
    enum hearth_part_kind kind;
    struct hearth_out text; // of a call: its arguments, JSON
    char *name;             // of a call: the tool
    char id[32];            // of a call
    int call;               // number among the calls, from 0 on
};

// Zeros at first.
struct hearth_parts {
    struct hearth_part *items;
    int n, n_calls;
    bool failed; // no memory
};

// Gets what comes to a part, in order; `starts`: it is a new one.
typedef void (*hearth_part_fn)(void *arg, struct hearth_part *part, bool starts, const char *text, size_t n);

// Adds text of an answer, and tells what came of it. `ends`: there is no more.
void hearth_parts_add(struct hearth_parts *parts, const char *text, size_t n, bool ends, hearth_part_fn fn,
                      void *arg);
void hearth_parts_free(struct hearth_parts *parts);

// The part of this kind, the first one; NULL: there is none.
const struct hearth_part *hearth_parts_find(const struct hearth_parts *parts, enum hearth_part_kind kind);

#endif
