// SPDX-License-Identifier: MIT
// Prompts as requests give them: texts, tokens, lists of either, and chats.
#ifndef HEARTH_SERVE_PROMPTS_H
#define HEARTH_SERVE_PROMPTS_H

#include "serve/exchange.h"

struct hearth_prompt {
    hearth_token *tokens;
    int n;
};
void hearth_prompt_free(struct hearth_prompt *prompt);

struct hearth_prompt_list {
    struct hearth_prompt *items;
    int n;
};
void hearth_prompt_list_free(struct hearth_prompt_list *list);

// All functions: false, or NULL: there is an error in the exchange.

// Bytes of a text that is cut into tokens though no context need hold it.
#define HEARTH_MOST_CUT (8 << 20)

// Whether the context may hold a text of n bytes, or, where only its tokens are counted, whether it is short enough. What
// cannot fit is not even cut into tokens, which takes seconds for some megabytes.
bool hearth_prompt_may_fit(struct hearth_exchange *x, const char *name, size_t n);
// Tokens of a text with HEARTH_TOKENIZE_* flags.
bool hearth_prompt_tokenize(struct hearth_exchange *x, const char *text, size_t n, int flags,
                            struct hearth_prompt *prompt);
// The field's prompts: a text, an array of tokens (or of tokens and texts, which follow each other), or an
// array of such.
bool hearth_prompt_read(struct hearth_exchange *x, const char *name, struct hearth_prompt_list *list);
// Bytes of tokens; control tokens have their names.
bool hearth_prompt_text(const struct hearth_model *model, const hearth_token *tokens, int n,
                        struct hearth_out *out);

// A chat as the template has it.
struct hearth_chat_text *hearth_prompt_render(struct hearth_exchange *x, json_t *messages, json_t *tools);
bool hearth_prompt_chat(struct hearth_exchange *x, json_t *messages, json_t *tools,
                        struct hearth_prompt *prompt);

#endif
