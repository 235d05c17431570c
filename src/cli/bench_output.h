// SPDX-License-Identifier: MIT
// The formats of bench's results but for the Markdown table: JSON, a line of JSON each, CSV, SQL.
#ifndef HEARTH_CLI_BENCH_OUTPUT_H
#define HEARTH_CLI_BENCH_OUTPUT_H

#include <stdbool.h>

#include "cli/json.h"
#include "cli/options.h"

struct hearth_bench_roof {
    int n_threads;
    double least, most; // GB/s that rows were compared with
};

struct hearth_bench_output {
    int format;      // HEARTH_OUTPUT_*
    json_t *results; // of JSON, until the end
    bool begun;      // names of columns have been printed
    struct hearth_bench_roof
        roofs[HEARTH_INT_LIST_MAX]; // one for each number of threads, where it was measured
    int n_roofs;
};

// Prints or keeps a result, an object, and releases it. Prints any error and returns an exit status.
int hearth_bench_output_add(struct hearth_bench_output *o, json_t *row);
// The memory's speed with so many threads, beside a row or for all of them; 0: it was not measured.
void hearth_bench_output_roof(struct hearth_bench_output *o, int n_threads, double gb_per_second);
// Prints what was kept, also after a failure: what is measured is not lost. Errors as above.
int hearth_bench_output_end(struct hearth_bench_output *o);
void hearth_bench_output_free(struct hearth_bench_output *o);

#endif
