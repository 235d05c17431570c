// SPDX-License-Identifier: MIT
// The bodies of requests: JSON, also such as C texts and 64-bit integers cannot hold.
#ifndef HEARTH_SERVE_BODY_H
#define HEARTH_SERVE_BODY_H

#include "serve/out.h"

// Whether the values of a body, which may be wrong, would take more memory than a request may, beside that of their texts.
bool hearth_body_is_large(const struct hearth_out *in);
// Reads a body, which is changed on the way. The character 0 in a text becomes U+FFFD, an integer beyond 64
// bits a real number. NULL: see `error`.
json_t *hearth_body_read(struct hearth_out *in, json_error_t *error);

#endif
