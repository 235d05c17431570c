// SPDX-License-Identifier: MIT
// What hearth inspect says of an adapter.
#ifndef HEARTH_CLI_INSPECT_ADAPTER_H
#define HEARTH_CLI_INSPECT_ADAPTER_H

#include <jansson.h>

#include "gguf/gguf.h"

// Whether the file says that it is one, of any kind.
bool hearth_inspect_is_adapter(const struct hearth_gguf *g);
void hearth_inspect_adapter_print(const struct hearth_gguf *g);
json_t *hearth_inspect_adapter_json(const struct hearth_gguf *g); // a new reference
#endif
