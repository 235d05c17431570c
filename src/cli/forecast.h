// SPDX-License-Identifier: MIT
// The forecast that stands beside what a run measures.
#ifndef HEARTH_CLI_FORECAST_H
#define HEARTH_CLI_FORECAST_H

#include "cli/options.h"
#include "engine/outlook.h"

// What a session with these parameters would do with a budget of `ram` on this machine. False: it was never
// measured (hearth plan does that), or nothing streams. Says it in a line.
bool hearth_cli_forecast(struct hearth_prospect *out, const struct hearth_options *o,
                         const struct hearth_model *model, const struct hearth_session_params *params,
                         uint64_t ram);

#endif
