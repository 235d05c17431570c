// SPDX-License-Identifier: MIT
// The part of hearth inspect that describes packs.
#ifndef HEARTH_CLI_INSPECT_PACK_H
#define HEARTH_CLI_INSPECT_PACK_H

#include "cli/json.h"
#include "model/pack.h"

// Prints lines for the summary to standard output.
bool hearth_inspect_predictors(const struct hearth_gguf *g); // whether the file has any
void hearth_inspect_pack_print(const struct hearth_pack *p);
// The same facts as a new object. NULL: no memory.
json_t *hearth_inspect_pack_json(const struct hearth_pack *p);

#endif
