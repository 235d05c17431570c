// SPDX-License-Identifier: MIT
// Runs: the dense weights of a layer, or some rows of the head, which every token reads whole. Some are
// resident; the others are read from the file into two buffers in turn, one run ahead of its use.
#ifndef HEARTH_ENGINE_RUNS_H
#define HEARTH_ENGINE_RUNS_H

#include "model/load.h"
#include "store/reader.h"

struct hearth_run {
    struct hearth_extent *extents; // [n_extents] parts of the file that hold the run
    size_t *extent_at;             // [n_extents] where each goes in memory
    size_t n_extents;
    size_t bytes; // of memory
    // Where each weight of the layer begins in memory; SIZE_MAX: it is not of the run. A head's is at[0].
    size_t at[HEARTH_LAYER_WEIGHTS];
    size_t first_row, n_rows; // of the head
    bool resident;
    uint8_t *base; // of a resident run
};

struct hearth_runs {
    int n, n_layer; // layers, then the parts of the head: none is larger than the largest layer
    struct hearth_run *runs;
    int *order; // [n_layer] in which runs become resident as the budget grows, so that those that stream are
                // spread
    struct hearth_reader *reader;
    uint8_t *buffers[2];
    int held[2]; // run in a buffer, or on its way there; -1: none
    bool busy[2];
    struct hearth_reader_job jobs[2];
    struct hearth_extent *job_extents[2]; // with the addresses of this time
    size_t max_extents;
};

// Finds what each run consists of. `whole`: a pack's bundles and the experts' matrices are part of their
// layer's run; else they are somebody else's business. `align`: of reads (hearth_reader_align).
int hearth_runs_open(struct hearth_runs *r, const struct hearth_model *m, bool whole, uint32_t align,
                     struct hearth_error *err);
void hearth_runs_close(struct hearth_runs *r); // waits for reads in flight

// Points the weights of run i into memory at `base`: the layer's, or the head, which then has the run's rows
// only.
void hearth_run_point(const struct hearth_runs *r, int i, struct hearth_weights *weights, uint8_t *base);

// Before run i is used: waits until it is in memory, starts reading the one that comes after it, and points
// its weights there. Nothing happens when it is resident. HEARTH_E_IO.
int hearth_runs_begin(struct hearth_runs *r, int i, struct hearth_weights *weights, struct hearth_error *err);
// After its last use before others: its buffer may be overwritten.
void hearth_runs_end(struct hearth_runs *r, int i);

#endif
