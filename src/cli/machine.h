// SPDX-License-Identifier: MIT
// What is known of the machine that a forecast is made for.
#ifndef HEARTH_CLI_MACHINE_H
#define HEARTH_CLI_MACHINE_H

#include "cli/options.h"
#include "plan/probe.h"

// Of a machine that was not measured yet.
enum hearth_measuring {
    HEARTH_MEASURE_NEVER,
    HEARTH_MEASURE_TO_KEEP, // if the result can be kept, so that it is once
    HEARTH_MEASURE_NOW
};

// The machines of devices/, by the names of their files; ends with a name that is NULL. Made by
// cmake/machines.cmake.
struct hearth_known_machine {
    const char *name, *text; // the text of a probe
};
extern const struct hearth_known_machine hearth_known_machines[];

// Prints them, a line each. Returns an exit status.
int hearth_cli_list_machines(void);

// The machine of --machine, else this one with the storage behind the file at `path`: as it was measured once,
// or measured now and kept in the user's cache folder. What was measured while the machine was busy is said to
// be so, and measured again by the next command. Prints any error and returns an exit status;
// HEARTH_EXIT_FAILURE without a word: it was not measured yet, and is not to be.
int hearth_cli_machine(struct hearth_probe *out, const struct hearth_options *o, const char *path,
                       enum hearth_measuring when);

// Why hearth_cli_machine() has nothing without measuring, as the end of a sentence about this machine; NULL: it
// has.
const char *hearth_cli_machine_missing(const struct hearth_options *o, const char *path);

// What this process spent with measuring.
uint64_t hearth_cli_machine_ns(void);

// Forgets what was measured, so that the next command measures again. False: nothing was kept.
bool hearth_cli_machine_forget(const struct hearth_options *o, const char *path);
// "2026-05-01 17:45": when it was measured, in local time; empty: not said.
void hearth_cli_machine_when(const struct hearth_probe *p, char *out, size_t size);

// For hearth_model_params.read_gap: of this machine's storage behind `path`, where it was measured; else 0.
uint64_t hearth_cli_read_gap(const struct hearth_options *o, const char *path);

#endif
