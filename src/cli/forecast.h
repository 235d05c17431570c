// SPDX-License-Identifier: MIT
// The forecast that stands beside what a run measures.
#ifndef HEARTH_CLI_FORECAST_H
#define HEARTH_CLI_FORECAST_H

#include "cli/options.h"
#include "engine/outlook.h"

// What a session with these parameters, and a prompt of so many tokens, would do with a budget of `ram` on
// this machine, which is measured the first time, where that leaves the budget alone. False: it was never
// measured, or nothing streams. Says it in a line.
bool hearth_cli_forecast(struct hearth_prospect *out, const struct hearth_options *o,
                         const struct hearth_model *model, const struct hearth_session_params *params,
                         uint64_t ram, size_t n_prompt);

#endif
