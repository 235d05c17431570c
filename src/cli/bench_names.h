// SPDX-License-Identifier: MIT
// What bench's table calls the models.
#ifndef HEARTH_CLI_BENCH_NAMES_H
#define HEARTH_CLI_BENCH_NAMES_H

#include "cli/options.h"

enum hearth_bench_names {
    HEARTH_BENCH_BY_TYPE, // "llama 7.2B Q4_0", as in llama-bench
    HEARTH_BENCH_BY_FILE, // the file's name
    HEARTH_BENCH_BY_PATH  // the path as it was given
};

// By type, unless that would make two of the models one. Files that cannot be read say so later.
enum hearth_bench_names hearth_bench_names_choose(const struct hearth_string_list *models);

#endif
