// SPDX-License-Identifier: MIT
// What changes a model while it runs: the adapters that --lora and --lora-scaled name, and --override-kv.
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

// The values of --override-kv, one by one.
struct hearth_cli_overrides {
    const char **list; // [n]
    size_t n;
    char *text; // behind them
};

// Prints any error and returns an exit status; the caller closes what there is in any case.
int hearth_cli_overrides_read(struct hearth_cli_overrides *v, const struct hearth_options *o);
void hearth_cli_overrides_close(struct hearth_cli_overrides *v);

#endif
