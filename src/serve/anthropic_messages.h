// SPDX-License-Identifier: MIT
// Anthropic's messages and tools as those of OpenAI, which chat templates understand.
#ifndef HEARTH_SERVE_ANTHROPIC_MESSAGES_H
#define HEARTH_SERVE_ANTHROPIC_MESSAGES_H

#include "serve/exchange.h"

// The request's messages, those of the system included. NULL: there is an error in the exchange.
json_t *hearth_anthropic_messages(struct hearth_exchange *x);
// The request's tools; NULL: it has none, or there is an error in the exchange.
json_t *hearth_anthropic_tools(struct hearth_exchange *x);

#endif
