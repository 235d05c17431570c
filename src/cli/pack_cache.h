// SPDX-License-Identifier: MIT
// The cache of packs: a model that streams, and of which a pack needs fewer reads, is packed once; its pack
// is found again as long as the model does not change.
#ifndef HEARTH_CLI_PACK_CACHE_H
#define HEARTH_CLI_PACK_CACHE_H

#include "cli/common.h"

// For a model that does not fit into memory, as `fit` says of a session with these parameters. A pack of it
// from the cache takes its place (*model is closed, and the pack is opened). One that is not there is written
// if --pack and the person at the terminal want it; else a line says, on a terminal or with -v, what would be
// faster. Only packs that give the same logits to the last bit are used, so nothing depends on whether one
// is. Prints what it does, and any error; returns an exit status, which is not HEARTH_EXIT_OK only when there
// is no model to go on with, or Ctrl-C came.
int hearth_cli_use_pack(struct hearth_model **model, const struct hearth_session_params *params,
                        const struct hearth_options *o, const struct hearth_fit *fit);

#endif
