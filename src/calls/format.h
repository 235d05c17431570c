// SPDX-License-Identifier: MIT
// How a model writes calls of tools, found out from its chat template by rendering conversations with and
// without calls. docs/tools.md says which formats there are.
#ifndef HEARTH_CALLS_FORMAT_H
#define HEARTH_CALLS_FORMAT_H

#include "hearth.h"

enum hearth_call_style {
    HEARTH_CALLS_OBJECT, // a JSON object that has the name and the arguments: Hermes, Qwen, Llama 3, Mistral
    HEARTH_CALLS_NAMED,  // the name, something between, the arguments: DeepSeek, newer Mistral, Kimi
    HEARTH_CALLS_FIELDS, // the name, then each argument in tags: Qwen3-Coder, GLM
    HEARTH_CALLS_MARKED, // the name, then an object with plain keys and texts between marks: Gemma 4
    HEARTH_CALLS_HARMONY // a message to the function, in a channel: gpt-oss
};

enum { HEARTH_CALLS_PART = 128 };

// A format. Texts are as the template writes them, with their white space, and end with a zero; "" is none.
struct hearth_call_format {
    enum hearth_call_style style;
    bool calls;           // the template writes calls; false: they are written as hearth_call_messages() asks
    bool tools;           // the template tells the model which tools there are
    bool results;         // the template writes messages of the role "tool"
    bool parallel;        // an answer may have several calls
    bool call_ids;        // OBJECT: each has an "id" of nine letters and digits behind the arguments
    bool arguments_first; // OBJECT: before the name
    bool numbered;        // NAMED: ":0", ":1", ... behind the name
    char opening[HEARTH_CALLS_PART];      // before the first call
    char begin[HEARTH_CALLS_PART];        // before each
    char between[HEARTH_CALLS_PART];      // NAMED: from the name to the arguments; FIELDS: to the first field
    char field[HEARTH_CALLS_PART];        // FIELDS: before each argument's name
    char field_middle[HEARTH_CALLS_PART]; // FIELDS: from an argument's name to its value
    char field_end[HEARTH_CALLS_PART];    // FIELDS: behind each value
    char mark[HEARTH_CALLS_PART];         // MARKED: on both sides of a text
    char end[HEARTH_CALLS_PART];          // behind each
    char separator[HEARTH_CALLS_PART];    // from the end of one to the begin of the next
    char closing[HEARTH_CALLS_PART];      // behind the last
    char arguments_key[HEARTH_CALLS_PART]; // OBJECT: "arguments" or "parameters"
    // What tells a call from other text: the first tag of opening and begin. "": a call is an object at the
    // beginning of an answer.
    char trigger[HEARTH_CALLS_PART];
};

// Finds a template's format. A template that knows nothing of calls gets one of ours: <tool_call> and
// </tool_call> around an object with name and arguments. HEARTH_E_MEMORY. Threads: any.
int hearth_call_format_find(struct hearth_call_format *f, const struct hearth_chat_template *t,
                            struct hearth_error *err);

#endif
