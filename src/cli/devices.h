// SPDX-License-Identifier: MIT
// Devices as the program's options name them.
#ifndef HEARTH_CLI_DEVICES_H
#define HEARTH_CLI_DEVICES_H

#include "cli/options.h"
#include "hearth.h"

// Whether the options make sense: an exit status, a usage error having been printed.
int hearth_cli_check_device(const struct hearth_options *o);
// Sets the parameters of a session that has devices, which point into the options. --vram, --gpu-layers and
// --tensor-split without --device mean the first GPU, or all where there are numbers for several; where there is none, a
// line says that they have no effect.
void hearth_cli_choose_device(const struct hearth_options *o, struct hearth_session_params *params);
// A line about the session's devices, if it has any; and one where they leave --op-offload without effect.
void hearth_cli_tell_device(const struct hearth_session *session, const struct hearth_session_params *params);
// What computes, as llama-bench names it: "CPU", or the back ends of the session's devices, with commas between them.
void hearth_cli_backends(const struct hearth_session *session, char *out, size_t size);
// For --version: a line about all devices.
void hearth_cli_print_devices(void);

#endif
