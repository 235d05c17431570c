// SPDX-License-Identifier: MIT
// The input of OpenAI's responses as messages and tools of its chat completions, which chat templates
// understand.
#ifndef HEARTH_SERVE_RESPONSE_INPUT_H
#define HEARTH_SERVE_RESPONSE_INPUT_H

#include "serve/exchange.h"

// The request's instructions and input as messages. NULL: there is an error in the exchange.
json_t *hearth_response_messages(struct hearth_exchange *x);
// The request's tools that are functions; NULL: it has none.
json_t *hearth_response_tools(struct hearth_exchange *x);

#endif
