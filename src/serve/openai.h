// SPDX-License-Identifier: MIT
// Parts that OpenAI's answers have in common.
#ifndef HEARTH_SERVE_OPENAI_H
#define HEARTH_SERVE_OPENAI_H

#include "serve/exchange.h"

// {"id", "object", "created", "model", "choices"}; takes the choices.
json_t *hearth_openai_head(const struct hearth_exchange *x, const char *prefix, const char *object,
                           json_t *choices);
// The same of a whole answer, with "usage" and "timings".
json_t *hearth_openai_whole(const struct hearth_exchange *x, const char *prefix, const char *object,
                            json_t *choices);
json_t *hearth_openai_usage(const struct hearth_exchange *x);
// llama.cpp's times of a text.
json_t *hearth_openai_timings(const struct hearth_job_stats *stats);
const char *hearth_openai_reason(const struct hearth_choice *choice);
// The answer as a message: content, reasoning_content, tool_calls.
json_t *hearth_openai_message(const struct hearth_choice *choice);
// An array with the piece's token and its probabilities; NULL: they are not wanted.
json_t *hearth_openai_probs(const struct hearth_exchange *x, const struct hearth_piece *piece);
// Keeps what is in such an array, which may be NULL and is released, for a whole answer.
void hearth_openai_collect(struct hearth_choice *choice, json_t *probs);

#endif
