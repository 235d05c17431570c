// SPDX-License-Identifier: MIT
// Devices as the program's options name them.
#ifndef HEARTH_CLI_DEVICES_H
#define HEARTH_CLI_DEVICES_H

#include "cli/options.h"
#include "hearth.h"

// Whether the options make sense: an exit status, a usage error having been printed.
int hearth_cli_check_device(const struct hearth_options *o);
// Sets the parameters of a session that has a device. --vram and --gpu-layers without --device mean the first GPU; where
// there is none, a line says that they have no effect.
void hearth_cli_choose_device(const struct hearth_options *o, struct hearth_session_params *params);
// A line about the session's device, if it has one.
void hearth_cli_tell_device(const struct hearth_session *session);
// For --version: a line about all devices.
void hearth_cli_print_devices(void);

#endif
