// SPDX-License-Identifier: MIT
// The chat template that the options ask for.
#ifndef HEARTH_CLI_CHAT_TEMPLATE_H
#define HEARTH_CLI_CHAT_TEMPLATE_H

#include <jansson.h>

#include "cli/options.h"
#include "hearth.h"

// The template of --chat-template or --chat-template-file, else the model's own; for models without one,
// ChatML's, with a warning. `command`: whose options they are. Prints any error and returns an exit status.
int hearth_cli_open_template(struct hearth_chat_template **out, const struct hearth_options *o,
                             const char *command, const struct hearth_model *model);
// The variables of the template: those of --chat-template-kwargs, and --reasoning's. Prints any error and
// returns an exit status.
int hearth_cli_template_variables(json_t **out, const struct hearth_options *o);

#endif
