// SPDX-License-Identifier: MIT
// The answers to requests, one function a path, one file an API: each fills the exchange, or has a text
// generated.
#ifndef HEARTH_SERVE_API_H
#define HEARTH_SERVE_API_H

#include "serve/exchange.h"

void hearth_api_page(struct hearth_exchange *x); // api_page.c

// api_server.c: the server itself
void hearth_api_health(struct hearth_exchange *x);
void hearth_api_models(struct hearth_exchange *x);
void hearth_api_model(struct hearth_exchange *x);
void hearth_api_props(struct hearth_exchange *x);
void hearth_api_slots(struct hearth_exchange *x);
void hearth_api_metrics(struct hearth_exchange *x);

// api_slots.c: llama.cpp's actions on slots
void hearth_api_slot_action(struct hearth_exchange *x);

// api_adapters.c: llama.cpp's list of LoRA adapters
void hearth_api_adapters(struct hearth_exchange *x);
void hearth_api_set_adapters(struct hearth_exchange *x);

// api_llama.c: llama.cpp's completion
void hearth_api_completion(struct hearth_exchange *x);

// api_tokens.c: llama.cpp's endpoints about texts and tokens
void hearth_api_tokenize(struct hearth_exchange *x);
void hearth_api_detokenize(struct hearth_exchange *x);
void hearth_api_apply_template(struct hearth_exchange *x);

// api_embeddings.c: embeddings of OpenAI and of llama.cpp
void hearth_api_embeddings(struct hearth_exchange *x);
void hearth_api_embedding(struct hearth_exchange *x);

// api_anthropic.c: Anthropic's messages
void hearth_api_messages(struct hearth_exchange *x);
void hearth_api_count_tokens(struct hearth_exchange *x);

// api_chat.c: OpenAI's chat completions
void hearth_api_chat(struct hearth_exchange *x);

// api_responses.c: OpenAI's responses
void hearth_api_responses(struct hearth_exchange *x);

// api_completions.c: OpenAI's completions
void hearth_api_completions(struct hearth_exchange *x);

#endif
