// SPDX-License-Identifier: MIT
// Grammars that make a model call its tools in its own format, with arguments that are valid under the tools'
// schemas.
#ifndef HEARTH_CALLS_GRAMMAR_H
#define HEARTH_CALLS_GRAMMAR_H

#include "calls/fields.h" // hearth_call_function(), for who reads tools
#include "calls/format.h"

struct hearth_call_grammar_params {
    const struct hearth_call_format *format;
    const struct hearth_model *model; // which tags are control tokens; NULL: none
    const json_t *tools;              // as in the OpenAI API
    // tool_choice: "required" and a named tool must call; "auto" may: text is free until a call begins,
    // which then is enforced.
    bool required;
    const char *only; // the tool to be called; NULL: any
    bool parallel;    // parallel_tool_calls: several calls, where the format can
    // The rendered prompt, or the end of it: whether it has begun the model's thoughts, which are free.
    const char *prompt;
    size_t n_prompt;
};

// The grammar in GBNF, for hearth_grammar_open(), which the caller frees. A schema that no grammar is made of
// becomes any object, unless its tool is "strict". Errors: HEARTH_E_INVALID (no tool, or none of the name
// `only`), those of hearth_schema_add() about strict tools, HEARTH_E_MEMORY. Threads: any.
int hearth_call_grammar(char **gbnf, const struct hearth_call_grammar_params *params,
                        struct hearth_error *err);

// The grammar of an answer that is a value under a schema and calls nothing: the value comes behind the thoughts
// that the prompt has begun, and where each message has a header behind that of the final one, with messages of
// thoughts before it. `tools`, `only`, `required` and `parallel` have no meaning. Errors: those of hearth_schema_add(),
// HEARTH_E_MEMORY. Threads: any.
int hearth_form_grammar(char **gbnf, const struct hearth_call_grammar_params *params, const json_t *schema,
                        struct hearth_error *err);

#endif
