// SPDX-License-Identifier: MIT
// What a plan says of a device.
#ifndef HEARTH_CLI_PLAN_DEVICE_H
#define HEARTH_CLI_PLAN_DEVICE_H

#include <jansson.h>

#include "cli/options.h"
#include "engine/placement.h"

// An exit status: --device names one that there is not.
int hearth_cli_check_placed(const struct hearth_options *o);

// What the session would have there; *out has no name where it has no device. An exit status.
int hearth_cli_place(struct hearth_placement *out, const struct hearth_model *model,
                     const struct hearth_session_params *params);

void hearth_cli_print_placement(const struct hearth_placement *p, const struct hearth_model *model);

// JSON null without a device.
json_t *hearth_cli_placement_json(const struct hearth_placement *p);

#endif
