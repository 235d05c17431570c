// SPDX-License-Identifier: MIT
// What requests say about texts to generate: prompts, sampling, where to end.
#ifndef HEARTH_SERVE_REQUEST_H
#define HEARTH_SERVE_REQUEST_H

#include "serve/exchange.h"

// Fields of the request. Each function writes an error to the exchange and returns false if the field is there, not
// null, and of another type or out of its range; without the field *out stays.
bool hearth_request_int(struct hearth_exchange *x, const char *name, int64_t min, int64_t max, int64_t *out);
bool hearth_request_number(struct hearth_exchange *x, const char *name, double min, double max, double *out);
bool hearth_request_bool(struct hearth_exchange *x, const char *name, bool *out);

struct hearth_prompt {
    hearth_token *tokens;
    int n;
};
void hearth_prompt_free(struct hearth_prompt *prompt);

// A task that continues each of the prompts `n` times, as the request's fields say: temperature, top_p, seed and so on.
// Prompts are copied. NULL: there is an error in the exchange. `length`: the name of the field for the number of
// tokens, besides max_tokens.
struct hearth_task *hearth_request_task(struct hearth_exchange *x, const struct hearth_prompt *prompts,
                                        int n_prompts, int n, int n_probs, const char *length);

// Whether a stream is wanted, and usage at its end.
bool hearth_request_stream(struct hearth_exchange *x, bool *streams);

// The prompt of the request's chat: messages, tools and variables, as the template has them. False: there is an error
// in the exchange.
bool hearth_request_chat(struct hearth_exchange *x, json_t *messages, json_t *tools,
                         struct hearth_prompt *prompt);
// The rendering before it is cut into tokens; NULL: there is an error in the exchange.
struct hearth_chat_text *hearth_request_render(struct hearth_exchange *x, json_t *messages, json_t *tools);

#endif
