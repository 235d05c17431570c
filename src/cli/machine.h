// SPDX-License-Identifier: MIT
// What is known of the machine that a forecast is made for.
#ifndef HEARTH_CLI_MACHINE_H
#define HEARTH_CLI_MACHINE_H

#include "cli/options.h"
#include "plan/probe.h"

// The machine of --device, else this one with the storage behind the file at `path`: as it was measured once,
// or, where `measure` is set, measured now and kept in the user's cache folder. Prints any error and returns
// an exit status; HEARTH_EXIT_FAILURE without a word: it was not measured yet, and `measure` is not set.
int hearth_cli_machine(struct hearth_probe *out, const struct hearth_options *o, const char *path,
                       bool measure);

// For hearth_model_params.read_gap: of this machine's storage behind `path`, where it was measured; else 0.
uint64_t hearth_cli_read_gap(const struct hearth_options *o, const char *path);

#endif
