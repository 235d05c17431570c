// SPDX-License-Identifier: MIT
// Which layers' experts the options leave to the CPU: --cpu-moe, --n-cpu-moe N, and --override-tensor PATTERN=WHERE,...
// as llama.cpp has them.
#ifndef HEARTH_CLI_CPU_EXPERTS_H
#define HEARTH_CLI_CPU_EXPERTS_H

#include <stdbool.h>

#include "cli/options.h"

// Whether the patterns make sense: an exit status, a usage error having been printed. tells: a line each about patterns
// that ask for more than to leave experts to the CPU.
int hearth_cli_check_cpu_experts(const struct hearth_options *o, bool tells);
// [*n] not 0: the CPU has the layer's experts; *n 0: nobody asks for that. Of static storage, which the next call changes.
// After hearth_cli_check_cpu_experts().
const unsigned char *hearth_cli_cpu_experts(const struct hearth_options *o, int *n);

#endif
