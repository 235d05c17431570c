// SPDX-License-Identifier: MIT
// Sessions whose weights need not fit into memory (`--ram`): what is kept there, and what is read from the
// file as it is needed. docs/streaming.md.
#ifndef HEARTH_ENGINE_STREAMING_H
#define HEARTH_ENGINE_STREAMING_H

#include "engine/expert_stream.h"
#include "engine/neurons.h"
#include "engine/runs.h"
#include "engine/streaming_tests.h"
#include "plan/budget.h"

// Reads so far.
struct hearth_streaming_count {
    uint64_t reads, bytes, wait_ns, retries;
};

// What a session brings along; all outlive the streaming.
struct hearth_streaming_setup {
    const struct hearth_model *model;
    const struct hearth_context *c;
    struct hearth_weights *weights; // the session's, to be pointed to memory
    enum hearth_sparsity sparsity;  // never AUTO
    uint64_t kv_bytes, workspace_bytes;
    int max_steps; // rows of a step
};

struct hearth_streaming {
    struct hearth_streaming_setup setup;
    struct hearth_layer *layers; // the session's: weights->layers
    struct hearth_region image;  // all weights, when they fit: then nothing else here is used
    struct hearth_budget_plan plan;
    struct hearth_region fixed;   // norms, biases, and all runs that are resident
    struct hearth_region buffers; // of the runs that are not
    struct hearth_runs runs;
    const struct hearth_item *embedding; // of which rows are read from the file; NULL: in memory
    struct hearth_neurons neurons;
    struct hearth_expert_stream experts;
    struct hearth_streaming_count counted, phases[2]; // until the last evaluation, and in those of each phase
};

// Brings the weights into memory as far as the model's budget goes. The session has all its other memory by
// now. *out is to be closed even when this fails. HEARTH_E_BUDGET names the smallest budget that would do.
int hearth_streaming_open(struct hearth_streaming **out, const struct hearth_streaming_setup *setup,
                          struct hearth_error *err);
void hearth_streaming_close(struct hearth_streaming **f);

// In all that follows f may be NULL: all weights are in the model's memory, and there is nothing to do.

// Where the feed-forward parts have neurons that are not in memory; else NULL.
static inline struct hearth_neurons *hearth_streaming_neurons(struct hearth_streaming *f)
{
    return f && f->neurons.on ? &f->neurons : NULL;
}

// Where experts stream one by one; else NULL.
static inline struct hearth_expert_stream *hearth_streaming_experts(struct hearth_streaming *f)
{
    return f && f->experts.on ? &f->experts : NULL;
}

// Before layer i of an evaluation, or the head (i = n_layer); true: the evaluation has failed and is to be
// given up.
bool hearth_streaming_begin(struct hearth_streaming *f, int i);
void hearth_streaming_end(struct hearth_streaming *f, int i); // after it

// Whether rows of the embedding table come from the file.
static inline bool hearth_streaming_embeds(const struct hearth_streaming *f)
{
    return f && f->embedding;
}
// The row that stands for a token; scratch: of the table's stride. Any thread.
void hearth_streaming_embed(const struct hearth_streaming *f, int token, uint8_t *scratch, float *out);

// ---- figures (streaming_stats.c)

// At the end of an evaluation: what was read since the last one.
void hearth_streaming_counted(struct hearth_streaming *f, enum hearth_phase phase);
void hearth_streaming_stats(const struct hearth_streaming *f, struct hearth_streaming_stats *out);
uint64_t hearth_streaming_memory(const struct hearth_streaming *f); // of weights and what reading them takes

#endif
