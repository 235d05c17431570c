// SPDX-License-Identifier: MIT
// What requests say about texts to generate: prompts, sampling, where to end.
#ifndef HEARTH_SERVE_REQUEST_H
#define HEARTH_SERVE_REQUEST_H

#include "serve/fields.h"
#include "serve/prompts.h"

// A task that continues each of the prompts `n` times, as the request's fields say: temperature, top_p, seed
// and so on. Prompts are copied. NULL: there is an error in the exchange. `length`: the name of the field for
// the number of tokens, besides max_tokens.
struct hearth_task *hearth_request_task(struct hearth_exchange *x, const struct hearth_prompt *prompts,
                                        int n_prompts, int n, int n_probs, const char *length);

// Whether a stream is wanted, and usage at its end.
bool hearth_request_stream(struct hearth_exchange *x, bool *streams);

#endif
