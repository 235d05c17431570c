// SPDX-License-Identifier: MIT
// The formats of bench's results but for the Markdown table: JSON, a line of JSON each, CSV, SQL.
#ifndef HEARTH_CLI_BENCH_OUTPUT_H
#define HEARTH_CLI_BENCH_OUTPUT_H

#include <stdbool.h>

#include "cli/json.h"

struct hearth_bench_output {
    int format;      // HEARTH_OUTPUT_*
    json_t *results; // of JSON, until the end
    bool begun;      // names of columns have been printed
    double roof;     // GB/s, of the last combination; 0: not measured
    int n_threads;
};

// Prints or keeps a result, an object, and releases it. Prints any error and returns an exit status, as does the next.
int hearth_bench_output_add(struct hearth_bench_output *o, json_t *row);
int hearth_bench_output_end(struct hearth_bench_output *o);
void hearth_bench_output_free(struct hearth_bench_output *o);

#endif
