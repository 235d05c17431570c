// SPDX-License-Identifier: MIT
// Whether a model fits into memory, and what to do where it does not.
#ifndef HEARTH_CLI_FIT_H
#define HEARTH_CLI_FIT_H

#include "cli/common.h"

// Said of a pack whose neurons are read one by one.
#define HEARTH_NO_PROFILE                                                                                    \
    "this pack has no profile: with one, the neurons that are active most stay in memory (hearth profile "   \
    "MODEL -f TEXT -o FILE, then hearth pack MODEL OUT --profile FILE)"

// Before a session is opened: says on standard error which budget was chosen for a model that does not fit
// into memory; on a terminal, or with -v, also what would make it faster. Where memory has no room for what
// the session asks for, it asks for less: smaller micro-batches, then a smaller KV cache (but not than
// --kv-size). `fit` may be NULL. Where the library refuses, HEARTH_FIT_NOT: opening the session says why.
void hearth_cli_fit(struct hearth_session_params *params, const struct hearth_model *model,
                    const struct hearth_options *o, struct hearth_fit *fit);

// Why a pack is read by whole layers; NULL: it is not, or the model is no pack.
const char *hearth_cli_whole_layers(const struct hearth_model *model,
                                    const struct hearth_session_params *params);

// Warns of a threshold that takes the place of the model's predictors.
void hearth_cli_warn_threshold(const struct hearth_model *model, const struct hearth_session_params *params);

// For prompts of any length (chat, serve), before the above: where the model does not fit, a micro-batch of the usual
// size becomes smaller as long as that keeps more of the model in memory, or lets it run at all. Of a prompt
// whose length is known (run), it is not larger than that anyway.
void hearth_cli_fit_ubatch(struct hearth_session_params *params, const struct hearth_model *model,
                           const struct hearth_options *o);

// For commands that only take prompts of a sequence through the layers, with contexts of n_ctx tokens: the
// same, and returns the micro-batch that there is room for.
int hearth_cli_fit_prompts(const struct hearth_model *model, const struct hearth_options *o, int n_ctx);

// The same as hearth_cli_fit(), but where the model does not fit, a pack of it may take its place first
// (pack_cache.h). Returns an exit status.
int hearth_cli_fit_or_pack(struct hearth_session_params *params, struct hearth_model **model,
                           const struct hearth_options *o, struct hearth_fit *fit);

#endif
