// SPDX-License-Identifier: MIT
// What requests say about texts to generate: prompts, sampling, where to end.
#ifndef HEARTH_SERVE_REQUEST_H
#define HEARTH_SERVE_REQUEST_H

#include "serve/prompts.h"

// A field of the request; NULL where there is none, or null.
json_t *hearth_request_field(const struct hearth_exchange *x, const char *name);
// Its value. Each function writes an error to the exchange and returns false if the field is there, not null, and of
// another type or out of its range; without the field *out stays.
bool hearth_request_int(struct hearth_exchange *x, const char *name, int64_t min, int64_t max, int64_t *out);
bool hearth_request_number(struct hearth_exchange *x, const char *name, double min, double max, double *out);
bool hearth_request_bool(struct hearth_exchange *x, const char *name, bool *out);

// A task that continues each of the prompts `n` times, as the request's fields say: temperature, top_p, seed and so on.
// Prompts are copied. NULL: there is an error in the exchange. `length`: the name of the field for the number of
// tokens, besides max_tokens.
struct hearth_task *hearth_request_task(struct hearth_exchange *x, const struct hearth_prompt *prompts,
                                        int n_prompts, int n, int n_probs, const char *length);

// Whether a stream is wanted, and usage at its end.
bool hearth_request_stream(struct hearth_exchange *x, bool *streams);

#endif
