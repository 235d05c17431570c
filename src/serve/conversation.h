// SPDX-License-Identifier: MIT
// What requests say in chats, brought into the form that templates know.
#ifndef HEARTH_SERVE_CONVERSATION_H
#define HEARTH_SERVE_CONVERSATION_H

#include "serve/exchange.h"

// Checks the messages and brings them into the form of OpenAI's that every template knows: contents are
// texts, or lists of parts with texts. False: there is an error in the exchange.
bool hearth_conversation_settle(struct hearth_exchange *x, json_t *messages);

// If the last message is one of the model's that the answer is to continue: its text, to be released, as the
// message then has it, too. An empty one is removed. NULL: there is none.
json_t *hearth_conversation_unfinished(json_t *messages);

// The server's variables of the template with the request's over them, to be released. NULL: there is an
// error in the exchange.
json_t *hearth_conversation_variables(struct hearth_exchange *x);

// Whether a template treats the role developer in a way of its own; else it knows system alone.
bool hearth_conversation_knows_developer(const struct hearth_chat_template *chat);

#endif
