// SPDX-License-Identifier: MIT
// What hearth inspect shows of a pack.
#ifndef HEARTH_CLI_INSPECT_PACK_H
#define HEARTH_CLI_INSPECT_PACK_H

#include "cli/json.h"
#include "model/pack.h"

// Lines of the summary on standard output.
void hearth_inspect_pack_print(const struct hearth_pack *p);
// The same facts; NULL: no memory.
json_t *hearth_inspect_pack_json(const struct hearth_pack *p);

#endif
