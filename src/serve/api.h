// SPDX-License-Identifier: MIT
// The answers to requests, one function a path, one file an API: each fills the exchange, or has a text generated.
#ifndef HEARTH_SERVE_API_H
#define HEARTH_SERVE_API_H

#include "serve/exchange.h"

void hearth_api_page(struct hearth_exchange *x); // api_page.c

// api_server.c: the server itself
void hearth_api_health(struct hearth_exchange *x);
void hearth_api_models(struct hearth_exchange *x);

// api_chat.c: OpenAI's chat completions
void hearth_api_chat(struct hearth_exchange *x);

#endif
