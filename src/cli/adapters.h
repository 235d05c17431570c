// SPDX-License-Identifier: MIT
// The adapters that --lora and --lora-scaled name.
#ifndef HEARTH_CLI_ADAPTERS_H
#define HEARTH_CLI_ADAPTERS_H

#include "cli/options.h"
#include "hearth.h"

struct hearth_cli_adapters {
    struct hearth_adapter *list; // [n]
    size_t n;
    char *text; // behind the paths
};

static inline bool hearth_cli_has_adapters(const struct hearth_options *o)
{
    return o->lora.n || o->lora_scaled.n;
}

// Those of --lora, then those of --lora-scaled. Prints any error and returns an exit status; the caller closes
// what there is in any case.
int hearth_cli_adapters_read(struct hearth_cli_adapters *a, const struct hearth_options *o);
void hearth_cli_adapters_close(struct hearth_cli_adapters *a);

#endif
