// SPDX-License-Identifier: MIT
// The forecast that stands beside what a run measures.
#ifndef HEARTH_CLI_FORECAST_H
#define HEARTH_CLI_FORECAST_H

#include "cli/options.h"
#include "engine/outlook.h"

// What a session with these parameters, and a prompt of so many tokens, would do with a budget of `ram` on
// this machine, which is measured the first time, where that leaves the budget alone. Says it in a line. False:
// nothing streams, or the machine was never measured, or only while it was busy, which a line says.
bool hearth_cli_forecast(struct hearth_prospect *out, const struct hearth_options *o,
                         const struct hearth_model *model, const struct hearth_session_params *params,
                         uint64_t ram, size_t n_prompt);
// The same without a line, also where nothing streams, and with the storage behind `path`, which may be another
// than the model's. False also where the budget is too small.
bool hearth_cli_prospect(struct hearth_prospect *out, const struct hearth_options *o,
                         const struct hearth_model *model, const char *path,
                         const struct hearth_session_params *params, uint64_t ram, size_t n_prompt);

// After the run: where it was more than twice as fast as forecast, though it read as much as that says, what
// is known of this machine is wrong, as it was busy when it was measured. It is forgotten then, and a line
// says so. Slower runs tell nothing, as other programs may have been in the way.
void hearth_cli_forecast_judge(const struct hearth_prospect *forecast, const struct hearth_options *o,
                               const struct hearth_model *model, struct hearth_session *session);

#endif
