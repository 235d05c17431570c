// SPDX-License-Identifier: MIT
// Chat templates: what a model's chat is rendered with, and how messages are brought into the form that a
// template understands.
#ifndef HEARTH_TEXT_CHAT_H
#define HEARTH_TEXT_CHAT_H

#include "text/jinja_run.h"
#include "text/vocab.h"

// What a template can do with messages, found out by rendering some that tell.
struct hearth_chat_abilities {
    bool texts;                    // content that is a string
    bool parts;                    // content that is a list of parts
    bool system;                   // the role system
    bool call_objects, call_texts; // the arguments of a tool call as an object; as JSON text
};

struct hearth_chat_template {
    struct hearth_jinja *plain, *tool_use; // tool_use NULL: the same
    struct hearth_chat_abilities plain_can, tool_use_can;
    char *bos, *eos; // texts of the tokens, or ""
};

struct hearth_chat_text {
    struct jinja j; // has the memory
    const struct jinja_string *text;
    struct jinja_string beginning; // what `text` is once the rest was cut off
};

// ---- model/chat.c

// Forgets all but the first n bytes.
void hearth_chat_text_cut(struct hearth_chat_text *text, size_t n);

// ---- chat_messages.c

// Changes messages into what the template can do. Runs within a rendering.
void hearth_chat_adapt(struct jinja *j, struct jinja_value messages, const struct hearth_chat_abilities *can);
// Finds out what a template can do; `variables` are those that every rendering has.
// HEARTH_E_MEMORY.
int hearth_chat_probe(const struct hearth_jinja *t, const char *bos, const char *eos,
                      struct hearth_chat_abilities *can, struct hearth_error *err);

// ---- templates of ours

struct hearth_chat_named {
    const char *name, *text;
};
extern const struct hearth_chat_named
    hearth_chat_templates[]; // made of templates/*.jinja; ends with name == NULL

#endif
