// SPDX-License-Identifier: MIT
// Parts that OpenAI's answers have in common.
#ifndef HEARTH_SERVE_OPENAI_H
#define HEARTH_SERVE_OPENAI_H

#include "serve/exchange.h"

// {"id", "object", "created", "model", "choices"}; takes the choices, which may be NULL.
json_t *hearth_openai_head(const struct hearth_exchange *x, const char *prefix, const char *object,
                           json_t *choices);
// A whole answer, a choice at a time, since their probabilities may be long: what comes before choice i, with "usage" and
// "timings", and what comes behind it. hearth_openai_end() returns whether there is another one.
void hearth_openai_begin(struct hearth_exchange *x, int i, const char *prefix, const char *object);
bool hearth_openai_end(struct hearth_exchange *x, int i);
json_t *hearth_openai_usage(const struct hearth_exchange *x);
// llama.cpp's times of a text.
json_t *hearth_openai_timings(const struct hearth_job_stats *stats);
const char *hearth_openai_reason(const struct hearth_choice *choice);
// The answer as a message: content, reasoning_content, tool_calls.
json_t *hearth_openai_message(const struct hearth_choice *choice);
// An array with the piece's token and its probabilities; NULL: they are not wanted.
json_t *hearth_openai_probs(const struct hearth_exchange *x, const struct hearth_piece *piece);
// Keeps what is in such an array, which may be NULL and is released, in one of the choice's lists, for a whole answer. As
// values it would take ten times the memory.
void hearth_openai_collect(struct hearth_choice *choice, int list, json_t *probs);

#endif
