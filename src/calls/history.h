// SPDX-License-Identifier: MIT
// Conversations with calls for templates that know nothing of them.
#ifndef HEARTH_CALLS_HISTORY_H
#define HEARTH_CALLS_HISTORY_H

#include <jansson.h>

#include "calls/format.h"

// The messages in a form that the template renders all of. Where it lists no tools, the system's message says
// which there are and how to call them; `tools` may be NULL or empty. Where it writes no calls, those of
// earlier messages become their content, and results become messages of the user. Everything else stays as it
// is: of what is not as in the OpenAI API, templates may make something.
// Returns a new reference; NULL: no memory. Threads: any.
json_t *hearth_call_messages(const struct hearth_call_format *format, const json_t *messages,
                             const json_t *tools);

#endif
