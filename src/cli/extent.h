// SPDX-License-Identifier: MIT
// The prompt of a command, and the context that it takes with its continuation.
#ifndef HEARTH_CLI_EXTENT_H
#define HEARTH_CLI_EXTENT_H

#include "cli/common.h"

// Adds the text of -p or -f to *out, without a newline at the end of a file, escapes replaced where that is
// wanted; nothing where neither is given. Prints any error and returns an exit status.
int hearth_cli_read_prompt(const struct hearth_options *o, struct hearth_buffer *out);

// Tokens of a context: those of -c, or as many as the model was trained for, at most as many as is usual.
int hearth_cli_context(const struct hearth_options *o, const struct hearth_model_info *info);

// Positions that n tokens of a sequence take in the KV cache: those of whole pages.
int64_t hearth_cli_room(int64_t n);

// Parameters of a session in which a prompt of n_prompt tokens is continued n_lines times, each time by -n
// tokens at most: no context, cache or micro-batch is larger than that takes. n_prompt 0: a prompt of usual
// length.
struct hearth_session_params hearth_cli_params_of(const struct hearth_options *o,
                                                  const struct hearth_model_info *info, size_t n_prompt,
                                                  int n_lines);

#endif
