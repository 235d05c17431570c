// SPDX-License-Identifier: MIT
// hearth plan MODEL: plans, forecasts, and speed against memory.
#ifndef HEARTH_CLI_PLAN_MODEL_H
#define HEARTH_CLI_PLAN_MODEL_H

#include "cli/options.h"

// Prints the plan for o->model. Returns an exit status.
int hearth_cli_plan_model(const struct hearth_options *o);

#endif
