// SPDX-License-Identifier: MIT
// Takes a model's answer apart while it comes: content, thoughts, calls of tools. What is handed out does not
// depend on how the text was cut into pieces, and a tag is never handed out as content, nor half of one.
#ifndef HEARTH_CALLS_ANSWER_H
#define HEARTH_CALLS_ANSWER_H

#include <jansson.h>

#include "calls/format.h"

enum hearth_answer_kind {
    HEARTH_ANSWER_CONTENT,   // more of the text for the user
    HEARTH_ANSWER_REASONING, // more of what the model thinks before it answers
    HEARTH_ANSWER_CALL,      // a call begins: `text` is the name of its function
    HEARTH_ANSWER_ARGUMENTS, // more of the call's arguments, JSON as the model writes it
    HEARTH_ANSWER_CALL_END   // the call is complete. Its arguments are JSON if the model wrote JSON.
};

struct hearth_answer_part {
    enum hearth_answer_kind kind;
    int call;         // of the last three: the calls' numbers, from 0 on
    const char *text; // [n], valid during the call. CALL_END has none.
    size_t n;
};

typedef void (*hearth_answer_fn)(void *arg, const struct hearth_answer_part *part);

struct hearth_answer_params {
    const struct hearth_call_format *format;
    // Whether calls are looked for: the request has tools, and tool_choice is not "none".
    bool calls;
    // The rendered prompt, or the end of it: whether it has begun the model's thoughts. May be NULL.
    const char *prompt;
    size_t n_prompt;
    // Names of the tools. Where a call has no tag, as Llama 3's, only objects with one of these names are
    // calls. NULL: any name is one.
    const char *const *names;
    size_t n_names;
    // The tools, as in the OpenAI API, whose schemas tell texts from numbers where the format does not
    // (HEARTH_CALLS_FIELDS). NULL: what reads as JSON is JSON.
    const json_t *tools;
    // Whether the prompt has begun the content itself, so that it goes on at once.
    bool continued;
};

struct hearth_answer;

// Opens an answer. Format, names and tools stay until it is closed. HEARTH_E_MEMORY.
int hearth_answer_open(struct hearth_answer **out, const struct hearth_answer_params *params,
                       hearth_answer_fn fn, void *arg, struct hearth_error *err);
void hearth_answer_close(struct hearth_answer **answer);

// Takes more of the model's text, with control tokens as text (hearth_stream_open() with `special`), but
// without the token that ended it. Calls fn for what is certain. HEARTH_E_MEMORY.
int hearth_answer_push(struct hearth_answer *answer, const char *text, size_t n, struct hearth_error *err);
// The text is at its end: hands out what was held back. A call that is not complete has no CALL_END, but one
// whose closing tag alone is missing has.
void hearth_answer_finish(struct hearth_answer *answer);

// The tags round thoughts that a model with this format writes by itself. Static storage.
void hearth_answer_thoughts(const struct hearth_call_format *format, const char **open, const char **close);
// The tag that ends the thoughts which a prompt has begun; NULL: it has begun none. Static storage.
const char *hearth_answer_begun_thoughts(const char *prompt, size_t n);

#endif
