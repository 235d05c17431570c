// SPDX-License-Identifier: MIT
// The parts of an answer in a chat, one after the other: thoughts, text, calls of tools.
#ifndef HEARTH_SERVE_PARTS_H
#define HEARTH_SERVE_PARTS_H

#include "calls/answer.h"
#include "serve/out.h"

enum hearth_part_kind { HEARTH_PART_TEXT, HEARTH_PART_REASONING, HEARTH_PART_CALL };

struct hearth_part {
    enum hearth_part_kind kind;
    struct hearth_out text; // of a call: its arguments, JSON
    char *name;             // of a call: the tool
    char id[32];            // of a call
    int call;               // number among the calls, from 0 on
};

// Gets what comes to a part, in order; `starts`: it is a new one, which may have no text yet.
typedef void (*hearth_part_fn)(void *arg, const struct hearth_part *part, bool starts, const char *text,
                               size_t n);

// Zeros at first.
struct hearth_parts {
    struct hearth_part *items;
    int n, n_calls;
    bool failed; // no memory
    struct hearth_answer *answer;
    const char *id; // what the ids of calls are made of
    bool short_ids; // of nine letters and digits, as some templates want them
    hearth_part_fn fn;
    void *arg;
};

// Takes text apart from now on. `id`, 16 letters or digits, must stay, and what `params` points to.
void hearth_parts_open(struct hearth_parts *parts, const struct hearth_answer_params *params, const char *id,
                       hearth_part_fn fn, void *arg);
void hearth_parts_add(struct hearth_parts *parts, const char *text, size_t n);
void hearth_parts_end(struct hearth_parts *parts); // of the text
void hearth_parts_free(struct hearth_parts *parts);

#endif
